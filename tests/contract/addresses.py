"""The spec knows what becomes of every address that a function is given.

usage: addresses.py SOURCE_ROOT [COMPILER ARGUMENT...]

Which parameters may be addresses of device memory follows from their types. A function with a row names them as
operands; one that passes through or is unsupported says of each what becomes of it, and none that passes through lets
device memory be read or written unseen.
"""

import fnmatch
import pathlib
import re
import sys

RUNTIME = "#include <cuda_runtime_api.h>\n"
PASSING = {"host", "result", "named", "never", "asked"}


def words_of(row):
    """All identifiers in what a row says."""
    texts = [row.kind, row.blocks, *row.carries, *row.convolution, *(scalar for scalar, _ in row.host)]
    for parameter, operand in row.operands:
        texts += [parameter or "", operand.extent, operand.at or "", operand.each or "", operand.read_if or ""]
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))


def of_row(spec, row, suspects):
    if any(operand.extent == "anywhere()" for _, operand in row.operands):
        return  # all that is alive is an operand
    named = words_of(row)
    for suspect in suspects:
        if suspect.parameter not in named and not spec.address(row.name, suspect.parameter):
            yield f"{row.name}: its row does not name {suspect.type} {suspect.parameter}, which may be an address"


def of_unwrapped(spec, entry, suspects):
    for suspect in suspects:
        what = spec.address(entry.name, suspect.parameter)
        if what is None and entry.how != "seen below":
            yield f"{entry.name}: {entry.how}, and nothing is said of {suspect.type} {suspect.parameter}"
        elif what == "unseen" and entry.how == "passed through":
            yield f"{entry.name}: passed through, but memory at {suspect.parameter} is read or written unseen"
        elif entry.how == "passed through" and what not in PASSING:
            yield f"{entry.name}: passed through, with {suspect.parameter} as '{what}'"


def stale(spec, used):
    """Marks of parameters that are no addresses, or are not there."""
    for parameter in spec.addresses_by_name:
        if parameter not in {name for _, name in used}:
            yield f"{spec.library.name}: addresses() names {parameter}, which no function without operands has"
    for function, parameter in spec.addresses_of:
        if (function, parameter) not in used:
            yield f"{function}: addresses() names {parameter}, which is no address there"


def undeclared(spec, name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in spec.undeclared)


def problems(spec, names, prototype_of, suspects_of, row_type, unwrapped_type):
    used = set()
    for name in names:
        entry, cursor = spec.entries[name], prototype_of(name)
        passing = isinstance(entry, unwrapped_type) and entry.how == "passed through"
        if cursor is None:
            if passing and not undeclared(spec, name):
                yield f"{name}: passed through, but no header declares it: say why in no_prototype()"
            continue
        if passing and undeclared(spec, name):
            yield f"{name}: no_prototype(), but a header declares it"
        found = suspects_of(cursor)
        used.update((name, suspect.parameter) for suspect in found)
        if isinstance(entry, row_type):
            yield from of_row(spec, entry, found)
        elif isinstance(entry, unwrapped_type):
            yield from of_unwrapped(spec, entry, found)
    yield from stale(spec, used)


def main(given):
    root, *compiler = given
    sys.path.insert(0, str(pathlib.Path(root) / "interpose"))
    import addresses
    import generate
    from spec.language import Row, Unwrapped

    headers = generate.HEADER_TEXT + RUNTIME
    functions = addresses.declared(generate.parse(headers, "c", compiler))
    total, said = 0, []
    for library in generate.surface.LIBRARIES:
        spec, (_, names) = generate.surface.load(library), generate.surface.listed(library)
        typed = spec.library.typed_addresses
        total += len(names)
        said += problems(
            spec,
            names,
            lambda name: addresses.prototype_of(functions, name),
            lambda cursor, typed=typed: addresses.suspects(cursor, typed),
            Row,
            Unwrapped,
        )
    for line in said:
        print(line)
    print(f"{total} functions, {len(said)} problems")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
