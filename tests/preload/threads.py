"""Threads with a stream each, under a plan: the same bits as without pooch, wherever they meet.

usage: threads.py BUILD_FOLDER PROGRAM ITERATIONS
"""
import pathlib
import sys
import tempfile
import unittest

from runs import MIB, run

PROGRAM, ITERATIONS = pathlib.Path(sys.argv[2]).resolve(), int(sys.argv[3])
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 60  # MiB, of 104 that the program needs


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def both(self, threads, iterations, order, seed=0):
        """Runs it without pooch, and under the cap with random delays where there is a seed. Returns the latter's run."""
        command = [PROGRAM, str(threads), str(iterations), order]
        plain = run(DEVICE, command, "--no-pooch", timeout=1500)
        self.assertEqual((plain.status, plain.out.splitlines()[-1:]), (0, ["done"]), plain.err)
        delays = {"SOFTGPU_DELAY": str(seed)} if seed else {}
        done = run(DEVICE, [*command, str(seed)], "--memory", f"{CAP}MiB", timeout=1500,
                   env=delays | {"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache.name})
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertEqual(done.out, plain.out)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        return done

    def test_four_threads_that_take_turns_get_a_plan(self):
        done = self.both(4, 12, "ordered")
        self.assertGreaterEqual(done.summary["planned_iterations"], 6, done.err)

    def test_eight_threads_that_meet_at_random_have_the_same_bits(self):
        done = self.both(8, ITERATIONS, "ordered", seed=ITERATIONS)
        self.assertGreaterEqual(done.summary["planned_iterations"], ITERATIONS - 6, done.err)
        self.assertGreater(done.summary["replays"], ITERATIONS)
        self.assertEqual(done.summary["mismatches"], 0)

    def test_where_the_order_differs_each_time_one_line_says_why_there_is_no_plan(self):
        done = self.both(8, 12, "loose", seed=7)
        said = [line for line in done.pooch_lines() if "no plan: " in line]
        self.assertEqual(len(said), 1, done.err)
        self.assertRegex(said[0], "ops do not repeat themselves; [89] threads make them")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
