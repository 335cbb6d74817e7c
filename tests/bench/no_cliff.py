"""What there is between "all fits" and "no plan": the rows of "no cliff", with their limits.

usage: no_cliff.py BUILD_FOLDER [--rows 0,1,...] [--python PYTHON]

Each row is carried out on the software GPU with 2 % noise, beside the same program in-core on the same device; what is compared is
the iterations after the first ones. A limit is a factor over in-core, or over what the row cannot do without: where weights do not
fit, its compute or the copies of what has no place, whichever takes longer; where the limit is over the plan's bound, that bound. Rows of PyTorch's are left out
without an interpreter that has it. Prints a Markdown table. Fails where a row takes longer than its limit, and where no row could be carried out.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests/preload"))
# runs.py reads the build folder from the command line.
from runs import TRAIN, run  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests/bench"))
from fixed_places import DRIFT_MS, checked, torch_command  # noqa: E402

FEW, MOST = 16, 800  # iterations that count
DECODER = "torch_decoder.py"
GPT_768 = "gpt.py --layers 12 --width 768 --vocabulary 8192 --optimizer adamw-plain"


@dataclasses.dataclass
class Row:
    device: str
    memory: str  # or a share of what the program needs
    program: str
    most: float  # times in-core, or times what `over` says
    policy: str = "hybrid"
    over: str = "in-core"  # "copies": its compute or the copies of what has no place; "bound": points over the plan's bound
    first: int = 20  # iterations that do not count
    counted: int = 0  # 0: a whole rise and fall of the clock rate in-core, as far as that is not too many
    link_gb: float = 50  # per second

    def command(self, python):
        if self.program == DECODER:
            return [python, SOURCE / "tests/bench" / DECODER]
        return torch_command(python, self.program) if ".py" in self.program else [TRAIN, "--network", *self.program.split()]


ROWS = (
    Row("v100-pcie3", "16GiB", "resnet50 --batch 640", 1.6, "demand", counted=16),
    Row("v100-nvlink2", "16GiB", "resnet50 --batch 640", 1.03, "demand", counted=16),
    Row("h200", "20GiB", "--bf16 gpt.py --layers 24 --width 2048 --heads 16 --batch 32 --vocabulary 8192 --optimizer adamw-fused", 1.25,
        first=12, counted=4),
    Row("h200", "1/3", f"{GPT_768} --batch 8", 0.08, over="bound", first=40),
    Row("h200", "2/3", DECODER, 1.1, over="copies"),
    Row("h200", "1/3", DECODER, 1.1, over="copies"),
    Row("h200", "1/2", f"{GPT_768} --batch 16 --lengths 1024,768,512,384", 1.15, first=80),
    Row("h200", "1/2", f"{GPT_768} --batch 16 --any-length", 1.35, first=80, counted=80),
    Row("h200", "1/2", f"{GPT_768} --batch 16 --checkpoint", 1.3, first=60),
)
ALL_ROWS = ",".join(map(str, range(len(ROWS))))


def steady(row, program, counted):
    """Milliseconds per iteration of those that count, and the longer one of the two runs that it takes."""
    few, more = (program(n) for n in (row.first, row.first + counted))
    return (more.device["virtual_ns"] - few.device["virtual_ns"]) / counted / 1e6, more


def carry_out(row, python):
    """Times in-core, what the limit is over, and whether the limit is kept."""
    device, command = f"soft:{row.device}:timing", [*row.command(python), "--iterations"]
    roomy = device + ":memory=1TiB"

    def in_core(n):
        return checked(row, run(roomy, [*command, n], "--no-pooch", timeout=1800))

    in_core_ms, _ = steady(row, in_core, row.counted or FEW)
    counted = row.counted or min(MOST, max(FEW, math.ceil(DRIFT_MS / in_core_ms)))
    if counted != (row.counted or FEW):
        in_core_ms, _ = steady(row, in_core, counted)
    memory, least_ms = row.memory, in_core_ms
    if "/" in memory:
        need = checked(row, run(roomy, [*command, 4], "--policy", "keep", timeout=900)).summary["need_bytes"]
        part, of = map(int, memory.split("/"))
        memory = f"{need * part // of >> 20}MiB"
        if row.over == "copies":
            least_ms = max(in_core_ms, need * (1 - part / of) / row.link_gb / 1e6)
    with tempfile.TemporaryDirectory() as cache:
        def capped(n):
            return run(device, [*command, n], "--policy", row.policy, "--memory", memory, timeout=1800,
                       env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})

        if row.policy != "demand":
            capped(row.first)  # the two runs that follow take its plans
        takes_ms, done = steady(row, capped, counted)
        plans = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path(cache).glob("*.json")]
    if done.status != 0 or done.device["violations"]:
        sys.exit(f"no_cliff: {row.device} {row.program}: {done.err}")
    most = row.most
    if row.over == "bound":
        most += min((plan["bound_ms"] / plan["in_core_ms"] for plan in plans), default=0)
    return takes_ms / in_core_ms, takes_ms / least_ms, most, done.summary


def main():
    parser = argparse.ArgumentParser(prog="no_cliff.py")
    parser.add_argument("build")
    parser.add_argument("--rows", default=ALL_ROWS)
    parser.add_argument("--python", help="an interpreter that has PyTorch")
    chosen = parser.parse_args()
    missed = carried_out = 0
    print("| model | memory | program | planned iterations | times in-core | at most | is | |\n" + "| --- " * 8 + "|")
    for row in (ROWS[int(index)] for index in chosen.rows.split(",")):
        if ".py" in row.program and not chosen.python:
            continue
        over, of_least, most, summary = carry_out(row, chosen.python)
        carried_out += 1
        missed += of_least > most
        print(f"| {row.device} | {row.memory} | `{row.program}` | {summary['planned_iterations']} of {summary['iterations']} | {over:.2f} | "
              f"{most:.2f} | {of_least:.2f} | {'missed' if of_least > most else 'held'} |", flush=True)
    if chosen.rows == ALL_ROWS:
        carried_out += 1
        equal = subprocess.run([sys.executable, "-B", SOURCE / "tests/preload/over_link.py", chosen.build], check=False).returncode == 0
        missed += not equal
        print(f"| v100-pcie3 | 32MiB | digits, an op of 48 MiB | – | – | equal bits | {'equal' if equal else 'no'} | {'held' if equal else 'missed'} |")
    print(f"{carried_out - missed} passed, {missed} failed")
    return missed > 0 or carried_out == 0


if __name__ == "__main__":
    sys.exit(main())
