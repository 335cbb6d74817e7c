#!/usr/bin/python3
"""What the rows of cuBLASLt make resident and copy, over libraries that compute nothing.

    rows_cublaslt.py LIBPOOCH FAKE_FOLDER ROWS_FAKE_FOLDER PROGRAM

The fake driver notes every mapping of device memory and every copy; rows_lt_program.cpp notes each step. All operands
of a step are fresh, so the mapped bytes are those that its row names. HOOKS_PRELOAD_FIRST in the environment is
preloaded before libpooch.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBPOOCH, FAKE_FOLDER, ROWS_FAKE_FOLDER, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:5])
PRELOAD = f"{os.environ.get('HOOKS_PRELOAD_FIRST', '')} {LIBPOOCH}".strip()


class Rows(unittest.TestCase):
    def steps(self, scenario, cap="768MiB"):
        """[(step, {what: MiB})] and the number of ops."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "LD_PRELOAD": PRELOAD,
                "LD_LIBRARY_PATH": f"{FAKE_FOLDER}:{ROWS_FAKE_FOLDER}",
                "FAKE_LOG": f"{folder}/log",
                "POOCH_REPORT": folder,
                "POOCH_MEMORY_CAP": cap,
                "POOCH_HOST_MEMORY": "1GiB",
            }
            done = subprocess.run([PROGRAM, scenario], env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            found = []
            for line in pathlib.Path(f"{folder}/log").read_text(encoding="utf-8").splitlines():
                word, *rest = line.split()
                if word == "step":
                    found.append((rest[0], {}))
                elif found and word in ("cuMemMap", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"):
                    sums = found[-1][1]
                    sums[word] = sums.get(word, 0) + int(rest[0]) / (1 << 20)
            return found, json.loads(pathlib.Path(f"{folder}/summary.json").read_text())["ops"]

    def mapped(self, scenario):
        found, ops = self.steps(scenario)
        self.assertEqual(ops, len(found), "launches inside belong to the call")
        return {step: sums.get("cuMemMap", 0) for step, sums in found}

    def test_matrices(self):
        expected = {"beta_zero": 12, "beta_one": 16, "in_place": 12, "half": 6, "workspace": 18}
        self.assertEqual(self.mapped("matrices"), expected)

    def test_layouts(self):
        # B and D are 8; A: 512 rows in 4 MiB, two matrices of 2 MiB, two groups of 1 MiB, 8 MiB of unknown use
        expected = {"rows": 8 + 4, "batch": 8 + 8, "tiles": 8 + 2, "unknown": 8 + 8}
        self.assertEqual(self.mapped("layouts"), expected)

    def test_operands_in_the_descriptor(self):
        expected = {"bias_not_used": 12, "bias": 14, "auxiliary": 14, "scales": 16, "scalars_on_device": 16 + 4,
                    "vector_and_host_scalar": 12 + 4}
        self.assertEqual(self.mapped("descriptor"), expected)

    def test_transform(self):
        self.assertEqual(self.mapped("transform"), {"transform": 8, "transform_blended": 4})

    def test_a_product_inside_of_cublas_counts_once(self):
        self.assertEqual(self.mapped("inside_cublas"), {"gemm": 12})

    def test_a_full_result_is_not_fetched_and_a_triangle_is(self):
        found, _ = self.steps("effects", cap="28MiB")
        fetched = [(step, sums.get("cuMemcpyHtoDAsync_v2", 0)) for step, sums in found if step != "room"]
        self.assertEqual(fetched, [("first", 0), ("again", 0), ("triangle", 4)])
        copied = sum(sums.get("cuMemcpyDtoHAsync_v2", 0) for _, sums in found)
        self.assertGreaterEqual(copied, 4, "the result went out in between")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
