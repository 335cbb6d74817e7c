"""Writes the C++ source of libsoftgpu_absent.so.1: what the vendor's libraries export, whether it is written here or not.

usage: absent.py OUTPUT (LIST STATUS)...

LIST names the functions that one of the vendor's libraries exports, a line each after a title. Each becomes a function
that says on stderr that it is not there, once, and returns STATUS. A program like PyTorch is linked against whole
libraries, and what it never calls must resolve, too; preloaded behind the libraries themselves, this one is asked for
nothing that they have.
"""

import pathlib
import sys

HEAD = """#include <cstdio>

static int absent(const char* name, int status, int* said) {
  if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED)) std::fprintf(stderr, "softgpu: %s: not there\\n", name);
  return status;
}

#define ABSENT(name, status)                                     \\
  extern "C" __attribute__((visibility("default"))) int name() { \\
    static int said;                                             \\
    return absent(#name, status, &said);                         \\
  }
"""


def main(output, *lists):
    lines = [HEAD]
    for listing, status in zip(lists[::2], lists[1::2]):
        names = pathlib.Path(listing).read_text(encoding="utf-8").split("\n")[1:]
        lines += [f"ABSENT({name}, {status})" for name in names if name]
    pathlib.Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 4 or len(sys.argv) % 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
