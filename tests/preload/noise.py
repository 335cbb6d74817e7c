"""200 iterations on a device whose ops last longer and shorter by 2 %, and whose clock rises and falls: nothing is done that is
not done on one without noise.

usage: noise.py BUILD_FOLDER [TEST]...
"""
import sys
import tempfile
import unittest

from runs import STEADY, TRAIN, run

COUNTS = ("replans", "plans_left", "mismatches")


class Noise(unittest.TestCase):
    def counts(self, device):
        with tempfile.TemporaryDirectory() as cache:
            done = run(f"soft:{device}", [TRAIN, "--network", "resnet50", "--batch", 512, "--iterations", 200], "--policy",
                       "hybrid", "--memory", "16GiB", env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}, timeout=900)
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertGreaterEqual(done.summary["planned_iterations"], 195)
        return {count: done.summary[count] for count in COUNTS}

    def test_nothing_is_done_that_is_not_done_without_noise(self):
        device = "v100-pcie3:timing"
        quiet = self.counts(device + STEADY)
        self.assertEqual(quiet, dict.fromkeys(COUNTS, 0))
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                self.assertEqual(self.counts(f"{device}:noise=2,{seed}"), quiet)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
