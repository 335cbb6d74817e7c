"""The software GPU's models: each says where its figures come from, and is named wherever models are.

usage: softgpu_models.py SOURCE_FOLDER
"""
import json
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
FOLDER = SOURCE / "softgpu/models"
MODELS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
GROUPS = ("specification", "Link", "Both ways", "Host memory", "Host", "Mapping calls", "event", "Rates per kind")  # of figures: a line of the sources names each
OPTIONAL = {"host_handles"}


class Models(unittest.TestCase):
    def test_every_group_of_figures_has_its_source(self):
        for name, model in MODELS.items():
            for group in GROUPS:
                with self.subTest(name, group=group):
                    self.assertTrue([line for line in model.get("source", []) if group in line])

    def test_all_have_the_same_fields(self):
        known = MODELS["v100-pcie3"]
        for name, model in MODELS.items():
            with self.subTest(name):
                self.assertEqual(set(model) - OPTIONAL, set(known) - OPTIONAL)
                for table in ("flops_per_s", "bytes_per_s", "host_ns"):
                    self.assertEqual(set(model[table]), set(known[table]))

    def test_memory_bandwidth_is_what_clock_and_bus_give(self):
        """No kind of op reaches that; copies within the device come within a quarter of it."""
        for name, model in MODELS.items():
            with self.subTest(name):
                peak = 2 * 1000 * model["memory_clock_khz"] * model["memory_bus_bits"] / 8
                rates = model["bytes_per_s"]
                self.assertLess(max(rates.values()), peak)
                self.assertGreater(rates["copy_device"], 0.75 * peak)

    def test_every_model_is_named_where_models_are(self):
        for place, pattern in (("README.md", "`{}`"), ("softgpu/models/meson.build", "'{}.json'"),
                               ("tests/softgpu/softlib_models.cpp", '"{}"')):
            text = (SOURCE / place).read_text(encoding="utf-8")
            for name in MODELS:
                with self.subTest(name, place=place):
                    self.assertIn(pattern.format(name), text)
        listed = re.findall(r"'([\w-]+)\.json'", (FOLDER / "meson.build").read_text(encoding="utf-8"))
        self.assertEqual(sorted(listed), sorted(MODELS))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
