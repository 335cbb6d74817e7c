"""Runs killed by SIGKILL at random moments: what they leave is what docs/files.md names, and the next run is right.

usage: kills.py BUILD_FOLDER [RUNS [SEED]]

Every fifth time the launcher is killed, else the program. All share a cache, a report and a temporary folder, as a
user's runs do. Afterwards one run goes to its end, and must give the same bits as without pooch.
"""
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from runs import POOCH, TRAIN, clean_environment, run

RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 20191111
DEVICE = "soft:v100-pcie3:compute:memory=256MiB"
COMMAND = [str(TRAIN), "--network", "digits", "--batch", "256", "--iterations", "6", "--json"]
LIMITS = ["--memory", "80MiB", "--host-memory", "1GiB"]
CLEAN = clean_environment()
# docs/files.md: the table of what a killed process may leave, by folder.
DRAFT = r"\.\d+\.\d+\.new"
MAY_BE_LEFT = {
    "report": rf"(summary|profile)\.json({DRAFT})?",
    "cache": rf"[0-9a-z]+-[0-9a-f]{{16}}\.json({DRAFT})?",
    "tmp": r"pooch-tmp-\w{6}",
    "status": r"\d+-\d+\.live",
    ".": rf"trace\.json({DRAFT})?|calls|report|cache|tmp|status",
}


def processes_of(mark):
    """Processes, zombies aside, in whose environment the mark is."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            continue
    return found


def settings(folder, report=True):
    # The mark has a name that a planner keeps: it gets no POOCH_ variables.
    return {**CLEAN, "KILLS_MARK": str(folder), "TMPDIR": str(folder / "tmp"), "POOCH_CACHE": str(folder / "cache"),
            "POOCH_STATUS": str(folder / "status"),
            **({"POOCH_REPORT": str(folder / "report")} if report else {}), "POOCH_TRACE": str(folder / "trace.json"),
            "POOCH_RECORD": str(folder / "calls"), "POOCH_POLICY": "swap-all", "POOCH_WAIT_FOR_PLANS": "1"}


def kill_one(folder, delay, launcher):
    """Was it killed before its end?"""
    command = [str(POOCH), "run", "--device", DEVICE, *LIMITS, "--", *COMMAND]
    with subprocess.Popen(command, env=settings(folder, report=not launcher), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as running:
        time.sleep(delay)
        target = running.pid
        if not launcher:
            children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
            # A launcher that has no program yet, or none any more, stands for it.
            target = int((children.read_text().split() or [running.pid])[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)
        status = running.wait(timeout=60)
    mark = f"KILLS_MARK={folder}".encode()
    deadline = time.monotonic() + 20
    while left := processes_of(mark):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.01)
    return status != 0


def unnamed(folder):
    """What lies there and is in no row of the table."""
    found = []
    for name, pattern in MAY_BE_LEFT.items():
        for path in sorted((folder / name).iterdir()) if (folder / name).exists() else []:
            if not re.fullmatch(pattern, path.name):
                found.append(str(path.relative_to(folder)))
    return found


def check_recording(path):
    """What was recorded by then can be read; it may hold no whole iteration yet, or nothing at all."""
    if not path.exists() or path.stat().st_size == 0:
        return
    done = subprocess.run([str(POOCH), "graph", str(path)], env=CLEAN, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "it holds no phase" in done.stderr, done.stderr


def main():
    began = time.monotonic()
    plain = run(DEVICE, COMMAND, "--no-pooch")
    assert plain.status == 0, plain.err
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tmp").mkdir()
        whole = time.monotonic()
        first = run(DEVICE, COMMAND, *LIMITS, env=settings(folder))
        whole = time.monotonic() - whole
        assert first.status == 0, first.err
        assert list((folder / "cache").iterdir()), f"no planner has worked: {first.err}"
        early = 0
        for number in range(RUNS):
            # Where the cache has the plans no planner works: every other run finds none.
            if number % 2 == 0:
                for path in (folder / "cache").iterdir():
                    path.unlink()
            early += kill_one(folder, chance.uniform(0, whole), launcher=number % 5 == 4)
            left = unnamed(folder)
            assert not left, f"run {number} of seed {SEED} left {left}"
            check_recording(folder / "calls")
        last = run(DEVICE, COMMAND, *LIMITS, env=settings(folder))
        assert last.status == 0, last.err
        assert last.losses == plain.losses and last.weights == plain.weights, "other bits than without pooch"
        assert last.device["violations"] == [], last.device["violations"]
        # Without a report of the user's the launcher has a folder of its own, and looks for those of dead ones.
        swept = subprocess.run([str(POOCH), "run", "--device", DEVICE, "--", "true"], env=settings(folder, report=False),
                               capture_output=True, text=True, timeout=60)
        assert swept.returncode == 0, swept.stderr
        left = [path for path in folder.rglob("*") if re.search(DRAFT, path.name) or path.name.startswith("pooch-tmp-")]
        own = [path for path in left if path.parent.name == "cache"]
        assert left == own, f"the next run did not sweep {left}"
    print(f"kills: {RUNS} runs of seed {SEED}, {early} of them killed before their end, within {whole:.1f} s each, in "
          f"{time.monotonic() - began:.0f} s; nothing unnamed was left, and the next run was right")


if __name__ == "__main__":
    main()
