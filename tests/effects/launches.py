"""Programs whose kernels no rule knows: their machine code is read while they run.

usage: launches.py BUILD_FOLDER PROGRAM NVCC NVDISASM
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
from runs import run  # noqa: E402

PROGRAM, NVCC, NVDISASM = sys.argv[2:5]
DEVICE = "soft:h200:timing:memory=1GiB:overheads=off"
BUFFERS = 12


class Launches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cubin = pathlib.Path(cls.folder.name) / "launches.cubin"
        source = pathlib.Path(__file__).with_name("launches.cu")
        subprocess.run([NVCC, "-arch=sm_90", "-cubin", "-o", str(cls.cubin), str(source)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def launched(self, what, iterations=20, milliseconds=0, disassembler=NVDISASM, **settings):
        tools = tempfile.mkdtemp(dir=self.folder.name)
        if disassembler:
            os.symlink(disassembler, pathlib.Path(tools) / "nvdisasm")
        path = tools + ":/usr/bin:/bin"
        done = run(DEVICE, [PROGRAM, self.cubin, what, iterations, milliseconds], "--memory", "24MiB",
                   env={"PATH": path, "POOCH_LOG": "info", "POOCH_WAIT_FOR_PLANS": "1", **settings})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.device["violations"], [], done.err)
        return done

    def test_what_the_code_foresees_is_not_unforeseen(self):
        for what in ("scale", "lists"):
            summary = self.launched(what).summary
            self.assertEqual(summary["unforeseen_ops"], 0, what)
            self.assertEqual(summary["unforeseen_kernels"], [])
            self.assertEqual(summary["landings"], 0)
            self.assertGreater(summary["evictions"], 0)

    def test_leftovers_of_the_stack_make_no_iteration_differ(self):
        self.assertGreaterEqual(self.launched("lists", iterations=40).summary["iterations"], 30)

    def test_what_is_only_read_leaves_without_a_copy(self):
        # A buffer is written once in an iteration, and leaves the device more often than that.
        summary = self.launched("scale", POOCH_LANDING="off").summary
        self.assertLess(summary["bytes_out"], 1.05 * 20 * BUFFERS * (4 << 20))

    def test_a_kernel_with_hidden_accesses_is_named_with_the_reason(self):
        done = self.launched("gather")
        [kernel] = done.summary["unforeseen_kernels"]
        self.assertEqual((kernel["name"], kernel["launches"]), ("gather", 20 * BUFFERS))
        self.assertIn("loaded from memory", kernel["why"])
        self.assertEqual(done.summary["unforeseen_ops"], 20 * BUFFERS)
        self.assertIn("gather (240 launches: an address loaded from memory", done.err)

    def test_without_a_disassembler_kernels_stay_unknown(self):
        if any(pathlib.Path(folder, "nvdisasm").exists() for folder in ("/usr/local/cuda/bin", "/usr/bin")):
            self.skipTest("this machine's disassembler is found everywhere")
        done = self.launched("scale", disassembler=None)
        [kernel] = done.summary["unforeseen_kernels"]
        self.assertEqual((kernel["name"], kernel["launches"], kernel["why"]), ("scale", 20 * BUFFERS, ""))
        self.assertEqual(done.err.count("nvdisasm is nowhere"), 1, done.err)

    def test_what_was_read_once_is_in_the_cache(self):
        with tempfile.TemporaryDirectory() as cache:
            self.launched("scale", POOCH_CACHE=cache)
            self.assertEqual(len(list(pathlib.Path(cache).glob("kernel-*.json"))), 1)
            summary = self.launched("scale", disassembler="/bin/false", POOCH_CACHE=cache).summary
            self.assertEqual(summary["unforeseen_ops"], 0)
            summary = self.launched("gather", disassembler="/bin/false", POOCH_CACHE=cache).summary
            self.assertEqual(summary["unforeseen_ops"], 20 * BUFFERS, "this one was not")

    def test_no_launch_waits_and_landing_ends_once_all_is_known(self):
        done = self.launched("scale", iterations=150, milliseconds=40, POOCH_WAIT_FOR_PLANS="0")
        self.assertGreater(done.summary["unforeseen_ops"], 0)
        self.assertLess(done.summary["unforeseen_ops"], 100 * BUFFERS)
        self.assertIn("landing ends", done.err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
