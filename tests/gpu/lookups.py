"""What a vendor's library asks the driver for as it starts, and whose functions it is given.

A spy stands before libpooch.so and writes each look-up down (tests/preload/real_libraries_spy.cpp): once without libpooch.so, to
know the driver's own answers, and once with it. Where the driver's answer has a wrapper, the library must hold that.
"""
import collections
import os
import pathlib
import re
import struct
import subprocess
import tempfile

# The first call of each. The runtime of 13.0 asks 440 times; far fewer would mean that the spy does not see it.
FIRST_CALL = {
    "libcudart.so.13": "cudaGetDeviceCount",
    "libcublas.so.13": "cublasCreate_v2",
    "libcublasLt.so.13": "cublasLtCreate",
    "libcudnn.so.9": "cudnnCreate",
    "libnccl.so.2": "ncclMemAlloc",
}
FEWEST_LOOK_UPS = 400
ABI = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
SHT_DYNSYM = 11

LookUp = collections.namedtuple("LookUp", "road caller name version flags owner symbol")


def toolkit(folders=()):
    """Folders in which the dynamic linker or the usual place have the vendor's libraries."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    known = re.findall(r"libcu(?:dnn|blas|dart)\.so\.\d+ .*=> (\S+)/[^/]*", cache)
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    folders = list(map(pathlib.Path, folders or ["/usr/local/cuda/lib64", *given, *known]))
    return list(dict.fromkeys(folder for folder in folders if any((folder / library).exists() for library in FIRST_CALL)))


def find(library, folders):
    return next((folder / library for folder in folders if (folder / library).exists()), None)


def exported(library):
    """Names of the functions that an ELF library defines for others."""
    data = pathlib.Path(library).read_bytes()
    at, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != SHT_DYNSYM:
            continue
        text = sections[link][4]
        for symbol in range(offset, offset + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, symbol)
            if section != 0:
                begin = text + name
                names.add(data[begin:data.index(b"\0", begin)].decode())
    return names


def spied(command, preload, folders, **variables):
    """The finished command, and the lines that the spy wrote, in words."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "spy")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
        environment |= {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "LD_PRELOAD": ":".join(map(str, preload)),
                        "LOOKUP_SPY": str(log), "POOCH_MEMORY_CAP": "1GiB", "POOCH_HOST_MEMORY": "1GiB",
                        "POOCH_CACHE": f"{folder}/plans"} | variables
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120)
        return done, [line.split() for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def look_ups(lines):
    return [LookUp(*words) for words in lines if len(words) == len(LookUp._fields)]


def has_wrapper(answer, wrappers, bases):
    """Did the driver answer with a function that a wrapper is for? It may give functions that it does not export, which have no
    name: what was asked for decides."""
    if answer.owner == "-":
        return False
    return answer.symbol in wrappers or (answer.symbol == "-" and answer.name in bases)


def judge(plain, hooked, wrappers):
    """What is wrong, in words, and how many look-ups were wrapped. `plain`: what was seen without libpooch.so; `wrappers`: the
    functions that it exports."""
    question = lambda look_up: look_up[:5]
    if list(map(question, hooked)) != list(map(question, plain)):
        return ["with libpooch.so it asks something else"], 0
    asked = sum(one.road == "cuGetProcAddress" for one in hooked)
    wrong = [] if asked >= FEWEST_LOOK_UPS else [f"only {asked} look-ups by cuGetProcAddress were seen"]
    bases = {ABI.sub("", name) for name in wrappers}
    wrapped = 0
    for before, after in zip(plain, hooked):
        if has_wrapper(before, wrappers, bases):
            wrapped += 1
            right = after.owner == "libpooch.so" and (before.symbol == "-" or after.symbol == before.symbol)
        else:
            right = (after.owner, after.symbol) == (before.owner, before.symbol)
        if not right:
            wrong.append(f"{after.caller} asks for {after.name} {after.version} by {after.road}: the driver gives {before.symbol} of "
                         f"{before.owner}, with libpooch.so {after.symbol} of {after.owner}")
    return wrong + ([] if wrapped else ["no look-up met a wrapper"]), wrapped
