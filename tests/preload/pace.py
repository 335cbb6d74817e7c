"""Where everything fits, a trainer whose loader has a stream of its own is as fast with pooch as without.

usage: pace.py BUILD_FOLDER [TEST]...
"""
import json
import sys
import unittest

from runs import TRAIN, run

V100 = "soft:v100-pcie3:timing"
# The last of its size fills three quarters of the device, and what it frees has many sizes.
CASES = (("alexnet", 512), ("googlenet", 128), ("resnet50", 64), ("vgg16", 32), ("resnext101-3d", 4),
         ("alexnet", 2688))


def milliseconds(network, batch, *options):
    done = run(V100, [TRAIN, "--network", network, "--batch", batch, "--iterations", 8, "--json"], *options)
    assert done.status == 0, done.err
    assert done.device["violations"] == [], done.device
    if done.summary:
        assert done.summary["evictions"] == 0, done.summary
    return json.loads(done.out)["ms_per_iteration"]


class Pace(unittest.TestCase):
    def test_an_iteration_takes_at_most_one_percent_longer(self):
        for network, batch in CASES:
            plain = milliseconds(network, batch, "--no-pooch")
            for policy in ("keep", "demand"):
                with self.subTest(network=network, batch=batch, policy=policy):
                    ours = milliseconds(network, batch, "--policy", policy, "--memory", "100%")
                    self.assertLessEqual(ours / plain, 1.01)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
