"""What a program does now and then, such as looking at a gradient, does not take it out of its plan.

usage: inserted.py BUILD_FOLDER
"""
import unittest

from runs import DIGITS, MIB, run

DEVICE = "soft:v100-pcie3:compute"
ITERATIONS, FIRST, EVERY = 24, 6, 4


class Inserted(unittest.TestCase):
    def test_looking_at_a_gradient_leaves_no_plan_and_changes_no_bit(self):
        command = [*DIGITS, "--iterations", ITERATIONS, "--inspect-gradient", FIRST, "--inspect-every", EVERY, "--json"]
        in_core = run(DEVICE, command, "--no-pooch")
        self.assertEqual(in_core.status, 0, in_core.err)
        need = run(DEVICE, command, "--policy", "keep").summary["need_bytes"] // MIB
        for share in (55, 75):
            with self.subTest(share=share):
                done = run(DEVICE, command, "--memory", f"{need * share // 100}MiB", "--policy", "hybrid", "--log", "info",
                           env={"POOCH_WAIT_FOR_PLANS": "1"})
                self.assertEqual(done.status, 0, done.err)
                self.assertEqual((done.losses, done.weights), (in_core.losses, in_core.weights))
                self.assertEqual(done.device["violations"], [])
                self.assertEqual(done.summary["mismatches"], 0)
                self.assertIn("follows the plan of phase", done.err)
                # The first time nobody knows that the plan goes on behind it.
                self.assertLessEqual(done.summary["plans_left"], 1, done.err)
                self.assertGreaterEqual(done.summary["planned_iterations"], ITERATIONS - 8, done.err)


if __name__ == "__main__":
    unittest.main(argv=["inserted"])
