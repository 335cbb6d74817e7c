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


def without_scopes(body):
    """Registers that belong to a pair of braces get names of their own, and the braces go."""
    count = 0

    def renamed(scope):
        nonlocal count
        count += 1
        inner, own = scope.group(1), set()
        for names in re.findall(r"\.reg\s+\.\w+\s+([^;]*);", inner):
            own |= set(re.findall(r"%\w+", names))
        return re.sub(r"%\w+", lambda name: f"{name.group()}_{count}" if name.group() in own else name.group(), inner)

    return re.sub(r"(?m)^\s*\{\s*$(.*?)^\s*\}\s*$", renamed, body, flags=re.S)


def parse(text):
    text = re.sub(r"//.*", "", text)
    params = re.findall(r"\.param\s+\.u\d+\s+(\w+)", text)
    body = without_scopes(text[text.index("{") + 1:text.rindex("}")])
    code, labels = [], {}
    for line in re.findall(r"(?:[$\w]+:|[^;:]+;)", body):
        line = line.strip().rstrip(";").strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif not line.startswith((".reg", ".pragma")):
            guard, name, rest = re.fullmatch(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*(.*)", line, re.S).groups()
            code.append((guard, name, re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)))
    numbers = {name for names in re.findall(r"\.reg\s+\.f32\s+([^;]*);", body) for name in re.findall(r"%\w+<?", names)}
    return params, code, labels, numbers


class Machine:
    """Runs `text`. Device memory is `memory`, at address `base`."""

    def __init__(self, text, memory, base):
        self.memory, self.base = memory, base
        self.params, self.code, self.labels, self.numbers = parse(text)

    def is_number(self, register):
        return register in self.numbers or register.rstrip("0123456789") + "<" in self.numbers

    def bytes_at(self, start, size):
        if start % size != 0 or start < 0 or start + size > len(self.memory):
            raise AssertionError(f"{size} bytes at {start}")
        return slice(start, start + size)

    def thread(self, specials, arguments):
        """A generator: gives (value, step) at a shuffle and takes what the other lane gave; gives the value alone at a barrier
        and takes whether it was true of any thread."""
        regs, at = dict(specials), 0

        def value(word):
            if word.startswith("0f"):
                return float_of(int(word[2:], 16))
            return regs[word] if word.startswith("%") else int(word, 0)

        def whole(word):
            return value(word) & mask

        def put(register, content, size):
            """As a number if that is what the register is for, whatever wrote it."""
            number = self.is_number(register)
            if isinstance(content, float) != number:
                content = float_of(content) if number else bits_of(content)
            regs[register] = content if number else content & (1 << 8 * size) - 1

        def each(word):
            return word[1:-1].replace(" ", "").split(",")

        def address(word):
            register, _, offset = word[1:-1].partition("+")
            return value(register) - self.base + int(offset or "0")

        two = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b, "and": lambda a, b: a & b,
               "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
               "min": min, "mul.wide": lambda a, b: a * b, "rem": lambda a, b: a % b, "div": lambda a, b: a // b,
               "setp.gt": lambda a, b: a > b, "setp.le": lambda a, b: a <= b,
               "setp.ne": lambda a, b: a != b, "setp.ge": lambda a, b: a >= b,
               "setp.lt": lambda a, b: a < b, "setp.eq": lambda a, b: a == b}
        floats = {"sub.rn": lambda a, b: rounded(exact(a) - exact(b)), "mul.rn": lambda a, b: rounded(exact(a) * exact(b)),
                  "setp.le": lambda a, b: a <= b, "setp.leu": lambda a, b: not a > b,
                  "setp.nan": lambda a, b: math.isnan(a) or math.isnan(b)}
        while True:
            guard, name, args = self.code[at]
            at += 1
            if guard is not None and bool(regs[guard.lstrip("!")]) == guard.startswith("!"):
                continue
            what, _, kind = name.rpartition(".")
            size = int(kind[1:]) // 8 if kind[1:].isdigit() else 0
            mask = M32 if size == 4 and what != "mul.wide" else M64
            if name == "ret":
                return
            if name in ("bra", "bra.uni"):
                at = self.labels[args[0]]
            elif name in ("ld.param.u64", "ld.param.u32"):
                regs[args[0]] = arguments[self.params.index(args[1][1:-1])]
            elif name in ("cvta.to.global.u64", "cvt.u64.u32"):
                regs[args[0]] = value(args[1])
            elif what == "mov" and args[0].startswith("{"):
                for k, register in enumerate(each(args[0])):
                    put(register, value(args[1]) >> 4 * size * k, size // 2)
            elif what == "mov" and args[1].startswith("{"):
                low, high = each(args[1])
                put(args[0], value(low) | value(high) << 4 * size, size)
            elif name == "mov.pred":
                regs[args[0]] = value(args[1]) != 0
            elif what == "mov":
                put(args[0], value(args[1]), size)
            elif what in ("ld.global.v4", "ld.global.nc.v4"):
                start = address(args[1])
                self.bytes_at(start, 4 * size)
                for k, register in enumerate(each(args[0])):
                    put(register, int.from_bytes(self.memory[self.bytes_at(start + k * size, size)], "little"), size)
            elif what in ("ld.global", "ld.global.nc"):
                put(args[0], int.from_bytes(self.memory[self.bytes_at(address(args[1]), size)], "little"), size)
            elif what in ("st.global", "st.global.v4"):
                words, start = each(args[1]) if what.endswith("v4") else [args[1]], address(args[0])
                self.bytes_at(start, len(words) * size)
                for k, word in enumerate(map(value, words)):
                    word = bits_of(word) if isinstance(word, float) else word
                    self.memory[start + k * size:start + (k + 1) * size] = word.to_bytes(size, "little")
            elif name == "cvt.f32.f16":
                regs[args[0]] = struct.unpack("<e", value(args[1]).to_bytes(2, "little"))[0]
            elif name == "cvt.rn.f16.f32":
                regs[args[0]] = half_bits(value(args[1]))
            elif name in ("cvt.u32.u16", "cvt.u16.u32", "cvt.u32.u64"):
                regs[args[0]] = value(args[1]) & (1 << int(what[-2:])) - 1
            elif name == "fma.rn.f32":
                a, b, c = (exact(value(word)) for word in args[1:])
                regs[args[0]] = rounded(a * b + c)
            elif name == "neg.f32":
                regs[args[0]] = -value(args[1])
            elif what == "selp":
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
            elif name == "bar.red.or.pred":
                if args[1] != "0":
                    raise AssertionError(f"barrier {args[1]}")
                regs[args[0]] = yield bool(value(args[2]))
            elif name == "or.pred":
                regs[args[0]] = value(args[1]) or value(args[2])
            elif name == "neg.s32":
                regs[args[0]] = -value(args[1]) & mask
            elif name == "not.b32":
                regs[args[0]] = ~value(args[1]) & mask
            elif name == "mad.lo.s32":
                regs[args[0]] = value(args[1]) * value(args[2]) + value(args[3]) & mask
            elif what in two:
                regs[args[0]] = two[what](whole(args[1]), whole(args[2])) & mask
            else:
                raise AssertionError(f"unknown instruction {name}")

    def warp(self, threads, given):
        """As far as a barrier or the end."""
        while isinstance(given[0], tuple):
            if not all(isinstance(one, tuple) for one in given):
                raise AssertionError("not all lanes take part in a shuffle")
            taken = [given[min(lane + step, 31) if lane + step < 32 else lane][0] for lane, (_, step) in enumerate(given)]
            given = [self.send(t, value) for t, value in zip(threads, taken)]
        return given

    @staticmethod
    def send(thread, value):
        try:
            return thread.send(value)
        except StopIteration:
            return None

    def block(self, warps):
        at = [self.warp(threads, [self.send(t, None) for t in threads]) for threads in warps]
        while any(one is not None for given in at for one in given):
            if any(one is None for given in at for one in given):
                raise AssertionError("not all threads come to a barrier")
            anyone = any(one for given in at for one in given)
            at = [self.warp(threads, [self.send(t, anyone) for t in threads]) for threads in warps]

    def launch(self, grid, block, arguments):
        for b in range(grid):
            self.block([[self.thread({"%tid.x": t, "%ctaid.x": b, "%ntid.x": block, "%nctaid.x": grid}, arguments)
                         for t in range(w, w + 32)] for w in range(0, block, 32)])
