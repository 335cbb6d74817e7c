"""PTX, carried out instruction by instruction, warp by warp, without a GPU. An instruction that is not known here is
an error. What computes in single precision rounds once."""
import fractions
import math
import re
import struct
import subprocess

M64, M32 = (1 << 64) - 1, (1 << 32) - 1


def float_of(bits):
    return struct.unpack("<f", bits.to_bytes(4, "little"))[0]


def bits_of(value):
    return int.from_bytes(struct.pack("<f", value), "little")


def half_bits(value):
    if not math.isnan(value) and abs(value) >= 65520:
        return 0xFC00 if value < 0 else 0x7C00
    return int.from_bytes(struct.pack("<e", value), "little")


def exact(value):
    """NaN stays what it is, and so does all that is computed with it; infinity is not known here."""
    return value if math.isnan(value) else fractions.Fraction(value)


def rounded(value):
    """To the nearest number of single precision, ties to even; +0 of nothing."""
    if isinstance(value, float) or value == 0:
        return float(value)
    exponent = max(math.frexp(float(abs(value)))[1] - 24, -149)
    for _ in range(2):  # where the double was rounded up to the next power of two
        scaled = abs(value) / fractions.Fraction(2) ** exponent
        digits = round(scaled)
        if digits < 1 << 24 or exponent == -149:
            break
        exponent += 1
    return math.copysign(math.ldexp(digits, exponent), value)


def assembler_says(ptxas, path, device):
    done = subprocess.run([ptxas, f"-arch={device}", "-o", "/dev/null", path], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def parse(text):
    text = re.sub(r"//.*", "", text)
    params = re.findall(r"\.param\s+\.u\d+\s+(\w+)", text)
    body = text[text.index("{") + 1:text.rindex("}")]
    code, labels = [], {}
    for line in re.findall(r"(?:\w+:|[^;:]+;)", body):
        line = line.strip().rstrip(";").strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif not line.startswith(".reg"):
            guard, name, rest = re.fullmatch(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*(.*)", line, re.S).groups()
            code.append((guard, name, re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)))
    return params, code, labels


class Machine:
    """Runs `text`. Device memory is `memory`, at address `base`."""

    def __init__(self, text, memory, base):
        self.memory, self.base = memory, base
        self.params, self.code, self.labels = parse(text)

    def bytes_at(self, start, size):
        if start % size != 0 or start < 0 or start + size > len(self.memory):
            raise AssertionError(f"{size} bytes at {start}")
        return slice(start, start + size)

    def thread(self, specials, arguments):
        """A generator: gives (value, step) at a shuffle, takes what the other lane gave."""
        regs, at = dict(specials), 0

        def value(word):
            if word.startswith("0f"):
                return float_of(int(word[2:], 16))
            return regs[word] if word.startswith("%") else int(word, 0)

        def address(word):
            register, _, offset = word[1:-1].partition("+")
            return value(register) - self.base + int(offset or "0")

        two = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b, "and": lambda a, b: a & b,
               "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
               "min": min, "mul.wide": lambda a, b: a * b, "rem": lambda a, b: a % b,
               "setp.ne": lambda a, b: a != b, "setp.ge": lambda a, b: a >= b,
               "setp.lt": lambda a, b: a < b, "setp.eq": lambda a, b: a == b}
        floats = {"sub.rn": lambda a, b: rounded(exact(a) - exact(b)), "mul.rn": lambda a, b: rounded(exact(a) * exact(b)),
                  "setp.le": lambda a, b: a <= b, "setp.leu": lambda a, b: not a > b}
        while True:
            guard, name, args = self.code[at]
            at += 1
            if guard is not None and bool(regs[guard.lstrip("!")]) == guard.startswith("!"):
                continue
            what, _, kind = name.rpartition(".")
            mask = M32 if kind in ("u32", "b32") and what != "mul.wide" else M64
            if name == "ret":
                return
            if name == "bra":
                at = self.labels[args[0]]
            elif name in ("ld.param.u64", "ld.param.u32"):
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
                taken = value(args[1])
                regs[args[0]] = bits_of(taken) if isinstance(taken, float) else taken
            elif what in ("ld.global", "ld.global.nc"):
                word = int.from_bytes(self.memory[self.bytes_at(address(args[1]), int(kind[1:]) // 8)], "little")
                regs[args[0]] = float_of(word) if kind == "f32" else word
            elif what == "st.global":
                word, size = value(args[1]), int(kind[1:]) // 8
                word = bits_of(word) if kind == "f32" else word
                self.memory[self.bytes_at(address(args[0]), size)] = word.to_bytes(size, "little")
            elif name == "cvt.f32.f16":
                regs[args[0]] = struct.unpack("<e", value(args[1]).to_bytes(2, "little"))[0]
            elif name == "cvt.rn.f16.f32":
                regs[args[0]] = half_bits(value(args[1]))
            elif name == "cvt.u32.u16":
                regs[args[0]] = value(args[1])
            elif name == "fma.rn.f32":
                a, b, c = (exact(value(word)) for word in args[1:])
                regs[args[0]] = rounded(a * b + c)
            elif name == "neg.f32":
                regs[args[0]] = -value(args[1])
            elif name == "selp.f32":
                regs[args[0]] = value(args[1]) if regs[args[3]] else value(args[2])
            elif kind == "f32" and what in floats:
                regs[args[0]] = floats[what](value(args[1]), value(args[2]))
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
