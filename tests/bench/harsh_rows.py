"""The rows of plans carried out (tests/preload/planned_rows.py) on software GPUs of growing harshness.

usage: harsh_rows.py BUILD_FOLDER [--backings default,remap,alias] [--devices vmm=0,vmm=1,...] [--rows 0,1,...]

Prints one line of a Markdown table for each: in-core on the same device, predicted, executed, and iterations that followed a plan or left it.
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


def measure(row, options, backing):
    model, gib, network, allowed, _ = row
    device = f"soft:{model}:timing:{options}"
    command = [TRAIN, *network.split(), "--iterations"]
    alone = in_core_ms(device, network)
    with tempfile.TemporaryDirectory() as cache:
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache} | ({} if backing == "default" else {"POOCH_BACKING": backing})
        done = run(device, [*command, ITERATIONS], "--policy", "hybrid", "--memory", f"{gib}GiB", env=env, timeout=1800)
    summary = done.summary
    if done.status != 0 or done.device["violations"]:
        return f"| {model} | `{network}` | {backing} | {options} | {alone:.1f} | status {done.status} | {done.err.strip()[-80:]} | |"
    predicted, actual = summary["predicted_ms"], summary["actual_ms"]
    return (f"| {model} | `{network}` | {backing} | {options} | {alone:.1f} | {predicted:.1f} ({predicted / alone - 1:+.1%}) | "
            f"{actual:.1f} ({actual / alone - 1:+.1%}; {allowed:+.0%} allowed) | {summary['planned_iterations']} of {ITERATIONS}, {summary['plans_left']} left |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--backings", default="default,remap,alias")
    parser.add_argument("--devices", default=" ".join(DEVICES), help="options of the software GPU, separated by blanks")
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    o = parser.parse_args()
    print("| model | network | backing | device | in-core ms | predicted | executed | iterations planned |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for index in o.rows.split(","):
        for options in o.devices.split():
            for backing in o.backings.split(","):
                print(measure(ROWS[int(index)], options, backing), flush=True)


if __name__ == "__main__":
    main()
