"""`pooch plan`, `pooch explain`, `pooch compare`: what they write and print, and the one line for bad input.

usage: plan_commands.py MAKE_PROFILES POOCH
"""
import collections
import json
import lzma
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MAKE_PROFILES, POOCH = sys.argv[1:3]
OF_A_GPU = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/silicon/h200-resnet50-640.profile.json.xz"
GRANULE = 2 << 20
LINK = ["--link-out", "12e9", "--link-in", "12e9"]
POLICIES = ["keep", "swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons", "vdnn-all", "vdnn-conv",
            "vdnn-dyn", "lms", "lms-sync", "hybrid"]
NUMERICS = ["vdnn-all:m", "vdnn-all:p", "vdnn-conv:m", "vdnn-conv:p", "vdnn-dyn:p"]


def pooch(*words):
    return subprocess.run([POOCH, *map(str, words)], capture_output=True, text=True, check=False)


class PlanCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.profiles = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.profiles.cleanup)
        subprocess.run([MAKE_PROFILES, cls.profiles.name], check=True)
        cls.good = pathlib.Path(cls.profiles.name) / "ops60-seed3.json"
        cls.profile = json.loads(cls.good.read_text(encoding="utf-8"))
        cls.phase = cls.profile["phases"][0]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "plan.json"

    def plan(self, *options, profile=None, memory="2GiB", link=True):
        return pooch("plan", profile or self.good, "--memory", memory, *(LINK if link else []), "-o", self.out,
                     *options)

    def planned(self, *options, **more):
        ran = self.plan(*options, **more)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(os.listdir(self.folder), ["plan.json"])
        return json.loads(self.out.read_text(encoding="utf-8"))

    def smallest(self, policy, memory="2MiB"):
        ran = self.plan("--policy", policy, memory=memory)
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
        self.assertFalse(self.out.exists())
        return int(re.search(rf"{policy} needs at least (\d+) bytes", ran.stderr)[1])


class Plan(PlanCommands):
    def test_what_an_h200_measured_is_planned_near_its_bound(self):
        measured = pathlib.Path(self.profiles.name, "h200.json")
        measured.write_bytes(lzma.decompress(OF_A_GPU.read_bytes()))
        ran = self.plan(profile=measured, memory="15GiB", link=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertLess(float(re.search(r"\+([\d.]+) % over the bound", ran.stdout)[1]), 2.5, ran.stdout)

    def test_what_was_asked_for_stands_in_the_plan(self):
        plan = self.planned("--policy", "swap-all", "--seed", 7, memory="3GiB")
        self.assertEqual((plan["policy"], plan["seed"], plan["cap"], plan["phase"]),
                         ("swap-all", 7, 3 << 30, self.phase["id"]))
        self.assertEqual(plan["device"], self.profile["device"])
        self.assertLessEqual(plan["peak"], plan["cap"])
        self.assertTrue(plan["maps"])
        self.assertEqual({m["class"] for m in plan["maps"]}, {"swap"})

    def test_an_unplaced_plan_has_no_layout_and_pays_for_mapping(self):
        placed, unplaced = self.planned("--policy", "swap-all"), self.planned("--policy", "swap-all", "--unplaced")
        self.assertIn("layout", placed)
        self.assertNotIn("layout", unplaced)
        self.assertGreater(unplaced["predicted_ms"], placed["predicted_ms"])

    def test_the_line_on_stdout_says_what_the_plan_says(self):
        ran = self.plan("--policy", "hybrid")
        plan = json.loads(self.out.read_text(encoding="utf-8"))
        count = collections.Counter(m["class"] for m in plan["maps"])
        self.assertEqual(ran.stdout.count("\n"), 1)
        self.assertTrue(ran.stdout.startswith(f"hybrid: {plan['predicted_ms']:.1f} ms per iteration, "), ran.stdout)
        self.assertIn(f"; {count['keep']} keep, {count['swap']} swap, {count['recompute']} recompute; ", ran.stdout)

    def test_a_share_is_one_of_the_profiles_device(self):
        self.assertEqual(self.planned(memory="50%")["cap"], self.profile["device_bytes"] // 2)

    def test_equal_requests_give_equal_files_and_an_older_file_is_replaced(self):
        self.out.write_text("older")
        self.planned("--policy", "hybrid")
        first = self.out.read_bytes()
        self.planned("--policy", "hybrid")
        self.assertEqual(self.out.read_bytes(), first)

    def test_a_slower_link_costs_time(self):
        times = [self.planned("--policy", "swap-all", "--link-out", rate, "--link-in", rate, link=False)["predicted_ms"]
                 for rate in ("4e9", "12e9", "65000000000")]
        self.assertGreater(times[0], times[1])
        self.assertGreater(times[1], times[2])

    def test_more_effort_never_ends_with_a_slower_plan(self):
        times = [self.planned("--policy", "hybrid", "--effort", effort)["predicted_ms"] for effort in (1, 2, 8)]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_another_phase_is_planned_on_request(self):
        other = self.profile["phases"][1]["id"]
        self.assertEqual(self.planned("--phase", other, "--policy", "keep", memory="1TiB")["phase"], other)

    def test_the_smallest_memory_that_is_named_works_and_a_granule_less_does_not(self):
        for policy in ("keep", "swap-all-unscheduled", "lms-sync", "vdnn-all"):
            with self.subTest(policy):
                least = self.smallest(policy)
                self.assertEqual(self.planned("--policy", policy, memory=least)["peak"], least)
                self.out.unlink()
                self.smallest(policy, memory=least - GRANULE)

    def test_every_policy_plans_where_memory_is_plenty(self):
        for policy in POLICIES:
            with self.subTest(policy):
                self.assertEqual(self.planned("--policy", policy, memory="1TiB")["policy"], policy)

    def test_bad_input_ends_with_2_and_one_line_and_writes_nothing(self):
        def file(name, text):
            path = pathlib.Path(self.profiles.name) / name
            path.write_text(text, encoding="utf-8")
            return path

        text = self.good.read_text(encoding="utf-8")
        cyclic = json.loads(text)
        version = next(v for v in cyclic["phases"][0]["versions"] if v.get("readers") and v.get("producer", -1) >= 0)
        version["producer"] = len(cyclic["phases"][0]["ops"]) - 1
        profiles = [
            (self.folder / "nowhere.json", "nowhere.json: No such file or directory"),
            (self.good.parent, "Is a directory"),
            (file("nothing.json", ""), "the text is empty: an object"),
            (file("cut.json", text[:3000]), "but the text ends"),
            (file("foreign.json", '{"schema":7}'), "schema is 7; this pooch reads 1"),
            (file("cyclic.json", json.dumps(cyclic)), "/phases/0/"),
            (self.good.parent / "empty.json", "it holds no phase"),
            (self.good.parent / "ops0-seed1.json", "has no ops"),
        ]
        options = [
            (["--policy", "best"], "--policy 'best': accepted are " + ", ".join(POLICIES) +
             "; with --allow-numerics " + ", ".join(NUMERICS) + "\n"),
            (["--link-out", "0"], "--link-out 0: accepted are rates above 0"),
            (["--link-in", "-1"], "--link-in -1: accepted are rates above 0"),
            (["--link-in", "nan"], "--link-in nan: accepted are rates above 0"),
            (["--link-in", "fast"], "--link-in"),
            (["--phase", "abc"], f"--phase 'abc': accepted are {self.phase['id']} (train), "),
            (["--seed", "-3"], "--seed"),
            (["--effort", "0"], "--effort"),
        ]
        cases = [(self.plan(profile=profile), message) for profile, message in profiles]
        cases += [(self.plan(*words, link="link" not in words[0]), message) for words, message in options]
        cases += [(self.plan(memory=size), "--memory") for size in ("0", "much", "-1GiB", "")]
        cases += [(pooch("plan", self.good, *LINK, "-o", self.out), "--memory is required"),
                  (pooch("plan", "--memory", "2GiB", "-o", self.out), "profile is required"),
                  (pooch("plan", self.good, "--memory", "2GiB"), "--output is required")]
        for ran, message in cases:
            with self.subTest(message):
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                self.assertIn(message, ran.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_output_that_cannot_be_written_is_refused_in_one_line(self):
        folder = self.folder / "folder"
        folder.mkdir()
        for path in (self.folder / "none/plan.json", folder):
            with self.subTest(path=path.name):
                ran = pooch("plan", self.good, "--memory", "1TiB", *LINK, "--policy", "keep", "-o", path)
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                self.assertIn(f"-o '{path}': ", ran.stderr)
        self.assertEqual(os.listdir(self.folder), ["folder"])


class OtherAlgorithms(PlanCommands):
    """ops60-seed3.json knows what the program tried, ops30-seed2.json does not."""

    def test_a_policy_that_changes_the_numbers_has_to_be_allowed(self):
        for policy in NUMERICS:
            with self.subTest(policy):
                ran = self.plan("--policy", policy, memory="1TiB")
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                self.assertIn(f"--policy '{policy}': it gives convolutions other algorithms, and results would change: "
                              "only with --allow-numerics", ran.stderr)
                self.assertFalse(self.out.exists())
                plan = self.planned("--policy", policy, "--allow-numerics", memory="1TiB")
                self.assertEqual(plan["policy"], policy)
                self.assertTrue(plan["algorithms"])
                self.out.unlink()

    def test_the_plan_names_the_algorithms_that_are_the_profiles(self):
        plan = self.planned("--policy", "vdnn-conv:p", "--allow-numerics", memory="1TiB")
        trials = [{a["name"]: a for a in one["algorithms"]} for one in self.profile["trials"]]
        for each in plan["algorithms"]:
            op = self.phase["ops"][each["op"]]
            tried = trials[op["trials"]]
            fastest = min(tried.values(), key=lambda a: (a["us"], a.get("workspace", 0)))
            self.assertEqual(each["takes"], fastest["name"])
            self.assertEqual((each["ms"], each["instead_of_ms"], each["workspace"]),
                             (fastest["us"] / 1e3, op["us"] / 1e3, fastest.get("workspace", 0)))
            own = list(tried)[op["algorithm"]] if "algorithm" in op else ""
            self.assertEqual(each["instead_of"], own)
            self.assertTrue(each["name"].endswith(op["kind"]))
        self.assertEqual(plan["in_core_ms"], self.planned("--policy", "keep", memory="1TiB")["in_core_ms"])

    def test_what_it_takes_is_shown(self):
        ran = self.plan("--policy", "vdnn-all:m", "--allow-numerics", memory="1TiB")
        plan = json.loads(self.out.read_text(encoding="utf-8"))
        count = len(plan["algorithms"])
        self.assertIn(f"; {count} convolutions with another algorithm; ", ran.stdout)
        shown = pooch("explain", self.out).stdout
        self.assertIn(f"{count} convolutions take another algorithm than the program's, which changes results", shown)
        for each in plan["algorithms"]:
            self.assertRegex(shown, rf"(?m)^ *{each['op']} +{re.escape(each['name'])} +{each['takes']} ")

    def test_without_trials_the_programs_own_stay_and_a_line_says_so(self):
        ran = self.plan("--policy", "vdnn-conv:p", "--allow-numerics", memory="1TiB",
                        profile=self.good.parent / "ops30-seed2.json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stderr, "pooch: plan: vdnn-conv:p: the program tried no algorithms: convolutions keep its "
                                     "own\n")
        self.assertNotIn("algorithms", json.loads(self.out.read_text(encoding="utf-8")))
        self.assertNotIn("another algorithm", ran.stdout)


class Explain(PlanCommands):
    def test_every_map_has_a_row_with_class_cost_and_alternative(self):
        plan = self.planned("--policy", "hybrid")
        ran = pooch("explain", self.out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        lines = ran.stdout.splitlines()
        for part in (plan["phase"], "policy hybrid", "with a layout", "2.00 GiB"):
            self.assertIn(part, lines[0])
        self.assertGreater(len({m["class"] for m in plan["maps"]}), 1)
        for line, map_ in zip(lines[2:], plan["maps"]):
            cells = re.split(r"\s{2,}", line.strip())
            self.assertEqual((cells[0], cells[1]), (str(map_["map"]), map_["name"]))
            self.assertEqual(cells[3].split()[0], map_["class"])
            self.assertEqual(cells[4], f"{map_['cost_ms']:.2f}")
            if "alternative" in map_:
                self.assertEqual((cells[5], cells[6]), (map_["alternative"], f"{map_['alternative_cost_ms']:.2f}"))
            else:
                self.assertEqual((cells[5], cells[6]), ("-", "-"))
            self.assertTrue(line.endswith(map_["why"]))
        self.assertRegex(lines[-2], r"^layout: \d+\.\d+ GiB in \d+ frames")

    def test_a_plan_without_a_layout_says_so(self):
        self.planned("--policy", "swap-all", "--unplaced")
        text = pooch("explain", self.out).stdout
        self.assertIn(", without a layout, ", text.splitlines()[0])
        self.assertEqual(text.count("layout"), 1)

    def test_the_totals_are_those_of_the_maps(self):
        plan = self.planned("--policy", "hybrid")
        text = pooch("explain", self.out).stdout
        count = collections.Counter(m["class"] for m in plan["maps"])
        self.assertRegex(text, rf"(?m)^hybrid +{count['keep']} +{count['swap']} +{count['recompute']} +"
                               rf"{len(plan['maps'])}$")
        overhead = 100 * (plan["predicted_ms"] / plan["in_core_ms"] - 1)
        self.assertIn(f"predicted {plan['predicted_ms']:.1f} ms per iteration; in-core {plan['in_core_ms']:.1f} ms: "
                      f"{overhead:+.1f} %\n", text)
        gap = 100 * (plan["predicted_ms"] / plan["bound_ms"] - 1)
        self.assertIn(f"gap {gap:+.1f} %\n", text)

    def test_bad_plans_end_with_2_and_one_line(self):
        self.planned("--policy", "swap-all")
        good = json.loads(self.out.read_text(encoding="utf-8"))
        unfinished = {**good, "before": {}}
        for name, text, message in (("nothing", "", ""), ("foreign", json.dumps({**good, "schema": 9}), "schema"),
                                    ("profile", self.good.read_text(encoding="utf-8"), ""),
                                    ("unfinished", json.dumps(unfinished), "")):
            path = self.folder / name
            path.write_text(text, encoding="utf-8")
            for words in (["explain", path], ["compare", self.out, path], ["compare", path, self.out]):
                with self.subTest(name, words=words[0]):
                    ran = pooch(*words)
                    self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                    self.assertIn(f"pooch: error: {words[0]}: {path}: ", ran.stderr)
                    self.assertIn(message, ran.stderr)
        ran = pooch("explain", self.folder / "nowhere")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)


class Compare(PlanCommands):
    def test_the_maps_of_another_class_are_listed_and_no_others(self):
        a = self.planned("--policy", "hybrid")
        kept = self.out.rename(self.folder.parent / f"{self.folder.name}-a.json")
        self.addCleanup(kept.unlink)
        b = self.planned("--policy", "swap-all", "--unplaced")
        ran = pooch("compare", kept, self.out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        differing = [(m["name"], m["class"], n["class"]) for m, n in zip(a["maps"], b["maps"], strict=True)
                     if m["class"] != n["class"]]
        self.assertTrue(differing)
        head, maps = ran.stdout.split("\n\n")
        self.assertIn(f"{a['predicted_ms']:.1f}", head.splitlines()[1])
        self.assertIn(f"{b['predicted_ms']:.1f}", head.splitlines()[2])
        self.assertEqual([row.split()[2] for row in head.splitlines()[1:]], ["yes", "no"])
        lines = maps.splitlines()
        self.assertEqual(lines[0], f"{len(a['maps']) - len(differing)} maps are of the same class in both, "
                                   f"{len(differing)} are not")
        rows = [re.split(r"\s{2,}", line) for line in lines[2:]]
        self.assertEqual([(row[0], row[2], row[4]) for row in rows], differing)

    def test_a_plan_does_not_differ_from_itself(self):
        plan = self.planned("--policy", "hybrid")
        ran = pooch("compare", self.out, self.out)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertTrue(ran.stdout.endswith(f"\n{len(plan['maps'])} maps are of the same class in both, 0 are not\n"))

    def test_plans_of_different_phases_are_told_apart(self):
        self.planned("--policy", "keep", memory="1TiB")
        first = self.out.rename(self.folder.parent / f"{self.folder.name}-a.json")
        self.addCleanup(first.unlink)
        other = self.profile["phases"][1]["id"]
        self.planned("--policy", "keep", "--phase", other, memory="1TiB")
        ran = pooch("compare", first, self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(ran.stdout.startswith(f"the plans are for different phases: {self.phase['id']} and {other}\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
