#!/usr/bin/python3
"""Programs that start, fork, wait and end in every way: the same output with and without pooch.

usage: lifecycle.py BUILD_FOLDER [Lifecycle.TEST...]
"""
import signal
import subprocess
import sys
import unittest

from runs import BUILD, MIB, POOCH, clean_environment, run

PROGRAM = BUILD / "tests/preload/lifecycle_program"
PLUGIN = BUILD / "tests/preload/lifecycle_plugin"
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"


class Lifecycle(unittest.TestCase):
    def both(self, scenario, cap, status=0, program=PROGRAM, summary=True):
        """Runs it without pooch and under a cap of `cap` MiB. Returns the latter's run."""
        plain = run(DEVICE, [program, scenario], "--no-pooch", timeout=120)
        self.assertEqual(plain.status, status, plain.err)
        done = run(DEVICE, [program, scenario], "--memory", f"{cap}MiB", timeout=120)
        self.assertEqual(done.status, status, done.err)
        self.assertEqual(sorted(done.out.splitlines()), sorted(plain.out.splitlines()))
        for each in (plain, done):
            self.assertNotIn("softgpu:", each.err)
            if each.device is not None:
                self.assertEqual(each.device["violations"], [])
        self.assertEqual([line for line in done.pooch_lines() if "error" in line], [])
        if summary:
            self.assertIsNotNone(done.summary, done.err)
            self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        else:
            self.assertIsNone(done.summary)
        return done

    def test_first_call_on_each_of_eight_threads(self):
        self.assertGreater(self.both("first_calls", 64).summary["evictions"], 0)

    def test_eight_threads_with_a_stream_each(self):
        done = self.both("eight_streams", 64)
        self.assertGreater(done.summary["evictions"], 0)
        self.assertEqual(len(done.out.splitlines()), 16)

    def test_fork_before_the_first_call(self):
        done = self.both("fork_before", 16)
        self.assertIn("child ended with 3\n", done.out)
        self.assertGreater(done.summary["ops"], 0)

    def test_fork_after_the_first_call(self):
        done = self.both("fork_after", 40)
        self.assertGreater(done.summary["ops"], 0)
        self.assertGreaterEqual(done.summary["need_bytes"], 6 * 3 * MIB)
        self.assertEqual(done.err.count(": peak "), 1, "one summary, the parent's")

    def test_exec(self):
        self.assertEqual(len(self.both("exec_again", 64).out.splitlines()), 9)

    def test_plugins(self):
        for scenario, cap in (("first_calls", 64), ("ordered_streams", 28), ("fork_before", 16)):
            with self.subTest(scenario):
                self.assertGreater(self.both(scenario, cap, program=PLUGIN).summary["evictions"], 0)

    def test_exit_without_cleanup(self):
        self.both("exit_without_cleanup", 16, status=5)

    def test_exit_without_handlers(self):
        self.both("exit_at_once", 16, status=6, summary=False)

    def test_exit_while_threads_work(self):
        self.both("exit_while_working", 40, status=4)

    def test_streams_with_events_host_functions_and_wait_values(self):
        self.assertGreater(self.both("ordered_streams", 28).summary["evictions"], 0)

    def test_nobody_waits_for_what_the_program_holds(self):
        for scenario in ("held_by_host_function", "held_by_wait_value"):
            with self.subTest(scenario):
                self.assertGreater(self.both(scenario, 28).summary["evictions"], 0)

    def terminated(self, scenario, *options):
        """Status and what it said, of a run that gets SIGTERM while it works."""
        with subprocess.Popen([POOCH, "run", "--device", DEVICE, *options, "--", PROGRAM, scenario], env=clean_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            self.assertEqual(running.stdout.readline(), "working\n")
            running.send_signal(signal.SIGTERM)
            out, err = running.communicate(timeout=60)
        return running.returncode, out, err

    def test_sigterm_while_working(self):
        for options in (["--no-pooch"], ["--memory", "16MiB"]):
            status, out, err = self.terminated("until_terminated", *options)
            self.assertEqual((status, out), (128 + signal.SIGTERM, ""), err)
        self.assertIn("killed by signal 15", err)

    def test_sigterm_that_the_program_handles(self):
        for options in (["--no-pooch"], ["--memory", "16MiB"]):
            status, out, err = self.terminated("until_terminated_politely", *options)
            self.assertEqual((status, out), (0, "ended\n"), err)
        self.assertIn(": peak ", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
