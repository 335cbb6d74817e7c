"""Runs of programs under `pooch run`, for the tests in this folder.

Every test script is started as: SCRIPT BUILD_FOLDER

HOOKS_PRELOAD_FIRST in the environment, a sanitizer's runtime, is preloaded ahead of all else; a run that it reports on fails.
"""
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
POOCH = BUILD / "tools/pooch"
TRAIN = BUILD / "examples/train"
# The trainer's smallest network, half as wide as usual: what it computes takes a third of the time. It needs 135 MiB.
DIGITS = (TRAIN, "--network", "digits", "--width", "16")
PRELOAD = BUILD / "interpose/libpooch.so"
FIRST = [os.environ["HOOKS_PRELOAD_FIRST"]] if os.environ.get("HOOKS_PRELOAD_FIRST") else []
MIB = 1 << 20
TO_THE_BYTE = ":overheads=off"  # for caps that are counted so
STEADY = ":noise=0"  # for times that are compared to the nanosecond, or with a limit that leaves no room for noise


@dataclasses.dataclass
class Run:
    status: int
    out: str
    err: str
    summary: dict | None  # what pooch says
    device: dict | None  # what the software GPU says
    losses: list[str]
    weights: list[str]  # of the trainer: one hash each

    def pooch_lines(self):
        return [line for line in self.err.splitlines() if line.startswith("pooch: ")]


def finished(command, environment, timeout):
    """The command's end, as subprocess.run has it; past the time limit nothing that it started goes on."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def clean_environment(preload=""):
    """What a program is started with: nothing of pooch's is set, and `preload` is loaded first."""
    preload = [*FIRST, preload] if preload else FIRST
    return {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))} | (
        {"LD_PRELOAD": ":".join(preload)} if preload else {})


def noisy(device):
    """The software GPU with durations that differ by 2 %, as silicon's do, where nothing is said of noise."""
    return device if ":noise=" in device or not device.startswith("soft:") else device + ":noise=2"


def run(device, command, *options, env=None, timeout=300, ahead=None, weights=None):
    """`pooch run --device DEVICE OPTIONS -- COMMAND`; the trainer's losses come along where it is the command.

    `weights`: so do hashes of its weights; none: in compute mode, since reading them takes time. `ahead`: a library to preload ahead of pooch's."""
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder) / name for name in ("summary", "device", "losses", "weights")}
        command = [str(word) for word in command]
        if str(TRAIN) in command:
            command += ["--loss-log", str(files["losses"])]
            if weights or (weights is None and ":compute" in device):
                command += ["--weights-log", str(files["weights"])]
        if ahead:
            preload = [*FIRST, ahead] if "--no-pooch" in options else [*FIRST, ahead, PRELOAD]
            command = ["env", "LD_PRELOAD=" + ":".join(map(str, preload)), *command]
        if "--no-pooch" not in options:
            options = (*options, "--summary", str(files["summary"]))
        env = dict(env or {})
        environment = clean_environment(env.pop("LD_PRELOAD", ""))
        # Most tests are of one policy; what happens where none is chosen has its own. None finds what others left.
        environment.update({"POOCH_POLICY": "demand", "POOCH_CACHE": f"{folder}/cache"} | env,
                           SOFTGPU_REPORT=str(files["device"]))
        if environment["POOCH_POLICY"] == "":
            del environment["POOCH_POLICY"]
        done = finished([str(POOCH), "run", "--device", noisy(device), *options, "--", *command], environment, timeout)
        if re.search(r"(Thread|Address|Leak)Sanitizer|: runtime error: ", done.stderr):
            raise AssertionError(f"{command}: {done.stderr}")
        text = {name: path.read_text() if path.exists() else "" for name, path in files.items()}
    return Run(done.returncode, done.stdout, done.stderr, json.loads(text["summary"] or "null"),
               json.loads(text["device"] or "null"), text["losses"].splitlines(),
               text["weights"].splitlines())


def smallest_cap_named(run_result):
    """The cap in MiB that the last out-of-memory line calls the smallest, or None."""
    found = re.findall(r"smallest cap that works is [^(]*\((\d+) MiB\)", run_result.err)
    return int(found[-1]) if found else None
