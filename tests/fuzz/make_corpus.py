"""Makes the fuzz targets' first inputs anew, with the programs of a build folder. None is larger than 20 kB.

Inputs that it leaves alone: short texts written by hand (settings, kernel_name, fatbin/ptx, and of profiles what no
writer would write), and what a fuzzer found.

usage: make_corpus.py BUILD_FOLDER [CORPUS_FOLDER]
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "preload"))
from runs import BUILD, POOCH, TRAIN, run  # noqa: E402

CORPUS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else TESTS / "fuzz/corpus"
MOST_BYTES = 20_000
# What cache_fuzz.cpp asks the cache for.
ASKED = {"phase": "9f31", "structure": "", "device": "v100-pcie3", "policy": "hybrid", "placed": False, "cap": 1 << 24,
         "host_budget": 1 << 26, "planner": "1"}


def write(target, name, content):
    data = content if isinstance(content, bytes) else content.encode()
    if len(data) > MOST_BYTES:
        sys.exit(f"make_corpus: {target}/{name} has {len(data)} bytes: at most {MOST_BYTES} are wanted")
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(data)


def train(network, iterations, *options, **env):
    done = run("soft:v100-pcie3:timing", [TRAIN, "--network", network, "--iterations", iterations], *options, env=env)
    if done.status != 0:
        sys.exit(f"make_corpus: a run ended with {done.status}: {done.err}")


def profiles(folder):
    """Random ones, and what is wrong with three more."""
    subprocess.run([BUILD / "tests/fuzz/make_profiles", folder], check=True)
    for path in folder.glob("*.json"):
        if path.stat().st_size <= MOST_BYTES:
            write("profile", path.name, path.read_bytes())
    text = (folder / "ops12-seed4.json").read_text(encoding="utf-8")
    write("profile", "cut.json", text[:1500])
    spoilt = json.loads(text)
    next(op for op in spoilt["phases"][0]["ops"] if op["reads"])["reads"][0] = 900
    write("profile", "index.json", json.dumps(spoilt, indent=1))
    write("profile", "unknown.json", json.dumps(json.loads(text) | {"later": [{"x": [1, 2.5e-3, None]}]}))


def plans(folder):
    """For the profile that plan_fuzz.cpp holds plans against, in little more memory than it needs at least, one of them with
    a layout."""
    subprocess.run([BUILD / "tests/fuzz/make_profiles", folder], check=True)
    for policy, memory, *options in (("hybrid", "136MiB", "--unplaced"), ("superneurons", "200MiB"),
                                     ("swap-all", "136MiB", "--unplaced")):
        subprocess.run([POOCH, "plan", folder / "ops24-seed1.json", "--policy", policy, "--memory", memory, *options,
                        "-o", folder / "plan"], check=True, capture_output=True)
        write("plan", f"{policy}.json", (folder / "plan").read_bytes())


def cache_entries(folder):
    """That of a run, for what the run asked for and for what the target asks for; and the plan in it."""
    train("digits", 12, "--memory", "300MiB", "--policy", "hybrid", POOCH_CACHE=str(folder), POOCH_WAIT_FOR_PLANS="1")
    entry = json.loads(min(folder.glob("*.json"), key=lambda path: path.stat().st_size).read_text(encoding="utf-8"))
    entry.pop("layout", None)  # it would make them large
    compact = {"separators": (",", ":")}
    write("cache", "other.json", json.dumps(entry, **compact))
    own = {key: value for key, value in ASKED.items() if key in entry and key != "structure"}
    write("cache", "asked.json", json.dumps({**entry, "made_for": ASKED, **own}, **compact))
    del entry["made_for"]
    write("plan", "digits.json", json.dumps(entry, **compact))


def recordings(folder):
    train("alexnet", 1, "--policy", "keep", POOCH_RECORD=str(folder / "calls"))
    whole = (folder / "calls").read_bytes()
    write("recording", "whole", whole)
    write("recording", "cut", whole[: len(whole) * 2 // 3])


def device_code(_):
    """With the letter ahead that tells fatbin_fuzz.cpp what it is; of the cubin what nobody reads is left out."""
    kept = TESTS / "contract/fatbin"
    for name in ("lz4", "zstd"):
        write("fatbin", name, b"c" + (kept / f"{name}.fatbin").read_bytes())
    cubin = bytearray((kept / "plain.cubin").read_bytes())
    at, size, count = struct.unpack_from("<Q", cubin, 40) + struct.unpack_from("<HH", cubin, 58)
    headers, end = cubin[at : at + size * count], 64
    for header in range(0, len(headers), size):
        kind, flags, _, offset, length = struct.unpack_from("<IQQQQ", headers, header + 4)
        if flags & 2:  # code and constants
            struct.pack_into("<I", headers, header + 4, 8)
        elif kind != 8:
            end = max(end, offset + length)
    struct.pack_into("<Q", cubin, 40, end)
    write("fatbin", "cubin", b"e" + bytes(cubin[:end] + headers))


for make in (profiles, plans, cache_entries, recordings, device_code):
    with tempfile.TemporaryDirectory() as temporary:
        make(pathlib.Path(temporary))
