"""Plans under random caps, from the smallest that works to the need: the same losses and weights, within the cap.

usage: planned_caps.py BUILD_FOLDER [SEED [TRIALS]]
"""
import random
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run, smallest_cap_named

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20190517
TRIALS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
DEVICE = "soft:v100-pcie3:compute"
POLICIES = ("hybrid", "pooch", "superneurons", "swap-opt", "lms")
BACKINGS = ("remap", "alias")
COMMAND = [TRAIN, "--network", "digits", "--iterations", "8", "--json"]


class PlannedCaps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cache = folder.name
        cls.in_core = run(DEVICE, COMMAND, "--no-pooch")

    def train(self, policy, backing, cap):
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache, "POOCH_BACKING": backing}
        return run(DEVICE, COMMAND, "--policy", policy, "--memory", f"{cap}MiB", env=env)

    def check(self, done, cap):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, self.in_core.losses)
        self.assertEqual(done.weights, self.in_core.weights)
        self.assertGreater(len(done.weights), 20)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB, "the device's own account")
        self.assertEqual(done.summary["plans_left"], 0, done.err)

    def smallest(self, policy, backing):
        """By asking: every refusal names a cap that would have served the op it refused."""
        cap = 4
        for _ in range(30):
            done = self.train(policy, backing, cap)
            if done.status == 0:
                return cap, done
            named = smallest_cap_named(done)
            self.assertIsNotNone(named, done.err)
            self.assertGreater(named, cap, done.err)
            cap = named
        self.fail("no end to the smallest cap")

    def test_random_caps(self):
        dice = random.Random(SEED)
        planned = 0
        smallest, tightest = self.smallest("hybrid", "remap")
        need = tightest.summary["need_bytes"] // MIB
        with self.subTest(cap=f"{smallest} MiB, the smallest"):
            self.check(tightest, smallest)
        for policy in POLICIES:
            for trial in range(TRIALS):
                backing = BACKINGS[(trial + POLICIES.index(policy)) % 2]
                cap = dice.randint(smallest, need)
                with self.subTest(policy=policy, backing=backing, cap=f"{cap} of {smallest} to {need} MiB"):
                    done = self.train(policy, backing, cap)
                    self.check(done, cap)
                    planned += done.summary["planned_iterations"] > 0
        # Under a cap that a policy cannot plan for, demand mode goes on.
        self.assertGreater(planned, len(POLICIES) * TRIALS // 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
