#!/usr/bin/python3
"""The processor time that pooch adds to a stream-ordered allocation with its free, small and large, nothing to evict.

    alloc_bench.py LIBPOOCH FAKE_CUDA_FOLDER PROGRAM

The driver returns at once, so what differs with the preload is pooch. Runs with and without it alternate; the medians
over all batches are compared.
"""

import os
import statistics
import subprocess
import sys

LIBPOOCH, FAKE_CUDA, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:4])
ROUNDS, BATCHES, PAIRS = 5, 50, 2000


def median(size, preload):
    """Nanoseconds per pair."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "LD_"))}
    environment |= {"LD_LIBRARY_PATH": FAKE_CUDA}
    if preload:
        environment |= {"LD_PRELOAD": LIBPOOCH, "POOCH_MEMORY_CAP": "768MiB", "POOCH_HOST_MEMORY": "1GiB"}
    done = subprocess.run([PROGRAM, str(BATCHES), str(PAIRS), size], env=environment, capture_output=True, text=True,
                          timeout=100)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{PROGRAM} ended with {done.returncode}: {done.stderr}")
    return statistics.median(map(float, done.stdout.split()))


def main():
    added = {size: statistics.median(median(size, preload=True) - median(size, preload=False) for _ in range(ROUNDS))
             for size in ("small", "large")}
    print(f"cudaMallocAsync and cudaFreeAsync: {added['small']:.0f} ns added to a small allocation, {added['large']:.0f} ns "
          f"to a large one (medians of {ROUNDS} pairs of runs)")


if __name__ == "__main__":
    main()
