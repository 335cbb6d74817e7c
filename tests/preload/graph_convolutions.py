"""The trainer with cuDNN's backend API: pooch knows, plans and replays operation graphs as it does legacy calls.

usage: graph_convolutions.py BUILD_FOLDER SHIM [TEST]...
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

from runs import DIGITS, MIB, POOCH, TRAIN, run

SHIM = sys.argv[2]
COMPUTE = "soft:v100-pcie3:compute"
NETWORK = [*DIGITS, "--json"]
COMMAND = [*NETWORK, "--iterations", "10"]
CAP = 36  # MiB, of a need of 135
COUNTERS = ["ops", "iterations", "planned_iterations", "replays", "verified", "need_bytes"]


def graph_found(command, ahead):
    with tempfile.TemporaryDirectory() as folder:
        done = run("soft:v100-nvlink2:timing", command, env={"POOCH_REPORT": folder}, ahead=ahead)
        assert done.status == 0, done.err
        profile = pathlib.Path(folder, "profile.json")
        text = subprocess.run([str(POOCH), "graph", "--json", str(profile)], capture_output=True, text=True,
                              check=True).stdout
    graph = json.loads(text)
    del graph["phase"]  # of a hash that has the functions' names in it
    return graph


class GraphConvolutions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.in_core = run(COMPUTE, COMMAND, "--no-pooch")
        cls.legacy, _ = cls.planned()
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)
        cls.graphs, cls.replayed = cls.planned(ahead=SHIM, POOCH_CACHE=cls.cache.name)

    @classmethod
    def planned(cls, ahead=None, **more):
        """The run, and how often each function was replayed."""
        with tempfile.TemporaryDirectory() as folder:  # no run finds another's plans, unless it is given them
            trace = pathlib.Path(folder, "trace")
            env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": folder, "POOCH_TRACE": str(trace),
                   "POOCH_VERIFY": "all", **more}
            done = run(COMPUTE, COMMAND, "--policy", "hybrid", "--memory", f"{CAP}MiB", env=env, ahead=ahead)
            events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        lane = next(e["tid"] for e in events if str(e.get("args", {}).get("name")).startswith("replays"))
        return done, Counter(e["name"] for e in events if e.get("tid") == lane and e["ph"] == "X")

    def check(self, done):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, self.in_core.losses)
        self.assertEqual(done.weights, self.in_core.weights)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.device["peak_bytes"], CAP * MIB)
        self.assertEqual(done.summary["mismatches"], 0)
        self.assertEqual(done.summary["plans_left"], 0)

    def test_the_shim_alone_changes_nothing(self):
        alone = run(COMPUTE, [*NETWORK, "--iterations", "4"], "--no-pooch", ahead=SHIM)
        self.assertEqual((len(alone.losses), alone.losses), (4, self.in_core.losses[:4]))

    def test_recomputed_convolutions_give_the_same_bits_as_legacy_ones(self):
        self.check(self.graphs)
        self.assertGreater(self.replayed["cudnnBackendExecute"], 100)
        self.assertEqual(self.replayed["cudnnConvolutionForward"], 0)
        for counter in COUNTERS:
            self.assertEqual(self.graphs.summary[counter], self.legacy.summary[counter], counter)

    def test_a_plan_that_the_program_destroyed_is_held_for_its_replays(self):
        done, replayed = self.planned(ahead=SHIM, GRAPH_PLANS="fresh", POOCH_CACHE=self.cache.name)
        self.check(done)
        self.assertGreater(replayed["cudnnBackendExecute"], 100)

    def test_trials_of_engines_are_no_steps(self):
        done, replayed = self.planned(ahead=SHIM, GRAPH_TRIALS="1")
        self.check(done)
        self.assertGreater(replayed["cudnnBackendExecute"], 100)
        self.assertGreater(done.summary["ops"], self.legacy.summary["ops"], "there were trials")
        self.assertEqual(done.summary["iterations"], self.legacy.summary["iterations"])
        self.assertGreaterEqual(done.summary["planned_iterations"], self.legacy.summary["planned_iterations"])

    def test_the_layer_graph_is_that_of_the_legacy_calls(self):
        for network in (["resnet50", "--batch", "64"], ["resnext101-3d"]):
            with self.subTest(network=network[0]):
                command = [TRAIN, "--iterations", 5, "--network", *network]
                self.assertEqual(graph_found(command, SHIM), graph_found(command, None))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
