#!/usr/bin/python3
"""The processor time that pooch adds to a cuDNN call with 8 operands and nothing to evict, through the exported wrapper.

    wrapper_bench.py LIBPOOCH FAKE_CUDA_FOLDER FAKE_CUDNN_FOLDER PROGRAM [LIMIT_NS]

Driver and cuDNN return at once, so what differs with the preload is pooch: the context's look-up, the questions to the
descriptors, the session. Runs with and without it alternate; the medians over all batches are compared. Exits with 1
where more than LIMIT_NS is added by the quickest run: other work on the machine makes a run slower, never quicker, so
that more runs are made while even the quickest is above the limit.
"""

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LIBPOOCH, FAKE_CUDA, FAKE_CUDNN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:5])
LIMIT = float(sys.argv[5]) if len(sys.argv) > 5 else None
ROUNDS, MOST_ROUNDS, BATCHES, CALLS, OPERANDS = 5, 30, 200, 1000, 8


def batches(preload):
    """Nanoseconds per call of each batch."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "LD_"))}
        environment |= {"LD_LIBRARY_PATH": f"{FAKE_CUDNN}:{FAKE_CUDA}"}
        if preload:
            environment |= {"LD_PRELOAD": LIBPOOCH, "POOCH_MEMORY_CAP": "768MiB", "POOCH_HOST_MEMORY": "1GiB",
                            "POOCH_REPORT": folder}
        command = [PROGRAM, str(BATCHES), str(CALLS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        if done.returncode != 0 or done.stderr:
            sys.exit(f"{PROGRAM} ended with {done.returncode}: {done.stderr}")
        if preload:
            summary = json.loads(pathlib.Path(folder, "summary.json").read_text(encoding="utf-8"))
            calls = (BATCHES + BATCHES // 10) * CALLS
            if summary["ops"] != calls or summary["evictions"] != 0:
                sys.exit(f"{summary['ops']} ops and {summary['evictions']} evictions, not {calls} and none")
        return [float(line) for line in done.stdout.split()]


def main():
    plain, hooked = [], []
    least = math.inf
    for round_ in range(MOST_ROUNDS):
        if round_ >= ROUNDS:
            if LIMIT is None or least <= LIMIT:
                break
            time.sleep(0.5)  # what disturbs may pass
        plain.append(batches(preload=False))
        hooked.append(batches(preload=True))
        least = min(map(statistics.median, hooked)) - min(map(statistics.median, plain))
    usual = [statistics.median(sum(runs, [])) for runs in (hooked, plain)]
    print(f"wrapper: {OPERANDS} operands, nothing to evict: {usual[0] - usual[1]:.0f} ns added per call (median of "
          f"{len(hooked) * BATCHES} batches of {CALLS} calls: {usual[0]:.0f} ns with pooch, {usual[1]:.0f} ns without; "
          f"{least:.0f} ns in the quickest runs)")
    if LIMIT is not None and least > LIMIT:
        sys.exit(f"{least:.0f} ns are more than {LIMIT:.0f} ns")


if __name__ == "__main__":
    main()
