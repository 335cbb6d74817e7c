"""Every function of the vendors' libraries is classified, and what was written for a prototype still has it.

usage: coverage.py SOURCE_ROOT [--libraries FOLDER]... [COMPILER ARGUMENT...]

The compiler arguments name the vendors' headers. Without --libraries the installed ones are sought beside those headers
(../lib, ../lib64); an installed library of a listed version must not export more than its list.
"""

import importlib.util
import pathlib
import sys


def arguments(given):
    """(source root, folders of libraries, compiler arguments)"""
    root, *rest = given
    libraries, compiler = [], []
    while rest:
        word = rest.pop(0)
        if word == "--libraries":
            libraries.append(pathlib.Path(rest.pop(0)))
        else:
            compiler.append(word)
    return pathlib.Path(root), libraries, compiler


def header_folders(compiler):
    """The folders that -I and -isystem name."""
    folders = [word[2:] for word in compiler if word.startswith("-I") and len(word) > 2]
    folders += [after for word, after in zip(compiler, compiler[1:]) if word in ("-I", "-isystem")]
    return [pathlib.Path(folder) for folder in folders]


def load_module(path):
    definition = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(definition)
    definition.loader.exec_module(module)
    return module


def classification(surface):
    """Symbols without a class, and classes without a symbol."""
    for library in surface.LIBRARIES:
        spec, (_, names) = surface.load(library), surface.listed(library)
        module = f"interpose/spec/{surface.LIBRARIES[library]}.py"
        for name in surface.unclassified(spec, names):
            yield f"{name}: in interpose/symbols/{library}.txt, but {module} does not classify it"
        for name in surface.not_listed(spec, names):
            yield f"{name}: {module} classifies it, but interpose/symbols/{library}.txt has no such function"


def by_name(prototypes):
    """Prototypes by the function's name."""
    return {line.split("(")[0].split()[-1].lstrip("*"): line for line in prototypes if not line.startswith("#")}


def drift(fingerprints, generated):
    """Wrapped functions whose prototype in the headers is not the one that their row was written for."""
    committed, now = by_name(fingerprints.splitlines()), by_name(generated.splitlines())
    for name in sorted(committed.keys() | now.keys()):
        if name not in now:
            yield f"{name}: has a fingerprint, but no row and no hook any more: write prototypes.txt again"
        elif name not in committed:
            yield f"{name}: has no fingerprint in interpose/symbols/prototypes.txt: write it again"
        elif committed[name] != now[name]:
            yield f"{name}: the headers say '{now[name]}', its row was written for '{committed[name]}'"


def first_difference(old, new):
    pairs = zip(old.splitlines() + ["(the end)"], new.splitlines() + ["(the end)"])
    return next(((n, a, b) for n, (a, b) in enumerate(pairs, 1) if a != b), None)


def outdated(path, generated):
    """The document is not what the rows say."""
    different = first_difference(path.read_text(encoding="utf-8"), generated)
    if different:
        number, old, new = different
        yield f"{path.name}:{number}: says '{old}', the rows say '{new}': run interpose/generate.py coverage"


def installed(surface, update, libraries, headers):
    """What the installed libraries export beyond their lists; prints which ones were compared."""
    for name, (soname, file, _, _) in update.LIBRARIES.items():
        path = next((folder / file for folder in libraries if (folder / file).exists()), None)
        title, names = surface.listed(name)
        there = update.version(name, headers)
        if path is None or there is None:
            print(f"{soname}: not installed, its list is not compared")
        elif f"{soname} {there}" != title:
            print(f"{soname}: {there} is installed, the list is of {title}: not compared")
        else:
            exported = update.exported(path)
            print(f"{title}: {len(exported)} exported functions compared")
            for symbol in sorted(set(exported) - set(names)):
                yield f"{symbol}: exported by {path.name} {there}, but not in interpose/symbols/{name}.txt"


def main(given):
    root, libraries, compiler = arguments(given)
    interpose = root / "interpose"
    sys.path.insert(0, str(interpose))
    generate = load_module(interpose / "generate.py")
    update = load_module(interpose / "symbols" / "update.py")
    headers = header_folders(compiler)
    libraries = libraries or [folder.parent / name for folder in headers for name in ("lib", "lib64")]
    problems = list(classification(generate.surface))
    if not problems:
        specs = [generate.surface.load(name) for name in generate.LIBRARIES]
        declared = generate.vendor_headers(compiler)
        fingerprints = (interpose / "symbols" / "prototypes.txt").read_text(encoding="utf-8")
        problems += drift(fingerprints, generate.prototypes(specs, declared))
        problems += outdated(root / "docs" / "coverage.md", generate.surface.coverage())
    problems += installed(generate.surface, update, libraries, headers)
    for problem in problems:
        print(problem)
    total = sum(len(generate.surface.listed(name)[1]) for name in generate.surface.LIBRARIES)
    print(f"{total} functions, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
