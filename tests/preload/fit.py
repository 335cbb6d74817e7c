#!/usr/bin/python3
"""`pooch fit` says whether a command fits, and what it would take with less memory.

usage: fit.py BUILD_FOLDER [TEST]...
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from runs import MIB, POOCH, TRAIN, clean_environment

NETWORK = (TRAIN, "--network", "alexnet", "--batch", "256")  # needs 1.78 GiB
FOR_EVER = ("--iterations", "100000000")
QUICK = ("--policy", "pooch")  # hybrid's plans take longer
CAP = 1540 * MIB
SMALL = "soft:v100-pcie3:timing:memory=1800MiB"


def content(path):
    """Nothing where its process has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Fit(unittest.TestCase):
    def fit(self, *words, device=SMALL):
        with tempfile.TemporaryDirectory() as folder:
            words = [POOCH, "fit", *(("--device", device) if device else ()), *words]
            return subprocess.run([str(word) for word in words], env=clean_environment() | {"POOCH_CACHE": folder}, capture_output=True,
                                  text=True, timeout=200)

    def test_what_does_not_fit_is_ended_and_planned_for_other_caps(self):
        began = time.monotonic()
        done = self.fit("--json", "--memory", "1540MiB", "--memory", "60%", *QUICK, "--", *NETWORK, *FOR_EVER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(time.monotonic() - began, 100, "it was ended")
        fit = json.loads(done.stdout)
        self.assertFalse(fit["fits"])
        self.assertGreater(fit["in_core_cap_bytes"], fit["cap_bytes"])
        self.assertLess(fit["smallest_cap_bytes"], CAP)
        rows = {row["cap_bytes"]: row for row in fit["rows"]}
        self.assertIn(CAP, rows)
        self.assertEqual([row["of_device"] for row in fit["rows"]].count(True), 1)
        self.assertEqual(rows[fit["in_core_cap_bytes"]]["over_in_core"], 0)
        self.assertGreater(rows[CAP]["over_in_core"], rows[fit["cap_bytes"]]["over_in_core"])

    def test_what_fits_is_told_so(self):
        done = self.fit("--memory", "1540MiB", *QUICK, "--", *NETWORK, *FOR_EVER, device="soft:v100-pcie3:timing")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("It fits as it is", done.stdout)
        self.assertIn("everything stays", done.stdout)

    def test_what_the_command_started_is_ended_too(self):
        done = self.fit("--json", "--memory", "1540MiB", *QUICK, "--", "sh", "-c", " ".join(map(str, NETWORK)) + " --iterations 99999937; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        running = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if b"99999937" in content(path)]
        self.assertEqual(running, [])

    def test_an_earlier_profile_tells_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([str(POOCH), "run", "--device", SMALL, "--", *map(str, NETWORK), "--iterations", "10"], check=True, timeout=100,
                           env=clean_environment() | {"POOCH_REPORT": folder, "POOCH_CACHE": folder}, capture_output=True)
            done = self.fit("--json", "--memory", "1540MiB", *QUICK, f"{folder}/profile.json", device=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(json.loads(done.stdout)["smallest_cap_bytes"], CAP)

    def test_a_command_that_fails_ends_it_with_its_own_code(self):
        done = self.fit("--", "sh", "-c", "echo why; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, ""))
        self.assertIn("why", done.stderr)

    def test_bad_input_gets_one_line(self):
        for words, line in ((("--", "true"), "the command left no profile: it used no memory of a GPU, or not through CUDA"),
                            ((), "accepted is either a command after -- or a profile.json"),
                            (("--memory", "lots", "--", "true"), "--memory 'lots' is not a size"),
                            (("--policy", "best", "--", "true"), "--policy 'best': accepted are"),
                            (("/nowhere/profile.json",), "--device and --host-memory are of a command's run"),
                            (("--", "/nowhere/train"), "'/nowhere/train' cannot be run")):
            done = self.fit(*words)
            self.assertGreater(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(line, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
