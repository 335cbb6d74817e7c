"""batch_norm.ptx: the assembler takes it, and what its instructions make are the formulas of core/substitute.h.

usage: batch_norm_ptx.py PTX_FILE [PTXAS]

Without a GPU the text is carried out as ptx.py does.
"""
import math
import pathlib
import random
import struct
import sys
import unittest

from ptx import Machine, assembler_says, exact, half_bits, rounded

TEXT = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
PTXAS = sys.argv[2] if len(sys.argv) > 2 else None


def fma(a, b, c):
    return rounded(exact(a) * exact(b) + exact(c))


def product(a, b):
    return fma(a, b, 0.0)


def difference(a, b):
    return fma(a, 1.0, -b)


FORMULAS = [
    lambda x, c: fma(product(difference(x, c["mean"]), c["scale"]), c["inverse"], c["bias"]),
    lambda x, c: fma(product(difference(x, c["mean"]), c["inverse"]), c["scale"], c["bias"]),
    lambda x, c: fma(difference(x, c["mean"]), product(c["scale"], c["inverse"]), c["bias"]),
    lambda x, c: fma(x, product(c["scale"], c["inverse"]),
                     difference(c["bias"], product(c["mean"], product(c["scale"], c["inverse"])))),
]
BASE = 1 << 40
OF_ROW, HALF, CLIPS, DROPS = 1, 2, 4, 8


class Case:
    """x and y of rows * row elements, and the channels' numbers."""

    def __init__(self, rows, row, channels, how, seed=7):
        source = random.Random(seed)
        self.rows, self.row, self.channels, self.how = rows, row, channels, how
        self.letter, self.size = ("e", 2) if how & HALF else ("f", 4)
        self.x = [self.as_stored(source.uniform(-4, 4)) for _ in range(rows * row)]
        self.of_channel = [{name: struct.unpack("<f", struct.pack("<f", source.uniform(0.2, 3)))[0]
                            for name in ("scale", "bias", "mean", "inverse")} for _ in range(channels)]
        self.memory = bytearray()
        self.at = {}
        self.put("x", self.pack(self.x))
        self.put("y", bytes(self.size * rows * row))
        for name in ("scale", "bias", "mean", "inverse"):
            self.put(name, b"".join(struct.pack("<f", c[name]) for c in self.of_channel))
        self.put("differs", bytes(16))

    def as_stored(self, value):
        return struct.unpack("<" + self.letter, self.pack([value]))[0]

    def pack(self, values):
        if self.letter == "e":
            return b"".join(half_bits(v).to_bytes(2, "little") for v in values)
        return b"".join(struct.pack("<f", v) for v in values)

    def put(self, name, content):
        self.memory += bytes(-len(self.memory) % 16)
        self.at[name] = len(self.memory)
        self.memory += content

    def wanted(self, formula):
        """Before it is rounded to how it is stored."""
        channel = lambda i: (i // self.row) % self.channels if self.how & OF_ROW else i % self.row
        return [FORMULAS[formula](x, self.of_channel[channel(i)]) for i, x in enumerate(self.x)]

    def launch(self, formula, compare=False, grid=2, block=64):
        address = {name: BASE + at for name, at in self.at.items()}
        Machine(TEXT, self.memory, BASE).launch(grid, block, [
            *(address[name] for name in ("x", "y", "scale", "bias", "mean", "inverse")), self.rows, self.row, self.channels,
            self.how | formula << 4, address["differs"] if compare else 0])

    def stored(self):
        return bytes(self.memory[self.at["y"]:self.at["y"] + self.size * self.rows * self.row])

    def differs(self):
        return list(struct.unpack("<4I", self.memory[self.at["differs"]:self.at["differs"] + 16]))


class BatchNormPtx(unittest.TestCase):
    @unittest.skipIf(PTXAS is None, "meson found no ptxas")
    def test_the_assembler_takes_it_for_every_kind_of_device(self):
        for device in ("sm_75", "sm_80", "sm_90", "sm_100"):
            with self.subTest(device=device):
                self.assertEqual(assembler_says(PTXAS, sys.argv[1], device), (0, ""))

    def test_each_formula_makes_its_bits_in_both_layouts_and_precisions(self):
        for rows, row, channels, how in ((6, 5, 3, OF_ROW), (7, 40, 7, OF_ROW | HALF), (5, 36, 36, 0), (3, 4, 4, HALF),
                                         (1, 150, 1, OF_ROW), (1, 97, 1, OF_ROW | HALF), (1, 130, 130, 0), (1, 100, 100, HALF)):
            for formula in range(4):
                with self.subTest(rows=rows, row=row, how=how, formula=formula):
                    case = Case(rows, row, channels, how)
                    case.launch(formula)
                    self.assertEqual(case.stored(), case.pack(case.wanted(formula)))

    def test_formulas_differ_so_that_a_wrong_one_shows(self):
        case = Case(64, 33, 4, OF_ROW)
        self.assertEqual(len({case.pack(case.wanted(formula)) for formula in range(4)}), 4)

    def test_what_is_below_zero_is_clipped_and_no_number_stays_or_becomes_zero(self):
        for how, left in ((OF_ROW | CLIPS, float("nan")), (OF_ROW | CLIPS | DROPS, 0.0)):
            with self.subTest(how=how):
                case = Case(2, 104, 2, how)
                case.x[3] = case.x[100] = float("nan")
                case.memory[case.at["x"]:case.at["x"] + 4 * len(case.x)] = case.pack(case.x)
                case.launch(2)
                made = struct.unpack(f"<{len(case.x)}f", case.stored())
                wanted = [left if math.isnan(v) else max(v, 0.0) for v in case.wanted(2)]
                self.assertEqual([str(v) for v in made], [str(v) for v in wanted])
                self.assertIn(0.0, made)

    def test_comparing_writes_nothing_but_which_formulas_make_other_bits(self):
        for rows, row, how in ((48, 9, OF_ROW), (48, 9, OF_ROW | HALF), (2, 130, OF_ROW), (2, 130, OF_ROW | HALF)):
            for formula in range(4):
                with self.subTest(row=row, how=how, formula=formula):
                    case = Case(rows, row, 4, how)
                    there = case.pack(case.wanted(formula))
                    case.memory[case.at["y"]:case.at["y"] + len(there)] = there
                    case.launch(0, compare=True)
                    self.assertEqual(case.differs(), [int(case.pack(case.wanted(f)) != there) for f in range(4)])
                    self.assertEqual(case.differs()[formula], 0)
                    self.assertEqual(case.stored(), there)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
