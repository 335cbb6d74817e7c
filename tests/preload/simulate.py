"""`pooch simulate`: the trainer's ResNet-50 and others under every policy, end to end on the software GPU.

usage: simulate.py BUILD_FOLDER
"""
import json
import os
import re
import subprocess
import sys
import unittest

from runs import MIB, POOCH, TRAIN, run

POLICIES = ["keep", "swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons", "vdnn-all", "vdnn-conv",
            "vdnn-dyn", "lms", "lms-sync", "hybrid"]
FIELDS = {"policy", "feasible", "time_ms", "overhead", "peak_bytes", "keep", "swap", "recompute", "plan_seconds",
          "bound_gap"}
RESNET = [TRAIN, "--network", "resnet50", "--batch", 16, "--iterations", 8]


def simulate(command, *options, memory, device="soft:v100-pcie3", env=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
    words = [POOCH, "simulate", "--device", device, "--memory", memory, *options, "--", *command]
    return subprocess.run([str(word) for word in words], env={**environment, **(env or {})}, capture_output=True,
                          text=True, timeout=200)


class Simulate(unittest.TestCase):
    def rows(self, command, *options, **more):
        ran = simulate(command, "--json", *options, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        result = json.loads(ran.stdout)
        return result, {row["policy"]: row for row in result["rows"]}

    def test_no_policy_beats_hybrid_and_all_stay_within_the_memory(self):
        for cap in (600, 800, 1100):
            with self.subTest(cap=cap):
                result, rows = self.rows(RESNET, memory=f"{cap}MiB")
                self.assertEqual(list(rows), POLICIES)
                self.assertTrue(rows["hybrid"]["feasible"])
                feasible = [row for row in rows.values() if row["feasible"]]
                self.assertGreater(len(feasible), 4)
                for row in feasible:
                    self.assertLessEqual(FIELDS, set(row))
                    self.assertLessEqual(rows["hybrid"]["overhead"], row["overhead"] + 1e-9, row["policy"])
                    self.assertLessEqual(row["peak_bytes"], cap * MIB)
                    self.assertAlmostEqual(row["overhead"], row["time_ms"] / result["incore_ms"] - 1)
                    self.assertEqual(row["time_ms"], min(row["remap_ms"] or 1e99, row["alias_ms"] or 1e99))
                    self.assertEqual(row["time_ms"], row[f"{row['backing']}_ms"])
                    self.assertGreater(row["bound_gap"], -1e-9)
                    self.assertEqual(row["keep"] + row["swap"] + row["recompute"],
                                     sum(rows["hybrid"][of] for of in ("keep", "swap", "recompute")))

    def test_what_does_not_fit_is_a_row_that_says_so(self):
        _, rows = self.rows(RESNET, memory="600MiB")
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
                own = run("soft:v100-pcie3:timing", command, "--policy", "keep")
                milliseconds = json.loads(own.out)["ms_per_iteration"]
                self.assertLess(abs(result["incore_ms"] / milliseconds - 1), 0.02)
                self.assertLess(abs(rows["keep"]["overhead"]), 0.005)
                self.assertEqual(result["batch"], batch)
                self.assertAlmostEqual(rows["keep"]["images_per_s"], batch * 1e3 / rows["keep"]["time_ms"])

    def test_a_faster_link_recomputes_less(self):
        slow = self.rows(RESNET, "--policy", "hybrid", memory="600MiB")[1]["hybrid"]
        fast = self.rows(RESNET, "--policy", "hybrid", memory="600MiB", device="v100-nvlink2")[1]["hybrid"]
        self.assertLess(fast["overhead"], slow["overhead"])
        self.assertLess(fast["recompute"], slow["recompute"])

    def test_the_table_has_the_rows_and_no_images_where_the_command_tells_no_batch(self):
        ran = simulate(RESNET, memory="700MiB")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertRegex(lines[0], r"^in-core \d+\.\d ms per iteration")
        self.assertNotIn("images/s", lines[1])
        self.assertEqual([line.split()[0] for line in lines[2:14]], POLICIES)
        self.assertIn("does not fit", lines[2])
        self.assertRegex(lines[13], r"^hybrid +\d+\.\d +\+\d+\.\d % ")
        self.assertIn(" images/s ", simulate([*RESNET, "--json"], "--policy", "hybrid", memory="700MiB").stdout)

    def test_bad_usage_ends_with_2_and_one_line(self):
        cases = [(["true"], {"device": "real", "memory": "1GiB"}, "--device 'real': "),
                 (["true"], {"device": "soft:v100-pcie3:compute", "memory": "1GiB"}, "keeps time"),
                 (["true"], {"device": "soft:abacus", "memory": "1GiB"}, "accepted models are "),
                 (["true"], {"memory": "much"}, "--memory 'much'"),
                 (["true"], {"memory": "1GiB", "options": ["--policy", "best"]}, "'best': accepted are keep, "),
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
    unittest.main(argv=sys.argv[:1])
