"""The largest batch that trains in 16 GiB: in-core, and under a policy with a host budget.

usage: largest_batch.py BUILD_FOLDER_OR_BUNDLE [NETWORK [HOST_MEMORY [POLICY [MODEL [LEAST]]]]]
MODEL: of the software GPU, then in virtual time and in-core on a device of that size; or `real`, then in-core under the policy
`keep`, which lets nothing leave. LEAST: times the largest batch in-core; a smaller one gives exit code 1.

Bisects in steps of 8 images. A batch trains when all iterations end well, within the cap, without a violation; it is planned
when some of them followed a plan from their first op to their last. What the first batch that does not train is refused
with names the op and what it needs.
"""
import json
import pathlib
import sys

ARGUMENTS = sys.argv[2:] + ["resnet50", "178GiB", "hybrid", "v100-pcie3", "0"][len(sys.argv[2:]):]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
from programs import MIB, Device, Programs  # noqa: E402

PROGRAMS = Programs(sys.argv[1])
NETWORK, HOST, POLICY, MODEL, LEAST = *ARGUMENTS[:4], float(ARGUMENTS[4])
CAP_MIB = 16 << 10
DEVICE = Device("real" if MODEL == "real" else f"soft:{MODEL}:timing:memory={CAP_MIB}MiB")
STEP = 8


def attempt(mode, batch):
    """mode: in-core, any (iterations with or without a plan) or planned."""
    command = [PROGRAMS.train, "--network", NETWORK, "--batch", batch, "--iterations", 2 if mode == "in-core" else 10, "--json"]
    capped = ["--memory", f"{CAP_MIB}MiB"]
    if mode == "in-core":
        options = ["--no-pooch"] if DEVICE.software else ["--policy", "keep", *capped]
    else:
        options = ["--policy", POLICY, *capped, "--host-memory", HOST]
    done = PROGRAMS.run(DEVICE, command, *options, timeout=900, env={"POOCH_WAIT_FOR_PLANS": "1"})
    good = done.status == 0
    if good:
        why = "without a plan" if mode == "planned" and done.summary["planned_iterations"] == 0 else ""
        if DEVICE.software:
            assert done.device["violations"] == [], done.err
            assert done.device["peak_bytes"] <= CAP_MIB * MIB
        else:
            assert done.summary["peak_device_bytes"] <= CAP_MIB * MIB
    else:
        why = done.err.strip().splitlines()[0]
    print(f"{mode} {batch}: {why or 'trains'}", file=sys.stderr, flush=True)
    return why == "", done


def largest(mode, low):
    """Bisection above `low`, which must train. The last good run, its batch, and why the next one fails."""
    good, best = attempt(mode, low)
    assert good, best.err
    step = max(low // 2 // STEP, 1) * STEP
    while True:
        good, done = attempt(mode, low + step)
        if not good:
            break
        low, best = low + step, done
    high, why = low + step, done
    while high - low > STEP:
        middle = (low + high) // 2 // STEP * STEP
        good, done = attempt(mode, middle)
        if good:
            low, best = middle, done
        else:
            high, why = middle, done
    return low, best, why


def main():
    in_core, _, _ = largest("in-core", 64)
    planned, best, _ = largest("planned", 4 * in_core)
    batch, _, why = largest("any", planned)
    refusal = next((line for line in why.err.splitlines() if "pooch: error" in line), why.err.strip())
    print(json.dumps({"network": NETWORK, "model": MODEL, "host_memory": HOST, "policy": POLICY, "in_core": in_core,
                      "planned": planned, "planned_times": round(planned / in_core, 2), "largest": batch,
                      "largest_times": round(batch / in_core, 2), "need_bytes": best.summary["need_bytes"], "peak_host_bytes": best.summary["peak_host_bytes"],
                      "ms_per_iteration": json.loads(best.out)["ms_per_iteration"], "beyond": refusal}, indent=1), flush=True)
    if batch < LEAST * in_core:
        sys.exit(f"{batch} is less than {LEAST:g} times {in_core}")


if __name__ == "__main__":
    main()
