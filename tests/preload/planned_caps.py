"""Plans under random caps, from the smallest that works to the need, on a device whose clock varies: the same losses and weights,
within the cap. Four networks. And one whose weights, gradients and moments are most of what it needs, by SGD with momentum and by AdamW,
with gradients of several passes added up, down to half of what its largest op has operands for.

usage: planned_caps.py BUILD_FOLDER [SEED [TRIALS]]
"""
import random
import re
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run, smallest_cap_named

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20190517
TRIALS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
DEVICE = "soft:v100-pcie3:compute"
POLICIES = ("hybrid", "pooch", "superneurons", "swap-opt", "lms")
SMALL = ("--input-size", "64", "--lr", "0.001", "--iterations", "10")
# Trained at these sizes.
NETWORKS = {"digits": ("--iterations", "8"),
            "googlenet": (*SMALL, "--batch", "128"),
            "resnet50": (*SMALL, "--batch", "32"),
            "vgg16": (*SMALL, "--batch", "16")}
# Its largest op works on 128 MiB at once, beside 18 that cannot leave; a part of such an op is used over the link.
STATES = (TRAIN, "--network", "alexnet", "--batch", "8", "--input-size", "67", "--lr", "0.001", "--iterations", "12", "--json")
LEAST_STATES = 72  # MiB
OPTIMIZERS = {"momentum": (), "AdamW": ("--adamw",), "AdamW, two passes": ("--adamw", "--accumulate", "2")}
LARGEST_ALLOCATION = {"vgg16": 64}  # MiB: a cap below it refuses the allocation, and names no other


class Network:
    """One of them, in-core and under pooch with plans that are kept."""

    def __init__(self, name, seed, cache):
        self.name = name
        self.device = f"{DEVICE}:noise=2,{seed}"
        self.command = [TRAIN, "--network", name, *NETWORKS[name], "--seed", str(seed), "--json"]
        self.cache = cache
        self.in_core = run(self.device, self.command, "--no-pooch")

    def train(self, policy, cap):
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache}
        return run(self.device, self.command, "--policy", policy, "--memory", f"{cap}MiB", env=env)

    def smallest(self, policy):
        """By asking: every refusal names a cap that would have served the op it refused."""
        cap = max(4, LARGEST_ALLOCATION.get(self.name, 0))
        for _ in range(200):
            done = self.train(policy, cap)
            if done.status == 0:
                return cap, done
            named = smallest_cap_named(done)
            assert named is not None and named > cap, done.err
            cap = named
        raise AssertionError("no end to the smallest cap")


class PlannedCaps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name

    def check(self, network, done, cap):
        self.check_bits(network.in_core, done, cap)
        self.assertGreater(len(done.weights), 20)
        self.assertEqual(done.summary["plans_left"], 0, done.err)

    def check_bits(self, in_core, done, cap):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB, "the device's own account")

    def test_states_that_are_most_of_the_need(self):
        dice = random.Random(SEED)
        device = f"{DEVICE}:host_handles=on:noise=2,{SEED}"
        for name, options in OPTIMIZERS.items():
            in_core = run(device, [*STATES, *options], "--no-pooch")
            need = in_core.device["peak_bytes"] // MIB
            for cap in (LEAST_STATES, *(dice.randint(LEAST_STATES, need) for _ in range(TRIALS))):
                with self.subTest(optimizer=name, cap=f"{cap} of {LEAST_STATES} to {need} MiB"):
                    done = run(device, [*STATES, *options], "--policy", "hybrid", "--memory", f"{cap}MiB",
                               env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache})
                    self.check_bits(in_core, done, cap)
                    self.assertGreater(len(done.weights), 10)

    def check_random_caps(self, name, policies, trials):
        dice = random.Random(f"{name} {SEED}")
        network = Network(name, dice.randrange(1 << 20), self.cache)
        smallest, tightest = network.smallest("hybrid")
        need = tightest.summary["need_bytes"] // MIB
        # From there on there are plans. Weights are most of what larger networks need at these sizes.
        named = re.search(r"needs at least (\d+) bytes", tightest.err)
        least_planned = min(need, int(named[1]) // MIB + 1 if named else smallest)
        with self.subTest(network=name, cap=f"{smallest} MiB, the smallest"):
            self.check(network, tightest, smallest)
        planned = laid_out = 0
        for policy in policies:
            for trial in range(trials):
                cap = dice.randint(least_planned if trial % 2 == 0 else smallest, need)
                with self.subTest(network=name, policy=policy, cap=f"{cap} of {smallest} to {need} MiB"):
                    done = network.train(policy, cap)
                    self.check(network, done, cap)
                    planned += done.summary["planned_iterations"] > 0
                    laid_out += done.summary["aliased_iterations"] > 0
        return planned, laid_out

    def test_digits_by_every_policy(self):
        planned, laid_out = self.check_random_caps("digits", POLICIES, TRIALS)
        # Under a cap that a policy cannot plan for, demand mode goes on.
        self.assertGreater(planned, len(POLICIES) * TRIALS // 2)
        self.assertGreater(laid_out, 0)

    def test_larger_networks(self):
        done = {name: self.check_random_caps(name, ("hybrid",), 2 * TRIALS) for name in ("googlenet", "resnet50", "vgg16")}
        self.assertGreater(sum(planned for planned, _ in done.values()), 2, done)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
