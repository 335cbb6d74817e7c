"""Kernels that a program launches itself: same results, found iterations, and memory that only the device names.

usage: bare_launches.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import tempfile
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"


class BareLaunches(unittest.TestCase):
    def check(self, done, plain, cap):
        self.assertEqual((plain.status, done.status), (0, 0), done.err)
        self.assertEqual(done.out.splitlines(), plain.out.splitlines())
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        self.assertGreater(done.summary["evictions"], 10)

    def test_training_by_bare_launches_keeps_its_bits_and_is_planned(self):
        plain = run(DEVICE, [PROGRAM, "train"], "--no-pooch")
        for policy in ("demand", "swap-all", "pooch"):
            with self.subTest(policy), tempfile.TemporaryDirectory() as cache:
                done = run(DEVICE, [PROGRAM, "train"], "--memory", "150MiB", "--policy", policy,
                           env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})
                self.check(done, plain, 150)
                self.assertEqual(done.summary["mismatches"], 0)
                # A scalar that counts steps does not make each iteration another.
                self.assertGreater(done.summary["iterations"], 10)
                if policy == "pooch":
                    self.assertGreater(done.summary["planned_iterations"], 2)
                    self.assertEqual(done.summary["plans_left"], 0)
                    self.assertGreater(done.summary["replays"], 0)
                    self.assertGreater(done.summary["verified"], 0)

    def test_every_way_to_launch_brings_its_operands(self):
        plain = run(DEVICE, [PROGRAM, "forms"], "--no-pooch")
        for device in (DEVICE, DEVICE + ":kernel_queries=both"):
            self.check(run(device, [PROGRAM, "forms"], "--memory", "48MiB"), plain, 48)

    def test_what_an_address_in_device_memory_points_to_stays_on_the_device(self):
        for how in ("hidden", "written", "written-inside"):
            with self.subTest(how):
                plain = run(DEVICE, [PROGRAM, how], "--no-pooch")
                done = run(DEVICE, [PROGRAM, how], "--memory", "64MiB")
                self.check(done, plain, 64)
                self.assertEqual(done.summary["pinned_allocations"], 2)
                self.assertEqual(done.summary["pinned_bytes"], 16 * MIB)
                for each in (plain, done):
                    self.assertEqual(each.device["indirect_touches"], 6)  # two of each of three launches
        self.assertEqual(run(DEVICE, [PROGRAM, "train"], "--no-pooch").device["indirect_touches"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
