"""Programs that allocate as frameworks do: the same content and the same figures as without pooch.

usage: allocators.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 64
PASSES = {"POOCH_POLICY": ""}  # calls are not watched while memory is far from short


class Allocators(unittest.TestCase):
    def capped(self, scenario, *options, cap=CAP, **environment):
        done = run(DEVICE, [PROGRAM, scenario], "--memory", f"{cap}MiB", *options, env=environment)
        self.assertEqual((done.status, done.out.splitlines()[-1:]), (0, ["done"]), done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        return done

    def check_against_plain(self, scenario, **settings):
        plain = run(DEVICE, [PROGRAM, scenario], "--no-pooch")
        self.assertEqual(plain.status, 0, plain.err)
        self.assertEqual(self.capped(scenario, **settings).out, plain.out)

    def test_the_default_pool_tells_what_it_would_without_pooch(self):
        self.check_against_plain("default_pool")

    def test_a_pool_of_the_programs_own_keeps_its_size_and_outlives_nothing(self):
        self.check_against_plain("own_pool")

    def test_thousands_of_small_tensors_beside_large_ones(self):
        self.check_against_plain("tiny")
        self.assertGreater(self.capped("tiny").summary["evictions"], 0)

    def test_small_tensors_cost_no_calls_of_the_drivers(self):
        plain = run(DEVICE, [PROGRAM, "churn"], "--no-pooch")
        hooked = run(DEVICE, [PROGRAM, "churn"], env=PASSES)
        self.assertEqual((plain.status, hooked.status), (0, 0), hooked.err)
        calls = 2 * 20000  # allocations and frees
        self.assertLess(hooked.device["api_calls"], plain.device["api_calls"] - calls + 200)

    def test_small_tensors_in_streams_that_come_and_go(self):
        self.check_against_plain("small", cap=256, **PASSES)
        self.check_against_plain("small")

    def test_small_memory_is_used_again_in_the_order_of_its_streams(self):
        for seed in (None, 3, 11):
            with self.subTest(seed):
                self.capped("small_stream_ordered", *([] if seed is None else ["--seed", str(seed)]), **PASSES)

    def test_freed_memory_is_used_again_in_the_order_of_its_streams(self):
        for seed in (None, 3, 11):
            with self.subTest(seed):
                done = self.capped("stream_ordered", *([] if seed is None else ["--seed", str(seed)]))
                self.assertGreater(done.summary["evictions"], 20)

    def test_memory_that_the_program_maps_itself_counts(self):
        self.check_against_plain("own_mappings")
        done = self.capped("own_mappings")
        self.assertGreater(done.summary["evictions"], 4)
        self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)

    def test_many_tensors_in_one_segment(self):
        self.assertGreater(self.capped("segments").summary["evictions"], 20)

    def test_one_allocation_per_tensor(self):
        self.assertGreater(self.capped("no_caching").summary["evictions"], 20)

    def test_workspaces_are_had_while_the_cap_is_full(self):
        self.assertGreater(self.capped("workspace").summary["evictions"], 20)

    def test_a_program_may_use_all_the_memory_that_it_is_told_of(self):
        for budget in (64, 190):
            with self.subTest(budget):
                self.capped("takes_all", "--host-memory", f"{budget}MiB")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
