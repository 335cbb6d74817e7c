"""Every link of a document leads to a file, every path of a source that a document names is one, the index has all decisions, and the
table of variables those that pooch knows.

usage: documents.py SOURCE_ROOT
"""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
VARIABLE = re.compile(r'"(POOCH_[A-Z_]+)"')
# In backquotes: a path below one of the folders.
PATH = re.compile(r"`((?:core|cupti|examples|interpose|policy|runtime|softgpu|tests|tools|tracker|docs)/[\w./-]+\.(?:h|cpp|py|md|json|txt|cu|ptx))`")


def problems(root):
    documents = [path for path in sorted(root.rglob("*.md")) if not any(part.startswith((".", "build")) for part in path.relative_to(root).parts)]
    if len(documents) < 40:
        yield f"only {len(documents)} documents found under {root}: is this the source root?"
    for document in documents:
        name = document.relative_to(root)
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
            for target in LINK.findall(line):
                if "://" not in target and not (document.parent / target).exists():
                    yield f"{name}:{number}: no file {target}"
            for target in PATH.findall(line):
                if not (root / target).exists():
                    yield f"{name}:{number}: no file {target}"
    folder = root / "docs/decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for decision in sorted(folder.glob("0*.md")):
        if index.count(f"| [{decision.name[:4]}]({decision.name})") != 1:
            yield f"docs/decisions/README.md: {decision.name} has no row, or several"
    known = set(VARIABLE.findall((root / "core/config.cpp").read_text(encoding="utf-8")))
    told = set(re.findall(r"^\| `(POOCH_[A-Z_]+)` \|", (root / "docs/variables.md").read_text(encoding="utf-8"), re.MULTILINE))
    for variable in sorted(known ^ told):
        yield f"docs/variables.md: {variable} is {'not in the table' if variable in known else 'no variable of pooch'}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "documents: all links lead somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
