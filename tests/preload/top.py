#!/usr/bin/python3
"""`pooch top` shows what programs are doing while they do it.

usage: top.py BUILD_FOLDER [TEST]...
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from runs import POOCH, TRAIN, clean_environment

NETWORK = (TRAIN, "--network", "resnet50", "--batch", "64", "--json")  # needs 5.7 GiB
CAP = 3 << 30
LONG = "2000"  # iterations: more than are waited for


class Top(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pages = pathlib.Path(folder.name) / "status"
        self.environment = clean_environment() | {"POOCH_STATUS": str(self.pages), "POOCH_CACHE": folder.name + "/cache",
                                                  "LANG": "C.UTF-8"}

    @contextlib.contextmanager
    def training(self, iterations=LONG, memory=str(CAP), **settings):
        """The launcher of a trainer, which is ended at last, in a group of its own."""
        command = [POOCH, "run", "--device", "soft:v100-pcie3:timing", "--memory", memory, "--", *NETWORK,
                   "--iterations", iterations]
        child = subprocess.Popen([str(word) for word in command], env=self.environment | settings,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def top(self, *options):
        return subprocess.run([str(POOCH), "top", *options], env=self.environment, capture_output=True, text=True,
                              timeout=60)

    def sessions(self):
        done = self.top("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def awaited(self, what):
        """The only session, once it is as wanted."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if (sessions := self.sessions()) and what(sessions[0]):
                self.assertEqual(len(sessions), 1)
                return sessions[0]
            time.sleep(0.05)
        self.fail(f"not within 60 s: {sessions}")

    def test_a_plan_is_followed(self):
        with self.training():
            one = self.awaited(lambda session: session["state"] == "planned" and session["iteration_ms"] > 0)
            later = self.awaited(lambda session: session["iterations"] > one["iterations"])
        self.assertEqual(one["program"].split()[0], "train")
        self.assertEqual(one["cap_bytes"], CAP)
        self.assertEqual(one["policy"], "hybrid")
        self.assertGreater(one["need_bytes"], one["cap_bytes"])
        self.assertLessEqual(one["peak_bytes"], one["cap_bytes"])
        self.assertGreater(one["predicted_ms"], one["in_core_ms"])
        self.assertGreater(later["bytes_out"], one["bytes_out"])
        self.assertGreaterEqual(later["planned_iterations"], one["planned_iterations"])

    def test_without_a_plan_it_streams(self):
        with self.training(POOCH_POLICY="demand"):
            one = self.awaited(lambda session: session["iterations"] > 3)
        self.assertEqual(one["state"], "streaming")

    def test_what_fits_is_said_to(self):
        with self.training(memory="12GiB"):
            self.assertEqual(self.awaited(lambda session: True)["state"], "fits")

    def test_a_program_that_ends_leaves_nothing(self):
        with self.training(iterations="4") as child:
            self.awaited(lambda session: True)
            self.assertEqual(child.wait(60), 0)
        self.assertEqual(list(self.pages.iterdir()), [])
        done = self.top("--once")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertEqual(done.stderr, "pooch: error: top: no program runs with pooch\n")

    def test_a_program_that_was_killed_is_shown_once(self):
        with self.training() as child:
            self.awaited(lambda session: session["iterations"] > 2)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            time.sleep(0.2)
            self.assertIn("ended, hybrid", self.top("--once").stdout)
            self.assertEqual(self.sessions(), [])

    def test_one_of_two_can_be_chosen(self):
        with self.training(), self.training():
            until = time.monotonic() + 60
            while len(both := self.sessions()) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            self.assertEqual(len(both), 2)
            chosen = self.top("--json", str(both[1]["process"]))
            self.assertEqual([one["process"] for one in json.loads(chosen.stdout)], [both[1]["process"]])

    def test_ranks_come_in_order(self):
        ranks = [{"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "WORLD_SIZE": "2"}
                 for rank in (1, 0)]
        with self.training(**ranks[0]), self.training(**ranks[1]):
            until = time.monotonic() + 60
            while len(both := self.sessions()) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            self.assertEqual([one["rank"] for one in both], [0, 1])
            self.assertIn("rank 1 on ", self.top("--once").stdout)

    def test_a_process_without_pooch_is_refused(self):
        done = self.top("--once", str(os.getpid()))
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, f"pooch: error: top: process {os.getpid()} is none that runs with pooch and has "
                                      "used a GPU\n")

    def test_lines_fit_the_terminal(self):
        with self.training():
            self.awaited(lambda session: session["state"] == "planned")
            for line in self.top("--once").stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_nothing_is_kept_where_none_is_wanted(self):
        with self.training(iterations="4", POOCH_STATUS="0") as child:
            self.assertEqual(child.wait(60), 0)
        self.assertFalse(self.pages.exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
