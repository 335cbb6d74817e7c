"""Every network of the trainer: what it says of itself, in-core and under 40 % of its need, and the same bits.

usage: networks.py BUILD_FOLDER [TEST]...
"""
import collections
import json
import sys
import unittest

from runs import DIGITS, MIB, TRAIN, run

NETWORKS = ("alexnet", "vgg16", "vgg116", "vgg216", "vgg316", "vgg416", "googlenet", "resnet50", "resnet152",
            "resnext101-3d")
TIMING = "soft:v100-nvlink2:timing:memory=1TiB"
COMPUTE = "soft:v100-pcie3:compute"
PAGE = 2 * MIB


def describe(network, *more):
    done = run(TIMING, [TRAIN, "--network", network, "--describe", *more], "--no-pooch")
    assert done.status == 0, done.err
    assert done.device is None, "the device was touched"
    return json.loads(done.out)


def kinds(description):
    return collections.Counter(layer["kind"] for layer in description["layers"])


class Capped(unittest.TestCase):
    def check_capped(self, device, command, share):
        """In-core, then under a share of the need, in whole pages. Returns both runs."""
        in_core = run(device, command, "--no-pooch")
        self.assertEqual(in_core.status, 0, in_core.err)
        self.assertEqual(in_core.device["violations"], [])
        need = json.loads(in_core.out)["need_bytes"]
        cap = int(share * need) // PAGE * PAGE
        capped = run(device, command, "--memory", f"{cap // MIB}MiB", "--policy", "demand")
        self.assertEqual(capped.status, 0, capped.err)
        self.assertEqual(capped.device["violations"], [])
        self.assertLessEqual(capped.summary["peak_device_bytes"], cap)
        self.assertLessEqual(capped.device["peak_bytes"], cap, "the device's own account")
        self.assertEqual(capped.summary["need_bytes"], need, "the program's own count")
        self.assertGreater(capped.summary["evictions"], 0)
        return in_core, capped

    def test_every_network_trains_under_forty_percent_of_its_need(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                command = [TRAIN, "--network", network, "--iterations", "2", "--json"]
                in_core, _ = self.check_capped(TIMING, command, 0.4)
                self.assertEqual(json.loads(in_core.out)["layers"], len(describe(network)["layers"]))

    def test_small_networks_compute_the_same_bits(self):
        # Most of GoogLeNet's weights are smaller than what is ever moved, so less of it can go.
        for network, batch, share in (("googlenet", 256, 0.7), ("resnet50", 16, 0.5)):
            with self.subTest(network=network):
                command = [TRAIN, "--network", network, "--input-size", "32", "--batch", str(batch), "--lr", "0.001",
                           "--iterations", "3", "--json"]
                in_core, capped = self.check_capped(COMPUTE, command, share)
                self.assertEqual(len(in_core.losses), 3, "one line an iteration")
                self.assertNotIn("nan", "".join(in_core.losses))
                self.assertEqual(capped.losses, in_core.losses)

    def test_separate_relus_need_more_and_compute_the_same_bits(self):
        command = [*DIGITS, "--iterations", "3", "--json"]
        in_place = run(COMPUTE, command, "--no-pooch")
        separate, capped = self.check_capped(COMPUTE, [*command, "--separate-relu"], 0.5)
        self.assertGreater(json.loads(separate.out)["need_bytes"], 1.3 * json.loads(in_place.out)["need_bytes"])
        self.assertEqual(separate.losses, in_place.losses)
        self.assertEqual(capped.losses, in_place.losses)


class Descriptions(unittest.TestCase):
    def test_layers_maps_and_edges_belong_together(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                text = describe(network, "--batch", "2")
                layers, maps = text["layers"], text["maps"]
                names = [layer["name"] for layer in layers]
                self.assertEqual(len(set(names)), len(names))
                self.assertEqual([one["id"] for one in maps], list(range(len(layers) + 1)))
                writer = {layer["output"]: layer["name"] for layer in layers}
                edges = [[writer[i], layer["name"]] for layer in layers for i in layer["inputs"] if i in writer]
                self.assertEqual(text["edges"], edges)
                for layer in layers:
                    size = 4
                    for extent in layer["shape"]:
                        size *= extent
                    self.assertEqual(layer["bytes"], size)
                    self.assertEqual(maps[layer["output"]]["bytes"], size)
                    self.assertEqual(layer["shape"][0], 2)

    def test_vgg_grows_by_convolutions_in_every_block(self):
        for more in (0, 100, 200, 300, 400):
            text = describe(f"vgg{16 + more}")
            self.assertEqual(kinds(text)["convolution"] + kinds(text)["linear"], 16 + more)
            for block in range(1, 6):
                inside = [layer for layer in text["layers"]
                          if layer["kind"] == "convolution" and layer["name"].startswith(f"conv{block}_")]
                self.assertEqual(len(inside), (2, 2, 3, 3, 3)[block - 1] + more // 5)

    def test_the_slices_of_a_concatenation_fill_it(self):
        text = describe("googlenet")
        self.assertEqual(kinds(text)["convolution"], 57)
        self.assertEqual(kinds(text)["concatenation"], 9)
        maps = text["maps"]
        for layer in text["layers"]:
            if layer["kind"] != "concatenation":
                continue
            self.assertEqual({maps[i]["memory"] for i in layer["inputs"]}, {layer["output"]})
            self.assertEqual(sum(maps[i]["bytes"] for i in layer["inputs"]), layer["bytes"])

    def test_resnet50_keeps_what_the_paper_counts(self):
        """53 convolutions, about 105 maps (Table 3): the inputs of convolutions and batch norms."""
        text = describe("resnet50")
        self.assertEqual(kinds(text)["convolution"], 53)
        read = {i for layer in text["layers"] if layer["kind"] in ("convolution", "batch_norm")
                for i in layer["inputs"]}
        self.assertAlmostEqual(len(read), 105, delta=5)
        for one in read:
            self.assertTrue(text["maps"][one]["kept"])

    def test_clips_have_five_dimensions(self):
        text = describe("resnext101-3d")
        self.assertEqual(text["layers"][0]["shape"], [1, 64, 16, 56, 56])
        self.assertEqual(kinds(text)["convolution"], 1 + 33 * 3 + 4)
        larger = describe("resnext101-3d", "--input-size", "224", "--input-width", "448", "--frames", "128")
        self.assertEqual(larger["layers"][0]["shape"], [1, 64, 128, 112, 224])

    def test_images_that_are_too_small_are_refused(self):
        done = run(TIMING, [TRAIN, "--network", "alexnet", "--input-size", "32", "--describe"], "--no-pooch")
        self.assertEqual(done.status, 2)
        self.assertIn("too small", done.err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
