"""A kernel's CUDA source as the PTX that is checked in beside it.

usage: compile_ptx.py NVCC SOURCE PTX

Nothing newer than PTX 7.0 for sm_60 may be in it, which it then says that it is: so drivers from CUDA 11 on take it,
for devices older than those that nvcc still knows.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

OLDEST = "75"  # what nvcc 13 compiles for at the least


def version_of(nvcc):
    return re.search(r"V([\d.]+)", subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout).group(1)


def cleaned(text, name, version):
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.lstrip().startswith("//")]
    text = "\n".join(lines) + "\n"
    text = re.sub(r"^\.version .*$", ".version 7.0", text, flags=re.M)
    text = re.sub(r"^\.target .*$", ".target sm_60", text, flags=re.M)
    return (f"// Made of interpose/device/{name}.cu by nvcc {version}: "
            f"interpose/device/compile_ptx.py nvcc interpose/device/{name}.cu interpose/device/{name}.ptx\n{text}")


def compiled(nvcc, source):
    source = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "made.ptx"
        subprocess.run([nvcc, "-ptx", f"-arch=compute_{OLDEST}", "-std=c++17", "-I", source.resolve().parents[2], "-o", made, source],
                       check=True)
        return cleaned(made.read_text(encoding="utf-8"), source.stem, version_of(nvcc))


def main():
    nvcc, source, ptx = sys.argv[1:]
    pathlib.Path(ptx).write_text(compiled(nvcc, source), encoding="utf-8")


if __name__ == "__main__":
    main()
