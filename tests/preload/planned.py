"""Plans carried out: the same bits as without pooch, under every policy, within the cap.

usage: planned.py BUILD_FOLDER
"""
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run

COMPUTE = "soft:v100-pcie3:compute"
# With caps between the least that each can plan for and the need, 270 MiB.
POLICIES = {"swap-all-unscheduled": [56], "swap-all": [40, 150], "swap-opt": [48, 200], "pooch": [44, 120],
            "superneurons": [140], "vdnn-all": [80], "vdnn-conv": [170], "vdnn-dyn": [160], "lms": [80],
            "lms-sync": [40], "hybrid": [40, 60, 130]}


def train(network, iterations, *more):
    return [TRAIN, "--network", network, "--iterations", str(iterations), "--json", *more]


class Planned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def planned(self, device, command, policy, cap_mib, **more):
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": self.cache.name, **more}
        return run(device, command, "--policy", policy, "--memory", f"{cap_mib}MiB", env=env)

    def check(self, capped, cap_mib):
        self.assertEqual(capped.status, 0, capped.err)
        self.assertEqual(capped.device["violations"], [], capped.err)
        self.assertNotIn("softgpu:", capped.err)
        self.assertLessEqual(capped.summary["peak_device_bytes"], cap_mib * MIB)
        self.assertLessEqual(capped.device["peak_bytes"], cap_mib * MIB, "the device's own account")

    def test_the_same_bits_under_every_policy(self):
        command = train("digits", 10)
        in_core = run(COMPUTE, command, "--no-pooch")
        self.assertEqual(in_core.status, 0, in_core.err)
        replays = 0
        for policy, caps in POLICIES.items():
            for cap in caps:
                with self.subTest(policy=policy, cap=f"{cap} MiB"):
                    capped = self.planned(COMPUTE, command, policy, cap)
                    self.check(capped, cap)
                    self.assertEqual(capped.losses, in_core.losses)
                    self.assertGreaterEqual(capped.summary["planned_iterations"], 3, capped.err)
                    self.assertEqual(capped.summary["plans_left"], 0, capped.err)
                    replays += capped.summary["replays"]
        self.assertGreater(replays, 300)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
