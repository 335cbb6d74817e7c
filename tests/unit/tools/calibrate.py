"""tools/calibrate.py, of results with known costs.

usage: calibrate.py SOURCE_FOLDER
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
MODEL = SOURCE / "softgpu/models/h200.json"
GIVEN = json.loads(MODEL.read_text(encoding="utf-8"))["host_ns"]
API_US = json.loads(MODEL.read_text(encoding="utf-8"))["host_ns"]["api"] / 1e3
COUNTS = {"2MiB": 64, "16MiB": 64, "128MiB": 8}  # handles at most


def rows(cost, most):
    """`cost`: of a call, by the handles that it spans; others are made or mapped one by one."""
    counts = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return {"reserve_us": 20, "by_handles": [{"handles": n, "create_us": 200 * n, "map_us": 2 * n, "release_us": 60 * n,
                                              "set_access_us": cost(n), "unmap_us": 10 + 20 * n} for n in counts]}


def results(*costs, counts=COUNTS):
    """`costs`: of cuMemSetAccess when idle, with copies to the device, to the host."""
    idle, *loads = ({size: rows(cost, most) for size, most in counts.items()} for cost in costs)
    facts = {"vmm": {"idle": idle}, "vmm_under_load": dict(zip(("to_device", "to_host"), loads))}
    return {"device": "real", "date": "2026-01-01T00:00", "machine": {"gpu": {"name": "a GPU"}, "driver": "1"},
            "parts": {"facts": {"checks": [{"name": name, "found": found} for name, found in facts.items()]}}}


class Calibrate(unittest.TestCase):
    def calibrate(self, measured):
        """What it says on stderr, and the costs that it proposes."""
        with tempfile.TemporaryDirectory() as folder:
            given, proposed = pathlib.Path(folder, "results"), pathlib.Path(folder, "proposed")
            given.write_text(json.dumps(measured), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", SOURCE / "tools/calibrate.py", given, MODEL, "-o", proposed],
                                  capture_output=True, text=True, timeout=60)
            self.assertTrue(proposed.exists(), done.stderr)
            self.assertEqual(done.returncode, 1 if done.stderr else 0, done.stderr)
            return done.stderr, json.loads(proposed.read_text(encoding="utf-8"))["host_ns"]

    def assert_left_alone(self, said, costs, words):
        lines = [line for line in said.splitlines() if "vmm_set_access" in line]
        self.assertEqual(len(lines), 1, said)
        self.assertIn("cannot be fitted", lines[0])
        self.assertIn(words, lines[0])
        for field in ("vmm_set_access", "vmm_set_access_per_handle"):
            self.assertEqual(costs[field], GIVEN[field])
        self.assertNotIn("vmm_create", said)
        self.assertEqual(costs["vmm_unmap_per_handle"], 20000)

    def test_a_known_base_and_a_known_cost_per_handle_come_back(self):
        line = lambda n: 30 + 36 * n
        said, costs = self.calibrate(results(line, line, line))
        self.assertEqual(said, "")
        self.assertEqual((costs["vmm_set_access"], costs["vmm_set_access_per_handle"]), (30000 - API_US * 1e3, 36000))
        self.assertEqual(costs["vmm_set_access_beside_copies_to_host"], 36000)
        self.assertEqual((costs["vmm_unmap"], costs["vmm_unmap_per_handle"]), (10000 - API_US * 1e3, 20000))
        self.assertEqual((costs["vmm_create"], costs["vmm_map"]), (200000 - API_US * 1e3, 2000 - API_US * 1e3))

    def test_noise_gives_them_within_its_spread(self):
        draw = random.Random(1)
        noisy = lambda n: (30 + 36 * n) * draw.uniform(0.95, 1.05)
        said, costs = self.calibrate(results(noisy, noisy, noisy))
        self.assertEqual(said, "")
        self.assertAlmostEqual(costs["vmm_set_access"], 30000, delta=0.15 * 30000)
        self.assertAlmostEqual(costs["vmm_set_access_per_handle"], 36000, delta=0.05 * 36000)

    def test_the_dearest_condition_counts(self):
        _, costs = self.calibrate(results(lambda n: 30 + 36 * n, lambda n: 50 + 80 * n, lambda n: 30 + 40 * n))
        self.assertEqual((costs["vmm_set_access"], costs["vmm_set_access_per_handle"]), (50000 - API_US * 1e3, 80000))

    def test_what_a_handle_costs_beside_copies_to_the_host_is_a_cost_of_its_own(self):
        _, costs = self.calibrate(results(lambda n: 30 + 28 * n, lambda n: 30 + 36 * n, lambda n: 30 + 1050 * n))
        self.assertEqual((costs["vmm_set_access_per_handle"], costs["vmm_set_access_beside_copies_to_host"]), (36000, 1050000))
        _, costs = self.calibrate(results(lambda n: 30 + 28 * n, lambda n: 30 + 36 * n, lambda n: 4830))  # one wait a call
        self.assertEqual(costs["vmm_set_access_beside_copies_to_host"], 600000)

    def test_a_cost_that_no_handle_adds_to_is_level(self):
        level = lambda n: 36.3 - n / 1000
        said, costs = self.calibrate(results(level, level, level))
        self.assertEqual(said, "")
        self.assertAlmostEqual(costs["vmm_set_access"], 36000, delta=100)
        self.assertEqual(costs["vmm_set_access_per_handle"], 0)

    def test_one_number_of_handles_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        said, costs = self.calibrate(results(line, line, line, counts={"128MiB": 1}))
        self.assertEqual(said.count("measured at 1 numbers of handles, 3 are needed"), 5, said)
        self.assertEqual(costs["vmm_unmap_per_handle"], GIVEN["vmm_unmap_per_handle"])

    def test_a_cost_that_falls_with_handles_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        self.assert_left_alone(*self.calibrate(results(line, lambda n: 100 - n, line)), "to_device: the cost falls by")

    def test_a_cost_off_the_line_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        self.assert_left_alone(*self.calibrate(results(line, lambda n: line(n) * (2 if n == 8 else 1), line)), "8 handles took 636")

    def test_what_is_no_cost_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        for nothing in (float("nan"), 0, None):
            self.assert_left_alone(*self.calibrate(results(lambda n: nothing, line, line)), "is no cost")

    def test_a_call_that_waits_for_other_work_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        measured = results(line, line, line)
        measured["parts"]["facts"]["checks"][1]["found"]["to_device"]["waited_for_other_work"] = ["set_access of 16MiB"]
        self.assert_left_alone(*self.calibrate(measured), "to_device: it waits for other work")

    def test_what_was_not_measured_under_load_both_ways_cannot_be_fitted(self):
        line = lambda n: 30 + 36 * n
        said, _ = self.calibrate(results(line, line))
        self.assertEqual(said.count("to_host: nothing was measured"), 4, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
