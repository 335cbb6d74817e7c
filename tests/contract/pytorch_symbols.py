"""Every function that PyTorch's libraries ask of CUDA, cuDNN, cuBLAS and NCCL is classified.

usage: pytorch_symbols.py SOURCE_ROOT [TORCH_FOLDER]

The list is committed (interpose/symbols/pytorch.txt), so that no wheel is needed. A TORCH_FOLDER (site-packages/torch)
of the listed version must not ask for more than the list.
"""

import importlib.util
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
WHEEL = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
sys.path.insert(0, str(ROOT / "interpose"))
from spec import surface  # noqa: E402

definition = importlib.util.spec_from_file_location("pytorch_list", ROOT / "interpose" / "symbols" / "pytorch.py")
pytorch = importlib.util.module_from_spec(definition)
definition.loader.exec_module(pytorch)


def classified():
    """Names that some spec classifies, and for names that are looked up their forms without a version."""
    names = {name for library in surface.LIBRARIES for name in surface.load(library).entries}
    return names, {re.sub(r"_v\d+\Z", "", name) for name in names}


def unclassified(listing, names, bases):
    """The lines of a listing whose function has no class."""
    for line in listing.splitlines()[1:]:
        _, name, *how = line.split()
        if name not in (bases if how else names):
            yield line


class Symbols(unittest.TestCase):
    def test_every_imported_function_is_classified(self):
        listing = pytorch.LIST.read_text(encoding="utf-8")
        self.assertGreater(len(listing.splitlines()), 400)
        self.assertEqual(list(unclassified(listing, *classified())), [])

    def test_an_unclassified_function_is_named(self):
        listing = "# torch 0\nliba.so cudaNew\nliba.so cudaOld\nliba.so cuOld by name\nliba.so cuNew by name\n"
        found = list(unclassified(listing, {"cudaOld", "cuOld_v2"}, {"cudaOld", "cuOld"}))
        self.assertEqual(found, ["liba.so cudaNew", "liba.so cuNew by name"])

    @unittest.skipIf(WHEEL is None, "no installed wheel was named")
    def test_the_installed_wheel_asks_for_no_more_than_the_list(self):
        committed = pytorch.LIST.read_text(encoding="utf-8").splitlines()
        if committed[0] != f"# torch {pytorch.version(WHEEL)}":
            self.skipTest(f"torch {pytorch.version(WHEEL)} is installed, the list is of {committed[0][2:]}")
        there = pytorch.listing(WHEEL).splitlines()
        self.assertEqual([line for line in there if line not in committed], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
