"""What can go wrong in one run of a program, and what became of it.

A fault is a kind and a number, from 1: the driver call of that number fails in one of the ways of CALLS; the allocation
of that number that libpooch makes from the host's heap fails, once or with all after it; the planner is killed at that
of its steps; the disks for plans and profiles have so many pages.
"""
import subprocess
import sys
import time

import callers
from runs import BUILD

SINGLE = ("UNKNOWN", "OUT_OF_MEMORY")  # once, and the device goes on
CALLS = (*SINGLE, "UNKNOWN+", "OUT_OF_MEMORY+", "ILLEGAL_ADDRESS")
MALLOC = ("MALLOC", "MALLOC+")
FAILING_MALLOC = BUILD / "tests/faults/libfailing_malloc.so"
KILLED_AT = BUILD / "tests/faults/libkilled_at.so"
SPACE = ("unshare", "--mount", "--map-root-user", "sh", "-ec")
MOST_PAGES = 40  # with more a small program's plan fits

GOOD = ("same", "clean")
BAD = ("mute", "noisy", "wrong", "race", "hang", "crash")
TIME_LIMIT = 60


def can_mount():
    return subprocess.run([*SPACE, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode == 0


def group(kind):
    """Kinds that share a row in the table."""
    return "calls" if kind in CALLS else kind.rstrip("+").lower()


class Reference:
    """What a program gives where nothing fails, and how many faults of each kind there are."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder / program.name
        self.plans = self.folder / "plans"
        self.plans.mkdir(parents=True)
        plain = program.plain()
        first = program.run(POOCH_CACHE=str(self.plans))
        hooked = program.run(self.plans)
        self.bits = program.bits(plain)
        for each in (plain, first, hooked):
            if each.status != 0 or program.bits(each) != self.bits or each.device["violations"]:
                sys.exit(f"campaign: {program.name} is not right where nothing fails:\n{each.err}")
        if not hooked.summary[program.expects]:
            sys.exit(f"campaign: {program.name}: no {program.expects}:\n{hooked.err}")
        # By kind, the paths of all faults of their numbers: the way through pooch's code that leads there, or the number.
        self.paths = dict.fromkeys(CALLS, self.calls()) | dict.fromkeys(MALLOC, self.allocations())
        if program.plans:
            steps = int(self.written("FAULTS_KILL_COUNT", POOCH_PLANNER=str(self.planner())))
            self.paths["PLANNER"] = [str(number) for number in range(1, steps + 1)]
            self.paths["DISK"] = [str(number) for number in range(1, MOST_PAGES + 1)] if can_mount() else []

    def calls(self):
        done = self.program.run(self.plans, SOFTGPU_CALL_PATHS="1")
        if done.status != 0:
            sys.exit(f"campaign: {self.program.name} is not right where calls are listed:\n{done.err}")
        paths = [None] * done.device["api_calls"]
        for called in done.device["call_paths"]:
            for number in called["calls"]:
                paths[number - 1] = callers.path(called)
        return paths

    def allocations(self):
        return self.written("FAULTS_MALLOC_PATHS", plans=self.plans, ahead=FAILING_MALLOC).splitlines()

    def written(self, variable, **settings):
        file = self.folder / variable
        done = self.program.run(**settings, **{variable: str(file)})
        if done.status != 0 or not file.exists():
            sys.exit(f"campaign: {self.program.name}: {variable} was not written:\n{done.err}")
        return file.read_text()

    def planner(self):
        """The planner, which can be killed."""
        script = self.folder / "planner"
        script.write_text(f'#!/bin/sh\nLD_PRELOAD={KILLED_AT} exec {BUILD}/tools/pooch "$@"\n')
        script.chmod(0o700)
        return script

    def run(self, kind, number):
        count = f"{number}{'+' if kind.endswith('+') else ''}"
        if kind in CALLS:
            settings = {"plans": self.plans, "SOFTGPU_FAIL": f"*:{count}={kind.rstrip('+')}"}
        elif kind in MALLOC:
            settings = {"plans": self.plans, "ahead": FAILING_MALLOC, "FAULTS_MALLOC": count}
        elif kind == "PLANNER":
            settings = {"POOCH_PLANNER": str(self.folder / "planner"), "FAULTS_KILL_AT": count}
        else:
            mount = f'for disk in $TMPDIR /dev/shm; do mount -t tmpfs -o size={4 * number}k none $disk; done; exec "$@"'
            # The software GPU's; unshare may have no other thread.
            settings = {"inside": (*SPACE, mount, "sh"), "OPENBLAS_NUM_THREADS": "1"}
        return self.program.run(timeout=TIME_LIMIT, **settings)


def verdict(reference, done, kind, own):
    if done is None:
        return "hang"
    bits = reference.program.bits(done)
    if done.status not in (0, 1, 3) or done.device is None:
        return "crash"
    if bits != reference.bits[:len(bits)]:
        return "wrong"
    if done.device["violations"]:
        return "race"
    if done.status == 0:
        return "same" if bits == reference.bits else "wrong"
    if not any(line.startswith(("program: ", "train: ")) for line in done.err.splitlines()):
        return "crash"
    lines = [line for line in done.pooch_lines() if "error: " in line]
    if len(lines) > 1:
        return "noisy"
    # Where later calls fail as well, the program's own may be one of them.
    return "mute" if own and not lines and kind not in ("UNKNOWN+", "OUT_OF_MEMORY+", "ILLEGAL_ADDRESS") else "clean"


def strike(reference, kind, number):
    """One run, as a line of the record; None where the call cannot fail."""
    began = time.monotonic()
    try:
        done = reference.run(kind, number)
    except subprocess.TimeoutExpired:
        done = None
    failed = done.device["failed"] if done and done.device else None
    if kind in CALLS and done and done.device and failed is None:
        return None
    own = callers.own(failed) if failed else kind not in CALLS
    record = {"program": reference.program.name, "kind": kind, "number": number,
              "verdict": verdict(reference, done, kind, own), "own": own,
              "function": failed["function"] if failed else None,
              "path": callers.path(failed) if failed else reference.paths[kind][number - 1],
              "seconds": round(time.monotonic() - began, 2)}
    if record["verdict"] in BAD:
        record["stack"] = callers.stack(failed) if failed else []
        record["status"] = done.status if done else None
        record["said"] = [line for line in done.err.splitlines()
                          if "error" in line or line.startswith(("softgpu: ", "program: ", "terminate"))][:4] if done else []
    return record
