"""The graph that pooch discovers in the calls is the one that the trainer's author knows: every layer, edge, map."""
import json
import pathlib
import subprocess
import tempfile
import unittest
from collections import Counter

import runs

DEVICE = "soft:v100-nvlink2:timing"
# Images per iteration: enough that large maps are managed, and few enough that one case takes a second or two.
NETWORKS = {
    "alexnet": ["--batch", "128"],
    "vgg16": ["--batch", "16"],
    "vgg116": ["--batch", "4"],
    "vgg216": ["--batch", "4"],
    "vgg316": ["--batch", "4"],
    "vgg416": ["--batch", "4"],
    "googlenet": ["--batch", "32"],
    "resnet50": ["--batch", "64"],
    "resnet152": ["--batch", "16"],
    "resnext101-3d": [],
}


def describe(arguments):
    environment = {"LD_LIBRARY_PATH": str(runs.BUILD / "softgpu")}
    done = subprocess.run([str(runs.TRAIN), "--describe", *arguments], capture_output=True, text=True, env=environment,
                          check=True)
    return json.loads(done.stdout)


def profile(arguments, *options, device=DEVICE):
    with tempfile.TemporaryDirectory() as folder:
        done = runs.run(device, [runs.TRAIN, "--iterations", 5, *arguments], *options, env={"POOCH_REPORT": folder})
        if done.status != 0:
            raise AssertionError(done.err)
        text = (pathlib.Path(folder) / "profile.json").read_text()
        graph = subprocess.run([str(runs.POOCH), "graph", "--json", str(pathlib.Path(folder) / "profile.json")],
                               capture_output=True, text=True, check=True).stdout
    return json.loads(text), json.loads(graph)


def network_as_described(text):
    """Layers and maps of --describe as plain comparable values; the loss is one more layer."""
    loss = text["loss"]
    layers = [(one["kind"], one["inputs"], one["output"], one["shape"], one["bytes"], window_of(one))
              for one in text["layers"]]
    maps = [(one["bytes"], one["kept"], one["memory"]) for one in text["maps"]]
    last = text["layers"][-1]
    layers.append((loss["kind"], [loss["input"]], len(maps), last["shape"], last["bytes"], None))
    maps.append((last["bytes"], True, len(maps)))
    edges = [tuple(edge) for edge in text["edges"]] + [(last["name"], "the loss")]
    number = {one["name"]: i for i, one in enumerate(text["layers"])} | {"the loss": len(text["layers"])}
    return layers, maps, sorted((number[a], number[b]) for a, b in edges)


def network_as_found(graph):
    order = canonical_maps(graph)
    layers = [(one["kind"], [order[i] for i in one["inputs"]], order[one["output"]], one["shape"], one["bytes"],
               window_of(one)) for one in graph["layers"]]
    maps = [None] * len(graph["maps"])
    for one in graph["maps"]:
        maps[order[one["id"]]] = (one["bytes"], one["kept"], order[one["memory"]])
    number = {one["name"]: i for i, one in enumerate(graph["layers"])}
    return layers, maps, sorted((number[a], number[b]) for a, b in graph["edges"])


def canonical_maps(graph):
    """Maps counted as the author counts them: the input, then one per layer in order."""
    outputs = {one["output"]: i + 1 for i, one in enumerate(graph["layers"])}
    inputs = [one["id"] for one in graph["maps"] if one["id"] not in outputs]
    assert len(inputs) == 1, f"{len(inputs)} maps that no layer makes"
    return outputs | {inputs[0]: 0}


def window_of(layer):
    window = layer.get("window")
    if not window or layer["kind"] == "global_average":
        return None
    return (window["size"], window["stride"], window["padding"], layer.get("groups", window.get("groups", 1)))


class Graph(unittest.TestCase):
    maxDiff = 2000

    def same_network(self, arguments, *options, device=DEVICE):
        _, graph = profile(arguments, *options, device=device)
        found, described = network_as_found(graph), network_as_described(describe(arguments))
        for mine, theirs, what in zip(found, described, ("layers", "maps", "edges")):
            for i, (a, b) in enumerate(zip(mine, theirs)):
                self.assertEqual(a, b, f"{what} {i}")
            self.assertEqual(len(mine), len(theirs), what)
        return graph

    def test_is_the_same_under_a_cap(self):
        self.same_network(["--network", "resnet50", "--batch", "64"], "--memory", "2GiB")

    def test_is_the_same_where_memory_is_managed_call_by_call(self):
        self.same_network(["--network", "googlenet", "--batch", "32", "--alloc", "sync"])

    def test_names_are_the_same_in_every_run(self):
        arguments = ["--network", "googlenet", "--batch", "32"]
        names = [[layer["name"] for layer in profile(arguments)[1]["layers"]] for _ in range(2)]
        self.assertEqual(names[0], names[1])
        self.assertEqual(len(set(names[0])), len(names[0]), "names are unique")

    def test_resnet50_is_that_of_the_paper(self):
        graph = self.same_network(["--network", "resnet50", "--batch", "128"])
        kinds = Counter(layer["kind"] for layer in graph["layers"])
        self.assertEqual(kinds["convolution"], 53)
        # Table 3 of the paper classifies 104 to 108 maps; the loss's is one.
        self.assertIn(sum(one["kept"] for one in graph["maps"]), range(104, 109))

    def test_a_layer_is_named_by_what_is_known(self):
        _, graph = profile(["--network", "vgg16", "--batch", "16"])
        names = [layer["name"] for layer in graph["layers"]]
        self.assertIn("conv3_2 3×3/1 256→256", names)
        self.assertIn("conv1_1 3×3/1 3→64", names)


def case(network, arguments):
    def test(self):
        self.same_network(["--network", network, *arguments])

    return test


for network_name, more in NETWORKS.items():
    setattr(Graph, f"test_{network_name}_is_as_described", case(network_name, more))

if __name__ == "__main__":
    unittest.main(argv=["graph_equals"], verbosity=2)
