"""Virtual times, evictions and mapping calls of plans carried out: what a change of form must not change. Every dropped map is compared.

usage: same_digits.py BUILD_FOLDER FILE         writes them
       same_digits.py BUILD_FOLDER FILE again   compares them with the file's; exit code 1 where one differs
"""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
from planned_rows import ROWS  # noqa: E402
from runs import TRAIN, run  # noqa: E402

ITERATIONS = 16
CLOSE = 1e-6  # times: two threads of the program's meet at the device a few nanoseconds earlier or later
TIMES = ("virtual_ns", "predicted_ms", "actual_ms")
FIGURES = ("evictions", "vmm_calls", "handles_created", "bytes_out", "bytes_in", "replays", "host_waits", "planned_iterations",
           "plans_left", "unplanned_evictions", "peak_device_bytes", "predicted_ms", "actual_ms")


def rows():
    """Name, device, cap in MiB, the trainer's options, policy."""
    for device, gib, network, _ in ROWS:
        yield f"{device} {network}", f"soft:{device}:timing", gib * 1024, network, "hybrid"
    for policy in ("demand", "swap-all", "superneurons", "vdnn-dyn"):
        yield f"v100-pcie3 {policy}", "soft:v100-pcie3:timing", 16 * 1024, "--network resnet50 --batch 256", policy


def figures(device, mib, network, policy):
    with tempfile.TemporaryDirectory() as cache:
        done = run(device, [TRAIN, *network.split(), "--iterations", ITERATIONS], "--policy", policy, "--memory", f"{mib}MiB",
                   env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_VERIFY": "all", "POOCH_CACHE": cache}, timeout=900)
    if done.status != 0:
        sys.exit(done.err)
    return {"virtual_ns": done.device["virtual_ns"], "peak_bytes": done.device["peak_bytes"], "losses": done.losses} | {
        name: done.summary.get(name) for name in FIGURES}


def same(what, now, before):
    return now == before or (what in TIMES and before is not None and abs(now / before - 1) < CLOSE)


def main(file, again=None):
    found = {}
    for name, *row in rows():
        found[name] = figures(*row)
        print(f"{name}: {found[name]['virtual_ns']} ns, {found[name]['evictions']} evictions, {found[name]['vmm_calls']} mapping calls",
              flush=True)
    if again is None:
        pathlib.Path(file).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    before = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    differences = [f"{name}: {what} is {value}, was {before.get(name, {}).get(what)}" for name, row in found.items()
                   for what, value in row.items() if not same(what, value, before.get(name, {}).get(what))]
    print(*differences, f"{len(found)} rows, {len(differences)} figures differ", sep="\n")
    return 1 if differences or before.keys() != found.keys() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[2:]))
