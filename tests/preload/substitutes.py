"""Batch norm is made again from the statistics that it saved: the same bits in less time, by the one formula that rounds as
the library does; a wrong one never reaches the losses.

usage: substitutes.py BUILD_FOLDER WRONG_SUBSTITUTE_LIBRARY [TEST]...
"""
import json
import pathlib
import sys
import tempfile
import unittest

from runs import BUILD, MIB, STEADY, TRAIN, run

COMPUTE = "soft:v100-pcie3:compute"
TIMING = "soft:v100-pcie3:timing"  # content is known by where it comes from
WRONG = pathlib.Path(sys.argv[2]).resolve()
RIGHT_FORMULA = "centred_then_fma"  # as the software GPU's cuDNN rounds
CAP = 384  # MiB
NETWORK = [TRAIN, "--network", "resnet50", "--input-size", "32", "--batch", "64", "--lr", "0.001", "--json"]


def of_profile(folder):
    phases = json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="utf-8"))["phases"]
    return [op for op in phases[0]["ops"] if "substitute" in op]


class Substitutes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.in_core = {device: cls.train(device, "--no-pooch") for device in (COMPUTE, TIMING)}

    @classmethod
    def train(cls, device, *options, iterations=None, **env):
        iterations = iterations or (8 if device == COMPUTE else 12)
        with tempfile.TemporaryDirectory() as cache:
            return run(device, [*NETWORK, "--iterations", str(iterations)], *options, weights=True,
                       env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache, **env})

    def planned(self, device, **more):
        return self.train(device, "--policy", "hybrid", "--memory", f"{CAP}MiB", **more)

    def same_bits(self, done, device):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)
        self.assertEqual(done.losses, self.in_core[device].losses)
        self.assertEqual(done.weights, self.in_core[device].weights)

    def test_they_make_the_same_bits_by_the_one_formula_that_rounds_as_the_library(self):
        for device in (COMPUTE, TIMING):
            with self.subTest(device), tempfile.TemporaryDirectory() as folder:
                done = self.planned(device, POOCH_REPORT=folder, POOCH_VERIFY="all")
                self.same_bits(done, device)
                self.assertGreater(done.summary["substitutes"], 0)
                self.assertGreater(done.summary["verified"], 20)
                self.assertEqual(done.summary["mismatches"], 0)
                ops = of_profile(folder)
                self.assertEqual(len(ops), 53)
                self.assertEqual({op["substitute"].get("formula") for op in ops}, {RIGHT_FORMULA})
                # Behind the first one of each block, the second, and the first of all, a ReLU works in place.
                self.assertEqual(sum("through" in op["substitute"] for op in ops), 33)

    def test_they_are_none_where_that_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.planned(TIMING, POOCH_REPORT=folder, POOCH_SUBSTITUTES="0")
            self.same_bits(done, TIMING)
            self.assertEqual(done.summary["substitutes"], 0)
            self.assertGreater(done.summary["replays"], 0)
            self.assertEqual(of_profile(folder), [])

    def test_a_plan_with_a_formula_that_was_not_seen_to_be_right_is_not_followed(self):
        """Though nothing is verified: a plan may be of a library that rounds in another way."""
        with tempfile.TemporaryDirectory() as folder:
            self.planned(TIMING, POOCH_CACHE=folder)
            plan = self.plan_in(folder)
            for formula in (RIGHT_FORMULA, "one_fma"):
                with self.subTest(formula=formula):
                    given = pathlib.Path(folder, "given.json")
                    given.write_text(plan.replace(RIGHT_FORMULA, formula), encoding="utf-8")
                    done = self.planned(TIMING, POOCH_PLAN=str(given), POOCH_VERIFY="off", POOCH_LOG="info")
                    self.same_bits(done, TIMING)
                    right = formula == RIGHT_FORMULA
                    self.assertEqual(done.summary["substitutes"] > 0, right, done.err)
                    self.assertEqual("in a way that was not seen to make their bits; it goes on without it" in done.err, not right)

    def test_a_plan_from_the_cache_is_followed_as_far_as_its_formulas_are_right_here(self):
        with tempfile.TemporaryDirectory() as folder:
            self.planned(TIMING, POOCH_CACHE=folder)
            again = self.planned(TIMING, POOCH_CACHE=folder, POOCH_LOG="info")
            self.same_bits(again, TIMING)
            self.assertGreater(again.summary["substitutes"], 0)
            self.assertIn("its plan was in the cache", again.err)
            self.assertNotIn("not seen to make their bits", again.err)
            without = self.planned(TIMING, POOCH_CACHE=folder, POOCH_SUBSTITUTES="0", POOCH_LOG="info")
            self.same_bits(without, TIMING)
            self.assertEqual(without.summary["substitutes"], 0)
            self.assertGreaterEqual(without.summary["planned_iterations"], 3)
            self.assertIn("a plan makes calls again in a way that was not seen to make their bits", without.err)

    @staticmethod
    def plan_in(folder):
        for file in pathlib.Path(folder).rglob("*.json"):
            plan = file.read_text(encoding="utf-8")
            if RIGHT_FORMULA in plan:
                return plan
        raise AssertionError(f"no plan with substitutes in {list(pathlib.Path(folder).rglob('*'))}")

    def test_what_was_proven_and_comes_out_wrong_is_planned_again_without(self):
        """The trials pass, since the fault is in what is made, not in what is compared."""
        for device in (COMPUTE, TIMING):
            with self.subTest(device), tempfile.TemporaryDirectory() as kernels:
                for library in (BUILD / "softgpu/kernels").glob("*.so"):
                    right = library.name != "batch_norm.so"
                    pathlib.Path(kernels, library.name).symlink_to(library if right else WRONG)
                done = self.planned(device, SOFTGPU_KERNELS=kernels, POOCH_LOG="info")
                self.same_bits(done, device)
                self.assertGreater(done.summary["mismatches"], 0)
                self.assertRegex(done.err, r"\d+ calls cannot be made again by shorter ways; it is planned without those")
                self.assertGreater(done.summary["replays"], done.summary["substitutes"] + 10)

    def test_they_take_two_thirds_of_the_time_and_iterations_less(self):
        command = [TRAIN, "--network", "resnet50", "--batch", "64", "--iterations", "24", "--json"]
        ms = {}
        for wanted in "01":
            with tempfile.TemporaryDirectory() as folder:
                done = run(TIMING + STEADY, command, "--policy", "hybrid", "--memory", "2GiB", weights=True,
                           env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_SUBSTITUTES": wanted, "POOCH_REPORT": folder})
                self.assertEqual(done.summary["mismatches"], 0)
                ms[wanted] = done.summary["actual_ms"]
                ops = of_profile(folder)
        self.assertLess(ms["1"], 0.99 * ms["0"])
        self.assertLess(sum(op["substitute"]["us"] for op in ops), 0.7 * sum(op["us"] for op in ops))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
