"""Memory that a kernel reaches unforeseen: with landing slow and right, without it the violation that it is.

usage: landing.py BUILD_FOLDER PROGRAM WITHOUT_MEMPOLICY
"""
import pathlib
import sys
import unittest

from runs import MIB, TRAIN, run

PROGRAM, WITHOUT_MEMPOLICY = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
LANDING = DEVICE + ":host_handles=on"
CAP, APART_HOST = 64, 1024


def masked(device, *options, rounds=6, env=None):
    return run(device, [PROGRAM, "masked", rounds], *(options or ("--memory", f"{CAP}MiB")), env=env)


class Landing(unittest.TestCase):
    def check(self, done, plain):
        self.assertEqual((plain.status, done.status), (0, 0), done.err)
        self.assertEqual(done.out.splitlines(), plain.out.splitlines())
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        self.assertGreater(done.summary["evictions"], 10)

    def test_an_access_that_nobody_foresaw_is_slow_and_right(self):
        plain = masked(DEVICE, "--no-pooch")
        self.assertEqual(plain.device["landed_accesses"], 0)
        for options in ([], ["--seed", "5"], ["--policy", "hybrid"]):
            for env in ({}, {"POOCH_LANDING": "on"}):
                with self.subTest(options=options, env=env):
                    done = masked(LANDING, "--memory", f"{CAP}MiB", *options, env=env)
                    self.check(done, plain)
                    self.assertGreater(done.device["landed_accesses"], 3)
                    self.assertGreater(done.summary["landings"], 10)
                    self.assertEqual(done.summary["unforeseen_ops"], 12)

    def test_a_graph_may_reach_what_has_left_the_device(self):
        plain = run(DEVICE, [PROGRAM, "captured", 6], "--no-pooch")
        for seed in ([], ["--seed", "5"]):
            done = run(LANDING, [PROGRAM, "captured", 6], "--memory", f"{CAP}MiB", *seed)
            self.check(done, plain)
            self.assertGreater(done.device["landed_accesses"], 3)
            self.assertEqual(done.summary["unforeseen_ops"], 6)
            self.assertEqual(done.summary["pinned_allocations"], 1)

    def test_threads_may_do_so_at_once_on_one_device_or_on_one_each(self):
        for options in ("", ":devices=2"):
            with self.subTest(options):
                plain = run(DEVICE + options, [PROGRAM, "apart", 6], "--no-pooch")
                done = run(LANDING + options, [PROGRAM, "apart", 6], "--memory", f"{CAP}MiB",
                           "--host-memory", f"{APART_HOST}MiB")
                self.assertEqual((plain.status, done.status), (0, 0), done.err)
                self.assertEqual(done.out, plain.out)
                self.assertEqual(done.device["violations"], [])
                self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)
                self.assertLessEqual(done.device["peak_host_bytes"], APART_HOST * MIB)
                self.assertGreater(done.device["landed_accesses"], 3)
                for each in done.summary.values() if options else [done.summary]:
                    self.assertGreater(each["landings"], 10)

    def test_addresses_in_device_memory_are_pinned_all_the_same(self):
        for how in ("hidden", "written", "written-inside"):
            for env in ({}, {"POOCH_LANDING": "on"}):
                with self.subTest(how, env=env):
                    plain = run(DEVICE, [PROGRAM, how], "--no-pooch")
                    done = run(LANDING, [PROGRAM, how], "--memory", f"{CAP}MiB", env=env)
                    self.check(done, plain)
                    self.assertEqual(done.summary["pinned_allocations"], 2)
                    self.assertEqual(done.device["indirect_touches"], 6)

    def test_without_landing_it_is_a_violation(self):
        for device, env in ((DEVICE, {}), (LANDING, {"POOCH_LANDING": "off"})):
            with self.subTest(device=device):
                done = masked(device, env=env)
                self.assertNotEqual(done.status, 0)
                self.assertEqual(done.device["violations"][0]["kind"], "unmapped")
                self.assertEqual(done.device["landed_accesses"], 0)

    def test_programs_without_such_kernels_pay_nothing_unless_asked(self):
        forms = [PROGRAM, "forms"]
        done = run(LANDING, forms, "--memory", "48MiB")
        self.assertEqual((done.summary["landings"], done.summary["unforeseen_ops"]), (0, 0))
        asked = run(LANDING, forms, "--memory", "48MiB", env={"POOCH_LANDING": "on"})
        self.assertGreater(asked.summary["landings"], 10)
        self.assertEqual(asked.out, done.out)

    def test_a_steady_state_creates_no_handles(self):
        few, many = masked(LANDING, rounds=12), masked(LANDING, rounds=36)
        self.assertGreater(many.summary["landings"], 2 * few.summary["landings"])
        for key in ("handles_created", "host_allocations", "peak_host_bytes"):
            self.assertEqual(few.summary[key], many.summary[key], key)

    def test_what_is_freed_on_the_host_gives_everything_back(self):
        plain = run(DEVICE, [PROGRAM, "replaced", 3], "--no-pooch")
        few = run(LANDING, [PROGRAM, "replaced", 3], "--memory", f"{CAP}MiB")
        self.check(few, plain)
        many = run(LANDING, [PROGRAM, "replaced", 9], "--memory", f"{CAP}MiB")
        for key in ("handles_created", "host_allocations", "peak_host_bytes"):
            self.assertEqual(few.summary[key], many.summary[key], key)

    def test_a_host_budget_with_room_for_the_content_alone_is_kept(self):
        plain = masked(DEVICE, "--no-pooch")
        done = masked(LANDING, "--memory", f"{CAP}MiB", "--host-memory", "64MiB", env={"POOCH_LANDING": "on"})
        self.check(done, plain)
        self.assertLessEqual(done.summary["peak_host_bytes"], 64 * MIB)

    def test_training_keeps_its_bits(self):
        digits = [TRAIN, "--network", "digits", "--iterations", "5"]
        plain = run(LANDING, digits, "--no-pooch")
        for policy in ("demand", "hybrid"):
            with self.subTest(policy):
                done = run(LANDING, digits, "--memory", "24MiB", "--policy", policy,
                           env={"POOCH_LANDING": "on", "POOCH_WAIT_FOR_PLANS": "1"})
                self.assertEqual(done.status, 0, done.err)
                self.assertEqual((done.losses, done.weights), (plain.losses, plain.weights))
                self.assertEqual(done.device["violations"], [])
                self.assertGreater(done.summary["landings"], 10)
                self.assertEqual(done.device["landed_accesses"], 0)

    def test_other_values_are_refused_in_one_line(self):
        done = run(DEVICE, ["env", "POOCH_LANDING=maybe", TRAIN, "--network", "digits", "--iterations", "1"])
        self.assertEqual(done.status, 2, done.err)
        lines = [line for line in done.pooch_lines() if "error" in line]
        self.assertEqual(len(lines), 1, done.err)
        self.assertIn("POOCH_LANDING: 'maybe': accepted are auto, on, off", lines[0])

    def test_where_the_kernel_does_not_tell_where_memory_lies_nothing_lands(self):
        done = run(LANDING, [WITHOUT_MEMPOLICY, PROGRAM, "forms"], "--memory", "48MiB",
                   env={"POOCH_LANDING": "on", "POOCH_LOG": "info"})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.summary["landings"], 0)
        self.assertEqual(done.err.count("get_mempolicy is not allowed here"), 1, done.err)
        self.assertEqual(done.out, run(LANDING, [PROGRAM, "forms"], "--no-pooch").out)

    def test_asked_for_where_the_device_has_none_is_said_once(self):
        done = run(DEVICE, [PROGRAM, "forms"], "--memory", "48MiB", env={"POOCH_LANDING": "on"})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.err.count("POOCH_LANDING=on: the device cannot map host memory"), 1, done.err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
