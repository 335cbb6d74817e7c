"""Ops whose operands are larger than the cap: a part of them is used where it lies on the host, and the bits are the same.

usage: over_link.py BUILD_FOLDER
"""
import re
import sys
import unittest

from runs import MIB, TRAIN, run

DEVICE = "soft:v100-pcie3:compute:host_handles=on"
COMMAND = [TRAIN, "--network", "digits", "--width", "64", "--batch", "1024", "--iterations", "2"]
CAP, LARGEST = 32, 48  # MiB; batch norm's backward needs so much at once
NEEDS = r"cudnnBatchNormalization\w+ needs [\d.]+ MiB at once"


class OverLink(unittest.TestCase):
    def test_an_op_larger_than_the_cap_is_slow_and_right(self):
        in_core = run(DEVICE, COMMAND, "--no-pooch")
        for options in (["--policy", "demand"], ["--policy", "hybrid"], ["--seed", "5"]):
            with self.subTest(options=options):
                done = run(DEVICE, COMMAND, "--memory", f"{CAP}MiB", *options)
                self.assertEqual(done.status, 0, done.err)
                self.assertEqual(done.losses, in_core.losses)
                self.assertEqual(done.weights, in_core.weights)
                self.assertGreater(len(done.weights), 4)
                self.assertEqual(done.device["violations"], [], done.err)
                self.assertGreater(done.device["landed_accesses"], 0)
                self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)
                self.assertEqual(len(re.findall(NEEDS, done.err)), 1, "it is said once")
                self.assertIn("over the link", done.err)

    def test_where_nothing_can_land_it_fails_and_says_what_would_do(self):
        for device, env in ((DEVICE, {"POOCH_LANDING": "off"}), (DEVICE.replace("=on", "=off"), {})):
            with self.subTest(device=device, env=env):
                done = run(device, COMMAND, "--memory", f"{CAP}MiB", env=env)
                self.assertNotEqual(done.status, 0)
                self.assertRegex(done.err, NEEDS + ": the smallest cap that works is")
        enough = run(DEVICE, COMMAND, "--memory", f"{LARGEST + 22}MiB", env={"POOCH_LANDING": "off"})
        self.assertEqual(enough.status, 0, enough.err)


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main()
