"""Memory that a kernel reaches unforeseen: with landing slow and right, without it the violation that it is.

usage: landing.py BUILD_FOLDER PROGRAM WITHOUT_MEMPOLICY [TEST]...
"""
import pathlib
import sys
import tempfile
import unittest

from runs import DIGITS, MIB, TO_THE_BYTE, TRAIN, run

PROGRAM, WITHOUT_MEMPOLICY = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
LANDING, CRASHING = DEVICE + ":host_handles=on", DEVICE + ":host_handles=crash"
MISREPORTED = DEVICE + ":host_handles=misreported"
SIGSEGV = 128 + 11  # as `pooch run` reports it
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
        digits = [*DIGITS, "--iterations", "5"]
        device = LANDING + TO_THE_BYTE
        plain = run(device, digits, "--no-pooch")
        for policy in ("demand", "hybrid"):
            with self.subTest(policy):
                done = run(device, digits, "--memory", "30MiB", "--policy", policy,
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


class Trial(unittest.TestCase):
    """Another process tries the driver's host handles before the program uses them."""

    def setUp(self):
        self.cache = tempfile.TemporaryDirectory()
        self.addCleanup(self.cache.cleanup)

    def env(self, **more):
        return {"POOCH_CACHE": self.cache.name, "POOCH_LOG": "info"} | more

    def from_the_start(self, command):
        return run(CRASHING + TO_THE_BYTE, command, "--memory", "30MiB", env=self.env(POOCH_LANDING="on"))

    def entry(self):
        """The verdict that was kept, the only one."""
        (entry,) = pathlib.Path(self.cache.name).glob("host-handles-*")
        return entry

    def check_tries(self, done, tries):
        self.assertEqual(done.err.count(" tries handles of host memory"), tries, done.err)

    def test_a_driver_that_crashes_costs_the_landing_and_one_line(self):
        digits = [*DIGITS, "--iterations", "2"]
        plain = run(DEVICE, digits, "--no-pooch")
        for tries in (1, 0):
            done = self.from_the_start(digits)
            self.assertEqual(done.status, 0, done.err)
            self.assertEqual((done.losses, done.weights), (plain.losses, plain.weights))
            self.assertEqual((done.device["violations"], done.summary["landings"]), ([], 0))
            self.assertGreater(done.summary["evictions"], 10)
            self.assertEqual(done.err.count("the driver crashes"), 1, done.err)
            self.assertIn("POOCH_LANDING=on: the driver crashes when it is asked for a handle of host memory, so nothing "
                          "lands", done.err)
            self.check_tries(done, tries)
        self.assertTrue(self.entry().read_text().endswith("\nthe driver crashes when it is asked for a handle of host memory\n"))

    def test_without_the_trial_such_a_driver_ends_the_program(self):
        self.assertEqual(self.from_the_start([PROGRAM, "forms"]).status, 0)
        entry = self.entry()
        entry.write_text(entry.read_text().splitlines()[0] + "\nhost handles work\n")
        done = self.from_the_start([PROGRAM, "forms"])
        self.check_tries(done, 0)
        self.assertEqual(done.status, SIGSEGV, done.err)

    def test_the_first_kernel_that_nobody_foresees_waits_for_the_trial(self):
        plain = masked(DEVICE, "--no-pooch")
        roomy = masked(CRASHING, "--memory", "300MiB", env=self.env())
        self.assertEqual((roomy.status, roomy.out), (0, plain.out), roomy.err)
        self.assertEqual(roomy.summary["unforeseen_ops"], 12)
        self.assertIn("the driver crashes when it is asked for a handle of host memory: no host memory is mapped at device "
                      "addresses", roomy.err)
        self.check_tries(roomy, 1)
        short = masked(CRASHING, env=self.env())
        self.assertEqual([each["kind"] for each in short.device["violations"]], ["unmapped"], "as without landing")
        self.check_tries(short, 0)

    def test_handles_of_the_host_that_are_the_devices_memory_cost_the_landing_and_one_line(self):
        plain = run(DEVICE, [PROGRAM, "forms"], "--no-pooch")
        done = run(MISREPORTED, [PROGRAM, "forms"], "--memory", "48MiB", env=self.env(POOCH_LANDING="on"))
        self.assertEqual((done.status, done.out), (0, plain.out), done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.device["peak_bytes"], 48 * MIB)
        self.assertGreater(done.summary["evictions"], 10)
        self.assertEqual(done.summary["landings"], 0)
        self.assertIn("POOCH_LANDING=on: no handle of host memory: the driver takes the device's memory for it, so nothing "
                      "lands", done.err)
        self.assertEqual(done.err.count("the driver takes the device's memory"), 1, done.err)

    def test_host_handles_that_work_are_tried_once(self):
        plain = masked(DEVICE, "--no-pooch")
        for tries in (1, 0):
            done = masked(LANDING, env=self.env())
            self.assertEqual((done.status, done.out), (0, plain.out), done.err)
            self.assertGreater(done.summary["landings"], 10)
            self.check_tries(done, tries)
        self.assertTrue(self.entry().read_text().endswith("\nhost handles work\n"))

    def test_programs_that_do_not_land_start_no_other_process(self):
        for device in (LANDING, CRASHING):
            done = run(device, [PROGRAM, "forms"], "--memory", "48MiB", env=self.env())
            self.assertEqual(done.status, 0, done.err)
            self.check_tries(done, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
