"""Products of matrices whose addresses lie in device memory: right where all memory fits at once, else refused.

usage: pointer_arrays.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import unittest

from runs import MIB, TO_THE_BYTE, run, smallest_cap_named

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 64
HINT = "cublasSgemmBatched: the addresses of its operands lie in device memory"


class PointerArrays(unittest.TestCase):
    def check(self, done, plain):
        self.assertEqual((plain.status, done.status), (0, 0), done.err)
        self.assertEqual(done.out.splitlines(), plain.out.splitlines())
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        self.assertGreater(done.summary["evictions"], 12)

    def test_what_was_evicted_comes_back_and_results_are_kept(self):
        for options in ([], ["--seed", "5"]):
            with self.subTest(options):
                done = run(DEVICE, [PROGRAM], "--memory", f"{CAP}MiB", *options)
                self.check(done, run(DEVICE, [PROGRAM], "--no-pooch"))
                self.assertEqual(done.err.count(HINT), 0)

    def test_refused_where_not_everything_fits(self):
        plain = run(DEVICE, [PROGRAM, "crowded"], "--no-pooch")
        self.assertEqual(plain.out.splitlines()[0], "crowded 0")
        done = run(DEVICE + TO_THE_BYTE, [PROGRAM, "crowded"], "--memory", f"{CAP}MiB")
        self.assertEqual(done.out.splitlines()[0], "crowded 3", "CUBLAS_STATUS_ALLOC_FAILED")
        self.assertEqual(done.err.count(HINT), 1)
        # Nothing was computed, nothing is lost: from there on as if it had not been called.
        done.out = done.out.removeprefix("crowded 3\n")
        self.check(done, run(DEVICE, [PROGRAM], "--no-pooch"))
        # With the cap that it names, it is not refused.
        cap = smallest_cap_named(done)
        self.assertTrue(4 * 24 <= cap <= 4 * 24 + 8, cap)
        served = run(DEVICE + TO_THE_BYTE, [PROGRAM, "crowded"], "--memory", f"{cap}MiB")
        self.assertEqual((served.status, served.out), (0, plain.out), served.err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
