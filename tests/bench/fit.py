"""Whether what `pooch fit` says of four networks comes true when they are carried out.

usage: fit.py BUILD_FOLDER [--rows 0,1,...] [--python PYTHON]

Under the smallest cap that it names iterations take at most 1.1 times their prediction, under 2 % less they take longer or no plan is
followed. What it predicts for the device and for a cap between the two, over in-core, is within 3 % of settled iterations over those
in-core. On the software GPU, whose durations differ by 2 %. Prints a Markdown table; fails where one of these does not hold. PyTorch's
row is left out without an interpreter that has it. A planner may take 60 s: other work on the machine makes rows fail.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests/preload"))
# runs.py reads the build folder from the command line.
from runs import MIB, POOCH, TRAIN, clean_environment, run  # noqa: E402

WITHIN = 0.03
LESS, KEPT = 0.98, 1.1
SETTLED, LEAST = 20, 24  # iterations: until nothing changes, and those that count
DRIFT_MS = 20e3  # the software GPU's clock rate rises and falls within that: it is to count as a whole
GPT = "gpt.py --layers 12 --width 768 --batch 8 --vocabulary 8192 --optimizer adamw-plain"
ROWS = (
    ("soft:v100-pcie3:timing", "resnet50 --batch 640"),
    ("soft:titanx:timing", "vgg16 --batch 229 --separate-relu"),
    ("soft:v100-nvlink2:timing", "resnext101-3d --input-size 448 --input-width 224 --frames 256 --batch 1"),
    ("soft:h200:timing:memory=6GiB", GPT),
)


def command_of(program, python):
    name, *options = program.split()
    if name.endswith(".py"):
        return [python, SOURCE / "examples/pytorch" / name, *options, "--iterations"]
    return [TRAIN, "--network", *program.split(), "--iterations"]


def told(device, command, *options):
    words = [POOCH, "fit", "--device", device + ":noise=2", "--json", *options, "--", *command, "1000"]
    done = subprocess.run([str(word) for word in words], env=clean_environment(), capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout)


def carried_out(device, command, cap, ms):
    """The run's summary; None: it failed."""
    with tempfile.TemporaryDirectory() as cache:
        done = run(device, [*command, SETTLED + max(LEAST, math.ceil(DRIFT_MS / ms))], "--memory", str(cap), timeout=900,
                   env={"POOCH_POLICY": "", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})
    if done.status != 0:
        print(done.err, file=sys.stderr)
    return done.summary if done.status == 0 else None


def in_core_ms(device, command, ms):
    """Of an iteration on a device with memory enough, by its own clock."""
    few, more = (run(device + ":memory=4TiB", [*command, count], "--no-pooch", timeout=900).device["virtual_ns"]
                 for count in (SETTLED, SETTLED + max(LEAST, math.ceil(DRIFT_MS / ms))))
    return (more - few) / 1e6 / max(LEAST, math.ceil(DRIFT_MS / ms))


def pace(summary):
    """Milliseconds of an iteration by a plan; None: none was followed."""
    return (summary or {}).get("actual_ms")


def check(device, command):
    first = told(device, command)
    between = (first["smallest_cap_bytes"] + min(first["cap_bytes"], first["in_core_cap_bytes"])) // 2 // MIB * MIB
    fit = told(device, command, "--memory", str(between))
    smallest = fit["smallest_cap_bytes"]
    alone = in_core_ms(device, command, fit["rows"][0]["in_core_ms"])
    cells, right = [], True
    for row in fit["rows"]:
        if row["cap_bytes"] not in (between, fit["cap_bytes"]):
            continue
        off = None
        if row["over_in_core"] is not None:
            actual = pace(carried_out(device, command, row["cap_bytes"], row["predicted_ms"]))
            off = None if actual is None else actual / alone / (1 + row["over_in_core"]) - 1
        right &= off is not None and abs(off) <= WITHIN
        cells.append(f"{row['cap_bytes'] / MIB:.0f} MiB: " + ("?" if off is None else f"{row['over_in_core']:+.1%}, off by {off:+.1%}"))
    right &= len(cells) == 2
    predicted = next(row["predicted_ms"] for row in fit["rows"] if row["smallest"])
    there, below = (pace(carried_out(device, command, cap, predicted)) for cap in (smallest, int(smallest * LESS)))
    right &= there is not None and there <= predicted * KEPT and (below is None or below > predicted * KEPT)
    cells.append(f"{smallest / MIB:.0f} MiB: " + " ".join("no plan" if ms is None else f"{ms / predicted:.2f}" for ms in (there, below)))
    return cells, right


def main():
    parser = argparse.ArgumentParser(prog="fit.py")
    parser.add_argument("build")
    parser.add_argument("--rows", default="")
    parser.add_argument("--python")
    chosen = parser.parse_args()
    rows = [ROWS[int(i)] for i in chosen.rows.split(",")] if chosen.rows else ROWS
    failed = 0
    print("| device | network | predictions | smallest cap: times its prediction there, and with 2 % less |\n| --- | --- | --- | --- |")
    for device, program in rows:
        if ".py" in program and not chosen.python:
            continue
        cells, right = check(device, command_of(program, chosen.python))
        failed += not right
        print(f"| {device} | {program} | {'; '.join(cells[:-1])} | {cells[-1]}{'' if right else ' **missed**'} |", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
