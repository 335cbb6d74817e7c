"""`pooch simulate`: the trainer's ResNet-50 and others under every policy, end to end on the software GPU.

usage: simulate.py BUILD_FOLDER [TEST]...
"""
import copy
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

from runs import MIB, POOCH, STEADY, TRAIN, clean_environment, run

POLICIES = ["keep", "swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons", "vdnn-all", "vdnn-conv",
            "vdnn-dyn", "lms", "lms-sync", "hybrid"]
NUMERICS = ["vdnn-all:m", "vdnn-all:p", "vdnn-conv:m", "vdnn-conv:p", "vdnn-dyn:p"]
FIELDS = {"policy", "feasible", "time_ms", "overhead", "peak_bytes", "keep", "swap", "recompute", "plan_seconds",
          "bound_gap"}
RESNET = [TRAIN, "--network", "resnet50", "--batch", 16, "--iterations", 8]
LONG_RESNET = [TRAIN, "--network", "resnet50", "--batch", 512, "--iterations", 16]
SMALL_RESNET = [TRAIN, "--network", "resnet50", "--batch", 64, "--iterations", 16]  # an eighth of the memory, and of what moves


def simulate(command, *options, memory, device="soft:v100-pcie3", env=None):
    environment = clean_environment()
    words = [POOCH, "simulate", "--device", device, "--memory", memory, *options, "--", *command]
    return subprocess.run([str(word) for word in words], env={**environment, **(env or {})}, capture_output=True,
                          text=True, timeout=200)


class Simulate(unittest.TestCase):
    shared = {}

    def rows(self, command, *options, **more):
        ran = simulate(command, "--json", *options, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        result = json.loads(ran.stdout)
        return result, {row["policy"]: row for row in result["rows"]}

    def shared_rows(self, command, *options, memory):
        """The rows of a run that several tests look at: equal runs give equal rows."""
        run_of = (*map(str, command), *options, memory)
        if run_of not in self.shared:
            self.shared[run_of] = self.rows(command, *options, memory=memory)
        return copy.deepcopy(self.shared[run_of])

    def test_no_policy_beats_hybrid_and_all_stay_within_the_memory(self):
        for cap in (600, 1100):
            with self.subTest(cap=cap):
                result, rows = self.shared_rows(RESNET, memory=f"{cap}MiB")
                self.assertEqual(list(rows), POLICIES)
                self.assertTrue(rows["hybrid"]["feasible"])
                feasible = [row for row in rows.values() if row["feasible"]]
                self.assertGreater(len(feasible), 4)
                for row in feasible:
                    self.assertLessEqual(FIELDS, set(row))
                    self.assertLessEqual(rows["hybrid"]["overhead"], row["overhead"] + 1e-9, row["policy"])
                    self.assertLessEqual(row["peak_bytes"], cap * MIB)
                    self.assertAlmostEqual(row["overhead"], row["time_ms"] / result["incore_ms"] - 1)
                    self.assertGreater(row["bound_gap"], -1e-9)
                    maps = {policy: sum(of[each] for each in ("keep", "swap", "recompute")) for policy, of in rows.items() if of["feasible"]}
                    self.assertEqual(maps[row["policy"]], maps["hybrid"] if row["policy"] == "hybrid" else maps["swap-all"])
                    self.assertGreaterEqual(maps["hybrid"], maps["swap-all"], "it moves what outlives an iteration as well")

    def test_policies_that_change_results_are_shown_on_request_only_and_not_carried_out(self):
        command = [TRAIN, "--network", "alexnet", "--batch", 256, "--iterations", 16, "--benchmark-algorithms"]
        _, plain = self.rows(command, memory="2GiB")
        self.assertEqual(list(plain), POLICIES)
        _, rows = self.rows(command, "--allow-numerics", memory="2GiB")
        self.assertEqual(list(rows), POLICIES + NUMERICS)
        for policy in POLICIES:
            self.assertEqual(rows[policy]["time_ms"], plain[policy]["time_ms"], policy)
        self.assertGreater(rows["vdnn-conv:m"]["algorithms"], 3)
        self.assertGreater(rows["vdnn-conv:m"]["time_ms"], rows["vdnn-conv:p"]["time_ms"])
        self.assertIsNone(rows["vdnn-conv:m"]["bound_gap"])
        _, rows = self.rows(command, "--allow-numerics", "--execute", "--policy", "vdnn-conv:m", memory="2GiB")
        self.assertIsNone(rows["vdnn-conv:m"]["executed"])
        refused = simulate(command, "--policy", "vdnn-conv:m", memory="2GiB")
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)
        self.assertIn("only with --allow-numerics", refused.stderr)

    def test_what_does_not_fit_is_a_row_that_says_so(self):
        _, rows = self.shared_rows(RESNET, memory="600MiB")
        row = rows["keep"]
        self.assertFalse(row["feasible"])
        self.assertEqual({row[key] for key in ("time_ms", "overhead", "peak_bytes", "keep", "bound_gap")}, {None})
        self.assertRegex(row["why"], r"keep needs at least \d+ bytes")

    def test_memory_that_no_policy_can_do_with_gives_rows_too(self):
        ran = simulate(RESNET, "--json", memory="150MiB")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = json.loads(ran.stdout)["rows"]
        self.assertEqual([row["policy"] for row in rows if row["feasible"]], [])
        self.assertIn("under demand mode the command ended with ", ran.stderr)

    def test_the_time_in_core_is_that_of_the_programs_own_clock(self):
        for network, batch in (("resnet50", 16), ("alexnet", 256)):
            with self.subTest(network):
                command = [TRAIN, "--network", network, "--batch", batch, "--iterations", 8, "--json"]
                result, rows = self.rows(command, "--policy", "keep", memory="15GiB")
                own = run("soft:v100-pcie3:timing" + STEADY, command, "--policy", "keep")
                milliseconds = json.loads(own.out)["ms_per_iteration"]
                self.assertLess(abs(result["incore_ms"] / milliseconds - 1), 0.02)
                self.assertLess(abs(rows["keep"]["overhead"]), 0.005)
                self.assertEqual(result["batch"], batch)
                self.assertAlmostEqual(rows["keep"]["images_per_s"], batch * 1e3 / rows["keep"]["time_ms"])

    def test_a_faster_link_recomputes_less(self):
        slow = self.shared_rows(RESNET, memory="600MiB")[1]["hybrid"]
        fast = self.rows(RESNET, "--policy", "hybrid", memory="600MiB", device="v100-nvlink2")[1]["hybrid"]
        self.assertLess(fast["overhead"], slow["overhead"])
        self.assertLess(fast["recompute"], slow["recompute"])

    def test_plans_are_carried_out(self):
        for policy, network, cap in (("hybrid", LONG_RESNET, 16384), ("demand", SMALL_RESNET, 2560)):
            with self.subTest(policy):
                result, rows = self.shared_rows(network, "--execute", "--policy", policy, memory=f"{cap}MiB")
                self.assertEqual(list(rows), [policy])
                row = rows[policy]
                self.assertEqual(row["feasible"], policy != "demand")
                executed = row["executed"]
                self.assertAlmostEqual(executed["overhead"], executed["ms"] / result["incore_ms"] - 1)
                self.assertGreaterEqual(executed["iterations"], 3)
                self.assertLessEqual(executed["peak_bytes"], cap * MIB)
                self.assertGreater(executed["peak_bytes"], cap * MIB / 2)
                self.assertLess(result["incore_ms"], executed["ms"])
                if policy == "hybrid":
                    self.assertLess(abs(executed["ms"] / row["time_ms"] - 1), 0.03)

    def test_the_time_is_that_of_the_timeline(self):
        """The same run by hand, its iterations counted in another way: op by op."""
        _, rows = self.shared_rows(LONG_RESNET, "--execute", "--policy", "hybrid", memory="16384MiB")
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace.json")
            ran = run("soft:v100-pcie3:timing" + STEADY, LONG_RESNET, "--policy", "hybrid", "--memory", "16GiB",
                      env={"POOCH_TRACE": str(trace), "POOCH_CACHE": f"{folder}/cache", "POOCH_WAIT_FOR_PLANS": "1"})
            self.assertEqual(ran.status, 0, ran.err)
            events = json.loads(trace.read_text())["traceEvents"]
        program = {event["tid"] for event in events
                   if event["name"] == "thread_name" and event["args"]["name"].startswith("compute")}
        first_ops = [event["ts"] for event in events
                     if event["ph"] == "X" and event["tid"] in program and event["args"].get("position") == 0]
        self.assertEqual(len(first_ops), ran.summary["planned_iterations"])
        lengths = [(after - before) / 1e3 for before, after in zip(first_ops, first_ops[1:])]
        actual, by_hand = rows["hybrid"]["executed"]["ms"], statistics.median(lengths[2:])
        self.assertLess(abs(actual / by_hand - 1), 0.005)

    def test_what_was_not_carried_out_is_null_and_says_why(self):
        _, rows = self.rows(SMALL_RESNET, "--execute", "--policy", "keep", memory="2560MiB")
        self.assertIsNone(rows["keep"]["executed"])
        fails = ["sh", "-c", '[ "$POOCH_POLICY" = swap-all ] && exit 5; exec "$@"', "sh", *SMALL_RESNET]
        _, rows = self.rows(fails, "--execute", "--policy", "swap-all", memory="2560MiB")
        failed = rows["swap-all"]["executed"]
        self.assertEqual((failed["ms"], failed["overhead"], failed["peak_bytes"]), (None, None, None))
        self.assertEqual(failed["why"], "swap-all: the command ended with 5")

    def test_the_table_of_what_was_carried_out(self):
        ran = simulate(SMALL_RESNET, "--execute", "--policy", "keep", memory="15GiB")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = ran.stdout.splitlines()
        in_core = re.match(r"in-core (\d+\.\d) ms per iteration", lines[0])[1]
        self.assertRegex(lines[1], r"actual ms  +actual  +actual peak$")
        # Carried out with room enough it is the same again.
        self.assertRegex(lines[2], rf" {in_core} +[+-]0\.\d % +\d+\.\d+ GiB$")

    def test_too_few_iterations_to_carry_plans_out_are_one_line(self):
        for iterations, had in ((6, r"\d"), (8, r"\d")):
            with self.subTest(iterations=iterations):
                command = [*RESNET[:-1], iterations]
                ran = simulate(command, "--execute", "--policy", "swap-all", memory="600MiB")
                self.assertEqual((ran.returncode, ran.stdout), (3, ""), ran.stderr)
                self.assertRegex(ran.stderr, rf"pooch: error: simulate: --execute: {had} of the command's iterations "
                                             r"followed a plan \(swap-all\), and 6 must: let it run \d more\n")

    def test_settings_of_the_users_own_reach_no_run(self):
        with tempfile.TemporaryDirectory() as folder:
            env = {"POOCH_TRACE": f"{folder}/trace", "POOCH_CACHE": f"{folder}/cache", "POOCH_PLAN": "/nowhere",
                   "POOCH_RECORD": f"{folder}/record"}
            own = self.rows(RESNET, "--policy", "hybrid", memory="600MiB", env=env)[1]["hybrid"]
            self.assertEqual(os.listdir(folder), [])
        plain = self.shared_rows(RESNET, memory="600MiB")[1]["hybrid"]
        self.assertEqual(own["time_ms"], plain["time_ms"])

    def test_the_table_has_the_rows_and_no_images_where_the_command_tells_no_batch(self):
        ran = simulate(RESNET, memory="700MiB")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertRegex(lines[0], r"^in-core \d+\.\d ms per iteration")
        self.assertNotIn("images/s", lines[1])
        self.assertEqual([line.split()[0] for line in lines[2:2 + len(POLICIES)]], POLICIES)
        self.assertIn("does not fit", lines[2])
        self.assertRegex(lines[1 + len(POLICIES)], r"^hybrid +\d+\.\d +\+\d+\.\d % ")
        self.assertIn(" images/s ", simulate([*RESNET, "--json"], "--policy", "swap-all", memory="700MiB").stdout)

    def test_bad_usage_ends_with_2_and_one_line(self):
        cases = [(["true"], {"device": "real", "memory": "1GiB"}, "--device 'real': "),
                 (["true"], {"device": "soft:v100-pcie3:compute", "memory": "1GiB"}, "keeps time"),
                 (["true"], {"device": "soft:abacus", "memory": "1GiB"}, "accepted models are "),
                 (["true"], {"memory": "much"}, "--memory 'much'"),
                 (["true"], {"memory": "1GiB", "options": ["--policy", "best"]}, "'best': accepted are keep, "),
                 (["true"], {"memory": "1GiB", "options": ["--policy", "best", "--execute"]}, "hybrid, demand, all"),
                 (["true"], {"memory": "1GiB", "options": ["--policy", "demand"]}, "can only be carried out"),
                 ([], {"memory": "1GiB"}, "no command: it goes after --")]
        for command, more, message in cases:
            with self.subTest(message):
                ran = simulate(command, *more.pop("options", []), **more)
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                self.assertIn(message, ran.stderr)

    def test_a_command_that_fails_ends_with_its_own_code_and_prints_no_rows(self):
        for command, code in ((["sh", "-c", "echo why; exit 7"], 7), (["/nowhere/at/all"], 127)):
            with self.subTest(code=code):
                ran = simulate(command, "--json", memory="1GiB")
                self.assertEqual((ran.returncode, ran.stdout), (code, ""))
                self.assertEqual("why\n" in ran.stderr, code == 7)

    def test_a_command_without_iterations_is_told_so(self):
        ran = simulate([TRAIN, "--network", "resnet50", "--batch", 4, "--iterations", 1], memory="4GiB")
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))
        self.assertTrue(re.search("pooch: error: simulate: the command had no iterations to measure", ran.stderr))
        ran = simulate(["true"], memory="4GiB")
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))
        self.assertIn("the command left no profile", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
