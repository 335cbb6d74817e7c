"""Planted faults are found by the software GPU, and both ops are named.

usage: planted_faults.py BINARY SOFTGPU_FOLDER
"""
import os
import re
import subprocess
import sys
import unittest

BINARY, SOFTGPU = sys.argv[1:3]
FAULTS = ["lost_wait", "early_free", "double_mapping", "hasty_reuse", "shared_slot"]
# One op: a kernel, copy or mapping change, with its number among the API calls.
OP = r"op [AB] \((\w+), (?:stream \d+|host), call \d+\)"
VIOLATION = re.compile(r"^softgpu: (race|unmapped|freed|unwritten): .*", re.MULTILINE)


def run(fault, n, mode):
    environment = dict(os.environ, SOFTGPU_DEVICE=f"v100-pcie3:{mode}:memory=1GiB", LD_LIBRARY_PATH=SOFTGPU)
    done = subprocess.run([BINARY, fault, str(n)], env=environment, capture_output=True, text=True, timeout=120)
    struck, fine, evictions = (int(x) for x in re.findall(r"\d+", done.stdout)[:3])
    return struck, fine, evictions, VIOLATION.search(done.stderr), done.stderr


class PlantedFaults(unittest.TestCase):
    def test_without_a_fault_nothing_is_found(self):
        for mode in ("compute", "timing"):
            struck, fine, evictions, violation, errors = run("none", 0, mode)
            self.assertFalse(struck)
            self.assertTrue(fine, errors)
            self.assertIsNone(violation, errors)
            self.assertGreater(evictions, 20, "the loop must not fit")

    def test_every_fault_is_found_and_names_both_ops(self):
        for fault in FAULTS:
            with self.subTest(fault=fault):
                found = None
                for n in range(1, 40):
                    struck, fine, _, violation, errors = run(fault, n, "timing")
                    if not struck:
                        break
                    if violation:
                        found = violation.group(0)
                        self.assertFalse(fine, "a violation is a sticky CUDA error")
                        break
                self.assertIsNotNone(found, f"{fault} was never found")
                print(f"{fault} ({n}): {found}")
                self.assertEqual(len(re.findall(OP, found)), 2, f"both ops are named: {found}")
                if fault == "shared_slot":
                    self.assertIn("host addresses", found)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
