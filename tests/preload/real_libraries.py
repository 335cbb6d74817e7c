#!/usr/bin/python3
"""The vendor's libraries above the software GPU's driver: every look-up of the runtimes inside them passes our hooks.

usage: real_libraries.py BUILD_FOLDER PROGRAM SPY [TOOLKIT_FOLDER]; HOOKS_PRELOAD_FIRST (a sanitizer's runtime) in the
environment is preloaded before all.

A runtime of the vendor's refuses a driver that is not, with an error; by then it has asked for all the functions that
it will ever call. real_libraries_spy.cpp writes down what it asks and what it is given: once without libpooch.so, to
know the driver's own answers, and once with it. Without a toolkit: exit 77, and a line that says so.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD, PROGRAM, SPY = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
LIBPOOCH = BUILD / "interpose/libpooch.so"
FIRST = [os.environ["HOOKS_PRELOAD_FIRST"]] if os.environ.get("HOOKS_PRELOAD_FIRST") else []

# The first call of each. The runtime of 13.0 asks 440 times; far fewer would mean that this test does not see it.
FIRST_CALL = {
    "libcudart.so.13": "cudaGetDeviceCount",
    "libcublas.so.13": "cublasCreate_v2",
    "libcublasLt.so.13": "cublasLtCreate",
    "libcudnn.so.9": "cudnnCreate",
    "libnccl.so.2": "ncclMemAlloc",
}
FEWEST_LOOK_UPS = 400

LookUp = collections.namedtuple("LookUp", "road caller name version flags owner symbol")


def toolkit():
    """Folders in which the dynamic linker or the usual place have the vendor's libraries."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    known = [pathlib.Path(path).parent for path in re.findall(r"libcu(?:dnn|blas)\.so\.\d+ .*=> (\S+)", cache)]
    folders = [pathlib.Path(folder) for folder in sys.argv[4:]] or [pathlib.Path("/usr/local/cuda/lib64"), *known]
    return list(dict.fromkeys(f for f in folders if (f / "libcublas.so.13").exists() or (f / "libcudnn.so.9").exists()))


TOOLKIT = toolkit()


def find(library):
    return next((folder / library for folder in TOOLKIT if (folder / library).exists()), None)


class RealLibraries(unittest.TestCase):
    def first_call(self, library, function, preload):
        """Its status, and the look-ups that the spy saw."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(BUILD / "softgpu/libcuda.so.1", f"{folder}/libcuda.so.1")
            environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
            environment |= {
                "LD_LIBRARY_PATH": ":".join([folder, *map(str, TOOLKIT)]),
                "LD_PRELOAD": ":".join(map(str, [*FIRST, *preload])),
                "SOFTGPU_MODELS": str(BUILD / "softgpu/models"),
                "LOOKUP_SPY": f"{folder}/spy",
                "POOCH_MEMORY_CAP": "1GiB",
                "POOCH_HOST_MEMORY": "1GiB",
            }
            done = subprocess.run([PROGRAM, find(library), function], env=environment, capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            spied = [LookUp(*line.split()) for line in pathlib.Path(f"{folder}/spy").read_text().splitlines()]
            return int(done.stdout), spied

    def wrappers(self):
        command = ["nm", "-D", "--defined-only", LIBPOOCH]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {line.split()[-1] for line in names.splitlines()} - {"dlsym"}

    def check(self, library):
        if find(library) is None:
            self.skipTest(f"{library} is not installed beside the toolkit")
        function = FIRST_CALL[library]
        status, plain = self.first_call(library, function, [SPY])
        self.assertNotEqual(status, 0, "it should have refused this driver")
        hooked_status, hooked = self.first_call(library, function, [SPY, LIBPOOCH])
        self.assertEqual(hooked_status, status)

        # The same questions, in the same order, from the same libraries.
        question = lambda look_up: look_up[:5]
        self.assertEqual(list(map(question, hooked)), list(map(question, plain)))
        asked = [l for l in hooked if l.road == "cuGetProcAddress"]
        self.assertGreaterEqual(len(asked), FEWEST_LOOK_UPS)

        # Where the driver's answer has a wrapper, the library holds that; elsewhere the driver's answer itself.
        wrappers = self.wrappers()
        wrapped = 0
        for before, after in zip(plain, hooked):
            if before.symbol in wrappers:
                wrapped += 1
                self.assertEqual((after.owner, after.symbol), ("libpooch.so", before.symbol), after)
            else:
                self.assertEqual((after.owner, after.symbol), (before.owner, before.symbol), after)
        self.assertGreater(wrapped, 0)
        by_name = sum(1 for l in hooked if l.road == "dlsym")
        found = sum(1 for l in hooked if l.owner != "-")
        callers = ", ".join(sorted({l.caller for l in hooked}))
        print(f"{library}: {len(asked)} look-ups by cuGetProcAddress and {by_name} by dlsym from {callers}; the driver "
              f"has {found}, {wrapped} of them wrapped; {function} gives {status}", flush=True)

    def test_cudart(self):
        self.check("libcudart.so.13")

    def test_cublas(self):
        self.check("libcublas.so.13")

    def test_cublaslt(self):
        self.check("libcublasLt.so.13")

    def test_cudnn(self):
        self.check("libcudnn.so.9")

    def test_nccl(self):
        self.check("libnccl.so.2")


if __name__ == "__main__":
    if not TOOLKIT:
        print("skipped: no CUDA toolkit is installed (no libcublas.so.13 or libcudnn.so.9 known to the dynamic linker "
              "or in /usr/local/cuda/lib64)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
