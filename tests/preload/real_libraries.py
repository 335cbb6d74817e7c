#!/usr/bin/python3
"""The vendor's libraries above the software GPU's driver: every look-up of the runtimes inside them passes our hooks.

usage: real_libraries.py BUILD_FOLDER PROGRAM SPY [TOOLKIT_FOLDER]; HOOKS_PRELOAD_FIRST (a sanitizer's runtime) in the
environment is preloaded before all.

A runtime of the vendor's refuses a driver that is not, with an error; by then it has asked for all the functions that
it will ever call. real_libraries_spy.cpp writes down what it asks and what it is given: once without libpooch.so, to
know the driver's own answers, and once with it. Without a toolkit: exit 77, and a line that says so.
"""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
import lookups  # noqa: E402

BUILD, PROGRAM, SPY = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
LIBPOOCH = BUILD / "interpose/libpooch.so"
FIRST = [os.environ["HOOKS_PRELOAD_FIRST"]] if os.environ.get("HOOKS_PRELOAD_FIRST") else []
TOOLKIT = lookups.toolkit(sys.argv[4:])


class RealLibraries(unittest.TestCase):
    def first_call(self, library, function, preload):
        """Its status, and the look-ups that the spy saw."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(BUILD / "softgpu/libcuda.so.1", f"{folder}/libcuda.so.1")
            done, lines = lookups.spied([PROGRAM, lookups.find(library, TOOLKIT), function], [*FIRST, *preload],
                                        [folder, *TOOLKIT], SOFTGPU_MODELS=str(BUILD / "softgpu/models"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout), lookups.look_ups(lines)

    def check(self, library):
        if lookups.find(library, TOOLKIT) is None:
            self.skipTest(f"{library} is not installed beside the toolkit")
        function = lookups.FIRST_CALL[library]
        status, plain = self.first_call(library, function, [SPY])
        self.assertNotEqual(status, 0, "it should have refused this driver")
        hooked_status, hooked = self.first_call(library, function, [SPY, LIBPOOCH])
        self.assertEqual(hooked_status, status)

        wrong, wrapped = lookups.judge(plain, hooked, lookups.exported(LIBPOOCH) - {"dlsym"})
        self.assertEqual(wrong, [])
        by_name = sum(1 for l in hooked if l.road == "dlsym")
        found = sum(1 for l in hooked if l.owner != "-")
        callers = ", ".join(sorted({l.caller for l in hooked}))
        print(f"{library}: {len(hooked) - by_name} look-ups by cuGetProcAddress and {by_name} by dlsym from {callers}; the driver "
              f"has {found}, {wrapped} of them wrapped; {function} gives {status}", flush=True)

    def test_every_hook_that_is_bypassed_is_found(self):
        """As if libpooch.so stood aside: the driver's own answers both times."""
        library = next(library for library in lookups.FIRST_CALL if lookups.find(library, TOOLKIT))
        _, plain = self.first_call(library, lookups.FIRST_CALL[library], [SPY])
        wrong, wrapped = lookups.judge(plain, plain, lookups.exported(LIBPOOCH) - {"dlsym"})
        self.assertGreater(wrapped, 0)
        self.assertEqual(len(wrong), wrapped)

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
