"""Plans carried out against what the planner foretold, in virtual time on the software GPU.

usage: executed.py BUILD_FOLDER DEVICE MEMORY POLICY [BACKING] -- TRAINER OPTIONS
One line: the iteration in core and as planned, and the median of the planned iterations that were executed.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ITERATIONS = 16


def iteration_ms(trace):
    events = json.load(open(trace))
    events = events["traceEvents"] if isinstance(events, dict) else events
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}
    return [e["dur"] / 1e3 for e in events if e.get("ph") == "X" and rows.get((e["pid"], e["tid"])) == "iterations"]


def main():
    split = sys.argv.index("--")
    build, device, memory, policy, *rest = sys.argv[1:split]
    backing = rest[0] if rest else "remap"
    with tempfile.TemporaryDirectory() as folder:
        trace, summary = f"{folder}/trace.json", f"{folder}/summary.json"
        env = dict(os.environ, POOCH_WAIT_FOR_PLANS="1", POOCH_CACHE=f"{folder}/cache", POOCH_BACKING=backing,
                   POOCH_TRACE=trace, POOCH_LOG="info")
        done = subprocess.run([f"{build}/tools/pooch", "run", "--device", device, "--memory", memory, "--policy", policy,
                               "--summary", summary, "--", f"{build}/examples/train", "--json",
                               "--iterations", str(ITERATIONS), *sys.argv[split + 1:]],
                              env=env, capture_output=True, text=True)
        plans = re.findall(r"plan by \S+, ([\d.]+) ms predicted, ([\d.]+) ms in core", done.stderr)
        if done.returncode != 0 or not plans:
            sys.exit(f"no plan was carried out:\n{done.stderr}")
        predicted, in_core = map(float, plans[-1])
        facts = json.load(open(summary))
        # The first planned iterations still clear away what ran before; the last one has no successor.
        count = facts["planned_iterations"] - 2
        actual = statistics.median(iteration_ms(trace)[-count:-1])
    print(f"{device} {memory} {policy} {backing} {' '.join(sys.argv[split + 1:])}: "
          f"in core {in_core:.0f} ms, predicted {predicted / in_core - 1:+.1%}, executed {actual / in_core - 1:+.1%}, "
          f"peak {facts['peak_device_bytes'] / 2**30:.2f} GiB, {facts['replays']} replays, "
          f"{facts['planned_iterations']} of {facts['iterations']} iterations planned")


if __name__ == "__main__":
    main()
