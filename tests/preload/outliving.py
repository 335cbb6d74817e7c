"""Plans that move weights, gradients and momentum: AlexNet with small images, most of whose memory those are.

usage: outliving.py BUILD_FOLDER
"""
import json
import pathlib
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run

DEVICE = "soft:v100-pcie3:compute:noise=2"
CAP = 240  # MiB; it needs 293
COMMAND = [TRAIN, "--network", "alexnet", "--batch", "8", "--input-size", "67", "--lr", "0.001", "--json", "--iterations"]


class Outliving(unittest.TestCase):
    def train(self, iterations, *more, cap=CAP):
        """In-core, and as planned: the run, and the plans that it made."""
        with tempfile.TemporaryDirectory() as cache:
            command = [*COMMAND, iterations, *more]
            env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}
            in_core = run(DEVICE, command, "--no-pooch")
            done = run(DEVICE, command, "--policy", "hybrid", "--memory", f"{cap}MiB", env=env)
            plans = [json.loads(path.read_text()) for path in pathlib.Path(cache).glob("*.json")]
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertGreater(len(done.weights), 10)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB, "the device's own account")
        return done, [plan for plan in plans if "maps" in plan]

    def test_what_outlives_an_iteration_leaves_between_its_uses_and_the_bits_are_the_same(self):
        done, plans = self.train(16)
        self.assertGreaterEqual(done.summary["planned_iterations"], 8, done.err)
        self.assertEqual(done.summary["plans_left"], 0, done.err)
        moved = [each["bytes"] for plan in plans[:1] for each in plan["maps"] if each.get("across")]
        self.assertGreater(sum(moved), 40 * MIB)

    def test_what_one_phase_sends_away_others_bring_back_and_change(self):
        self.train(16, "--accumulate", "2")
        self.train(16, "--validate-every", "3")

    def test_moments_of_adamw_leave_too(self):
        done, plans = self.train(12, "--adamw", cap=320)
        self.assertGreaterEqual(done.summary["planned_iterations"], 6, done.err)
        moved = [each["bytes"] for plan in plans[:1] for each in plan["maps"] if each.get("across")]
        self.assertGreater(sum(moved), 100 * MIB, "of two moments for each weight")


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main()
