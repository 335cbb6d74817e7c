"""Where no policy is chosen, calls are watched from when memory is about to be short, and not before.

usage: watch.py BUILD_FOLDER [TEST]...
"""
import sys
import tempfile
import unittest

from runs import DIGITS, MIB, run

COMPUTE = "soft:v100-pcie3:compute"
TIMING = "soft:v100-pcie3:timing"
UNCHOSEN = {"POOCH_POLICY": ""}


def train(*options):
    return [*DIGITS, "--json", *options]


class Watch(unittest.TestCase):
    def capped(self, cap, command, device=COMPUTE, **env):
        done = run(device, command, "--memory", f"{cap}MiB", env={**UNCHOSEN, "POOCH_WAIT_FOR_PLANS": "1", **env})
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB)
        return done

    def test_a_program_that_fits_is_not_watched_and_its_summary_is_true(self):
        for alloc in ("async", "sync"):
            with self.subTest(alloc):
                command = train("--iterations", 2, "--alloc", alloc)
                plain = run(COMPUTE, command, "--no-pooch")
                watched = run(COMPUTE, command)
                done = self.capped(1024, command)
                self.assertEqual((done.losses, done.weights), (plain.losses, plain.weights))
                self.assertGreater(watched.summary["ops"], 0)
                self.assertEqual((done.summary["ops"], done.summary["iterations"]), (0, None))
                for figure in ("need_bytes", "need_managed_bytes", "evictions", "bytes_out", "bytes_in", "host_waits"):
                    self.assertEqual(done.summary[figure], watched.summary[figure], figure)
                self.assertEqual(done.device["kernels"], plain.device["kernels"])

    def test_whoever_asks_for_ops_gets_all_of_them(self):
        command = train("--iterations", 3)
        all_ops = run(TIMING, command).summary["ops"]
        for variable in ("POOCH_REPORT", "POOCH_RECORD", "POOCH_TRACE"):
            with self.subTest(variable), tempfile.TemporaryDirectory() as folder:
                done = self.capped(1024, command, TIMING, **{variable: f"{folder}/it"})
                self.assertEqual(done.summary["ops"], all_ops)

    def test_a_program_that_becomes_short_has_the_same_bits_and_loses_an_iteration_of_its_plan_at_most(self):
        command = train("--iterations", 12)
        chosen = self.capped(60, command, POOCH_POLICY="hybrid")
        done = self.capped(60, command, POOCH_LOG="info")
        self.assertIn("calls are watched from now on", done.err)
        self.assertLess(done.summary["ops"], chosen.summary["ops"])
        self.assertEqual((done.losses, done.weights), (chosen.losses, chosen.weights))
        self.assertGreaterEqual(done.summary["planned_iterations"], chosen.summary["planned_iterations"] - 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
