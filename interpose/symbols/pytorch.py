#!/usr/bin/python3
"""Writes pytorch.txt again: what PyTorch's libraries ask of the libraries listed here, from an installed wheel.

    symbols/pytorch.py FOLDER

FOLDER is the wheel's torch/ (site-packages/torch). A line is one of PyTorch's libraries and a function that it imports;
`by name` where it looks the driver's function up while it runs, under the name without a version.
"""

import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).resolve().parent / "pytorch.txt"
LIBRARIES = ("libc10_cuda.so", "libcaffe2_nvrtc.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so")
LOOKS_UP = "libc10_cuda.so"  # its strings name what it takes by cudaGetDriverEntryPointByVersion
# The driver, the runtime, cuDNN, cuBLAS and cuBLASLt, NCCL; cuFile (cuFileRead) is none of them.
OURS = re.compile(r"(cu(?!File)[A-Z]|cuda[A-Z]|__cuda[A-Z]|cudnn[A-Z]|cublas|nccl[A-Z])\w*\Z")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def imported(library):
    """The functions that a library's file imports from the listed libraries."""
    lines = output("nm", "--dynamic", "--undefined-only", str(library)).splitlines()
    return sorted({name for line in lines if OURS.match(name := line.split()[-1].split("@")[0])})


def looked_up(library):
    """The driver's functions that a library's file names in its data."""
    return sorted({name for name in output("strings", "-n", "6", str(library)).split() if re.match(r"cu[A-Z]\w+\Z", name)})


def version(folder):
    return re.search(r"__version__ = '([^']*)'", (folder / "version.py").read_text(encoding="utf-8")).group(1)


def listing(folder):
    """The text of pytorch.txt for the wheel in `folder`."""
    lines = [f"# torch {version(folder)}"]
    for library in LIBRARIES:
        lines += [f"{library} {name}" for name in imported(folder / "lib" / library)]
    lines += [f"{LOOKS_UP} {name} by name" for name in looked_up(folder / "lib" / LOOKS_UP)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    LIST.write_text(listing(pathlib.Path(sys.argv[1])), encoding="utf-8")
    print(f"{LIST.name}: {len(LIST.read_text(encoding='utf-8').splitlines()) - 1} lines")
