"""ResNet-50 at batch 640 needs over 45 GiB and trains under 16 GiB: in virtual time, with every check of the device.

usage: resnet50_timing.py BUILD_FOLDER [TEST]...
"""
import json
import sys
import time
import unittest

from runs import MIB, TRAIN, run

GIB = MIB << 10


class ResNet50(unittest.TestCase):
    def test_batch_640_under_16_gib(self):
        start = time.monotonic()
        done = run("soft:v100-pcie3:timing",
                   [TRAIN, "--network", "resnet50", "--batch", "640", "--iterations", "3", "--json"],
                   "--memory", "16GiB", "--policy", "demand")
        self.assertEqual(done.status, 0, done.err)
        self.assertLess(time.monotonic() - start, 60)
        self.assertGreaterEqual(done.summary["need_bytes"], 45 * GIB)
        self.assertLessEqual(done.summary["need_bytes"], 55e9 * 1.02, "Figure 3 of the paper: 50 to 55 GB")
        self.assertLessEqual(done.summary["peak_device_bytes"], 16 * GIB)
        self.assertLessEqual(done.device["peak_bytes"], 16 * GIB)
        self.assertEqual(done.device["violations"], [])
        self.assertEqual(json.loads(done.out)["need_bytes"], done.summary["need_bytes"], "the program's own count")

    def test_in_core_speed_is_the_papers(self):
        """316 images/s on this machine (section 5.2)."""
        done = run("soft:v100-pcie3:timing",
                   [TRAIN, "--network", "resnet50", "--batch", "128", "--iterations", "3", "--json"], "--no-pooch")
        self.assertEqual(done.status, 0, done.err)
        speed = json.loads(done.out)["images_per_s"]
        self.assertGreaterEqual(speed, 300)
        self.assertLessEqual(speed, 330)

    def test_batch_640_does_not_fit_without_pooch(self):
        done = run("soft:v100-pcie3:timing",
                   [TRAIN, "--network", "resnet50", "--batch", "640", "--iterations", "1"], "--no-pooch")
        self.assertEqual(done.status, 3)
        self.assertIn("out of memory", done.err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
