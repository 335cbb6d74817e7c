"""One process with two devices: each has the cap, and the results are those without pooch.

usage: devices.py BUILD_FOLDER PROGRAM
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB:devices=2"
CAP, HOST = 64, 512


class Devices(unittest.TestCase):
    def both(self, scenario):
        """Summaries by device, of a run under the cap that says what the run without pooch said."""
        plain = run(DEVICE, [PROGRAM, scenario], "--no-pooch")
        self.assertEqual((plain.status, plain.out.splitlines()[-1:]), (0, ["done"]), plain.err)
        done = run(DEVICE, [PROGRAM, scenario], "--memory", f"{CAP}MiB", "--host-memory", f"{HOST}MiB")
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertEqual(done.out, plain.out)
        self.assertEqual(sorted(done.summary), ["", "device-1"])
        self.assertNotIn("pass through", done.err)
        for each in done.summary.values():
            self.assertGreater(each["evictions"], 10)
            self.assertLessEqual(each["peak_device_bytes"], CAP * MIB)
        self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)
        self.assertLessEqual(done.device["peak_host_bytes"], HOST * MIB)
        return done.summary

    def test_each_device_is_served_under_a_cap_of_its_own(self):
        self.both("each")

    def test_copies_between_the_devices_find_both_ends(self):
        self.both("across")

    def test_memory_is_freed_whatever_device_is_current(self):
        self.both("free")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
