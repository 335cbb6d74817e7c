"""The rows of plans carried out (tests/preload/planned_rows.py) on software GPUs of growing harshness.

usage: harsh_rows.py BUILD_FOLDER [--devices vmm=0,vmm=1,...] [--rows 0,1,...]

Prints a Markdown table: extra time over in-core on the same device, predicted and executed, of iterations that follow a plan.
"""
import argparse
import functools
import pathlib
import sys
import tempfile

PRELOAD = pathlib.Path(__file__).resolve().parent.parent / "preload"
sys.path.insert(0, str(PRELOAD))
# runs.py reads the build folder from the command line.
from planned_rows import ITERATIONS, ROWS  # noqa: E402
from runs import TRAIN, run  # noqa: E402

DEVICES = tuple(f"vmm={vmm}:noise={noise},1" for vmm in (0, 1, 3) for noise in (0, 2))


@functools.cache
def in_core_ms(device, network):
    command = [TRAIN, *network.split(), "--iterations"]
    ns = [run(device + ":memory=1TiB", [*command, n], "--no-pooch").device["virtual_ns"] for n in (3, 6)]
    return (ns[1] - ns[0]) / 3e6


def measure(row, options):
    """A cell: extra time over in-core, predicted and executed."""
    model, gib, network, _ = row
    device = f"soft:{model}:timing:{options}"
    alone = in_core_ms(device, network)
    with tempfile.TemporaryDirectory() as cache:
        done = run(device, [TRAIN, *network.split(), "--iterations", ITERATIONS], "--policy", "hybrid", "--memory", f"{gib}GiB",
                   env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}, timeout=1800)
    summary = done.summary
    if done.status != 0 or done.device["violations"]:
        return f"status {done.status}: {done.err.strip()[-80:]}"
    most_without_a_plan = 5
    if summary["plans_left"] or summary["planned_iterations"] < ITERATIONS - most_without_a_plan:
        return f"{summary['planned_iterations']} iterations planned, {summary['plans_left']} plans left"
    return f"{summary['predicted_ms'] / alone - 1:+.1%} {summary['actual_ms'] / alone - 1:+.1%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--devices", default=" ".join(DEVICES), help="options of the software GPU, separated by blanks")
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    o = parser.parse_args()
    devices = o.devices.split()
    print(f"| model | network, allowed | {' | '.join(devices)} |\n{'| --- ' * (2 + len(devices))}|")
    for index in o.rows.split(","):
        row = ROWS[int(index)]
        cells = [measure(row, options) for options in devices]
        print(f"| {row[0]} | `{row[2]}`, {row[3]:+.0%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
