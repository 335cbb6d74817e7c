"""What is known so far is on disk when a program is ended: summary, profile and timeline.

usage: outputs_so_far.py BUILD_FOLDER [TEST]...
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from runs import BUILD, POOCH, TRAIN, clean_environment

PROGRAM = BUILD / "tests/preload/lifecycle_program"
# Whoever started this may have had them ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
CLEAN = clean_environment()


class SoFar(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name) / "report"
        self.trace = pathlib.Path(folder.name) / "trace"
        self.passes = pathlib.Path(folder.name) / "passes"
        self.settings = CLEAN | {"POOCH_CACHE": f"{folder.name}/plans", "POOCH_TRACE": str(self.trace),
                                 "POOCH_REPORT": str(self.report)}

    def start(self, *words, device="soft:v100-pcie3:timing"):
        return subprocess.Popen([POOCH, "run", "--device", device, "--memory", "64MiB", "--", *words],
                                env=self.settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def trainer(self):
        return self.start(TRAIN, "--network", "digits", "--iterations", "10000000", "--host-log", self.passes)

    def wait_for(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def passed(self, iterations):
        return lambda: self.passes.exists() and self.passes.read_text().count("\n") > iterations

    def check_reports(self):
        summary = json.loads((self.report / "summary.json").read_text())
        self.assertGreater(summary["iterations"], 0)
        profile = json.loads((self.report / "profile.json").read_text())
        self.assertGreater(len(profile["phases"][0]["ops"]), 20)
        events = json.loads(self.trace.read_text())["traceEvents"]
        self.assertGreater(sum(event["ph"] == "X" for event in events), 100)

    def test_a_sudden_end_loses_some_seconds_at_most(self):
        with self.trainer() as running:
            self.wait_for(lambda: self.trace.exists() and (self.report / "profile.json").exists(), 60)
            running.send_signal(signal.SIGKILL)
            running.communicate(timeout=60)
        self.check_reports()

    def test_a_signal_that_ends_the_program_loses_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), self.trainer() as running:
                self.wait_for(self.passed(200), 60)
                running.send_signal(number)
                _, err = running.communicate(timeout=60)
                self.assertEqual(running.returncode, 128 + number, "as a shell says it")
                self.assertIn(f"killed by signal {int(number)}; what it had written by then:", err)
                self.check_reports()
                for path in (self.trace, self.passes, *self.report.iterdir()):
                    path.unlink()

    def test_what_the_program_handles_itself_is_its_own(self):
        with self.start(PROGRAM, "until_terminated_politely", device="soft:v100-pcie3:compute:memory=512MiB") as running:
            self.assertEqual(running.stdout.readline(), "working\n")
            running.send_signal(signal.SIGTERM)
            out, err = running.communicate(timeout=60)
        self.assertEqual((running.returncode, out), (0, "ended\n"), err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
