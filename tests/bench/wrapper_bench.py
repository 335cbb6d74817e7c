#!/usr/bin/python3
"""The processor time that pooch adds to a cuDNN call with 8 operands and nothing to evict, through the exported wrapper.

    wrapper_bench.py LIBPOOCH FAKE_CUDA_FOLDER FAKE_CUDNN_FOLDER PROGRAM

Driver and cuDNN return at once, so what differs with the preload is pooch: the context's look-up, the questions to the
descriptors, the session. Runs with and without it alternate; the medians over all batches are compared.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LIBPOOCH, FAKE_CUDA, FAKE_CUDNN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:5])
ROUNDS, WARM_UP, BATCHES, CALLS, OPERANDS = 5, 20, 200, 1000, 8


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
            calls = (WARM_UP + BATCHES) * CALLS
            if summary["ops"] != calls or summary["evictions"] != 0:
                sys.exit(f"{summary['ops']} ops and {summary['evictions']} evictions, not {calls} and none")
        return [float(line) for line in done.stdout.split()]


def main():
    plain, hooked = [], []
    for _ in range(ROUNDS):
        plain += batches(preload=False)
        hooked += batches(preload=True)
    with_pooch, without = statistics.median(hooked), statistics.median(plain)
    print(f"wrapper: {OPERANDS} operands, nothing to evict: {with_pooch - without:.0f} ns added per call (median of "
          f"{len(hooked)} batches of {CALLS} calls: {with_pooch:.0f} ns with pooch, {without:.0f} ns without)")


if __name__ == "__main__":
    main()
