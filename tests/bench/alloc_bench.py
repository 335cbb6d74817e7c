#!/usr/bin/python3
"""The processor time that pooch adds to a stream-ordered allocation with its free, small and large, nothing to evict.

    alloc_bench.py LIBPOOCH FAKE_CUDA_FOLDER PROGRAM [LIMIT_NS]

The driver returns at once, so what differs with the preload is pooch. Runs with and without it alternate; the medians
over all batches are compared. Exits with 1 where more than LIMIT_NS is added to a small one.
"""

import os
import statistics
import subprocess
import sys

LIBPOOCH, FAKE_CUDA, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:4])
LIMIT = float(sys.argv[4]) if len(sys.argv) > 4 else None
ROUNDS, BATCHES, PAIRS = 5, 50, 2000


def medians(preload):
    """Nanoseconds per pair, (small, large)."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "LD_"))}
    environment |= {"LD_LIBRARY_PATH": FAKE_CUDA}
    if preload:
        environment |= {"LD_PRELOAD": LIBPOOCH, "POOCH_MEMORY_CAP": "768MiB", "POOCH_HOST_MEMORY": "1GiB"}
    done = subprocess.run([PROGRAM, str(BATCHES), str(PAIRS)], env=environment, capture_output=True, text=True,
                          timeout=100)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{PROGRAM} ended with {done.returncode}: {done.stderr}")
    pairs = [line.split() for line in done.stdout.splitlines()]
    return [statistics.median(float(pair[i]) for pair in pairs) for i in (0, 1)]


def main():
    plain, hooked = zip(*[(medians(preload=False), medians(preload=True)) for _ in range(ROUNDS)])
    added = [statistics.median(column) - statistics.median(base) for column, base in zip(zip(*hooked), zip(*plain))]
    print(f"cudaMallocAsync and cudaFreeAsync: {added[0]:.0f} ns added to a small allocation, {added[1]:.0f} ns to a "
          f"large one (medians of {ROUNDS} runs)")
    if LIMIT is not None and added[0] > LIMIT:
        sys.exit(f"more than {LIMIT:.0f} ns")


if __name__ == "__main__":
    main()
