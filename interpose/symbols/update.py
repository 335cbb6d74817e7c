#!/usr/bin/python3
"""Writes the lists of exported functions again, from the libraries of a toolkit.

    symbols/update.py FOLDER [HEADER FOLDER...]

FOLDER holds libcudart.so.13 and the others, and stubs/libcuda.so (/usr/local/cuda/lib64); versions come from the
headers (FOLDER/../include). A list begins with a line of library and version; libraries that are not there keep theirs.
Afterwards classify the new names in spec/, and write prototypes.txt and docs/coverage.md again (generate.py).
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# list: (library, its file, the header with the version, the macros of the version)
LIBRARIES = {
    "cuda": ("libcuda.so.1", "stubs/libcuda.so", "cuda.h", ("CUDA_VERSION",)),
    "cudart": ("libcudart.so.13", "libcudart.so.13", "cuda_runtime_api.h", ("CUDART_VERSION",)),
    "cudnn": ("libcudnn.so.9", "libcudnn.so.9", "cudnn_version.h", ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
    "cublas": (
        "libcublas.so.13",
        "libcublas.so.13",
        "cublas_api.h",
        ("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"),
    ),
    "cublaslt": (
        "libcublasLt.so.13",
        "libcublasLt.so.13",
        "cublas_api.h",
        ("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"),
    ),
    "nccl": ("libnccl.so.2", "libnccl.so.2", "nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")),
}


def exported(library):
    """The names of the functions that a library's file exports."""
    command = ["nm", "--dynamic", "--defined-only", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({line.split()[2].split("@")[0] for line in lines if line.split()[1] in "TWi"})


def version(name, folders):
    """The version that the first header found says; None where there is no header."""
    _, _, header, macros = LIBRARIES[name]
    for folder in folders:
        if (path := pathlib.Path(folder) / header).exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            found = [re.search(rf"^\s*#\s*define\s+{macro}\s+(\d+)", text, re.M) for macro in macros]
            if len(found) == 1 and found[0]:  # 13020 is 13.2
                return f"{int(found[0].group(1)) // 1000}.{int(found[0].group(1)) % 1000 // 10}"
            if all(found):
                return ".".join(match.group(1) for match in found)
    return None


def main(folder, *headers):
    folders = headers or (pathlib.Path(folder) / ".." / "include",)
    for name, (soname, file, header, _) in LIBRARIES.items():
        path = pathlib.Path(folder) / file
        if not path.exists():
            print(f"{path}: not there, {name}.txt stays as it is")
            continue
        said = version(name, folders)
        if said is None:
            sys.exit(f"update.py: no version of {soname}: {header} is not in {', '.join(map(str, folders))}")
        names = exported(path)
        (HERE / f"{name}.txt").write_text("\n".join([f"# {soname} {said}", *names]) + "\n", encoding="utf-8")
        print(f"{name}.txt: {soname} {said}, {len(names)} functions")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
