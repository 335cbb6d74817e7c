"""Who made a driver call: the program, or pooch on its own account?

The software GPU knows nothing of pooch: its report names libraries and offsets of return addresses. A call that pooch
hands on for the program comes from the wrapper of the same function, one of its own from somewhere else.
"""
import functools
import itertools
import pathlib
import re
import subprocess


@functools.cache
def place(library, offset):
    """The functions at a return address, the innermost of inlined ones first: "name at file:line"."""
    found = subprocess.run(["addr2line", "-Cfpi", "-e", library, hex(offset - 1)], capture_output=True, text=True,
                           check=True).stdout
    return [re.sub(r"^ *\(inlined by\) ", "", line) for line in found.splitlines()]


def is_pooch(caller):
    return pathlib.Path(caller["library"]).name.startswith("libpooch.so")


def own(failed):
    """Did pooch make this call of its own accord? `failed` is that part of the software GPU's report."""
    callers = failed["callers"]
    if not failed["told"]:
        return False  # it succeeded, and the next call says that the context is broken
    if not callers or not is_pooch(callers[0]):
        return False
    nearest = " ".join(place(callers[0]["library"], callers[0]["offset"]))
    # A wrapper, or what its call goes through where the compiler leaves no frame of the wrapper's own.
    return not re.search(rf"\b{failed['function']}\b|^pooch::(FunctionRef|runtime::Session::(submit|Impl::launch))", nearest)


def path(called):
    """The way through pooch's code by which a call is made, as text. `called` is a part of the software GPU's report."""
    within = itertools.takewhile(is_pooch, itertools.dropwhile(lambda caller: not is_pooch(caller), called["callers"]))
    return " ".join([called["function"], *(f"{caller['offset']:x}" for caller in within)])


def stack(failed, depth=6):
    """Functions of pooch's on the way to the call, short: for whoever looks for the cause."""
    names = []
    for caller in failed["callers"]:
        if not is_pooch(caller):
            break
        for line in place(caller["library"], caller["offset"]):
            name, _, at = line.partition(" at ")
            name = re.sub(r"\(.*", "", name.replace("(anonymous namespace)::", "")).replace("pooch::", "")
            names.append(f"{name} {at.split(' ')[0].rsplit('/', 1)[-1]}")
    return names[:depth]
