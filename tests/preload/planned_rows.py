"""The planner's table carried out: networks that need more memory than there is, in virtual time.

usage: planned_rows.py BUILD_FOLDER [TEST]...
"""
import concurrent.futures
import os
import sys
import tempfile
import unittest

from runs import MIB, TRAIN, run

# Device, GiB, network, the most that it may take over in-core.
ROWS = (
    ("v100-pcie3", 16, "--network resnet50 --batch 512", 0.09),
    ("v100-pcie3", 16, "--network resnet50 --batch 640", 0.11),
    ("v100-pcie3", 16, "--network resnet50 --batch 1024", 0.25),
    ("v100-nvlink2", 16, "--network resnet50 --batch 640", 0.02),
    ("v100-nvlink2", 16, "--network resnet50 --batch 1152", 0.04),
    ("titanx", 12, "--network vgg16 --batch 229 --separate-relu", 0.03),
    ("v100-pcie3", 16, "--network alexnet --batch 2688", 0.03),
    ("v100-pcie3", 16, "--network resnext101-3d --input-size 448 --input-width 224 --frames 256 --batch 1", 0.05),
)
ITERATIONS = 40


def carry_out(row):
    """Without pooch, few iterations and more of them, and more under it."""
    device, gib, network, _ = row
    command = [TRAIN, *network.split(), "--iterations"]
    few, more = (run(f"soft:{device}:timing:memory=1TiB", [*command, n], "--no-pooch") for n in (3, ITERATIONS))
    with tempfile.TemporaryDirectory() as cache:
        return few, more, run(f"soft:{device}:timing", [*command, ITERATIONS], "--policy", "hybrid", "--memory",
                              f"{gib}GiB", env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}, timeout=900)


class PlannedRows(unittest.TestCase):
    def check(self, row, few, more, done):
        device, gib, network, most = row
        in_core_ms = (more.device["virtual_ns"] - few.device["virtual_ns"]) / (ITERATIONS - 3) / 1e6
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertLessEqual(done.device["peak_bytes"], gib * 1024 * MIB)
        # Losses are made from where the weights come from, and so on back: equal ones are equal all the way.
        self.assertEqual(done.losses, more.losses)
        self.assertNotIn("nan", "".join(more.losses))
        self.assertEqual((done.device["tokens"]["unknown"], more.device["tokens"]["unknown"]), ({}, {}))
        summary = done.summary
        self.assertEqual((summary["plans_left"], summary["mismatches"]), (0, 0))
        self.assertGreaterEqual(summary["planned_iterations"], ITERATIONS - 5)
        actual, predicted = summary["actual_ms"], summary["predicted_ms"]
        print(f"{device} {gib} GiB {network}: {in_core_ms:.1f} ms in-core, {predicted:.1f} predicted, {actual:.1f} executed "
              f"({actual / in_core_ms - 1:+.1%}; {most:+.0%} allowed)", flush=True)
        self.assertLess(abs(actual / predicted - 1), 0.03)
        self.assertLessEqual(actual / in_core_ms - 1, most)

    def test_every_row_is_carried_out_as_predicted_within_its_limit(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for row, runs in zip(ROWS, pool.map(carry_out, ROWS)):
                with self.subTest(row):
                    self.check(row, *runs)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
