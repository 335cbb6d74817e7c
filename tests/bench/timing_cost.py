"""What it costs the host that ops are timed: processor time of the trainer's iterations, with a timer and without.

Runs without a timer, with events and with CUPTI take turns. How fast the machine is differs from run to run, so the unit
is the run's own last iterations, where no timer is left; for each iteration the median of the runs counts. All that a
timer adds to the iterations before (brackets, reading, taking down) is charged to those that were timed: as many as the
timed calls make up, less those before the first iteration.

usage: timing_cost.py BUILD_FOLDER_OR_BUNDLE [ROUNDS [LIMIT [DEVICE]]]
LIMIT: in per cent; the exit code is 1 where a timer is above it, or above what docs/measurements.md names as missed, in three
measurements. DEVICE: as `pooch run --device` takes it.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import missed  # noqa: E402
from programs import Programs  # noqa: E402

PROGRAMS = Programs(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
LIMIT = float(sys.argv[3]) if len(sys.argv) > 3 else None
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "soft:v100-pcie3:timing"
TIMERS = ("none", "events", "cupti")
NETWORKS = (("googlenet", 4), ("resnet50", 2))
ITERATIONS = 14
LAST = 8  # no timer is left in so many iterations


def iterations(network, batch, timer):
    """Microseconds of each iteration, and how many iterations' worth of calls in them were timed."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "host")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
        environment.update(POOCH_TIMER=timer, POOCH_REPORT=folder, POOCH_LOG="info")
        done = subprocess.run(
            [PROGRAMS.pooch, "run", "--device", DEVICE, "--policy", "keep", "--",
             PROGRAMS.train, "--network", network, "--batch", str(batch), "--iterations", str(ITERATIONS),
             "--host-log", log], env=environment, capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            sys.exit(f"the trainer ended with {done.returncode}: {done.stderr}")
        profile = json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="utf-8"))
        measured = sum(phase["measured"] for phase in profile["phases"])
        if measured != (0 if timer == "none" else 3):
            sys.exit(f"{network}, {timer}: {measured} iterations were measured")
        timed = 0.0
        if timer != "none":
            phase = max(profile["phases"], key=lambda one: one["seen"])
            calls = len(phase["ops"]) + len(phase["copies"])
            before = profile["ops"] - ITERATIONS * calls
            timed = (int(re.findall(r"(\d+) calls have been timed", done.stderr)[-1]) - before) / calls
            if not 2.9 <= timed <= ITERATIONS - LAST - 1:
                sys.exit(f"{network}, {timer}: {timed:.2f} iterations' worth of calls were timed")
        return [float(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines()], timed


def measure():
    """What each timer adds, in per cent: the most of the networks."""
    worst = dict.fromkeys(TIMERS[1:], 0.0)
    for network, batch in NETWORKS:
        runs, timed = {timer: [] for timer in TIMERS}, {}
        for _ in range(ROUNDS):
            for timer in TIMERS:
                each_iteration, timed[timer] = iterations(network, batch, timer)
                runs[timer].append(each_iteration)
        usual = {timer: [statistics.median(run[-LAST:]) for run in runs[timer]] for timer in TIMERS}
        each = {timer: [statistics.median(values) for values in
                        zip(*([us / unit for us in run[:-LAST]] for run, unit in zip(runs[timer], usual[timer])))]
                for timer in TIMERS}
        for timer in TIMERS[1:]:
            extra = [with_timer - without for with_timer, without in zip(each[timer], each["none"])]
            share = 100 * sum(extra) / timed[timer]
            worst[timer] = max(worst[timer], share)
            print(f"{network}, {timer}: {share:+.1f} % of the host's time in {timed[timer]:.2f} timed iterations (usual "
                  f"{min(usual['none']) / 1e3:.2f} ms; more by iteration: {' '.join(f'{100 * more:+.0f}' for more in extra)} "
                  f"%; medians of {ROUNDS} runs)", flush=True)
    return worst


def main():
    if LIMIT is None:
        measure()
        return
    most = {"events": missed.figure("timing_cost: events", LIMIT), "cupti": LIMIT}
    # Other work on the machine makes one measurement say more than the next, by as much as a timer costs.
    for _ in range(3):
        above = {timer: share for timer, share in measure().items() if share > most[timer]}
        if not above:
            return
    sys.exit("; ".join(f"{timer}: {share:.1f} % are more than {most[timer]:.0f} %" for timer, share in above.items()))


if __name__ == "__main__":
    main()
