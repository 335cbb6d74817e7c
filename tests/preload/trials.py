"""Trials of convolution algorithms: what the program's own calls found arrives in the profile, and a plan that takes other
algorithms is never followed.

usage: trials.py BUILD_FOLDER [TEST]...
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runs import POOCH, TRAIN, run

DEVICE = "soft:v100-pcie3:timing"
CONVOLUTIONS = {"conv_forward", "conv_backward_data", "conv_backward_filter"}
ALGORITHMS = {"conv_forward": {"implicit_gemm", "implicit_precomp_gemm", "gemm", "fft", "fft_tiling", "winograd",
                               "winograd_nonfused"},
              "conv_backward_data": {"algo_0", "algo_1", "fft", "fft_tiling", "winograd", "winograd_nonfused"},
              "conv_backward_filter": {"algo_0", "algo_1", "algo_3", "fft", "fft_tiling", "winograd_nonfused"}}


def trainer(*more):
    return [TRAIN, "--network", "alexnet", "--batch", "32", "--iterations", "10", *more]


class Trials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.tried = cls.profiled(cls.folder / "tried", "--benchmark-algorithms")

    @classmethod
    def profiled(cls, folder, *more, env=None, options=("--policy", "demand")):
        cls.ran = run(DEVICE, trainer(*more), *options, "--memory", "8GiB",
                      env={"POOCH_REPORT": str(folder), "POOCH_CACHE": str(cls.folder / "cache"), **(env or {})})
        return json.loads((folder / "profile.json").read_text(encoding="utf-8"))

    def convolutions(self, profile):
        return [op for op in profile["phases"][0]["ops"] if op["kind"] in CONVOLUTIONS]

    def test_every_convolution_knows_what_was_tried_for_it_and_what_it_ran_with(self):
        convolutions = self.convolutions(self.tried)
        self.assertGreater(len(convolutions), 10)
        forms = {}
        for op in convolutions:
            tried = self.tried["trials"][op["trials"]]["algorithms"]
            self.assertGreater(len(tried), 1)
            self.assertLessEqual({each["name"] for each in tried}, ALGORITHMS[op["kind"]])
            own = tried[op["algorithm"]]
            # The trial and the op are the same work on the same model.
            self.assertLess(abs(own["us"] / op["us"] - 1), 0.1, (op, own))
            if op["kind"] == "conv_forward":  # of the backward ones the trainer leaves out what is left to chance
                self.assertEqual(own["us"], min(each["us"] for each in tried))
            shape = (op["kind"], json.dumps(op["filter"]), json.dumps(op["window"]), json.dumps(op["shape"]))
            forms.setdefault(op["trials"], set()).add(shape)
        for shapes in forms.values():
            self.assertEqual(len(shapes), 1, "one list, one form")

    def test_the_workspace_of_an_op_is_its_algorithms(self):
        buffers = self.tried["phases"][0]["buffers"]
        with_workspace = 0
        for op in self.convolutions(self.tried):
            own = self.tried["trials"][op["trials"]]["algorithms"][op["algorithm"]]
            held = sum(buffers[b]["bytes"] for b in op.get("scratch", []))
            self.assertGreaterEqual(held, own.get("workspace", 0))
            with_workspace += held > 0
        self.assertGreater(with_workspace, 3)

    def test_a_program_that_tries_nothing_leaves_nothing(self):
        profile = self.profiled(self.folder / "untried")
        self.assertNotIn("trials", profile)
        for op in self.convolutions(profile):
            self.assertFalse({"trials", "algorithm"} & set(op))

    def test_a_planner_beside_the_program_is_not_told(self):
        """It has no use for them, nor for call sites, whose lists only a report has."""
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CALLSITES": "1"}
        self.profiled(self.folder / "planned", "--benchmark-algorithms", env=env, options=("--policy", "swap-all"))
        self.assertEqual(self.ran.status, 0, self.ran.err)
        self.assertGreater(self.ran.summary["planned_iterations"], 0, self.ran.err)
        self.assertNotIn("has no plan", self.ran.err)

    def test_a_plan_with_other_algorithms_is_refused_once_and_the_program_goes_on(self):
        plan = self.folder / "plan.json"
        words = [POOCH, "plan", self.folder / "tried/profile.json", "--policy", "vdnn-conv:m", "--allow-numerics",
                 "--memory", "7GiB", "-o", plan]
        made = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        count = len(json.loads(plan.read_text(encoding="utf-8"))["algorithms"])
        self.assertGreater(count, 3)
        done = run(DEVICE, trainer("--benchmark-algorithms"), "--memory", "8GiB", env={"POOCH_PLAN": str(plan)})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.err.count("other algorithms"), 1, done.err)
        self.assertIn(f"gives {count} convolutions other algorithms, which would change results: it is not followed",
                      done.err)
        self.assertFalse(done.summary.get("planned_iterations"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
