"""Every driver call of small programs fails, one per run, in every way: what becomes of it?

usage: campaign.py BUILD_FOLDER [--budget SECONDS] [--resume FILE] [--seed N] [--programs NAME,…] [--fault PROGRAM FAULT]
                   [--table]

The k-th call fails with UNKNOWN or OUT_OF_MEMORY, once or for ever, or with the sticky ILLEGAL_ADDRESS. A run gives

    same     the bits that the program has without pooch
    clean    CUDA's own error from one of the program's calls, right bits until then, and one error line of pooch's
             where the call that failed was its own
    mute     such an error, and no line of pooch's
    noisy    such an error, and more than one line
    wrong    other bits without an error
    race     a violation that the software GPU found
    hang     no end within the time limit
    crash    any other end

With --resume FILE (JSON lines) a later run goes on where an earlier one of the same build stopped. Last line:
"N passed, N failed".
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
# pylint: disable=wrong-import-position
import callers
from programs import PROGRAMS

CODES = ("UNKNOWN", "UNKNOWN+", "OUT_OF_MEMORY", "OUT_OF_MEMORY+", "ILLEGAL_ADDRESS")
GOOD = ("same", "clean")
BAD = ("mute", "noisy", "wrong", "race", "hang", "crash")
TIME_LIMIT = 60
LEAST_SAME = 0.6  # of single faults that do not stay, in calls of pooch's own
RARE = 20  # a run of the digits network takes as long as so many others


def setting(number, code):
    return f"*:{number}{'+' if code.endswith('+') else ''}={code.rstrip('+')}"


class Reference:
    """What a program gives where nothing fails, and how many calls there are to fail."""

    def __init__(self, program, folder):
        self.program = program
        self.plans = pathlib.Path(folder) / program.name
        self.plans.mkdir()
        plain = program.plain()
        first = program.run(plans=self.plans, POOCH_CACHE=str(self.plans))
        hooked = program.run(plans=self.plans)
        self.bits = program.bits(plain)
        for each in (plain, first, hooked):
            if each.status != 0 or program.bits(each) != self.bits or each.device["violations"]:
                sys.exit(f"campaign: {program.name} is not right where nothing fails:\n{each.err}")
        if not hooked.summary[program.expects]:
            sys.exit(f"campaign: {program.name}: no {program.expects}:\n{hooked.err}")
        self.calls = hooked.device["api_calls"]


def verdict(reference, done, own):
    if done is None:
        return "hang"
    bits = reference.program.bits(done)
    if done.status not in (0, 1):
        return "crash"
    if done.device is None:
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
    return "mute" if own and not lines else "clean"


def strike(reference, number, code):
    """One run, as a line of the record; None where the call cannot fail."""
    program = reference.program
    began = time.monotonic()
    try:
        done = program.run(timeout=TIME_LIMIT, plans=reference.plans, SOFTGPU_FAIL=setting(number, code))
    except subprocess.TimeoutExpired:
        done = None
    failed = done.device["failed"] if done and done.device else None
    if done and done.device and failed is None:
        return None
    own = callers.own(failed) if failed else None
    found = verdict(reference, done, own)
    record = {"program": program.name, "call": number, "code": code, "verdict": found, "own": own,
              "function": failed["function"] if failed else None, "seconds": round(time.monotonic() - began, 2)}
    if found in BAD:
        record["stack"] = callers.stack(failed) if failed else []
        record["status"] = done.status if done else None
        record["said"] = [line for line in done.err.splitlines() if "error" in line or "softgpu: " in line or
                          line.startswith("program: ")][:4] if done else []
    return record


class Campaign:
    def __init__(self, references, record_file, seed):
        self.references = references
        self.record_file = record_file
        self.lock = threading.Lock()
        self.records = {}
        self.missed = 0
        self.order = self.shuffled(random.Random(seed))
        self.all = len(self.order)
        if record_file and record_file.exists():
            for line in record_file.read_text().splitlines():
                record = json.loads(line)
                self.records[record["program"], record["call"], record["code"]] = record
        self.order = [each for each in self.order if each not in self.records]

    def shuffled(self, dice):
        """All faults, those of the programs in turn."""
        queues = {}
        for name, reference in self.references.items():
            queue = [(name, number, code) for number in range(1, reference.calls + 1) for code in CODES]
            dice.shuffle(queue)
            queues[name] = queue
        order = []
        for turn in range(sum(map(len, queues.values()))):
            for name, queue in queues.items():
                if queue and (not name.startswith("digits") or turn % RARE == RARE - 1 or len(queues) == 1):
                    order.append(queue.pop())
            queues = {name: queue for name, queue in queues.items() if queue}
            if not queues:
                return order
        return order

    def one(self, fault):
        name, number, code = fault
        record = strike(self.references[name], number, code)
        with self.lock:
            if record is None:
                self.missed += 1
                return
            self.records[fault] = record
            if self.record_file:
                with self.record_file.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if record["verdict"] in BAD:
                print(f"{name} {setting(number, code)} {record['function']}: {record['verdict']}: "
                      f"{' < '.join(record['stack'])}", flush=True)

    def run(self, budget, jobs):
        ends = time.monotonic() + budget

        def work():
            while time.monotonic() < ends:
                with self.lock:
                    if not self.order:
                        return
                    fault = self.order.pop(0)
                self.one(fault)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for each in [pool.submit(work) for _ in range(jobs)]:
                each.result()

    # --- what came out

    def own_and_single(self):
        return [r for r in self.records.values() if r["own"] and r["code"] in ("UNKNOWN", "OUT_OF_MEMORY")]

    def table(self):
        rows = [("program", "calls", "faults", "of all", *GOOD, *BAD)]
        by_program = collections.defaultdict(collections.Counter)
        for record in self.records.values():
            by_program[record["program"]][record["verdict"]] += 1
        for name, reference in self.references.items():
            counts = by_program[name]
            rows.append((reference.program.what, reference.calls, counts.total(), reference.calls * len(CODES),
                         *(counts[verdict] for verdict in GOOD + BAD)))
        total = sum(by_program.values(), collections.Counter())
        rows.append(("all", sum(r.calls for r in self.references.values()), total.total(), self.all,
                     *(total[verdict] for verdict in GOOD + BAD)))
        lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])

    def report(self):
        counts = collections.Counter(record["verdict"] for record in self.records.values())
        print(self.table())
        single = self.own_and_single()
        same = sum(record["verdict"] == "same" for record in single)
        share = same / len(single) if single else 1
        print(f"{len(self.records)} of {self.all} faults done, {self.missed} calls could not fail")
        print(f"single faults that do not stay, in calls of pooch's own: {len(single)}, {share:.0%} of them with the "
              f"same bits ({LEAST_SAME:.0%} is asked for)")
        failed = sum(counts[each] for each in BAD) + (share < LEAST_SAME)
        print(f"{sum(counts[each] for each in GOOD)} passed, {failed} failed")
        return failed


def main():
    parser = argparse.ArgumentParser(prog="campaign.py")
    parser.add_argument("build")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--resume", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=20200417)
    parser.add_argument("--programs", default=",".join(PROGRAMS), metavar="NAME,…")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", action="store_true", help="only what the record of --resume says")
    chosen = parser.parse_args()
    names = chosen.programs.split(",")
    for name in names:
        if name not in PROGRAMS:
            sys.exit(f"campaign: --programs: '{name}'; accepted: {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory() as folder:
        references = {name: Reference(PROGRAMS[name], folder) for name in names}
        campaign = Campaign(references, chosen.resume, chosen.seed)
        if not chosen.table:
            campaign.run(chosen.budget, chosen.jobs)
        sys.exit(campaign.report() > 0)


if __name__ == "__main__":
    main()
