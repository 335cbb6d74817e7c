#!/usr/bin/python3
"""How many instructions pooch adds to a call that has nothing to evict. Callgrind counts them: unlike time, their number
does not depend on the machine nor on its other work. Driver and cuDNN return at once, so what differs with the preload is pooch.

    call_instructions.py LIBPOOCH FAKE_CUDA_FOLDER FAKE_CUDNN_FOLDER WRAPPER_BENCH ALLOC_BENCH
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBPOOCH, FAKE_CUDA, FAKE_CUDNN, WRAPPER_BENCH, ALLOC_BENCH = (os.path.abspath(path) for path in sys.argv[1:6])
FEW, MANY, CALLS = 100, 300, 100  # batches, calls in each


def instructions(command, preload):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "LD_", "MALLOC_"))}
    environment |= {"LD_LIBRARY_PATH": f"{FAKE_CUDNN}:{FAKE_CUDA}"}
    if preload:
        environment |= {"LD_PRELOAD": LIBPOOCH, "POOCH_MEMORY_CAP": "768MiB", "POOCH_HOST_MEMORY": "1GiB"}
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log.name}",
                               "--child-silent-after-fork=yes", *command], env=environment, capture_output=True, text=True,
                              timeout=100)
        if done.returncode != 0 or done.stderr:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
        return int(re.search(r"Collected : (\d+)", log.read())[1])


def per_call(program, preload, *options):
    """What a call takes in the steady state: two runs of unlike length differ by it alone."""
    few, many = (instructions([program, str(batches), str(CALLS), *options], preload) for batches in (FEW, MANY))
    return (many - few) / ((MANY - FEW) * CALLS)


class Instructions(unittest.TestCase):
    def added(self, most, *command):
        added = per_call(command[0], True, *command[1:]) - per_call(command[0], False, *command[1:])
        print(f"{self.id().split('.')[-1]}: {added:.0f}, at most {most}")
        self.assertGreater(added, 0)
        self.assertLessEqual(added, most)

    def test_added_to_a_cudnn_call_with_eight_operands(self):
        self.added(10000, WRAPPER_BENCH)

    def test_added_to_a_small_stream_ordered_allocation(self):
        self.added(3000, ALLOC_BENCH, "small")

    def test_added_to_a_large_stream_ordered_allocation(self):
        self.added(6000, ALLOC_BENCH, "large")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
