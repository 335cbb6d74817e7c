"""docs/profile.schema.json agrees with what is written, and with what the reader refuses.

usage: profile_schema.py MAKE_PROFILES POOCH SCHEMA
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:  # the keys are compared all the same
    jsonschema = None

MAKE_PROFILES, POOCH, SCHEMA = sys.argv[1:4]
schema = json.loads(pathlib.Path(SCHEMA).read_text(encoding="utf-8"))
# By the key that a list or object stands under: which definition its elements have.
UNDER = {"link": "link_sample", "moves": "move_sample", "phases": "phase", "layers": "layer", "maps": "map", "ops": "op", "versions": "version",
         "buffers": "buffer", "copies": "copy", "memory": "event", "shape": "shape", "filter": "shape",
         "window": "window", "modules": "module", "sites": "site", "ranges": "range", "trials": "trials", "algorithms": "algorithm", "substitute": "substitute"}


def definition(name):
    return schema["$defs"][name] if name else schema


def objects(value, name=""):
    """Every object in a profile with the name of its definition."""
    if not isinstance(value, dict):
        return
    yield name, value
    for key, inner in value.items():
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                yield from objects(one, UNDER[key])


def seen_keys(seen, of):
    return {key for name, key in seen if name == of}


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([MAKE_PROFILES, cls.folder.name], check=True)
        cls.profiles = {p.name: json.loads(p.read_text(encoding="utf-8"))
                        for p in sorted(pathlib.Path(cls.folder.name).iterdir())}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_key_that_is_written_is_described_and_the_required_ones_are_there(self):
        for name, profile in self.profiles.items():
            for of, one in objects(profile):
                with self.subTest(profile=name, object=of):
                    self.assertLessEqual(set(one), set(definition(of)["properties"]))
                    self.assertLessEqual(set(definition(of)["required"]), set(one))

    def test_every_key_that_is_described_is_written_somewhere(self):
        written = {}
        for profile in self.profiles.values():
            for of, one in objects(profile):
                written.setdefault(of, set()).update(one)
        for of, keys in written.items():
            self.assertEqual(set(definition(of)["properties"]) - keys, set(), of)

    def test_the_reader_knows_the_same_keys_and_requires_the_same(self):
        profile = self.profiles["unusual.json"]
        seen = set()
        for of, one in list(objects(profile)):
            for key in set(one) - seen_keys(seen, of):
                seen.add((of, key))
                value = one.pop(key)
                refused = f"/{key} is missing" in self.error_of(profile)
                self.assertEqual(refused, key in definition(of)["required"], f"{of}: {key}")
                one[key] = value
        self.assertGreater(len(seen), 60)

    def error_of(self, profile):
        path = pathlib.Path(self.folder.name) / "changed.json"
        path.write_text(json.dumps(profile), encoding="utf-8")
        ran = subprocess.run([POOCH, "graph", path, "--json"], capture_output=True, text=True, check=False)
        path.unlink()
        return ran.stderr

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_profiles_are_valid_by_the_schema(self):
        validator = jsonschema.Draft202012Validator(schema)
        validator.check_schema(schema)
        for name, profile in self.profiles.items():
            with self.subTest(profile=name):
                self.assertEqual([e.message for e in validator.iter_errors(profile)], [])

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_the_schema_refuses_damage(self):
        validator = jsonschema.Draft202012Validator(schema)
        for path, value in ((("schema",), 2), (("cap_bytes",), -1), (("phases", 0, "ops", 0, "kind"), "conv"),
                            (("phases", 0, "ops", 0, "key"), "xyz"), (("phases", 0, "memory", 0), {"before": 1})):
            damaged = json.loads(json.dumps(self.profiles["ops12-seed3.json"]))
            inner = damaged
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = value
            self.assertFalse(validator.is_valid(damaged), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
