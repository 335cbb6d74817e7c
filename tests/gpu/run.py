"""All that a GPU has to show and to tell, in one command; on a software GPU the same, as far as it can.

usage: run.py [--device real] [--out gpu-results.json] [--only PART[:PATTERN],…] …

Parts: facts (what only silicon can tell), device (the battery of the device port), bits (the trainer with and without
pooch), pytorch (the same for PyTorch), links (bandwidth), lookups (the vendor's libraries meet the hooks), runs (plans carried
out). Each check is ok, failed or skipped with a reason. Exit code 0: one is ok, and none failed; 1: some did, or all that were to be
made now were skipped; 2: wrong usage; 77: no device, nothing was done.
"""
import argparse
import datetime
import functools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import judge
from checks import Checks, Failed, Skipped, nothing_done, require, write_json
from part_bits import Bits
from part_lookups import LookUps
from part_pytorch import PyTorch, torch_version
from part_runs import Runs
from programs import NO_GPU, Device, Programs

PARTS = ("facts", "device", "lookups", "bits", "pytorch", "links", "runs")
# Sections of the program `facts`, and what the software GPU's answer is worth.
OF_MODEL = "the model's numbers, in virtual time"
FACTS = {"device": "the model's", "versions": "those of the libraries that are found, software or not",
         "naming": "names in its own libcuda, where every pointer is an export's", "calls": OF_MODEL,
         "kernel": OF_MODEL, "kernel_handles": "its functions' queries refuse what is no function",
         "backend_plan": "its plans know no handle", "batch_norm_saved": "its cuDNN rounds in its own way",
         "tensor_map": "its maps begin with the address",
         "vmm": OF_MODEL, "vmm_under_load": OF_MODEL + "; no call waits for work on other memory", "vmm_under_small_copies": OF_MODEL,
         "places": "its driver gives every place of 32 MiB that is free", "remap": OF_MODEL,
         "alias": "mapping is mmap: two addresses are one memory always",
         "host_numa_backed": "it has no host memory at device addresses", "host_backed": "it has no host memory at device addresses",
         "device_copy": OF_MODEL, "batch_norm_kernel": OF_MODEL, "pinning": OF_MODEL}
OF_CUDNN = {"backend_plan", "batch_norm_saved"}  # sections of `cudnn_facts`
OWN_ROUNDING = {"batch_norm_saved"}  # what the software GPU computes says nothing of silicon
MAPPING = {"vmm", "vmm_under_load"}
LINKS = "the model's rates; the directions do not disturb each other"


class Facts:
    def __init__(self, programs, device):
        self.programs, self.device = programs, device

    @functools.lru_cache(maxsize=None)
    def ask(self, section):
        program = self.programs.cudnn_facts if section in OF_CUDNN else self.programs.facts
        run = self.programs.run(self.device, [program, section], "--no-pooch")
        if run.status == NO_GPU or "no CUDA driver" in run.err:
            raise Skipped(run.last_words())
        require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
        return json.loads(run.out)[section]

    def check(self, section, software):
        found = self.ask(section)
        numbers = {"found": found} | ({"on_the_software_gpu": software} if self.device.software else {})
        refused = found.get("unanswered")
        if refused and self.device.software:
            raise Skipped(f"the software GPU gives no answer: {refused}", numbers)
        if refused and section in judge.CAN:
            wrong = judge.refusal(section, refused, self.ask("device"))
            raise Failed("; ".join(wrong), numbers) if wrong else Skipped(f"the driver refuses it: {refused}", numbers)
        if refused:
            raise Failed(f"no answer: {refused}", numbers)
        wrong = judge.section(section, found, has_content=not self.device.timing)
        if wrong and self.device.software and section in OWN_ROUNDING and not judge.unsteady(found):
            raise Skipped(f"the software GPU's own rounding: {wrong[0]}", numbers)
        require(not wrong, "; ".join(wrong), numbers)
        if section in MAPPING:
            ways = found.items()
            numbers["remark"] = "set_access and unmap of one handle more: " + "; ".join(f"{way}, {judge.mapping_us(sizes)}" for way, sizes in ways)
        return numbers

    def checks(self):
        return [(section, functools.partial(self.check, section, software)) for section, software in FACTS.items()]

    def links(self):
        return [("by-size", functools.partial(self.check, "link", LINKS))]


class Battery:
    def __init__(self, programs, device):
        self.programs, self.device = programs, device

    def check(self):
        if self.device.timing:
            raise Skipped("timing mode holds no bytes; take :compute")
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "tests.json")
            silicon = [] if self.device.software else ["silicon"]
            run = self.programs.run(self.device, [self.programs.device_test, *silicon, f"--gtest_output=json:{log}"], "--no-pooch")
            if run.status == NO_GPU:
                raise Skipped(run.last_words())
            require(log.exists(), f"exit code {run.status}: {run.last_words()}")
            suites = json.loads(log.read_text(encoding="utf-8"))["testsuites"]
        tests = [test for suite in suites for test in suite["testsuite"]]
        bad = [test["name"] for test in tests if test.get("failures")]
        numbers = {"tests": len(tests), "failed": bad}
        require(run.status == 0 and not bad and tests, f"exit code {run.status}, failed: {', '.join(bad)}", numbers)
        return numbers

    def checks(self):
        return [("battery", self.check)]


def first_match(path, pattern):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return found[1].strip() if found else None


def machine(facts, python):
    """What the results hold for. The device's own words come from `facts`."""
    return {"gpu": facts.ask("device"), "processor": first_match("/proc/cpuinfo", r"model name\s*:\s*(.*)"),
            "cores": os.cpu_count(), "memory_kib": int(first_match("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0),
            "system": platform.release(), "glibc": platform.libc_ver()[1],
            "driver": first_match("/proc/driver/nvidia/version", r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)"),
            "versions": facts.ask("versions") | {"python": platform.python_version(), "torch": torch_version(python)}}


def options(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="real", help="real, or soft:MODEL:compute (real)")
    parser.add_argument("--out", default="gpu-results.json", help="file for the results (gpu-results.json)")
    parser.add_argument("--only", default="", help=f"parts, or PART:PATTERN (a shell pattern of a check's whole name), with commas between: {', '.join(PARTS)}")
    parser.add_argument("--add", action="store_true", help="keep the checks that OUT has and that are not made now")
    parser.add_argument("--repetitions", type=int, default=1, help="of each of the trainer's runs with pooch (1)")
    parser.add_argument("--time-limit", type=float, default=0, help="seconds; checks not begun by then are skipped (none)")
    parser.add_argument("--run-limit", type=float, default=550, metavar="SECONDS", help="what one run may take (550)")
    parser.add_argument("--logs", metavar="FOLDER", help="keep there all that each run says, one file each")
    parser.add_argument("--build", help="build folder (the bundle, or the folder build)")
    parser.add_argument("--python", default=sys.executable, help="for PyTorch")
    o = parser.parse_args(words)
    o.only = [choice for choice in o.only.split(",") if choice]
    for choice in o.only:
        if choice.partition(":")[0] not in PARTS:
            parser.error(f"--only '{choice}': the parts are {', '.join(PARTS)}")
    if o.repetitions < 1:
        parser.error("--repetitions: at least 1")
    return o


def earlier(o):
    """Parts by name. They must be of the same device."""
    if not o.add or not pathlib.Path(o.out).exists():
        return {}
    before = json.loads(pathlib.Path(o.out).read_text(encoding="utf-8"))
    if before["device"] != o.device:
        sys.exit(f"run.py: --add: {o.out} is of {before['device']}")
    return before["parts"]


def main(words):
    o = options(words)
    programs, device, checks = Programs(o.build, o.logs, o.run_limit), Device(o.device), Checks(o.only, o.time_limit)
    facts = Facts(programs, device)
    try:
        around = machine(facts, o.python)
    except (Failed, Skipped, OSError, ValueError, subprocess.TimeoutExpired) as problem:
        print(f"run.py: no device to ask ({getattr(problem, 'reason', problem)}); nothing was done", file=sys.stderr)
        return NO_GPU if isinstance(problem, Skipped) else 1
    runs = Runs(programs, device, around["gpu"]["total_bytes"])
    of_part = {"lookups": LookUps(programs, device).checks, "runs": runs.checks, "facts": facts.checks, "device": Battery(programs, device).checks, "bits": Bits(programs, device, o.repetitions).checks,
               "pytorch": PyTorch(programs, device, o.python).checks, "links": facts.links}
    results = {"schema": 1, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": o.device,
               "clock": device.clock, "repetitions": o.repetitions, "machine": around, "parts": earlier(o)}
    for part in PARTS:
        if checks.chosen(part):
            results["parts"][part] = checks.make(part, of_part[part](), results["parts"].get(part))
            write_json(o.out, results)  # what is known stays known when the time ends
    for choice in sorted(checks.unused):
        print(f"run.py: --only '{choice}' names no check", file=sys.stderr)
    for part, result in results["parts"].items():
        print(f"{part}: {result['status']} ({result['ok']} ok, {result['failed']} failed, {result['skipped']} skipped)")
    bad = checks.unused or any(result["status"] == "failed" for result in results["parts"].values())
    return 1 if nothing_done(checks, "run.py") or bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
