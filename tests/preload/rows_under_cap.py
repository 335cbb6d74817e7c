"""Many functions of cuDNN and cuBLAS under a cap far below what they need: every result the same bits.

usage: rows_under_cap.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 48


class RowsUnderCap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = run(DEVICE, [PROGRAM], "--no-pooch")

    def check(self, *options):
        self.assertEqual(self.plain.status, 0, self.plain.err)
        done = run(DEVICE, [PROGRAM], "--memory", f"{CAP}MiB", *options)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.out.splitlines(), self.plain.out.splitlines())
        self.assertEqual(done.device["violations"], [])
        self.assertNotIn("softgpu:", done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        self.assertLessEqual(done.device["peak_bytes"], CAP * MIB, "the device's own account")
        self.assertGreaterEqual(done.summary["need_bytes"], 160 * MIB)
        self.assertGreater(done.summary["evictions"], 40)

    def test_every_result_is_there_and_no_two_are_alike(self):
        results = self.plain.out.splitlines()
        self.assertEqual(len(results), 2 * 25 + 5)
        hashes = [line.split()[1] for line in results[-30:]]  # the last round, and what was never touched
        self.assertEqual(len(set(hashes)), len(hashes))

    def test_same_bits_under_a_cap(self):
        self.check()

    def test_same_bits_where_streams_are_reordered(self):
        self.check("--seed", "11")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
