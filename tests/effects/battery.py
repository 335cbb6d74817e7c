"""Kernels of known effects: does the machine code say the same?

usage: battery.py POOCH NVCC NVDISASM FOLDER [--arch N]...

Every kernel of the sources in FOLDER has a comment that says what it touches (basic.cu tells how to write it). For each
architecture nothing may be missed: an effect that the comment names and the analysis does not, or a kernel with hidden
accesses that it takes for foreseen. At least nine in ten must be exact.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SOURCES = {"basic.cu": [75, 80, 86, 89, 90, 100, 120], "async.cu": [80, 86, 89, 90, 100, 120], "cluster.cu": [90, 100, 120]}
STATEMENT = re.compile(r"^// ([a-z_0-9]+(?:<.*>)?): (.*)$", re.M)
PLACE = re.compile(r"^p(\d+)(?:\+(\d+))?(?::(\d+))?$")
EXACT = 0.9


class Expected:
    """What a comment says. `words` and `maps`: effects by parameter and byte; `tables`: parameter, byte, bytes, effects."""

    def __init__(self, text):
        self.words, self.maps, self.tables = {}, {}, []
        self.module, self.verdict = set(), "foreseen"
        for part in re.split(r"[;,]\s*", text):
            if part in ("hidden", "unknown"):
                self.verdict = part
                continue
            *kind, effects = part.split()
            effects = set(effects.split("+"))
            if kind[0] == "module":
                self.module = effects
                continue
            number, byte, size = PLACE.match(kind[-1]).groups()
            place = (int(number), int(byte or 0))
            if kind[0] == "table":
                self.tables.append((*place, int(size), effects))
            else:
                (self.maps if kind[0] == "map" else self.words)[place] = effects


def effects_of(text):
    return set(text.split("+")) - {""}


def judge(expected, found):
    """What was missed, and what else differs; two lists of words."""
    missed, differs = [], []
    params = found["params"]
    place = lambda number, byte: params[number][0] + byte
    words = {}
    for word in found["words"]:
        if word["certainty"] != "derived":
            words.setdefault(word["offset"], set()).update(effects_of(word["effect"]))
        if word["certainty"] == "sum":
            differs.append(f"byte {word['offset']} is one of a sum")
    anywhere = set().union(*(effects_of(t["effect"]) for t in found["tables"] if t["index"] == "?"))
    wanted, ranges = {}, []
    for (number, byte), effects in expected.words.items():
        wanted.setdefault(place(number, byte) // 8 * 8, set()).update(effects)
    for number, byte, size, effects in expected.tables:
        begin = place(number, byte)
        ranges.append((begin, begin + size, effects))
        covered = set(anywhere)
        for table in found["tables"]:
            if begin <= table["offset"] < begin + size:
                covered |= effects_of(table["effect"])
        each = [words.get(w, set()) for w in range(begin, begin + size, 8)]
        covered |= set.intersection(*each) if each else set()
        missed += [f"table at {begin}: {e}" for e in effects - covered]
    for offset, effects in wanted.items():
        missed += [f"byte {offset}: {e}" for e in effects - words.get(offset, set()) - anywhere]
        differs += [f"byte {offset}: {e}" for e in effects - words.get(offset, set())]
    for offset, effects in words.items():
        allowed = wanted.get(offset, set()).union(*(e for begin, end, e in ranges if begin <= offset < end))
        differs += [f"byte {offset}: {e} too many" for e in effects - allowed]
    for table in found["tables"]:
        allowed = set().union(*(e for begin, end, e in ranges if table["index"] == "?" or begin <= table["offset"] < end))
        differs += [f"table at {table['offset']}: {e} too many" for e in effects_of(table["effect"]) - allowed]
    maps = {m["offset"]: effects_of(m["effect"]) for m in found["maps"]}
    wanted_maps = {place(number, byte): effects for (number, byte), effects in expected.maps.items()}
    missed += [f"map at {o}: {e}" for o, effects in wanted_maps.items() for e in effects - maps.get(o, set())]
    differs += [f"map at {o}: {e} too many" for o, effects in maps.items() for e in effects - wanted_maps.get(o, set())]
    missed += [f"module: {e}" for e in expected.module - effects_of(found["module"])]
    if expected.verdict != "foreseen" and found["verdict"] == "foreseen":
        missed.append(f"{expected.verdict} accesses")
    if expected.verdict != found["verdict"]:
        differs.append(f"{found['verdict']} instead of {expected.verdict}: {(found['hidden'] + found['unknown'])[:1]}")
    # What is unknown may touch anything, which whoever reads it has to suppose.
    return ([] if found["verdict"] == "unknown" else missed), missed + differs


def run(arguments):
    pooch, nvcc, nvdisasm, source, arch, folder = arguments
    cubin = folder / f"{source.stem}.{arch}.cubin"
    subprocess.run([nvcc, "-cubin", f"-arch=sm_{arch}", "-std=c++17", "-o", cubin, source], check=True, stderr=subprocess.DEVNULL)
    out = subprocess.run([pooch, "effects", cubin, "--json", "--nvdisasm", nvdisasm], check=True, stdout=subprocess.PIPE).stdout
    return source, arch, json.loads(out)["kernels"]


def damaged(pooch, nvdisasm, cubin, folder, times=30):
    """Runs with images that are damaged at random and did not end with an answer or an error."""
    whole, draw, crashes = cubin.read_bytes(), random.Random(1), []
    for i in range(times):
        content = bytearray(whole[: draw.randrange(1, len(whole))] if i % 4 == 0 else whole)
        for _ in range(draw.randrange(1, 30)):
            content[draw.randrange(min(len(content), 4096) if i % 2 else len(content))] = draw.randrange(256)
        (folder / "damaged.cubin").write_bytes(content)
        done = subprocess.run([pooch, "effects", folder / "damaged.cubin", "--json", "--nvdisasm", nvdisasm], timeout=60,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 2, 3):
            crashes.append(f"damaged image {i}: ends with {done.returncode}")
    return crashes


def name_of(demangled):
    """"void scaled<float, 4>(float*, …)" -> "scaled<float, 4>"."""
    return re.sub(r"^void ", "", demangled).split("(")[0]


def main():
    parser = argparse.ArgumentParser()
    for name in ("pooch", "nvcc", "nvdisasm", "folder"):
        parser.add_argument(name)
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    expected = {s: {n: Expected(t) for n, t in STATEMENT.findall((folder / s).read_text())} for s in SOURCES}
    missed = total = exact = 0
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        work = [(options.pooch, options.nvcc, options.nvdisasm, folder / s, a, pathlib.Path(temporary))
                for s, archs in SOURCES.items() for a in archs if not options.arch or a in options.arch]
        for source, arch, kernels in pool.map(run, work):
            found = {name_of(k["demangled"]): k for k in kernels}
            lacking = expected[source.name].keys() - found.keys()
            if lacking:
                sys.exit(f"battery: {source.name} for sm_{arch} has no {', '.join(sorted(lacking))}")
            for name, want in expected[source.name].items():
                misses, differences = judge(want, found[name])
                total += 1
                exact += not differences
                missed += bool(misses)
                if misses:
                    print(f"{name} on sm_{arch}: missed: {'; '.join(misses)}")
                elif differences and options.verbose:
                    print(f"{name} on sm_{arch}: {'; '.join(differences)}")
        crashes = damaged(options.pooch, options.nvdisasm, next(pathlib.Path(temporary).glob("basic.*.cubin")), pathlib.Path(temporary))
    print("\n".join(crashes) or "damaged images: no crash")
    kernels = sum(map(len, expected.values()))
    print(f"{kernels} kernels, {total} with their architectures: {missed} with something missed, {exact} exact ({100 * exact / total:.1f} %)")
    sys.exit(missed != 0 or bool(crashes) or exact < EXACT * total)


if __name__ == "__main__":
    main()
