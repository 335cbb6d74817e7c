"""Every policy that plans, on small networks that compute: the same losses and weights as without pooch.

usage: planned_policies.py BUILD_FOLDER [--policy NAME] [TEST]...
"""
import json
import re
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run, smallest_cap_named

DEVICE, TIMING = "soft:v100-pcie3:compute", "soft:v100-pcie3:timing"
POLICIES = ("swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons", "vdnn-all", "vdnn-conv", "vdnn-dyn",
            "lms", "lms-sync", "hybrid")
NETWORKS = {"digits": (),
            "resnet50": ("--input-size", "32", "--batch", "128", "--lr", "0.001"),
            "googlenet": ("--input-size", "32", "--batch", "384", "--lr", "0.001")}
ITERATIONS = "9"
CHOSEN = POLICIES
if sys.argv[2:3] == ["--policy"]:
    if sys.argv[3:4] == [] or sys.argv[3] not in POLICIES:
        sys.exit(f"planned_policies: --policy: one of {', '.join(POLICIES)} is accepted")
    CHOSEN = (sys.argv[3],)
    del sys.argv[2:4]


class EveryPolicy(unittest.TestCase):
    def under(self, device, policy, command, cap):
        with tempfile.TemporaryDirectory() as cache:
            return run(device, command, "--policy", policy, "--memory", f"{cap}MiB",
                       env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})

    def cap_for_a_plan(self, policy, command, need):
        """Half of the need, or the least that the planner can plan for with room for what comes beside; found in virtual
        time, which is cheap."""
        cap = need // 4 * 2
        for room in (8, 12, 16, 24):
            done = self.under(TIMING, policy, command, cap)
            least = re.search(rf"{policy} needs at least (\d+) bytes", done.err)
            if least:
                cap = max(cap, int(least.group(1)) // MIB // 2 * 2) + room
            elif done.status != 0:
                cap = smallest_cap_named(done) + room
            else:
                break
        return cap

    def check(self, done, cap, in_core):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB, "the device's own account")
        self.assertGreaterEqual(done.summary["planned_iterations"], 3, done.err)
        self.assertEqual(done.summary["plans_left"], 0, done.err)

    def test_gives_the_same_bits(self):
        for network, options in NETWORKS.items():
            command = [TRAIN, "--network", network, *options, "--iterations", ITERATIONS, "--json"]
            in_core = run(DEVICE, command, "--no-pooch")
            self.assertGreater(len(in_core.weights), 20)
            self.assertNotIn("nan", "".join(in_core.losses))
            need = json.loads(in_core.out)["need_bytes"] // MIB
            for policy in CHOSEN:
                with self.subTest(network=network, policy=policy):
                    cap = self.cap_for_a_plan(policy, command, need)
                    self.assertLess(cap, need)
                    self.check(self.under(DEVICE, policy, command, cap), cap, in_core)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
