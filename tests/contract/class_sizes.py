"""Nothing in runtime/ is too large: what one cannot keep in mind should be two.

usage: class_sizes.py SOURCE_ROOT [COMPILER ARGUMENT...]

- A class has at most 15 data members, those of all types nested in it included, whether or not it has a member of such a type. Static ones
  do not count.
- A class, struct or union is a class here if it has a member function, a private part or a nested type. What has none of these is a
  record: it passes between parts, or one of them owns it, and may have any number of fields. Constructors, operators and friends leave
  it one.
- A function has at most 60 lines, a file 500.

That nobody but Held locks the session's mutex needs no test: SessionMutex (runtime/memory/held.h) has it as a private member.

All files are read as one source by libclang, without the bodies of functions. So two files of the folder may not have different types of
the same name. Local classes are not looked at.
"""
import dataclasses
import pathlib
import re
import sys

import clang.cindex as cindex
from clang.cindex import AccessSpecifier, CursorKind

FOLDER = "runtime"
MOST = {"members": 15, "lines of a function": 60, "lines of a file": 500}

CLASSES = {CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL, CursorKind.UNION_DECL, CursorKind.CLASS_TEMPLATE}
METHODS = {CursorKind.CXX_METHOD, CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION}
FUNCTIONS = METHODS | {CursorKind.CONSTRUCTOR, CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE}


@dataclasses.dataclass(frozen=True)
class Size:
    where: str  # file:line
    name: str
    what: str  # key of MOST
    is_now: int
    parts: str = ""

    def __str__(self):
        return f"{self.where}: {self.name} has {self.is_now} {self.what.replace('lines of a function', 'lines').replace('lines of a file', 'lines')}" \
               f"{self.parts}; at most {MOST[self.what]}"


def parse(root, files, arguments):
    """All of these files (name relative to the root: text) as one source. Each file's namespace without a name is its own."""
    contents = []
    for number, (name, text) in enumerate(files.items()):
        text = re.sub(r"^namespace \{", f"inline namespace file_{number} {{", text, flags=re.MULTILINE)
        contents.append((str(root / name), text))
    contents.append((str(root / "all.cpp"), "".join(f'#include "{name}"\n' for name in files)))
    unit = cindex.Index.create().parse(
        str(root / "all.cpp"), args=["-x", "c++", "-std=c++20", "-w", f"-I{root}", *arguments], unsaved_files=contents,
        options=cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
    broken = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if broken:
        sys.exit(f"class_sizes: {broken[0].location.file}:{broken[0].location.line}: {broken[0].spelling}")
    return unit.cursor


def is_class(cursor):
    for child in cursor.get_children():
        operator = child.kind == CursorKind.CXX_METHOD and child.spelling.startswith("operator")
        nested = child.kind in CLASSES and child.is_definition()
        if nested or child.kind == CursorKind.FUNCTION_TEMPLATE or (child.kind in METHODS and not operator):
            return True
        if child.kind == CursorKind.FIELD_DECL and child.access_specifier == AccessSpecifier.PRIVATE:
            return True
    return False


def members(cursor):
    """The number of its own data members, and of those of each type nested in it, by name."""
    own, nested = 0, {}
    for child in cursor.get_children():
        if child.kind == CursorKind.FIELD_DECL:
            own += 1
        elif child.kind in CLASSES and child.is_definition():
            inner, deeper = members(child)
            nested[child.spelling] = inner + sum(deeper.values())
    return own, nested


def function_length(lines, first):
    """Of the function whose declaration begins in that line (1: the first), in clang-format's style; 0: it is declared alone."""
    indent = re.match(" *", lines[first - 1]).group()
    for number in range(first, len(lines) + 1):
        line = lines[number - 1].rstrip()
        if line.endswith("{"):
            end = next((n for n in range(number + 1, len(lines) + 1) if re.match(indent + r"\}", lines[n - 1])), len(lines))
            return end - first + 1
        if line.endswith(";"):
            return 0
        if line.endswith("}"):
            return number - first + 1
    return 0


def sizes(root, files, arguments):
    """Of everything in these files."""
    paths = {str(root / name): name for name in files}
    lines = {name: text.splitlines() for name, text in files.items()}
    for name in files:
        yield Size(name, name, "lines of a file", len(lines[name]))

    def visit(cursor):
        for child in cursor.get_children():
            location = child.location
            name = paths.get(location.file.name) if location.file else None
            if name is None:
                continue
            where = f"{name}:{location.line}"
            if child.kind in FUNCTIONS:
                length = function_length(lines[name], child.extent.start.line)
                yield Size(where, child.spelling, "lines of a function", length)
            elif child.kind == CursorKind.NAMESPACE:
                yield from visit(child)
            elif child.kind in CLASSES and child.is_definition():
                if is_class(child):
                    own, nested = members(child)
                    parts = "".join(f", {count} in {inner}" for inner, count in nested.items())
                    yield Size(where, child.spelling, "members", own + sum(nested.values()), f": {own} of its own{parts}" if nested else "")
                yield from visit(child)

    yield from visit(parse(root, files, arguments))


def problems(all_sizes):
    """A line for each that is too large."""
    return (str(size) for size in all_sizes if size.is_now > MOST[size.what])


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = sorted((root / FOLDER).rglob("*.h")) + sorted((root / FOLDER).rglob("*.cpp"))
    files = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}
    all_sizes = list(sizes(root, files, sys.argv[2:]))
    count = {what: sum(size.what == what for size in all_sizes) for what in MOST}
    if len(files) < 100 or count["members"] < 50 or count["lines of a function"] < 500:
        sys.exit(f"class_sizes: {count} found in {len(files)} files: is this the source root?")
    found = list(problems(all_sizes))
    print("\n".join(found) or f"class_sizes: {count['members']} classes and {count['lines of a function']} functions keep the rule")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
