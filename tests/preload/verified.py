"""What replays make is compared with what was dropped: right ones pass, wrong ones never reach the losses.

usage: verified.py BUILD_FOLDER WRONG_REPLAY_LIBRARY [TEST]...
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runs import DIGITS, MIB, POOCH, TRAIN, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import missed  # noqa: E402

COMPUTE = "soft:v100-pcie3:compute"
TIMING = "soft:v100-pcie3:timing"  # content is known by where it comes from
DEVICES = (COMPUTE, TIMING)
WRONG = sys.argv[2]
ITERATIONS = 9
LATER = 40    # of the replays: in the third iteration of the plan, or behind it
LATEST = 400  # ... behind the last iteration in which a map is proven, of whatever plan


class Verified(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)
        cls.in_core = {device: cls.train("--no-pooch", device=device) for device in DEVICES}

    @classmethod
    def train(cls, *options, device=COMPUTE, iterations=ITERATIONS, **env):
        command = [*DIGITS, "--iterations", str(iterations), "--json"]
        return run(device, command, *options,
                   env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cls.cache.name, "POOCH_POLICY": "superneurons",
                        "POOCH_SUBSTITUTES": "0", **env})  # those have tests of their own

    def planned(self, **more):
        return self.train("--memory", "70MiB", **more)

    def spoilt(self, number, **more):
        return self.planned(LD_PRELOAD=WRONG, WRONG_REPLAY=str(number), **more)

    def check(self, done):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.device["peak_bytes"], 70 * MIB)

    def test_right_replays_pass(self):
        for device in DEVICES:
            self.right_replays_pass(device)

    def right_replays_pass(self, device):
        compared = {}
        for how in ("sample", "all"):
            with self.subTest(device=device, how=how):
                done = self.planned(device=device, POOCH_VERIFY=how)
                self.check(done)
                self.assertEqual(done.losses, self.in_core[device].losses)
                self.assertGreater(len(set(done.losses)), 2, "they tell something")
                self.assertEqual(done.summary["mismatches"], 0)
                self.assertGreater(done.summary["replays"], 50)
                compared[how] = done.summary["verified"]
        self.assertGreater(compared["sample"], 30, "two iterations of all maps")
        self.assertGreater(compared["all"], compared["sample"] + 30)

    def test_a_plan_that_is_adopted_again_is_not_proven_again(self):
        """Whenever more is known of the program: a given plan is, several times at the start."""
        with tempfile.TemporaryDirectory() as folder:
            plan = f"{folder}/plan.json"
            self.train("--policy", "demand", "--memory", "70MiB", device=TIMING, POOCH_REPORT=folder)
            made = subprocess.run([POOCH, "plan", f"{folder}/profile.json", "--policy", "superneurons", "--memory", "62MiB", "-o", plan],
                                  capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            dropped = sum(m["class"] == "recompute" for m in json.loads(pathlib.Path(plan).read_text())["maps"])
            self.assertGreater(dropped, 5)
            done = self.train("--memory", "70MiB", device=TIMING, POOCH_PLAN=plan, POOCH_LOG="info")
            self.check(done)
            self.assertGreater(done.err.count("plan by superneurons"), 1)
            sampled = done.summary["planned_iterations"] // 8 + 1
            self.assertLessEqual(done.summary["verified"], 2 * dropped + sampled)
            self.assertGreaterEqual(done.summary["verified"], 2 * dropped)

    def test_an_early_mismatch_is_put_right_and_the_map_is_swapped(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.spoilt(1, device=device)
                self.check(done)
                self.assertEqual(done.losses, self.in_core[device].losses)
                # Every replay of it would be wrong: there is no second one.
                self.assertEqual(done.summary["mismatches"], 1, done.err)
                self.assertRegex(done.err, r"pooch: warning: [\w.]+, made again by cudnnActivationForward, is not what it "
                                           r"was; its copy is put back, and it is swapped from now on\n")
                self.assertGreater(done.summary["replays"], 20)

    def fails(self, done):
        self.assertNotEqual(done.status, 0)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertEqual(done.summary["mismatches"], 1)
        self.assertGreaterEqual(done.summary["planned_iterations"], 2)
        lines = [line for line in done.pooch_lines() if "error" in line]
        self.assertEqual(len(lines), 1, done.err)
        self.assertRegex(lines[0], r"pooch: error: \w+: [\w.]+, made again by \w+, is not what it was; every call that uses device "
                                   r"memory fails from now on, rather than read a doubtful value")
        self.assertIn("CUDNN_STATUS_EXECUTION_FAILED", done.err, "the library's own error, and no want of memory")

    def test_a_later_mismatch_fails_the_call(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.spoilt(LATER, device=device, POOCH_VERIFY="all")
                self.fails(done)
                self.assertIn("made again by cudnnActivationForward", done.err)
                # What was trained before is right.
                self.assertEqual(done.losses, self.in_core[device].losses[:len(done.losses)])
                self.assertLess(len(done.losses), len(self.in_core[device].losses))

    def test_sampling_finds_what_stays_wrong(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.spoilt(LATEST, device=device, POOCH_VERIFY="sample", WRONG_REPLAY_ALL="1", iterations=40)
                self.fails(done)
                self.assertLess(len(done.losses), 40)

    def test_the_fault_is_one(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.spoilt(1, device=device, POOCH_VERIFY="off")
                self.check(done)
                self.assertEqual(len(done.losses), len(self.in_core[device].losses))
                self.assertNotEqual(done.losses, self.in_core[device].losses)
                self.assertEqual(done.summary["verified"], 0)


class WithoutPlan(unittest.TestCase):
    """What is dropped where no plan decides is proven in the same way."""

    @classmethod
    def setUpClass(cls):
        cls.in_core = {device: cls.train("--no-pooch", device=device) for device in DEVICES}

    @classmethod
    def train(cls, *options, device, **env):
        return run(device, [*DIGITS, "--iterations", "16"], *options, weights=True, env=env)

    def by_demand(self, device, **env):
        done = self.train("--policy", "demand", "--memory", "70MiB", device=device, **env)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertLessEqual(done.device["peak_bytes"], 70 * MIB)
        return done

    def test_right_replays_pass(self):
        for device in DEVICES:
            for how in ("sample", "all"):
                with self.subTest(device=device, how=how):
                    done = self.by_demand(device, POOCH_VERIFY=how)
                    self.assertEqual((done.losses, done.weights), (self.in_core[device].losses, self.in_core[device].weights), done.err)
                    self.assertGreater(done.summary["replays"], 100)
                    self.assertGreater(done.summary["verified"], 20)
                    self.assertEqual((done.summary["planned_iterations"], done.summary["mismatches"]), (0, 0))

    def test_a_wrong_one_is_put_right_and_the_buffer_is_copied_from_then_on(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.by_demand(device, LD_PRELOAD=WRONG, WRONG_REPLAY="1")
                self.assertEqual((done.losses, done.weights), (self.in_core[device].losses, self.in_core[device].weights), done.err)
                self.assertGreater(done.summary["mismatches"], 0)
                self.assertIn("made again by cudnnActivationForward, is not what it was; its copy is put back", done.err)

    def test_a_wrong_one_that_is_not_looked_for_shows(self):
        for device in DEVICES:
            with self.subTest(device):
                done = self.by_demand(device, LD_PRELOAD=WRONG, WRONG_REPLAY="1", POOCH_VERIFY="off")
                self.assertNotEqual(done.losses, self.in_core[device].losses)
                self.assertEqual(done.summary["verified"], 0)


class Large(unittest.TestCase):
    """ResNet-50 at batch 640: 51 GiB in 16, which no test could compute."""

    def test_a_wrong_replay_shows_in_losses_and_weights_and_is_found(self):
        command = [TRAIN, "--network", "resnet50", "--batch", "640", "--iterations", "7"]
        in_core = run(TIMING + ":memory=64GiB", command, "--no-pooch", weights=True)
        self.assertNotIn("nan", "".join(in_core.losses))
        with tempfile.TemporaryDirectory() as cache:
            planned = {"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}
            spoilt = planned | {"LD_PRELOAD": WRONG, "WRONG_REPLAY": "1"}
            cases = {"right": (planned, 0, True), "found and put right": (spoilt | {"POOCH_VERIFY": "all"}, 1, True),
                     "not looked for": (spoilt | {"POOCH_VERIFY": "off"}, 0, False)}
            for case, (env, mismatches, right) in cases.items():
                with self.subTest(case):
                    done = run(TIMING, command, "--memory", "16GiB", env=env, weights=True)
                    self.assertEqual((done.status, done.device["violations"], done.device["tokens"]["unknown"]), (0, [], {}), done.err)
                    self.assertGreater(done.summary["replays"], 100)
                    if done.summary["mismatches"] != mismatches:
                        self.assertEqual(done.summary["mismatches"], missed.figure(f"verified: mismatches, {case}", mismatches))
                    self.assertEqual((done.losses == in_core.losses, done.weights == in_core.weights), (right, right))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
