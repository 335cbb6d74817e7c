"""The test of sizes finds what it is for: each planted fault is named.

usage: class_sizes_faults.py
"""

import importlib.util
import pathlib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
definition = importlib.util.spec_from_file_location("class_sizes", HERE / "class_sizes.py")
check = importlib.util.module_from_spec(definition)
definition.loader.exec_module(check)


def fields(count, prefix="f"):
    return "".join(f"  int {prefix}{n};\n" for n in range(count))


def found(text, other=""):
    files = {"one.h": text, "two.cpp": other}
    return list(check.problems(check.sizes(pathlib.Path("/nowhere"), files, [])))


class Faults(unittest.TestCase):
    def test_a_class_of_sixteen_members_is_named(self):
        self.assertEqual(found(f"class A {{\n  void f();\n{fields(15)}}};\n"), [])
        self.assertEqual(found(f"class A {{\n  void f();\n{fields(16)}}};\n"), ["one.h:1: A has 16 members; at most 15"])

    def test_private_members_make_a_class(self):
        self.assertEqual(len(found(f"struct A {{\n private:\n{fields(16)}}};\n")), 1)

    def test_members_of_nested_types_count(self):
        nested = f"class A {{\n public:\n  struct B {{\n{fields(6)}    struct C {{\n{fields(2)}    }};\n  }};\n{fields(8)}}};\n"
        self.assertEqual(found(nested), ["one.h:1: A has 16 members: 8 of its own, 8 in B; at most 15"])

    def test_static_members_do_not_count(self):
        self.assertEqual(found(f"class A {{\n  static int s;\n  void f();\n{fields(15)}}};\n"), [])

    def test_a_record_may_have_any_number(self):
        self.assertEqual(found(f"struct A {{\n{fields(30)}  struct B* b;\n  friend bool operator==(const A&, const A&) = default;\n}};\n"), [])

    def test_classes_of_source_files_and_templates_are_seen(self):
        other = f"namespace {{\nclass A {{\n  void f();\n{fields(16)}}};\n}}\ntemplate <class T>\nclass B {{\n  T t;\n{fields(15)}}};\n"
        self.assertEqual([line.split(" has")[0] for line in found("", other=other)], ["two.cpp:2: A", "two.cpp:23: B"])

    def test_a_long_function_is_named(self):
        def function(lines):
            return "struct A {\n  void f();\n};\nvoid A::f() {\n" + "  if (true) {\n  }\n" * ((lines - 2) // 2) + "}\n"

        self.assertEqual(found("", other=function(60)), [])
        self.assertEqual(found("", other=function(62)), ["two.cpp:4: f has 62 lines; at most 60"])

    def test_a_long_file_is_named(self):
        self.assertEqual(found("\n" * 500), [])
        self.assertEqual(found("\n" * 501), ["one.h: one.h has 501 lines; at most 500"])


if __name__ == "__main__":
    unittest.main()
