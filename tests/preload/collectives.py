"""Two devices of one process that work together through NCCL, each with more memory in use than its cap.

usage: collectives.py BUILD_FOLDER PROGRAM
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB:devices=2"
CAP, HOST = 64, 512
LAYERS, BUFFER = 6, 8
OPS = 2 * LAYERS * 2 + 4 * LAYERS * 3  # fills and prints of weights and gradients; steps of backward, reduce, update


class Collectives(unittest.TestCase):
    def both(self, scenario, *options, cap=CAP):
        """Summaries by device, of a run under the cap that says what the run without pooch said."""
        plain = run(DEVICE, [PROGRAM, scenario], "--no-pooch")
        self.assertEqual((plain.status, plain.out.splitlines()[-1:]), (0, ["done"]), plain.err)
        done = run(DEVICE, [PROGRAM, scenario], "--memory", f"{cap}MiB", "--host-memory", f"{HOST}MiB", *options)
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertEqual(done.out, plain.out)
        self.assertEqual(sorted(done.summary), ["", "device-1"])
        for each in done.summary.values():
            self.assertGreater(each["evictions"], 4)
            self.assertLessEqual(each["peak_device_bytes"], cap * MIB)
            self.assertEqual(each["replays"], 0)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB)
        return done

    def test_gradients_are_reduced_between_devices_that_lack_the_memory(self):
        for seed in ((), ("--seed", "5")):
            with self.subTest(seed):
                self.both("train", *seed)

    def test_the_calls_are_ops_although_no_launch_shows_the_buffers(self):
        done = self.both("train")
        self.assertGreater(done.device["indirect_touches"], 100)
        for each in done.summary.values():
            self.assertEqual(each["ops"], OPS)

    def test_ranks_may_have_a_thread_each_and_look_their_functions_up(self):
        by_name = self.both("threads")
        self.assertEqual([each["ops"] for each in by_name.summary.values()], [OPS, OPS])

    def test_every_collective_finds_its_operands(self):
        self.both("kinds", cap=48)

    def test_registered_memory_stays_until_it_is_not(self):
        done = self.both("registered")
        for each in done.summary.values():
            self.assertEqual((each["pinned_allocations"], each["pinned_bytes"]), (2, 2 * BUFFER * MIB))

    def test_what_nccl_allocates_is_counted_and_left_alone(self):
        self.both("own")
        mine = run(DEVICE, [PROGRAM, "own"], "--memory", "400MiB")
        train = run(DEVICE, [PROGRAM, "train"], "--memory", "400MiB")
        for device in ("", "device-1"):
            more = mine.summary[device]["peak_device_bytes"] - train.summary[device]["peak_device_bytes"]
            self.assertGreaterEqual(more, BUFFER * MIB)
            managed = [one.summary[device]["need_managed_bytes"] for one in (mine, train)]
            self.assertEqual(*managed)

    def test_a_group_that_cannot_fit_fails_and_names_the_cap(self):
        done = run(DEVICE, [PROGRAM, "too_large"], "--memory", f"{CAP}MiB", "--host-memory", f"{HOST}MiB")
        self.assertEqual(done.out.splitlines(), ["the group gives 1", "another gives 1", "done"], done.err)
        self.assertRegex(done.err, r"ncclAllReduce.*smallest cap that works is")
        self.assertEqual(done.device["violations"], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
