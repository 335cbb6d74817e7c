"""Work that is neither a launch nor a plain copy has its operands, and tables of addresses are found.

usage: unseen.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import unittest

from runs import MIB, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CAP = 64
COPIES = ("sync", "async", "either", "either-async", "flat", "batch", "box", "large")


class Unseen(unittest.TestCase):
    def check(self, *scenario):
        plain = run(DEVICE, [PROGRAM, *scenario], "--no-pooch")
        done = run(DEVICE, [PROGRAM, *scenario], "--memory", f"{CAP}MiB")
        self.assertEqual((plain.status, done.status), (0, 0), plain.err + done.err)
        self.assertEqual(done.out.splitlines(), plain.out.splitlines())
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], CAP * MIB)
        self.assertGreater(done.summary["evictions"], 5)
        return done

    def test_words_that_a_stream_writes_and_waits_for_are_there(self):
        self.check("words")

    def test_a_batch_of_boxes_has_its_operands(self):
        self.check("boxes")

    def test_what_nodes_made_by_hand_touch_stays_on_the_device(self):
        done = self.check("nodes")
        self.assertEqual(done.summary["pinned_allocations"], 3)
        warnings = [line for line in done.err.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1, done.err)
        self.assertIn("6 of 126 ops may have touched any memory", warnings[0])

    def test_tables_of_addresses_are_found_in_every_kind_of_copy(self):
        for how in COPIES:
            with self.subTest(how):
                self.assertEqual(self.check("table", how).summary["pinned_allocations"], 2)

    def test_numbers_are_no_addresses(self):
        self.assertEqual(self.check("numbers").summary["pinned_allocations"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
