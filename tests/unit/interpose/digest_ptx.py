"""The digest's PTX: the assembler takes it, and what its instructions compute is the digest of core/digest.h.

usage: digest_ptx.py PTX_FILE [PTXAS]

Without a GPU the text is carried out as ptx.py does.
"""
import pathlib
import random
import sys
import unittest

from ptx import M64, Machine, assembler_says

TEXT = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
PTXAS = sys.argv[2] if len(sys.argv) > 2 else None


def digest(memory):
    first = second = 0
    for i in range(0, len(memory), 8):
        z = int.from_bytes(memory[i:i + 8], "little") ^ ((i // 8 + 1) * 0x9E3779B97F4A7C15 & M64)
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
        z ^= z >> 31
        first = first + z & M64
        z = (z ^ z >> 32) * 0xD6E8FEB86659FD93 & M64
        second = second + (z ^ z >> 29) & M64
    return first, second


class DigestPtx(unittest.TestCase):
    @unittest.skipIf(PTXAS is None, "meson found no ptxas")
    def test_the_assembler_takes_it_for_every_kind_of_device(self):
        for device in ("sm_75", "sm_80", "sm_90", "sm_100"):
            with self.subTest(device=device):
                self.assertEqual(assembler_says(PTXAS, sys.argv[1], device), (0, ""))

    def test_the_definition_is_the_one_of_the_library(self):
        # As in digest_test.cpp.
        self.assertEqual([f"{word:016x}" for word in digest(bytes(range(100)))], KNOWN)

    def test_what_it_computes_is_the_digest(self):
        base, room = 1 << 40, 4096
        source = random.Random(3)
        for offset, size, grid, block in ((0, 8, 1, 32), (0, 2048, 2, 32), (8, 1001, 1, 64), (16, 13, 2, 64), (0, 1, 1, 32),
                                          (3, 300, 1, 32), (4, 1021, 3, 32), (0, 0, 1, 32), (0, 64, 4, 32)):
            with self.subTest(offset=offset, size=size, grid=grid, block=block):
                memory = bytearray(source.randbytes(room)) + bytes(16)
                machine = Machine(TEXT, memory, base)
                machine.launch(grid, block, [base + offset, size, base + room])
                made = [int.from_bytes(memory[at:at + 8], "little") for at in (room, room + 8)]
                self.assertEqual(tuple(made), digest(bytes(memory[offset:offset + size])))


KNOWN = ["3a7ae176c5e07242", "885643881b7176bf"]

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
