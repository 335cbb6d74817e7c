"""Every driver call of small programs fails, one per run, in every way, and more: what becomes of it?

usage: campaign.py BUILD_FOLDER [--budget SECONDS] [--most N] [--each N] [--resume FILE] [--seed N] [--programs NAME,…] [--jobs N]
                   [--only PROGRAM:KIND:NUMBER] [--write FILE]

First one fault is tried of each path, the way through pooch's code that leads to a call, then another one of each, and so
on. The k-th call fails with UNKNOWN or OUT_OF_MEMORY, once or for ever, or with the sticky ILLEGAL_ADDRESS; or an allocation
of libpooch's own does, or the planner is killed, or the disk is full (faults.py). A run gives

    same     the bits that the program has without pooch
    clean    CUDA's own error from one of the program's calls, right bits until then, and at most one error line
    mute     such an error after a single failure of a call of pooch's own, and no line
    noisy    such an error, and more than one line
    wrong    other bits without an error
    race     a violation that the software GPU found
    hang     no end within the time limit
    crash    any other end

All of mute … crash are failures. With --resume FILE (JSON lines) a later run goes on where an earlier one of the same build
stopped. --write FILE puts the table between the marks in that file. Last line: "N passed, N failed".
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
# pylint: disable=wrong-import-position
from faults import BAD, GOOD, SINGLE, Reference, group, strike
from programs import PROGRAMS

LEAST_SAME = 0.6  # of single faults that do not stay, in calls of pooch's own
RARE = {"malloc": 4, "planner": 8, "disk": 16}  # of a program's turns; all others are calls
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


class Campaign:
    def __init__(self, references, record_file, seed, each):
        self.references = references
        self.record_file = record_file
        self.lock = threading.Lock()
        self.records = {}
        self.missed = 0
        every = self.shuffled(random.Random(seed), each or sys.maxsize)
        if record_file and record_file.exists():
            for line in record_file.read_text().splitlines():
                record = json.loads(line)
                self.records[record["program"], record["kind"], record["number"]] = record
        self.left = collections.deque(each for each in every if each not in self.records)

    def shuffled(self, dice, each):
        """All faults, those of the programs in turn, and the rare kinds now and then; first one of each path, then another
        one of each that has more, and so on, `each` of each at most."""
        queues = {}
        for name, reference in self.references.items():
            for kind, paths in reference.paths.items():
                rare = RARE.get(group(kind), 1)
                queue = queues.setdefault((name, group(kind)), (rare, []))
                numbers = list(enumerate(paths, 1))
                dice.shuffle(numbers)
                before = collections.Counter()
                for number, path in numbers:
                    if before[path] == each:
                        continue
                    queue[1].append((before[path], dice.random(), (name, kind, number)))
                    before[path] += 1
        least = min(rare for rare, _ in queues.values())
        for _, queue in queues.values():
            queue.sort(reverse=True)
        order = []
        turn = 0
        while any(queue for _, queue in queues.values()):
            turn += least
            order.extend(queue.pop()[-1] for rare, queue in queues.values() if queue and turn % rare == 0)
        return order

    def one(self, fault):
        name, kind, number = fault
        record = strike(self.references[name], kind, number)
        with self.lock:
            if record is None:
                self.missed += 1
                return
            self.records[fault] = record
            if self.record_file:
                with self.record_file.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if record["verdict"] in BAD:
                print(f"failed: {name}:{kind}:{number} {record['function'] or ''}: {record['verdict']}: "
                      f"{' < '.join(record['stack'])}: {' | '.join(record['said'])}", flush=True)

    def run(self, budget, jobs):
        ends = time.monotonic() + budget

        def work():
            while time.monotonic() < ends:
                with self.lock:
                    if not self.left:
                        return
                    fault = self.left.popleft()
                self.one(fault)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for each in [pool.submit(work) for _ in range(jobs)]:
                each.result()

    # --- what came out

    def all(self):
        return sum(len(paths) for reference in self.references.values() for paths in reference.paths.values())

    def table(self):
        rows = [("program", "what fails", "faults", "tried", "paths", "tried", *GOOD, *BAD)]
        tried = collections.defaultdict(collections.Counter)
        walked = collections.defaultdict(set)
        for record in self.records.values():
            row = record["program"], group(record["kind"])
            tried[row][record["verdict"]] += 1
            walked[row].add((record["kind"], record["path"]))
        total = collections.Counter()
        for name, reference in self.references.items():
            every, known = collections.Counter(), collections.defaultdict(set)
            for kind, paths in reference.paths.items():
                every[group(kind)] += len(paths)
                known[group(kind)] |= {(kind, path) for path in paths}
            for fails, numbers in every.items():
                counts = tried[name, fails]
                # Threads meet in other ways in each run, and so come by paths that the reference did not.
                ways = {"paths": len(known[fails] | walked[name, fails]), "walked": len(walked[name, fails])}
                total += counts + collections.Counter(ways)
                rows.append((reference.program.what, fails, numbers, counts.total(), *ways.values(),
                             *(counts[verdict] for verdict in GOOD + BAD)))
        rows.append(("all", "", self.all(), len(self.records), total["paths"], total["walked"],
                     *(total[verdict] for verdict in GOOD + BAD)))
        lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])

    def share(self):
        """Of the single faults that do not stay, in calls of pooch's own, those with the same bits."""
        single = [r["verdict"] == "same" for r in self.records.values() if r["own"] and r["kind"] in SINGLE]
        return sum(single), len(single)

    def report(self, write):
        counts = collections.Counter(record["verdict"] for record in self.records.values())
        same, single = self.share()
        enough = same >= LEAST_SAME * single
        said = (f"{len(self.records)} of {self.all()} faults were tried. Of {single} single faults that do not stay, in calls "
                f"that pooch made on its own account, {same} gave the same bits ({same / max(1, single):.0%}; "
                f"{LEAST_SAME:.0%} is asked for).")
        print(f"{self.table()}\n\n{said}")
        if not enough:
            print("failed: too few gave the same bits")
        if self.missed:
            print(f"{self.missed} were no faults: such a call cannot fail, or did not come")
        if write:
            text = write.read_text()
            new = re.sub(f"{MARKS[0]}.*{MARKS[1]}", f"{MARKS[0]}\n{self.table()}\n\n{said}\n{MARKS[1]}", text, flags=re.S)
            write.write_text(new)
        failed = sum(counts[each] for each in BAD) + (not enough) + (not self.records)  # nothing tried shows nothing
        print(f"{sum(counts[each] for each in GOOD)} passed, {failed} failed")
        return failed


def arguments():
    parser = argparse.ArgumentParser(prog="campaign.py")
    parser.add_argument("build")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--most", type=int, metavar="N", help="try no more than N")
    parser.add_argument("--each", type=int, metavar="N", help="try no more than N of each path")
    parser.add_argument("--resume", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=20200417)
    parser.add_argument("--programs", default=",".join(PROGRAMS), metavar="NAME,…")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", metavar="PROGRAM:KIND:NUMBER", help="this fault alone")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    return parser.parse_args()


def main():
    chosen = arguments()
    began = time.monotonic()
    names = [chosen.only.split(":")[0]] if chosen.only else chosen.programs.split(",")
    for name in names:
        if name not in PROGRAMS:
            sys.exit(f"campaign: '{name}' is no program; accepted: {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
            made = pool.map(lambda name: Reference(PROGRAMS[name], pathlib.Path(folder)), names)
        campaign = Campaign(dict(zip(names, made)), chosen.resume, chosen.seed, chosen.each)
        if chosen.only:
            name, kind, number = chosen.only.split(":")
            campaign.one((name, kind, int(number)))
        else:
            campaign.left = collections.deque(itertools.islice(campaign.left, chosen.most))
            campaign.run(chosen.budget - (time.monotonic() - began), chosen.jobs)
        sys.exit(campaign.report(chosen.write) > 0)


if __name__ == "__main__":
    main()
