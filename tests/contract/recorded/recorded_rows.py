"""Every row of the spec that has no implementation beneath, against libraries that do nothing: what pooch announces of each
operand, beside what the headers and the routines' definitions say.

usage: recorded_rows.py calls OUTPUT.cpp SOURCE_ROOT LIBRARY...      the table of calls (recorded_rows.h)
       recorded_rows.py library OUTPUT.cpp SOURCE_ROOT NAME LIBRARY...   a library that does nothing: cublas, cudnn, cublaslt or cuda
       recorded_rows.py test PROGRAM SOURCE_ROOT LIBRARY...
LIBRARY: those of the software GPU, which have the rows that other tests call. cuBLAS' are all called here.

From the headers comes whether an operand is const, and its element's type. What elements it has comes from the definitions of
the BLAS (netlib.org/blas): they are enumerated one by one here, and no formula is shared with interpose/.
"""
import itertools
import os
import pathlib
import re
import subprocess
import sys
import unittest

READ, WRITE, OVERWRITE, READ_WRITE, SCRATCH = range(5)
EFFECTS = ("read", "write", "overwrite", "read_write", "scratch")
NOT_CALLED = {
    "cuMemcpy3DBatchAsync": "arrays of nested unions", "cuMemcpy3DBatchAsync_ptsz": "arrays of nested unions",
    "cuMemBatchDecompressAsync": "arrays of descriptions with sizes that the device writes",
    "cuMemBatchDecompressAsync_ptsz": "arrays of descriptions with sizes that the device writes",
}
# Calls of which sizes come from descriptors that nobody has here: who reads and who writes, and sizes that are parameters.
SIZES_UNKNOWN = ("cudnn", "cublaslt")


# --- which rows, and their prototypes

def prototypes(root):
    """(result, [(type, name)]) by function."""
    found = {}
    for line in (root / "interpose/symbols/prototypes.txt").read_text(encoding="utf-8").splitlines():
        match = re.match(r"(\S.*?[ *])(\w+)\((.*)\)$", line)
        if match:
            parameters = [] if match[3] in ("", "void") else match[3].split(", ")
            found[match[2]] = [re.match(r"(.*?)(\w+)((?:\[\])?)$", p).groups() for p in parameters]
    return {name: [(t.strip() + (" *" if array else ""), p) for t, p, array in of] for name, of in found.items()}


def exported(libraries):
    text = "".join(subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
                   for path in libraries)
    return {line.split()[-1].split("@")[0] for line in text.splitlines() if line}


def rows(root, libraries):
    """(library, row) of those that are to be called."""
    sys.path.insert(0, str(root / "interpose"))
    from spec import surface  # noqa: PLC0415
    from spec.language import Row  # noqa: PLC0415
    beneath = exported(libraries)
    for library in ("cublas", "cublaslt", "cudnn", "cuda"):
        for name, entry in surface.load(library).entries.items():
            if isinstance(entry, Row) and (library == "cublas" or name not in beneath):
                yield library, name


def write_calls(output, root, libraries):
    known = prototypes(root)
    lines = ['#include "tests/contract/recorded/recorded_rows.h"', "", "namespace recorded_rows {", "namespace {", "",
             "const Function all[] = {"]
    for _, name in rows(root, libraries):
        if name in NOT_CALLED:
            continue
        arguments = ", ".join(f"as<{t}>(w[{i}])" for i, (t, _) in enumerate(known[name]))
        lines.append(f'    {{"{name}", {len(known[name])}, [](const Words& w) {{ return static_cast<int>(::{name}({arguments})); }}}},')
    lines += ["};", "", "}  // namespace", "", "std::span<const Function> functions() {", "  return all;", "}", "",
              "}  // namespace recorded_rows", ""]
    pathlib.Path(output).write_text("\n".join(lines), encoding="utf-8")


def write_library(output, root, which, libraries):
    """Rows succeed; whatever pooch asks beside them is not supported, but cuBLAS' pointer mode."""
    called = {name for library, name in rows(root, libraries) if library == which}
    names = (root / f"interpose/symbols/{which}.txt").read_text(encoding="utf-8").split("\n")[1:]
    refused = {"cublas": 15, "cublaslt": 15, "cudnn": 3000, "cuda": 801}[which]
    lines = ['#define EXPORT extern "C" __attribute__((visibility("default")))']
    if which == "cublas":
        lines += ['extern "C" { __attribute__((visibility("default"))) int recorded_pointer_mode = 0; }',
                  "EXPORT int cublasGetPointerMode_v2(void*, int* mode) { return *mode = recorded_pointer_mode, 0; }"]
    for name in names:
        if name in called or (which != "cuda" and name not in ("", "cublasGetPointerMode_v2")):
            lines.append(f"EXPORT int {name}() {{ return {0 if name in called else refused}; }}")
    pathlib.Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- what the BLAS define: the elements of each operand, by their offsets

def general(rows_, columns, leading):
    return [i + j * leading for j in range(columns) for i in range(rows_)]


def packed(n):
    return list(range(n * (n + 1) // 2))


def strided(n, increment):
    return [i * abs(increment) for i in range(n)]  # the pointer is to the lowest address for either sign


def stored(operation, rows_, columns):
    return (rows_, columns) if operation == 0 else (columns, rows_)


class Matrix:
    def __init__(self, shape, leading, stride=None):
        self.shape, self.leading, self.stride = shape, leading, stride

    def elements(self, a):
        return batch(general(*self.shape(a), a[self.leading]), a, self.stride)


class Packed:
    def elements(self, a):
        return packed(a["n"])


class Vector:
    def __init__(self, count, increment, stride=None):
        self.count, self.increment, self.stride = count, increment, stride

    def elements(self, a):
        return batch(strided(self.count(a), a[self.increment]), a, self.stride)


class Scalar:
    def elements(self, a):
        return [0]


def batch(one, a, stride):
    if stride not in a:
        return one
    return [a[stride] * b + offset for b in range(a["batchCount"]) for offset in one]


def M(shape, leading):
    return Matrix(shape, leading, "stride" + leading[2:].upper())


def of(*names):
    return lambda a: tuple(a[name] for name in names)


def op(operation, rows_, columns):
    return lambda a: stored(a[operation], a[rows_], a[columns])


def side(a):
    return (a["m"], a["m"]) if a["side"] == 0 else (a["n"], a["n"])


def V(name, count="n"):
    return Vector(lambda a: a[count], "inc" + name, "stride" + name)


def across(long):
    """x or y of gemv: as long as op(A) is wide, or high."""
    return lambda a: a["n"] if (a["trans"] == 0) == long else a["m"]


C_MN = M(of("m", "n"), "ldc")
PRODUCT = {"A": M(op("transa", "m", "k"), "lda"), "B": M(op("transb", "k", "n"), "ldb"), "C": C_MN}
SIDED = {"A": M(side, "lda"), "B": M(of("m", "n"), "ldb"), "C": C_MN}
RANK = {"A": M(op("trans", "n", "k"), "lda"), "B": M(op("trans", "n", "k"), "ldb"), "C": M(of("n", "n"), "ldc")}
SQUARE, AP, BAND = M(of("n", "n"), "lda"), Packed(), M(lambda a: (a["k"] + 1, a["n"]), "lda")
VECTORS = {"x": V("x"), "y": V("y")}
MV = {"x": Vector(across(True), "incx", "stridex"), "y": Vector(across(False), "incy", "stridey")}
REDUCED = {"x": V("x"), "y": V("y"), "result": Scalar()}
T = "[SDCZ]"
# Of a routine: its operands, and how it writes each that it does: `blended` by beta, `set` whatever was there, `part` of the
# elements of the storage, blended by beta where there is one, `changed`.
ROUTINES = [
    (rf"{T}gemm(3m)?(StridedBatched)?|[SC]gemm(3m)?Ex|Gemm(StridedBatched)?Ex", PRODUCT, {"C": "blended"}),
    (rf"{T}(symm|hemm)", SIDED, {"C": "blended"}),
    (rf"{T}(syrk|herk|syr2k|her2k|syrkx|herkx)|C(syrk|herk)(3m)?Ex", RANK, {"C": "part"}),
    (rf"{T}trmm", SIDED, {"C": "set"}),
    (rf"{T}trsm", SIDED, {"B": "changed"}),
    (rf"{T}geam", {"A": M(op("transa", "m", "n"), "lda"), "B": M(op("transb", "m", "n"), "ldb"), "C": C_MN}, {"C": "set"}),
    (rf"{T}dgmm", {"A": M(of("m", "n"), "lda"), "x": Vector(lambda a: a["m" if a["mode"] == 0 else "n"], "incx"), "C": C_MN},
     {"C": "set"}),
    (rf"{T}tpttr", {"AP": AP, "A": SQUARE}, {"A": "part"}),
    (rf"{T}trttp", {"AP": AP, "A": SQUARE}, {"AP": "set"}),
    (rf"{T}gemv(StridedBatched)?", {"A": M(of("m", "n"), "lda"), **MV}, {"y": "blended"}),
    (rf"{T}gbmv", {"A": M(lambda a: (a["kl"] + a["ku"] + 1, a["n"]), "lda"), **MV}, {"y": "blended"}),
    (rf"{T}(symv|hemv)", {"A": SQUARE, **VECTORS}, {"y": "blended"}),
    (rf"{T}(sbmv|hbmv)", {"A": BAND, **VECTORS}, {"y": "blended"}),
    (rf"{T}(spmv|hpmv)", {"AP": AP, **VECTORS}, {"y": "blended"}),
    (rf"{T}ger[uc]?", {"x": V("x", "m"), "y": V("y"), "A": M(of("m", "n"), "lda")}, {"A": "changed"}),
    (rf"{T}(syr|her)2?", {**VECTORS, "A": SQUARE}, {"A": "changed"}),
    (rf"{T}(spr|hpr)2?", {**VECTORS, "AP": AP}, {"AP": "changed"}),
    (rf"{T}(trmv|trsv)", {"A": SQUARE, "x": V("x")}, {"x": "changed"}),
    (rf"{T}(tbmv|tbsv)", {"A": BAND, "x": V("x")}, {"x": "changed"}),
    (rf"{T}(tpmv|tpsv)", {"AP": AP, "x": V("x")}, {"x": "changed"}),
    (rf"{T}axpy|AxpyEx", VECTORS, {"y": "changed"}),
    (rf"{T}copy|CopyEx", VECTORS, {"y": "set"}),
    (rf"{T}swap|SwapEx|({T}|Cs|Zd)rot|RotEx|[SD]rotm", VECTORS, {"x": "changed", "y": "changed"}),
    (rf"({T}|Cs|Zd)scal|ScalEx", VECTORS, {"x": "changed"}),
    (rf"{T}dot[uc]?|Dotc?Ex|([SD]|Sc|Dz)(nrm2|asum)|I[sdcz]am(ax|in)|(Nrm2|Asum|Iamax|Iamin)Ex", REDUCED, {"result": "set"}),
]
SCALARS = {"alpha": 1, "beta": 1, "c": 1, "s": 1, "param": 5}  # elements; on the host or, by pointer mode, on the device
BYTES = {"float": 4, "double": 8, "cuComplex": 8, "cuFloatComplex": 8, "cuDoubleComplex": 16, "int": 4, "int64_t": 8}
TYPES = {0: 4, 1: 8, 2: 2, 5: 16}  # cudaDataType: float, double, half, complex of double


def routine(name):
    base = re.sub(r"(_v2)?(_64)?$", "", name.removeprefix("cublas"))
    found = [entry for entry in ROUTINES if re.fullmatch(entry[0], base)]
    if len(found) != 1:
        raise AssertionError(f"{name}: {len(found)} definitions")
    return found[0]


def is_pointer(kind):
    return kind.rstrip().endswith("*") or kind == "CUdeviceptr"


def cases(parameters):
    """Values of what is no pointer, by name."""
    names = {name for _, name in parameters}
    choices = {"m": (5,), "n": (3, 0), "k": (2,), "kl": (1,), "ku": (2,), "batchCount": (3,), "uplo": (0,), "diag": (0,), "algo": (0,)}
    choices |= {name: (0, 1) for name in ("side", "trans", "transa", "transb")} | {"mode": (0, 1)}
    choices |= {"incx": (1, -2), "incy": (1, 3)}
    typed = [name for kind, name in parameters if kind in ("cudaDataType", "cudaDataType_t")]
    types = (0, 1, 2, 5) if typed else (0,)
    plain = {name: values for name, values in choices.items() if name in names}
    for values in itertools.product(*plain.values()):
        for kind, pad in itertools.product(types, (0, 2)):
            a = dict(zip(plain, values)) | {name: kind for name in typed}
            if "computeType" in names and "computeType" not in a:
                a["computeType"] = {0: 68, 1: 70, 2: 64, 5: 70}[kind]
            # As large as any shape here, so that a leading dimension that equals the rows is among them.
            a |= {name: 5 + pad for name in names if re.fullmatch("ld[abc]", name)}
            a |= {name: 40 + 20 * pad for name in names if re.fullmatch("stride[ABCxy]", name)}
            yield a


# --- the test

class Program:
    def __init__(self, path):
        # The libraries that do nothing lie beside the program, and come first.
        folders = f"{pathlib.Path(path).resolve().parent}:{pathlib.Path(LIBRARIES[0]).resolve().parent}"
        self.child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=os.environ | {"LD_LIBRARY_PATH": folders})

    def say(self, line):
        self.child.stdin.write(line + "\n")

    def call(self, function, words):
        """Its accesses: {address: (bytes, effect)}, and how many there were."""
        self.say(" ".join([function, *map(str, words)]))
        self.child.stdin.flush()
        status, *accesses = self.child.stdout.readline().split() or ("no answer",)
        split = [tuple(map(int, access.split(":"))) for access in accesses]
        if status != "0" or len({s[0] for s in split}) != len(split):
            raise AssertionError(f"{function}: status {status}, {split}")
        return {address: (count, effect) for address, count, effect in split}

    def end(self):
        self.child.stdin.close()
        return self.child.wait(60)


def place(index):
    return (index + 1) << 32


REGION = 1 << 28


class RecordedRows(unittest.TestCase):
    checked = {}

    @classmethod
    def setUpClass(cls):
        cls.program, cls.prototypes = Program(PROGRAM), prototypes(ROOT)
        for index in range(24):
            cls.program.say(f"own {place(index)} {REGION}")

    @classmethod
    def tearDownClass(cls):
        if cls.program.end() != 0:
            raise AssertionError("the program that makes the calls did not end well")

    def names(self, library):
        for of_library, name in rows(ROOT, LIBRARIES):
            if of_library == library and name not in NOT_CALLED:
                self.checked.setdefault(library, set()).add(name)
                yield name

    def check_blas(self, name, a, mode, beta):
        parameters = self.prototypes[name]
        _, operands, writes = routine(name)
        words, wanted = [], {}
        for index, (kind, parameter) in enumerate(parameters):
            if not is_pointer(kind) and parameter != "handle":
                words.append(a[parameter])
            elif parameter == "handle":
                words.append(1 << 20)
            elif parameter in SCALARS and mode == 0:
                words.append(beta if parameter == "beta" else "&1")
            else:
                words.append(place(index))
                bytes_, offsets = self.element(kind, parameter, a), range(SCALARS.get(parameter, 0))
                offsets = list(offsets) or operands[parameter].elements(a)
                self.assertEqual("const" in kind, parameter not in writes, f"{name}: {kind} {parameter} in the header")
                if offsets:
                    dense = len(set(offsets)) == max(offsets) + 1
                    wanted[place(index)] = ((max(offsets) + 1) * bytes_, self.effect(
                        writes.get(parameter), dense, (mode == 1 or beta != "&0") and any(p == "beta" for _, p in parameters)))
        found = self.program.call(name, words)
        if found != wanted:
            self.fail(f"{name}({', '.join(f'{p}={w}' for (_, p), w in zip(parameters, words))}): pooch says {self.told(found)}; "
                      f"it is {self.told(wanted)}")

    @staticmethod
    def element(kind, parameter, a):
        base = kind.replace("const", "").replace("*", "").strip()
        if base != "void":
            return BYTES[base]
        for name in (f"{parameter}type", f"{parameter}Type", "csType" if parameter in "cs" else ""):
            if name in a:
                return TYPES[a[name]]
        return TYPES[a["Ctype"]]  # alpha and beta: what is computed in is set to suit

    @staticmethod
    def effect(how, dense, blended):
        if how is None:
            return READ
        if how == "changed" or (blended and how in ("blended", "part")):
            return READ_WRITE
        return OVERWRITE if dense and how != "part" else WRITE

    @staticmethod
    def told(accesses):
        return ", ".join(f"{bytes_} bytes at argument {(address >> 32) - 1} {EFFECTS[effect]}"
                         for address, (bytes_, effect) in sorted(accesses.items())) or "nothing"

    def test_cublas_operands_are_the_elements_that_routines_are_defined_by(self):
        for name in self.names("cublas"):
            parameters = self.prototypes[name]
            with self.subTest(name):
                if any(kind.count("*") > 1 for kind, _ in parameters):
                    self.check_pointer_array(name, parameters)
                    continue
                betas = ("&0", "&1") if any(p == "beta" for _, p in parameters) else ("&1",)
                for mode in (0, 1):
                    self.program.say(f"mode {mode}")
                    for a, beta in itertools.product(cases(parameters), betas):
                        self.check_blas(name, a, mode, beta)

    def check_pointer_array(self, name, parameters):
        """Addresses in device memory: all that the program has may be meant."""
        self.program.say("mode 0")
        words = [place(index) if kind.count("*") > 1 or kind in ("int *", "int*") else "&1" if is_pointer(kind) else 3
                 for index, (kind, _) in enumerate(parameters)]
        found = self.program.call(name, words)
        self.assertEqual(found, {place(index): (REGION, READ_WRITE) for index in range(24)}, name)

    def test_operands_of_descriptors_are_written_unless_they_are_const(self):
        for library in SIZES_UNKNOWN:
            for name in self.names(library):
                with self.subTest(name):
                    self.check_constness(name)

    def check_constness(self, name):
        parameters, words, sizes, data = self.prototypes[name], [], {}, {}
        for index, (kind, parameter) in enumerate(parameters):
            if parameter in ("alpha", "beta"):
                words.append("&1")
            elif parameter.startswith("host") or "Handle" in kind or "Desc" in kind or "cudaStream" in kind:
                words.append("&0")
            elif kind.endswith("*"):
                data[parameter.lower()] = (index, "const" in kind)
                words.append(place(index))
            elif re.search("size", parameter, re.I):
                sizes[re.sub("size(inbytes)?$", "", parameter.lower())] = 4096 + index
                words.append(4096 + index)
            else:
                words.append(0)
        found = self.program.call(name, words)
        self.assertEqual(set(found), {place(index) for index, _ in data.values()}, name)
        for parameter, (index, const) in data.items():
            count, effect = found[place(index)]
            self.assertEqual(effect == READ, const, f"{name}: {parameter}: {EFFECTS[effect]}")
            size = sizes.get(parameter, sizes.get(parameter.removeprefix("d")))
            self.assertEqual(count, REGION if size is None else size, f"{name}: {parameter}")

    def test_copies_of_the_driver_read_and_write_what_their_arguments_say(self):
        from_, to = place(0), place(1)
        linear = {to: (1000, OVERWRITE), from_: (1000, READ)}
        # Rows of 12 bytes, 4 of them in each of 3 layers, within rows of 64 and layers of 7 rows (64 and 5 where they come from).
        box = f"@3d:{to},8,2,1,64,7,{from_},4,1,2,64,5,12,4,3"

        def bytes_of(x, y, z, pitch, height):
            return [(z + k) * height * pitch + (y + j) * pitch + x + i for k in range(3) for j in range(4) for i in range(12)]
        there, here = bytes_of(8, 2, 1, 64, 7), bytes_of(4, 1, 2, 64, 5)
        boxes = {to + min(there): (max(there) - min(there) + 1, WRITE), from_ + min(here): (max(here) - min(here) + 1, READ)}
        batch_ = {to: (100, OVERWRITE), from_: (100, READ), place(2): (7, OVERWRITE), place(3): (7, READ)}
        calls = [
            (r"cuMemcpyPeer(_ptds)?", [to, 0, from_, 0, 1000], linear),
            (r"cuMemcpyPeerAsync(_ptsz)?", [to, 0, from_, 0, 1000, 0], linear),
            (r"cuMemcpyAtoD_v2(_ptds)?", [to, 1 << 20, 64, 1000], {to: (1000, OVERWRITE)}),
            (r"cuMemcpyDtoA_v2(_ptds)?", [1 << 20, 64, from_, 1000], {from_: (1000, READ)}),
            (r"cuMemcpy3D(_v2|Peer)(_ptds)?", [box], boxes),
            (r"cuMemcpy3D(Peer)?Async(_v2)?(_ptsz)?", [box, 0], boxes),
            (r"cuMemcpyBatchAsync(_ptsz)?",
             [f"@u64:{to},{place(2)}", f"@u64:{from_},{place(3)}", "@u64:100,7", 2, "&0", "@u64:0", 1, "&0", 0], batch_),
        ]
        for name in self.names("cuda"):
            with self.subTest(name):
                ((_, words, wanted),) = [call for call in calls if re.fullmatch(call[0], name)]
                self.assertEqual(self.told(self.program.call(name, words)), self.told(wanted))

    def test_what_is_not_called_is_a_row_without_an_implementation(self):
        self.assertEqual(set(NOT_CALLED) - {name for _, name in rows(ROOT, LIBRARIES)}, set())


def main():
    done = unittest.main(argv=sys.argv[:1], exit=False)
    beneath = exported(LIBRARIES)
    without = {name for _, name in rows(ROOT, LIBRARIES) if name not in beneath}
    called = set().union(*RecordedRows.checked.values())
    reasons = "; ".join(f"{name}: {why}" for name, why in NOT_CALLED.items())
    untouched = without - called - set(NOT_CALLED)
    print(f"rows without an implementation: {len(without & called)} of {len(without)} checked, of these "
          f"{sum(len(RecordedRows.checked.get(library, ())) for library in SIZES_UNKNOWN)} without the sizes that descriptors "
          f"give; {len(called - without)} others checked; {len(NOT_CALLED)} left out ({reasons})")
    sys.exit(0 if done.result.wasSuccessful() and not untouched else 1)


if __name__ == "__main__":
    what, target, root_, *rest = sys.argv[1:]
    ROOT = pathlib.Path(root_).resolve()
    if what == "calls":
        write_calls(target, ROOT, rest)
    elif what == "library":
        write_library(target, ROOT, rest[0], rest[1:])
    else:
        PROGRAM, LIBRARIES = target, rest
        main()
