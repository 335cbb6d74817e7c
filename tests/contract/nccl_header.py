"""softgpu/include/nccl.h says what NCCL's own header says, where that is installed (else exit 77).

usage: nccl_header.py SOURCE_ROOT [COMPILER ARGUMENT...]

The compiler arguments name the folders that may have nccl.h.
"""
import importlib.util
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
COMPILER = sys.argv[2:]
definition = importlib.util.spec_from_file_location("generate", ROOT / "interpose" / "generate.py")
generate = importlib.util.module_from_spec(definition)
definition.loader.exec_module(generate)
NAME = re.compile(r"p?nccl[A-Z]")


def declared(text):
    """({function: types of result and parameters}, {enumerator: value}) of a C source, canonical."""
    functions, values = {}, {}
    for cursor in generate.parse(text, "c", COMPILER).walk_preorder():
        if not NAME.match(cursor.spelling or ""):
            continue
        if cursor.kind == generate.cindex.CursorKind.FUNCTION_DECL:
            functions[cursor.spelling] = [t.get_canonical().spelling for t in
                                          (cursor.result_type, *(p.type for p in cursor.get_arguments()))]
        elif cursor.kind == generate.cindex.CursorKind.ENUM_CONSTANT_DECL:
            values[cursor.spelling] = cursor.enum_value
    return functions, values


class Header(unittest.TestCase):
    def test_functions_and_values_are_those_of_nccl(self):
        mine = declared(f'#include "{ROOT / "softgpu" / "include" / "nccl.h"}"\n')
        theirs = declared("#include <nccl.h>\n")
        for what, own, other in zip(("functions", "values"), mine, theirs):
            self.assertGreater(len(own), 20, what)
            self.assertEqual(own, {name: other.get(name) for name in own}, what)


if __name__ == "__main__":
    folders = [folder for flag, folder in zip(COMPILER, COMPILER[1:]) if flag == "-isystem"]
    if not any((pathlib.Path(folder) / "nccl.h").exists() for folder in folders):
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
