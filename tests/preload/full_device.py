"""A cap that is the whole device: what the driver refuses beyond pooch's account, pooch makes room for.

usage: full_device.py BUILD_FOLDER [TEST]...
"""
import sys
import unittest

from runs import MIB, TRAIN, run


class FullDevice(unittest.TestCase):
    def test_a_program_of_many_small_allocations_trains_on_a_full_device(self):
        for megabytes in (600, 800):
            with self.subTest(megabytes=megabytes):
                done = run(f"soft:v100-pcie3:timing:memory={megabytes}MiB",
                           [TRAIN, "--network", "resnext101-3d", "--batch", 1, "--iterations", 8],
                           "--memory", f"{megabytes}MiB", "--policy", "demand")
                self.assertEqual(done.status, 0, done.err)
                self.assertEqual(done.device["violations"], [])
                self.assertEqual(len(done.losses), 8, "one line an iteration")
                self.assertLessEqual(done.device["peak_bytes"], megabytes * MIB)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
