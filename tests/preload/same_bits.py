"""The first test of everything: the same program with and without pooch gives the same bits, under any cap.

usage: same_bits.py BUILD_FOLDER [SEED [TRIALS]]
"""
import random
import sys
import unittest

from runs import DIGITS, MIB, TRAIN, run, smallest_cap_named

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20190517
TRIALS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
DEVICE = "soft:v100-pcie3:compute"


def digits(seed, *more):
    return [*DIGITS, "--iterations", "4", "--seed", str(seed), "--json", *more]


def smallest_cap(command):
    """By asking: every refusal names a cap that would have served the op it refused."""
    cap = 4
    for _ in range(30):
        trial = run(DEVICE, command, "--memory", f"{cap}MiB")
        if trial.status == 0:
            return cap, trial
        named = smallest_cap_named(trial)
        assert named is not None and named > cap, trial.err
        cap = named
    raise AssertionError("no end to the smallest cap")


class SameBits(unittest.TestCase):
    def check(self, in_core, capped, cap):
        self.assertEqual(capped.status, 0, capped.err)
        self.assertEqual(capped.losses, in_core.losses)
        self.assertLessEqual(capped.summary["peak_device_bytes"], cap * MIB)
        self.assertLessEqual(capped.device["peak_bytes"], cap * MIB, "the device's own account")
        self.assertEqual(capped.device["violations"], [])
        self.assertNotIn("softgpu:", capped.err)

    def test_random_caps_and_seeds(self):
        dice = random.Random(SEED)
        for trial in range(TRIALS):
            seed = dice.randrange(1 << 30)
            command = digits(seed, "--alloc", dice.choice(["async", "sync"]))
            in_core = run(DEVICE, command, "--no-pooch")
            self.assertEqual(in_core.status, 0, in_core.err)
            self.assertGreater(len(in_core.losses), 3)
            cap, tightest = smallest_cap(command)
            with self.subTest(seed=seed, cap=f"{cap} MiB, the smallest"):
                self.check(in_core, tightest, cap)
                self.assertGreater(tightest.summary["evictions"], 0)
            need = tightest.summary["need_bytes"] // MIB
            cap = dice.randint(cap, need)
            with self.subTest(seed=seed, cap=f"{cap} of {need} MiB"):
                self.check(in_core, run(DEVICE, command, "--memory", f"{cap}MiB"), cap)
            with self.subTest(seed=seed, cap="all of the need", order="reordered"):
                reordered = run(DEVICE, command, "--memory", f"{need + 8}MiB", "--seed", str(seed % 1000))
                self.check(in_core, reordered, need + 8)

    def test_resnet50_on_small_images(self):
        command = [TRAIN, "--network", "resnet50", "--batch", "8", "--input-size", "64", "--iterations", "2", "--json"]
        in_core = run(DEVICE, command, "--no-pooch")
        self.assertEqual(in_core.status, 0, in_core.err)
        capped = run(DEVICE, command, "--memory", "160MiB")
        self.check(in_core, capped, 160)
        self.assertGreater(capped.summary["need_bytes"], 2 * 160 * MIB)

    def test_keep_changes_nothing_where_all_fits(self):
        in_core = run(DEVICE, digits(1), "--no-pooch")
        kept = run(DEVICE, digits(1), "--policy", "keep")
        self.check(in_core, kept, 16 << 10)
        self.assertEqual(kept.summary["evictions"], 0)
        self.assertEqual(kept.summary["bytes_out"] + kept.summary["bytes_in"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
