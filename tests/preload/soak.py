"""A long run stays as it was: no memory taken, no handle made, no eviction unplanned, no iteration longer.

usage: soak.py BUILD_FOLDER [ITERATIONS]

Digits in timing mode under a plan. What counts begins after the first 1,000 iterations; all handles are made by the
300th. 100,000 iterations, the figure of docs/reliability.md, take about 10 minutes of one core.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import unittest

from runs import POOCH, TRAIN, clean_environment

ITERATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
ALL_MADE = 300
SETTLED = 1000
MOST_GROWTH = 1 << 20


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Soaked:
    """One run: its summary, the host's time of each iteration, and what was resident when."""

    def __init__(self, iterations, folder, cap_mib=64):
        folder = pathlib.Path(folder)
        environment = clean_environment()
        environment |= {"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": str(folder / "plans")}
        self.log = folder / f"host-{iterations}"
        self.samples = []  # (iterations that had ended, resident bytes)
        child = subprocess.Popen([POOCH, "run", "--device", "soft:v100-pcie3:timing", "--memory", f"{cap_mib}MiB", "--summary",
                                  folder / "summary", "--", TRAIN, "--network", "digits", "--iterations", str(iterations),
                                  "--host-log", self.log],
                                 env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(child.pid, ended))
        watcher.start()
        said = child.communicate()[0]
        ended.set()
        watcher.join()
        if child.returncode != 0:
            raise RuntimeError(said)
        self.summary = json.loads((folder / "summary").read_text())
        self.host_us = [float(line.split()[1]) for line in self.log.read_text().splitlines()]

    def watch(self, launcher, ended):
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children")
        while not ended.wait(0.2):
            try:
                self.samples.append((self.log.read_text().count("\n"), resident_bytes(children.read_text().split()[0])))
            except (FileNotFoundError, IndexError, ProcessLookupError):
                continue  # not yet, or no more


LEVEL = ("handles_created", "unplanned_evictions", "host_allocations", "peak_host_bytes", "plans_left")


class Soak(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            Soaked(20, folder)  # makes the plan that the others find
            cls.few, cls.many = Soaked(ALL_MADE, folder), Soaked(ITERATIONS, folder)

    def test_memory_does_not_grow(self):
        settled = [bytes_ for done, bytes_ in self.many.samples if done >= SETTLED]
        self.assertGreater(len(settled), 5)
        print(f"resident after {SETTLED} iterations: {settled[0]} bytes; most until {ITERATIONS}: {max(settled)}")
        self.assertLess(max(settled) - settled[0], MOST_GROWTH)

    def test_nothing_is_made_and_nothing_leaves_unplanned(self):
        self.assertGreaterEqual(self.many.summary["planned_iterations"], ITERATIONS - 5)
        for key in LEVEL:
            self.assertEqual(self.few.summary[key], self.many.summary[key], key)

    def test_an_iteration_takes_the_host_as_long_at_the_end(self):
        part = (ITERATIONS - SETTLED) // 4
        # What other processes take from the caches makes an iteration longer, never shorter.
        first, last = (statistics.quantiles(times, n=10)[0] for times in (self.many.host_us[SETTLED:SETTLED + part],
                                                                          self.many.host_us[-part:]))
        print(f"processor time of an iteration: {first:.0f} us behind the first {SETTLED}, {last:.0f} us at the end")
        self.assertLess(last, 1.2 * first)

    def test_an_iteration_takes_the_device_as_long(self):
        self.assertAlmostEqual(self.few.summary["actual_ms"], self.many.summary["actual_ms"], delta=0.001)


class Tight(unittest.TestCase):
    def test_a_plan_for_more_memory_than_libraries_leave_is_made_again_for_less(self):
        with tempfile.TemporaryDirectory() as folder:
            few, many = (Soaked(iterations, folder, cap_mib=48).summary for iterations in (150, 400))
        self.assertGreaterEqual(many["planned_iterations"], 400 - 5)
        self.assertEqual([few[key] for key in LEVEL], [many[key] for key in LEVEL], LEVEL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
