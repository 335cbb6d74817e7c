"""What it costs the host that ops are timed: processor time of the trainer's iterations, with a timer and without.

Runs without a timer, with events and with CUPTI take turns; for each iteration the median of the runs counts. All that
a timer adds anywhere in a run (brackets, reading, taking down) is charged to the iterations that were timed.

usage: timing_cost.py BUILD_FOLDER [ROUNDS [LIMIT [DEVICE]]]
LIMIT: in per cent; above it the exit code is 1. DEVICE: as `pooch run --device` takes it.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
LIMIT = float(sys.argv[3]) if len(sys.argv) > 3 else None
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "soft:v100-pcie3:timing"
TIMERS = ("none", "events", "cupti")
NETWORKS = (("googlenet", 4), ("resnet50", 2))
ITERATIONS = 10


def iterations(network, batch, timer):
    """Microseconds of each iteration, and how many of them were timed."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "host")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
        environment.update(POOCH_TIMER=timer, POOCH_REPORT=folder)
        done = subprocess.run(
            [BUILD / "tools/pooch", "run", "--device", DEVICE, "--policy", "keep", "--",
             BUILD / "examples/train", "--network", network, "--batch", str(batch), "--iterations", str(ITERATIONS),
             "--host-log", log], env=environment, capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            sys.exit(f"the trainer ended with {done.returncode}: {done.stderr}")
        profile = json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="utf-8"))
        timed = sum(phase["measured"] for phase in profile["phases"])
        if timed != (0 if timer == "none" else 3):
            sys.exit(f"{network}, {timer}: {timed} iterations were timed")
        return [float(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines()]


def main():
    worst = 0.0
    for network, batch in NETWORKS:
        runs = {timer: [] for timer in TIMERS}
        for _ in range(ROUNDS):
            for timer in TIMERS:
                runs[timer].append(iterations(network, batch, timer))
        each = {timer: [statistics.median(values) for values in zip(*runs[timer])] for timer in TIMERS}
        usual = statistics.median(each["none"][1:])
        for timer in TIMERS[1:]:
            extra = [with_timer - without for with_timer, without in zip(each[timer][1:], each["none"][1:])]
            share = 100 * sum(extra) / (3 * usual)
            worst = max(worst, share)
            print(f"{network}, {timer}: {share:+.1f} % of the host's time in timed iterations (usual {usual / 1e3:.2f} ms; "
                  f"more by iteration: {' '.join(f'{us / 1e3:+.2f}' for us in extra)} ms; medians of {ROUNDS} runs)")
    if LIMIT is not None and worst > LIMIT:
        sys.exit(f"more than {LIMIT:.0f} %")


if __name__ == "__main__":
    main()
