"""The PTX that is checked in is what nvcc makes of its source.

usage: checked_in_ptx.py SOURCE_ROOT NVCC

Exit code 77: this nvcc is of another version than the one that made it.
"""
import difflib
import pathlib
import sys


def main():
    root, nvcc = pathlib.Path(sys.argv[1]), sys.argv[2]
    sys.path.insert(0, str(root / "interpose/device"))
    import compile_ptx  # pylint: disable=import-outside-toplevel
    checked_in = (root / "interpose/device/batch_norm.ptx").read_text(encoding="utf-8")
    version = compile_ptx.version_of(nvcc)
    if f" by nvcc {version}:" not in checked_in.splitlines()[0]:
        print(f"not compared: nvcc {version} is not the one of {checked_in.splitlines()[0]}")
        sys.exit(77)
    made = compile_ptx.compiled(nvcc, root / "interpose/device/batch_norm.cu")
    different = list(difflib.unified_diff(checked_in.splitlines(), made.splitlines(), "checked in", "made", lineterm="", n=1))
    print("\n".join(different[:40]) or f"batch_norm.ptx: as nvcc {version} makes it")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
