"""`pooch graph`: what it prints for good profiles, and the one line for bad ones.

usage: graph_command.py MAKE_PROFILES POOCH
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

MAKE_PROFILES, POOCH = sys.argv[1:3]


class Graph(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        subprocess.run([MAKE_PROFILES, cls.folder], check=True)
        cls.good = cls.folder / "ops60-seed3.json"
        cls.profile = json.loads(cls.good.read_text(encoding="utf-8"))
        cls.phase = cls.profile["phases"][0]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def graph(self, *arguments):
        return subprocess.run([POOCH, "graph", *map(str, arguments)], capture_output=True, text=True, check=False)

    def printed(self, *arguments):
        ran = self.graph(*arguments)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def test_the_table_has_a_line_per_layer_and_totals(self):
        lines = self.printed(self.good).splitlines()
        layers = self.phase["layers"]
        self.assertIn(self.phase["id"], lines[0])
        rows = {line.split()[0]: line for line in lines[2 : 2 + len(layers)]}
        self.assertEqual(list(rows), [layer["name"] for layer in layers])
        for layer in layers:
            self.assertIn("x".join(map(str, layer["shape"]["sizes"])), rows[layer["name"]])
            self.assertIn(f"{layer.get('forward_us', 0):.1f}", rows[layer["name"]])
        totals = lines[2 + len(layers)]
        self.assertTrue(totals.startswith(f"{len(layers)} layers"))
        self.assertIn(f"{sum(layer.get('backward_us', 0) for layer in layers):.1f}", totals)
        in_place = [m for m in self.phase["maps"] if m["memory"] < m["id"]]
        self.assertEqual(sum("in place" in row for row in rows.values()), len(in_place))
        self.assertTrue(in_place)

    def test_json_has_what_the_profile_has(self):
        graph = json.loads(self.printed(self.good, "--json"))
        for ours, layer in zip(graph["layers"], self.phase["layers"], strict=True):
            self.assertEqual(ours["shape"], layer["shape"]["sizes"])
            for key in ("name", "kind", "output", "bytes"):
                self.assertEqual(ours[key], layer[key])
            self.assertEqual(ours["forward_us"], layer.get("forward_us", 0))
            self.assertEqual("window" in ours, "window" in layer)
        for ours, map_ in zip(graph["maps"], self.phase["maps"], strict=True):
            self.assertEqual(ours, {key: map_[key] for key in ("id", "name", "bytes", "kept", "memory")})
        names = [layer["name"] for layer in self.phase["layers"]]
        self.assertEqual(graph["edges"], [[names[a], names[b]] for a, b in self.phase["edges"]])

    def test_dot_has_every_layer_and_edge(self):
        dot = self.printed(self.good, "--dot")
        self.assertTrue(dot.startswith("digraph ") and dot.endswith("}\n"))
        for index, layer in enumerate(self.phase["layers"]):
            self.assertIn(f'layer{index} [label="{layer["name"]}\\n', dot)
        for start, end in self.phase["edges"]:
            self.assertIn(f"  layer{start} -> layer{end};\n", dot)

    def test_another_phase_is_shown_on_request(self):
        other = self.profile["phases"][1]
        self.assertIn(other["id"], self.printed(self.good).splitlines()[-1])
        self.assertEqual(json.loads(self.printed(self.good, "--json", "--phase", other["id"]))["kind"], "validate")

    def test_bad_input_ends_with_2_and_one_line(self):
        def file(name, text):
            path = self.folder / name
            path.write_text(text, encoding="utf-8")
            return path

        index = json.loads(self.good.read_text(encoding="utf-8"))
        index["phases"][0]["ops"][3]["reads"][0] = 900000
        cases = [
            ([self.folder / "nowhere.json"], "nowhere.json: No such file or directory"),
            ([self.folder], "Is a directory"),
            ([file("nothing.json", "")], "the text is empty: an object"),
            ([file("cut.json", self.good.read_text(encoding="utf-8")[:3000])], "but the text ends"),
            ([file("foreign.json", '{"schema":7}')], "schema is 7; this pooch reads 1"),
            ([file("index.json", json.dumps(index))], "/phases/0/ops/3/reads/0 is 900000: a version's index, below"),
            ([self.folder / "empty.json"], "it holds no phase"),
            ([self.good, "--phase", "abc"], f"--phase 'abc': accepted are {self.phase['id']} (train), "),
            ([self.good, "--json", "--dot"], "excludes"),
            ([], "profile is required"),
        ]
        for arguments, message in cases:
            with self.subTest(message):
                ran = self.graph(*arguments)
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr.count("\n")), (2, "", 1), ran.stderr)
                self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
