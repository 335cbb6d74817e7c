"""How close plans come to in-core where mapping is priced for each handle: the rows of "fixed places", with their limits.

usage: fixed_places.py BUILD_FOLDER [--rows 0,1,...] [--seeds 1,2,3] [--vmm 1]

Each row is carried out on the software GPU with 2 % noise, once per seed, beside the same network in-core on the same device; the
median of the seeds counts. Prints a Markdown table. Fails where a row takes more than its limit over in-core, more than 2 % other
than predicted, or where more pieces of memory are mapped in an iteration than allowed.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
# runs.py reads the build folder from the command line.
from runs import TRAIN, run  # noqa: E402

ITERATIONS = 40
MOVES, PREDICTED_WITHIN = 200, 0.02
# Device, GiB, network, the most over in-core, the most pieces mapped in an iteration.
ROWS = (
    ("v100-pcie3", 16, "resnet50 --batch 512", 0.070, MOVES),
    ("v100-pcie3", 16, "resnet50 --batch 640", 0.092, MOVES),
    ("v100-pcie3", 16, "resnet50 --batch 1024", 0.130, MOVES),
    ("v100-pcie3", 16, "resnet50 --batch 1440", 0.38, 2 * MOVES),
    ("v100-nvlink2", 16, "resnet50 --batch 640", 0.007, MOVES),
    ("v100-nvlink2", 16, "resnet50 --batch 1152", 0.020, MOVES),
    ("v100-nvlink2", 16, "resnet50 --batch 1440", 0.030, 2 * MOVES),
    ("titanx", 12, "vgg16 --batch 229 --separate-relu", 0.010, MOVES),
    ("v100-pcie3", 16, "alexnet --batch 2688", 0.005, MOVES),
    ("v100-pcie3", 16, "resnext101-3d --input-size 448 --input-width 224 --frames 256 --batch 1", 0.035, MOVES),
    ("h200", 16, "resnet50 --batch 640", 0.15, MOVES),
)


def carry_out(row, vmm, seed):
    """Over in-core, over what was predicted, and pieces mapped in an iteration."""
    model, gib, network, _, _ = row
    device = f"soft:{model}:timing:vmm={vmm}:noise=2,{seed}"
    command = [TRAIN, "--network", *network.split(), "--iterations"]
    few, more = (run(device + ":memory=1TiB", [*command, n], "--no-pooch", timeout=900).device["virtual_ns"] for n in (3, ITERATIONS))
    in_core_ms = (more - few) / (ITERATIONS - 3) / 1e6
    with tempfile.TemporaryDirectory() as cache:
        done = run(device, [*command, ITERATIONS], "--policy", "hybrid", "--memory", f"{gib}GiB", timeout=1800,
                   env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})
    if done.status != 0 or done.device["violations"] or done.summary["plans_left"]:
        sys.exit(f"fixed_places: {model} {network}: {done.err}")
    summary = done.summary
    return (summary["actual_ms"] / in_core_ms - 1, summary["actual_ms"] / summary["predicted_ms"] - 1,
            summary["moved_frames"] / max(1, summary["aliased_iterations"]))


def main():
    parser = argparse.ArgumentParser(prog="fixed_places.py")
    parser.add_argument("build")
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--vmm", default="1")
    chosen = parser.parse_args()
    missed = 0
    print("| model | network | at most | over in-core | over the prediction | mapped in an iteration | |\n" + "| --- " * 7 + "|")
    for row in (ROWS[int(index)] for index in chosen.rows.split(",")):
        model, _, network, most, most_moves = row
        over, off, moves = (statistics.median(values)
                            for values in zip(*(carry_out(row, chosen.vmm, seed) for seed in chosen.seeds.split(","))))
        wrong = [what for what, is_wrong in (("limit", over > most), ("prediction", abs(off) > PREDICTED_WITHIN),
                                             ("mapping", moves > most_moves)) if is_wrong]
        missed += bool(wrong)
        print(f"| {model} | `{network}` | {most:+.1%} | {over:+.1%} | {off:+.1%} | {moves:.0f} | "
              f"{', '.join(wrong) + ' missed' if wrong else 'held'} |", flush=True)
    print(f"{len(chosen.rows.split(',')) - missed} passed, {missed} failed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
