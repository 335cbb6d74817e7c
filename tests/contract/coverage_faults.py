"""The coverage test finds what it is for: each planted fault is named.

usage: coverage_faults.py SOURCE_ROOT
"""

import importlib.util
import pathlib
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
definition = importlib.util.spec_from_file_location("coverage_check", HERE / "coverage.py")
coverage = importlib.util.module_from_spec(definition)
definition.loader.exec_module(coverage)

FINGERPRINTS = "# for\nStatus cuSet(int value)\nconst char *cuName(int code)\n"


def surface_of(listed, classified):
    """A surface of one library."""
    return types.SimpleNamespace(
        LIBRARIES={"small": "small"},
        load=lambda name: types.SimpleNamespace(entries=dict.fromkeys(classified)),
        listed=lambda name: ("libsmall.so.1 1.2", listed),
        unclassified=coverage_surface.unclassified,
        not_listed=coverage_surface.not_listed,
    )


class Faults(unittest.TestCase):
    def test_a_symbol_without_a_class_is_named(self):
        found = list(coverage.classification(surface_of(["cuNew", "cuOld"], ["cuOld"])))
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^cuNew: .* does not classify it")

    def test_a_class_without_a_symbol_is_named(self):
        found = list(coverage.classification(surface_of(["cuOld"], ["cuGone", "cuOld"])))
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^cuGone: .* no such function")

    def test_equal_prototypes_are_no_drift(self):
        self.assertEqual(list(coverage.drift(FINGERPRINTS, FINGERPRINTS)), [])

    def test_a_changed_parameter_is_drift(self):
        (found,) = coverage.drift(FINGERPRINTS, FINGERPRINTS.replace("int value", "long value"))
        self.assertRegex(found, r"^cuSet: the headers say 'Status cuSet\(long value\)'")

    def test_missing_fingerprints_on_either_side_are_drift(self):
        shorter = FINGERPRINTS.replace("Status cuSet(int value)\n", "")
        self.assertRegex(next(coverage.drift(shorter, FINGERPRINTS)), "^cuSet: has no fingerprint")
        self.assertRegex(next(coverage.drift(FINGERPRINTS, shorter)), "^cuSet: has a fingerprint, but no row")

    def test_an_outdated_document_is_shown_by_its_first_difference(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "coverage.md"
            path.write_text("one\ntwo\n", encoding="utf-8")
            self.assertEqual(list(coverage.outdated(path, "one\ntwo\n")), [])
            self.assertIn("coverage.md:2: says 'two', the rows say '2'", next(coverage.outdated(path, "one\n2\n")))
            self.assertIn("coverage.md:3: says '(the end)'", next(coverage.outdated(path, "one\ntwo\nthree\n")))

    def installed(self, version, exported):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "libsmall.so.1").touch()
            update = types.SimpleNamespace(
                LIBRARIES={"small": ("libsmall.so.1", "libsmall.so.1", "small.h", ())},
                version=lambda name, headers: version,
                exported=lambda path: exported,
            )
            return list(coverage.installed(surface_of(["cuOld"], ["cuOld"]), update, [pathlib.Path(folder)], []))

    def test_a_symbol_beyond_the_list_of_its_version_is_named(self):
        (found,) = self.installed("1.2", ["cuNew", "cuOld"])
        self.assertRegex(found, "^cuNew: exported by libsmall.so.1 1.2")

    def test_a_library_of_another_version_is_not_held_to_the_list(self):
        self.assertEqual(self.installed("1.3", ["cuNew", "cuOld"]), [])


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)) / "interpose"))
    from spec import surface as coverage_surface

    unittest.main()
