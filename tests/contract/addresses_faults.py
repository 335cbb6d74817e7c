"""The test of addresses finds what it is for: each planted fault is named.

usage: addresses_faults.py SOURCE_ROOT
"""

import importlib.util
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
definition = importlib.util.spec_from_file_location("addresses_check", HERE / "addresses.py")
check = importlib.util.module_from_spec(definition)
definition.loader.exec_module(check)

HEADER = """
typedef unsigned long long CUdeviceptr;
typedef struct Box_st { int size; union { void *memory; long number; } where; } Box;
typedef struct Plain_st { int size; } Plain;
void cuCopy(CUdeviceptr to, const void *from, unsigned long bytes);
void cuBox(const Box *box);
void cuKeep(CUdeviceptr *all, float *factors, Plain *plain, const char *name);
void cuTell(int *result);
"""


class Faults(unittest.TestCase):
    def setUp(self):
        self.functions = addresses.declared(generate.parse(HEADER, "c", []))
        self.spec = language.Spec(language.Library(name="cuda", soname="libcuda.so.1"))

    def problems(self, *names, typed=False):
        return list(
            check.problems(
                self.spec,
                names,
                lambda name: addresses.prototype_of(self.functions, name),
                lambda cursor: addresses.suspects(cursor, typed),
                language.Row,
                language.Unwrapped,
            )
        )

    def suspects(self, name, typed=False):
        return [one.parameter for one in addresses.suspects(self.functions[name], typed)]

    def test_what_may_be_an_address_follows_from_its_type(self):
        self.assertEqual(self.suspects("cuCopy"), ["to", "from"])
        self.assertEqual(self.suspects("cuBox"), ["box"])
        self.assertEqual(self.suspects("cuKeep"), ["all"])
        self.assertEqual(self.suspects("cuKeep", typed=True), ["all", "factors"])
        self.assertEqual(self.suspects("cuTell"), [])

    def test_an_address_that_passes_through_unmarked_is_named(self):
        self.spec.passthrough("cuCopy cuBox cuTell", why="nothing")
        found = self.problems("cuCopy", "cuBox", "cuTell")
        self.assertEqual([line.split(":")[0] for line in found], ["cuCopy", "cuCopy", "cuBox"])
        self.assertIn("nothing is said of CUdeviceptr to", found[0])

    def test_what_is_read_or_written_unseen_may_not_pass_through(self):
        self.spec.passthrough("cuBox", why="nothing")
        self.spec.addresses("unseen", "box")
        self.assertIn("read or written unseen", self.problems("cuBox")[0])

    def test_an_unsupported_function_says_what_becomes_of_its_addresses_too(self):
        self.spec.unsupported("cuBox", why="odd")
        self.assertIn("unsupported, and nothing is said of const Box * box", self.problems("cuBox")[0])
        self.spec.addresses("unseen", "box")
        self.assertEqual(self.problems("cuBox"), [])

    def test_what_arrives_at_the_driver_need_say_nothing(self):
        self.spec.seen_below("cuCopy", "below")
        self.assertEqual(self.problems("cuCopy"), [])

    def test_a_row_names_all_its_addresses(self):
        self.spec.row("cuCopy", kind="copy_in", stream="legacy", to=language.overwrite("bytes"))
        (found,) = self.problems("cuCopy")
        self.assertIn("its row does not name const void * from", found)

    def test_a_variant_has_the_prototype_of_its_function(self):
        self.spec.passthrough("cuBox_ptsz", why="nothing")
        self.assertIn("cuBox_ptsz: passed through, and nothing is said", self.problems("cuBox_ptsz")[0])

    def test_what_no_header_declares_passes_through_for_a_reason_alone(self):
        self.spec.passthrough("cuSecret", why="nothing")
        self.assertIn("no header declares it", self.problems("cuSecret")[0])
        self.spec.no_prototype("cuSec*", "a query")
        self.assertEqual(self.problems("cuSecret"), [])

    def test_a_stale_mark_is_named(self):
        self.spec.passthrough("cuBox", why="nothing")
        self.spec.addresses("host", "box gone")
        self.spec.addresses("host", "never", of="cuBox")
        found = self.problems("cuBox")
        self.assertEqual(len(found), 2)
        self.assertIn("names gone", found[0])
        self.assertIn("names never", found[1])


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)) / "interpose"))
    import addresses
    import generate
    from spec import language

    unittest.main()
