"""Plans carried out: the same bits as without pooch, under every policy, within the cap.

usage: planned.py BUILD_FOLDER [TEST]...
"""
import json
import pathlib
import sys
import tempfile
import unittest

from runs import DIGITS, MIB, TRAIN, run

COMPUTE = "soft:v100-pcie3:compute"
TIMING = "soft:v100-pcie3:timing"
# One of each kind, all of them are in planned_policies.py. MiB, between the least that each can plan for and the need, 135.
CAPS = {"swap-all": 36, "pooch": 36, "superneurons": 70, "vdnn-dyn": 80, "hybrid": 36}


def train(network, iterations, *more):
    return [*(DIGITS if network == "digits" else (TRAIN, "--network", network)), "--iterations", str(iterations), "--json", *more]


def iteration_modes(trace):
    events = json.loads(pathlib.Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    return [e["args"]["mode"] for e in events if "mode" in e.get("args", {})]


class Planned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)
        cls.in_core = {device: run(device, train("digits", 12 if device == TIMING else 10), "--no-pooch") for device in (COMPUTE, TIMING)}

    def planned(self, device, command, policy, cap_mib, weights=None, **more):
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache.name, **more}
        return run(device, command, "--policy", policy, "--memory", f"{cap_mib}MiB", env=env, weights=weights)

    def check(self, capped, cap_mib):
        self.assertEqual(capped.status, 0, capped.err)
        self.assertEqual(capped.device["violations"], [], capped.err)
        self.assertNotIn("softgpu:", capped.err)
        self.assertLessEqual(capped.summary["peak_device_bytes"], cap_mib * MIB)
        self.assertLessEqual(capped.device["peak_bytes"], cap_mib * MIB, "the device's own account")

    def followed(self, policy, cap, iterations, device=COMPUTE, **more):
        command = train("digits", iterations)
        capped = self.planned(device, command, policy, cap, **more)
        self.check(capped, cap)
        # Iterations follow each other: fewer of them have the same losses.
        self.assertEqual(capped.losses, self.in_core[device].losses[:iterations])
        self.assertGreaterEqual(capped.summary["planned_iterations"], 3, capped.err)
        self.assertEqual(capped.summary["plans_left"], 0, capped.err)
        return capped

    def test_policies_give_the_same_bits(self):
        for policy, cap in CAPS.items():
            with self.subTest(policy=policy):
                done = self.followed(policy, cap, 8)
                if policy in ("pooch", "superneurons", "hybrid"):
                    self.assertGreater(done.summary["replays"], 50)

    def test_small_resnet50_with_validation_gives_the_same_bits(self):
        command = train("resnet50", 11, "--input-size", "32", "--batch", "64", "--lr", "0.001", "--validate-every", "4")
        in_core = run(COMPUTE, command, "--no-pooch")
        self.assertNotIn("nan", "".join(in_core.losses))
        capped = self.planned(COMPUTE, command, "hybrid", 384)
        self.check(capped, 384)
        self.assertEqual(capped.losses, in_core.losses)
        self.assertEqual(capped.weights, in_core.weights)
        self.assertGreaterEqual(capped.summary["planned_iterations"], 3, capped.err)

    def test_every_size_of_input_gets_its_plan(self):
        """Three sizes in turn; a concatenation's slices overlap without overwriting each other."""
        command = train("googlenet", 15, "--batch", "128", "--input-sizes", "64,48,32", "--lr", "0.001")
        # Where nothing is computed losses and weights tell where they come from.
        in_core = run(TIMING, command, "--no-pooch", weights=True)
        self.assertGreater(len(set(in_core.losses)), 10)
        done = self.planned(TIMING, command, "hybrid", 184, weights=True)
        self.check(done, 184)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertNotIn("without a plan", done.err)
        self.assertGreaterEqual(done.summary["planned_iterations"], 9)
        self.assertGreater(done.summary["replays"], 0)

    def test_sizes_that_never_recur_have_one_plan(self):
        """From the 17th iteration on. The 22nd is larger than what the plan leaves room for, and goes without."""
        sizes = [32 + 11 * i % 29 for i in range(26)]
        self.assertEqual(len(set(sizes)), 26)
        sizes[21] = 80
        command = train("googlenet", 26, "--batch", "32", "--input-sizes", ",".join(map(str, sizes)), "--lr", "0.001")
        in_core = run(COMPUTE, command, "--no-pooch")
        self.assertNotIn("nan", "".join(in_core.losses))
        done = self.planned(COMPUTE, command, "hybrid", 130)
        self.check(done, 130)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertIn(done.summary["planned_iterations"], range(7, 10), done.err)
        self.assertEqual(done.summary["any_size_iterations"], done.summary["planned_iterations"])
        self.assertIn("; sizes differ, the plan is for the largest", done.err)
        self.assertGreater(done.summary["replays"], 0)
        self.assertEqual(done.summary["mismatches"], 0)

    def test_from_its_second_time_on_every_phase_is_planned(self):
        loops = {"plain": [], "validation": ["--validate-every", "5"], "accumulation": ["--accumulate", "4"],
                 "smaller last batch": ["--epoch-length", "4", "--last-batch", "20"],
                 "all": ["--accumulate", "2", "--validate-every", "5", "--epoch-length", "4", "--last-batch", "20"]}
        for name, loop in loops.items():
            with self.subTest(loop=name), tempfile.TemporaryDirectory() as folder:
                # By policies that plan fast, since phases are what is looked at.
                policy = "superneurons" if name == "all" else "swap-all"
                command = train("resnet50", 24, "--input-size", "64", "--batch", "64", "--iteration-log", f"{folder}/passes",
                                *loop)
                done = self.planned("soft:v100-nvlink2:timing", command, policy, 500, POOCH_TRACE=f"{folder}/trace",
                                    POOCH_CACHE=f"{folder}/cache")
                self.check(done, 500)
                passes = pathlib.Path(folder, "passes").read_text(encoding="utf-8").splitlines()
                modes = iteration_modes(f"{folder}/trace")
                # Nothing is known of the first ones, whose ops are part of no iteration yet.
                self.assertLessEqual(len(passes) - len(modes), 8 if name == "all" else 4)
                modes = [None] * (len(passes) - len(modes)) + modes
                times = {}
                for i, kind in enumerate(passes):
                    times[kind] = times.get(kind, 0) + (i == 0 or passes[i - 1] != kind)
                    if modes[i] is not None and (times[kind] > 1 or (loop == [] and i >= 4)):
                        self.assertEqual(modes[i], "plan", f"pass {i}, {kind}, of {passes}: {modes}")

    def test_where_no_policy_is_chosen_only_what_does_not_fit_is_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            for cap, iterations, planned in ((50, 10, True), (170, 6, False)):
                with self.subTest(cap=cap):
                    done = run(COMPUTE, train("digits", iterations), "--memory", f"{cap}MiB",
                               env={"POOCH_POLICY": "", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": f"{folder}/{cap}"})
                    self.check(done, cap)
                    self.assertEqual(done.losses, self.in_core[COMPUTE].losses[:iterations])
                    self.assertEqual(done.summary["policy"], "hybrid")
                    self.assertEqual(done.summary["planned_iterations"] > 0, planned)
                    self.assertEqual(pathlib.Path(folder, str(cap)).exists(), planned, "nothing is planned, nothing kept")

    def test_fixed_places_give_the_same_bits_and_map_nothing_in_steady_state(self):
        for policy, cap in (("hybrid", 100), ("swap-all", 84)):
            with self.subTest(policy=policy):
                # Virtual time is the same without the numbers: what differs shows in the counters.
                done = self.followed(policy, cap, 10, POOCH_LOG="info")
                short, long = (self.followed(policy, cap, n, TIMING, POOCH_LOG="info") for n in (10, 12))
                self.assertEqual(done.summary["vmm_calls"], short.summary["vmm_calls"])
                for run_of in (done, long):
                    self.assertIn("alias mode: ", run_of.err)
                    self.assertNotIn("alias mode ends", run_of.err)
                self.assertEqual(short.summary["vmm_calls"], long.summary["vmm_calls"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
