"""Programs that capture CUDA graphs: the same content as without pooch, and what a graph names stays on the device.

usage: graphs.py BUILD_FOLDER PROGRAM
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 96


class Graphs(unittest.TestCase):
    def capped(self, scenario, *options):
        done = run(DEVICE, [PROGRAM, scenario], "--memory", f"{CAP}MiB", *options)
        self.assertEqual((done.status, done.out.splitlines()[-1:]), (0, ["done"]), done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        self.assertNotIn("passes through", done.err)
        return done

    def check_against_plain(self, scenario):
        plain = run(DEVICE, [PROGRAM, scenario], "--no-pooch")
        self.assertEqual(plain.status, 0, plain.err)
        for seed in ([], ["--seed", "3"]):
            done = self.capped(scenario, *seed)
            self.assertEqual(done.out, plain.out)
            self.assertGreater(done.summary["evictions"], 10)
        return done

    def test_a_captured_step_is_replayed_while_other_memory_moves(self):
        self.assertEqual(self.check_against_plain("replay").summary["pinned_allocations"], 3)

    def test_a_second_stream_may_be_part_of_the_capture(self):
        self.assertEqual(self.check_against_plain("fork").summary["pinned_allocations"], 3)

    def test_another_thread_moves_memory_during_a_capture(self):
        self.check_against_plain("beside")

    def test_a_graph_has_memory_of_its_own(self):
        self.check_against_plain("memory")

    def test_a_stream_in_which_a_capture_frees_needs_not_be_joined(self):
        plain = run(DEVICE, [PROGRAM, "left_open"], "--no-pooch")
        self.assertEqual(plain.out.splitlines(), ["refused 904", "done"], plain.err)
        self.assertEqual(self.capped("left_open").out, run(DEVICE, [PROGRAM, "memory"], "--no-pooch").out)

    def test_memory_stays_as_long_as_a_graph_names_it(self):
        lines = dict(line.split(": ") for line in self.capped("ends").out.splitlines() if ": " in line)
        self.assertEqual(lines, {"before": "fits", "captured": "refused", "graph gone": "refused",
                                 "clone gone": "refused", "all gone": "fits"})

    def test_a_capture_that_cannot_fit_is_refused_and_nothing_is_lost(self):
        plain = run(DEVICE, [PROGRAM, "too_much"], "--no-pooch")
        done = self.capped("too_much")
        self.assertRegex(done.out.splitlines()[0], "refused [1-9]")
        self.assertEqual(done.out.splitlines()[1:], plain.out.splitlines()[1:])
        self.assertIn("cublasSaxpy_v2: it needs memory that stays on the device", done.err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
