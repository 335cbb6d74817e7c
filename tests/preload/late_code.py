"""A device that is full when kernels are first launched: pooch makes room for their code.

usage: late_code.py BUILD_FOLDER LATE_CODE_LIBRARY [TEST]...
"""
import re
import sys
import unittest

from runs import MIB, TRAIN, run

LATE_CODE = sys.argv[2]
TRAINER = [TRAIN, "--network", "digits", "--iterations", 4, "--json"]
DEVICE = 120  # MiB, all of which is the cap


class LateCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = run("soft:v100-pcie3:compute", TRAINER, "--no-pooch")

    def trained(self, policy, **settings):
        plain = self.plain
        self.assertEqual(plain.status, 0, plain.err)
        done = run(f"soft:v100-pcie3:compute:memory={DEVICE}MiB", TRAINER, "--memory", f"{DEVICE}MiB",
                   env={"LD_PRELOAD": LATE_CODE, "POOCH_POLICY": policy, **settings})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertEqual(done.losses, plain.losses)
        self.assertEqual(done.weights, plain.weights)
        self.assertLessEqual(done.device["peak_bytes"], DEVICE * MIB)
        loaded, refused = map(int, re.search(r"late code: (\d+) loaded, (\d+) refused", done.err).groups())
        self.assertGreater(loaded, 8, "kernels, the libraries' among them")
        return done, refused

    def test_what_the_driver_lacks_inside_a_call_leaves_the_device(self):
        done, refused = self.trained("demand", LATE_CODE="6")
        self.assertGreater(refused, 0, "three pages are more than the slack of such a device")
        self.assertGreater(done.summary["evictions"], 0)

    def test_calls_that_pass_are_made_again_too(self):
        _, refused = self.trained("", LATE_CODE="4")
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
