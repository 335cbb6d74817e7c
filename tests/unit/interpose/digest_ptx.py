"""The digest's PTX: the assembler takes it, and what its instructions compute is the digest of core/digest.h.

usage: digest_ptx.py PTX_FILE [PTXAS]

Without a GPU the text is carried out instruction by instruction, warp by warp; an instruction that is not known here
is an error.
"""
import pathlib
import random
import re
import subprocess
import sys
import unittest

TEXT = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
PTXAS = sys.argv[2] if len(sys.argv) > 2 else None
M64, M32 = (1 << 64) - 1, (1 << 32) - 1


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


def parse(text):
    text = re.sub(r"//.*", "", text)
    params = re.findall(r"\.param\s+\.u64\s+(\w+)", text)
    body = text[text.index("{") + 1:text.rindex("}")]
    code, labels = [], {}
    for line in re.findall(r"(?:\w+:|[^;:]+;)", body):
        line = line.strip().rstrip(";").strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif not line.startswith(".reg"):
            guard, name, rest = re.fullmatch(r"(?:@(%\w+)\s+)?([\w.]+)\s*(.*)", line, re.S).groups()
            code.append((guard, name, re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)))
    return params, code, labels


class Machine:
    """Device memory is `memory`, at address `base`."""

    def __init__(self, memory, base):
        self.memory, self.base = memory, base
        self.params, self.code, self.labels = parse(TEXT)

    def thread(self, specials, arguments):
        """A generator: gives (value, step) at a shuffle, takes what the other lane gave."""
        regs, at = dict(specials), 0

        def value(word):
            return regs[word] if word.startswith("%") else int(word, 0)

        def address(word):
            register, _, offset = word[1:-1].partition("+")
            return value(register) - self.base + int(offset or "0")

        two = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b, "and": lambda a, b: a & b,
               "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
               "min": min, "mul.wide": lambda a, b: a * b, "setp.ne": lambda a, b: a != b, "setp.ge": lambda a, b: a >= b}
        while True:
            guard, name, args = self.code[at]
            at += 1
            if guard is not None and not regs[guard]:
                continue
            what, _, kind = name.rpartition(".")
            mask = M32 if kind in ("u32", "b32") and what != "mul.wide" else M64
            if name == "ret":
                return
            if name == "bra":
                at = self.labels[args[0]]
            elif name == "ld.param.u64":
                regs[args[0]] = arguments[self.params.index(args[1][1:-1])]
            elif name in ("cvta.to.global.u64", "cvt.u64.u32"):
                regs[args[0]] = value(args[1])
            elif what == "mov" and args[0].startswith("{"):
                low, high = args[0][1:-1].replace(" ", "").split(",")
                regs[low], regs[high] = value(args[1]) & M32, value(args[1]) >> 32
            elif what == "mov" and args[1].startswith("{"):
                low, high = args[1][1:-1].replace(" ", "").split(",")
                regs[args[0]] = value(low) | value(high) << 32
            elif what == "mov":
                regs[args[0]] = value(args[1])
            elif what == "ld.global":
                start, size = address(args[1]), int(kind[1:]) // 8
                if start % size != 0 or start < 0 or start + size > len(self.memory):
                    raise AssertionError(f"load of {size} bytes at {start}")
                regs[args[0]] = int.from_bytes(self.memory[start:start + size], "little")
            elif name == "red.global.add.u64":
                start = address(args[0])
                total = int.from_bytes(self.memory[start:start + 8], "little") + value(args[1]) & M64
                self.memory[start:start + 8] = total.to_bytes(8, "little")
            elif name == "shfl.sync.down.b32":
                if args[3:] != ["31", "0xffffffff"]:
                    raise AssertionError(f"a shuffle of {args[3:]}")
                regs[args[0]] = yield value(args[1]), value(args[2])
            elif what in two:
                regs[args[0]] = two[what](value(args[1]), value(args[2])) & mask
            else:
                raise AssertionError(f"unknown instruction {name}")

    def warp(self, threads):
        given = [next(t, None) for t in threads]
        while given[0] is not None:
            if None in given:
                raise AssertionError("not all lanes take part in a shuffle")
            taken = [given[min(lane + step, 31) if lane + step < 32 else lane][0] for lane, (_, step) in enumerate(given)]
            given = [self.send(t, value) for t, value in zip(threads, taken)]

    @staticmethod
    def send(thread, value):
        try:
            return thread.send(value)
        except StopIteration:
            return None

    def launch(self, grid, block, arguments):
        for b in range(grid):
            for w in range(0, block, 32):
                self.warp([self.thread({"%tid.x": t, "%ctaid.x": b, "%ntid.x": block, "%nctaid.x": grid}, arguments)
                           for t in range(w, w + 32)])


class DigestPtx(unittest.TestCase):
    @unittest.skipIf(PTXAS is None, "meson found no ptxas")
    def test_the_assembler_takes_it_for_every_kind_of_device(self):
        for device in ("sm_75", "sm_80", "sm_90", "sm_100"):
            with self.subTest(device=device):
                done = subprocess.run([PTXAS, f"-arch={device}", "-o", "/dev/null", sys.argv[1]], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_definition_is_the_one_of_the_library(self):
        # As in core_test.cpp.
        self.assertEqual([f"{word:016x}" for word in digest(bytes(range(100)))], KNOWN)

    def test_what_it_computes_is_the_digest(self):
        base, room = 1 << 40, 4096
        source = random.Random(3)
        for offset, size, grid, block in ((0, 8, 1, 32), (0, 2048, 2, 32), (8, 1001, 1, 64), (16, 13, 2, 64), (0, 1, 1, 32),
                                          (3, 300, 1, 32), (4, 1021, 3, 32), (0, 0, 1, 32), (0, 64, 4, 32)):
            with self.subTest(offset=offset, size=size, grid=grid, block=block):
                memory = bytearray(source.randbytes(room)) + bytes(16)
                machine = Machine(memory, base)
                machine.launch(grid, block, [base + offset, size, base + room])
                made = [int.from_bytes(memory[at:at + 8], "little") for at in (room, room + 8)]
                self.assertEqual(tuple(made), digest(bytes(memory[offset:offset + size])))


KNOWN = ["3a7ae176c5e07242", "885643881b7176bf"]

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
