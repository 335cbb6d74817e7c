"""How close plans come to in-core where mapping is priced for each handle: the rows of "fixed places", with their limits.

usage: fixed_places.py BUILD_FOLDER [--rows 0,1,...] [--seeds 1,2,3] [--vmm 1] [--python PYTHON]

Each row is carried out on the software GPU with 2 % noise, once per seed, beside the same network in-core on the same device; the
median of the seeds counts. What is compared is settled iterations of at least a whole rise and fall of the device's clock rate. Rows
of PyTorch's are left out without an interpreter that has it. Prints a Markdown table. Fails where a row takes more than its limit
over in-core, more than 2 % other than predicted, where more pieces of memory are mapped in an iteration than allowed, and where no
row could be carried out.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests/preload"))
# runs.py reads the build folder from the command line.
from runs import TRAIN, run  # noqa: E402

SETTLED, LEAST = 20, 24  # iterations: until nothing changes, and those that count
DRIFT_MS = 20e3  # the software GPU's clock rate rises and falls within that: it is to count as a whole
MOVES, PREDICTED_WITHIN = 200, 0.02
GPT, RESNET50, BF16 = "gpt.py", "resnet50.py", "--bf16"
GPT_768 = f"{GPT} --layers 12 --width 768 --batch 16 --vocabulary 8192 --optimizer adamw-plain"


def torch_command(python, program):
    """One of the PyTorch examples with its options, in half precision behind `--bf16`."""
    name, *options = program.split()
    if name == BF16:
        return [python, SOURCE / "tests/gpu/torch_example.py", BF16, SOURCE / "examples/pytorch" / options[0], *options[1:]]
    return [python, SOURCE / "examples/pytorch" / name, *options]


@dataclasses.dataclass
class Row:
    device: str
    memory: str  # or a share of what the program needs
    program: str  # the trainer's network, or one of the PyTorch examples, with options
    most: float  # over in-core
    most_moves: int = MOVES  # pieces mapped in an iteration

    def of_torch(self):
        return ".py" in self.program

    def command(self, python):
        return torch_command(python, self.program) if self.of_torch() else [TRAIN, "--network", *self.program.split()]


ROWS = (
    Row("v100-pcie3", "16GiB", "resnet50 --batch 512", 0.070),
    Row("v100-pcie3", "16GiB", "resnet50 --batch 640", 0.092),
    Row("v100-pcie3", "16GiB", "resnet50 --batch 1024", 0.130),
    Row("v100-pcie3", "16GiB", "resnet50 --batch 1440", 0.38, 2 * MOVES),
    Row("v100-nvlink2", "16GiB", "resnet50 --batch 640", 0.007),
    Row("v100-nvlink2", "16GiB", "resnet50 --batch 1152", 0.020),
    Row("v100-nvlink2", "16GiB", "resnet50 --batch 1440", 0.030, 2 * MOVES),
    Row("titanx", "12GiB", "vgg16 --batch 229 --separate-relu", 0.010),
    Row("v100-pcie3", "16GiB", "alexnet --batch 2688", 0.005),
    Row("v100-pcie3", "16GiB", "resnext101-3d --input-size 448 --input-width 224 --frames 256 --batch 1", 0.035),
    Row("h200", "16GiB", "resnet50 --batch 640", 0.15),
    Row("h200", "16GiB", f"{RESNET50} --batch 640 --same-batch", 0.14),
    Row("h200", "1/3", GPT_768, 0.22),
    Row("h200", "1/2", GPT_768, 0.12),
    Row("h200", "16GiB", f"{BF16} {RESNET50} --batch 1280 --same-batch --channels-last", 0.14),
    Row("h200", "16GiB", f"{BF16} {GPT} --layers 8 --width 2048 --heads 16 --batch 64 --vocabulary 8192", 0.13),
)


def bytes_of(row, device, command):
    """What POOCH_MEMORY_CAP says: a share is counted of what the program needs."""
    if "/" not in row.memory:
        return row.memory
    need = checked(row, run(device, [*command, 2], "--policy", "keep", timeout=900)).summary["need_bytes"]
    return f"{need // int(row.memory.split('/')[1]) >> 20}MiB"


def steady(program, iterations):
    """Milliseconds per iteration once settled, by virtual time, and the longer one of the two runs that it takes."""
    few, more = (program(n) for n in (SETTLED, SETTLED + iterations))
    return (more.device["virtual_ns"] - few.device["virtual_ns"]) / iterations / 1e6, more


def carry_out(row, python, vmm, seed):
    """Over in-core: the bound and what was executed; over what was predicted; pieces mapped in an iteration."""
    device = f"soft:{row.device}:timing:vmm={vmm}:noise=2,{seed}"
    command = [*row.command(python), "--iterations"]

    def in_core(iterations):
        return checked(row, run(device + ":memory=1TiB", [*command, iterations], "--no-pooch", timeout=1800))

    iterations = max(LEAST, math.ceil(DRIFT_MS / steady(in_core, LEAST)[0]))
    in_core_ms, _ = steady(in_core, iterations)
    memory = bytes_of(row, device + ":memory=1TiB", command)
    with tempfile.TemporaryDirectory() as cache:
        def planned(iterations):
            return checked(row, run(device, [*command, iterations], "--policy", "hybrid", "--memory", memory, timeout=1800,
                                    env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache}))

        planned(SETTLED)  # the two runs that follow take its plan
        planned_ms, done = steady(planned, iterations)
        plans = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path(cache).glob("*.json")]
    summary = done.summary
    bound = min(plan["bound_ms"] / plan["in_core_ms"] for plan in plans) - 1
    return (bound, planned_ms / in_core_ms - 1, planned_ms / summary["predicted_ms"] - 1,
            summary["moved_frames"] / max(1, summary["aliased_iterations"]))


def checked(row, done):
    if done.status != 0 or done.device["violations"] or (done.summary and done.summary["plans_left"]):
        sys.exit(f"fixed_places: {row.device} {row.program}: {done.err}")
    return done


def main():
    parser = argparse.ArgumentParser(prog="fixed_places.py")
    parser.add_argument("build")
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--vmm", default="1")
    parser.add_argument("--python", help="an interpreter that has PyTorch")
    chosen = parser.parse_args()
    missed = carried_out = 0
    print("| model | memory | program | bound | at most | over in-core | over the prediction | mapped in an iteration | |\n" + "| --- " * 9 + "|")
    for row in (ROWS[int(index)] for index in chosen.rows.split(",")):
        if row.of_torch() and not chosen.python:
            continue
        bound, over, off, moves = (statistics.median(values) for values in
                                   zip(*(carry_out(row, chosen.python, chosen.vmm, seed) for seed in chosen.seeds.split(","))))
        wrong = [what for what, is_wrong in (("limit", over > row.most), ("prediction", abs(off) > PREDICTED_WITHIN),
                                             ("mapping", moves > row.most_moves)) if is_wrong]
        carried_out += 1
        missed += bool(wrong)
        print(f"| {row.device} | {row.memory} | `{row.program}` | {bound:+.1%} | {row.most:+.1%} | {over:+.1%} | {off:+.1%} | "
              f"{moves:.0f} | {', '.join(wrong) + ' missed' if wrong else 'held'} |", flush=True)
    print(f"{carried_out - missed} passed, {missed} failed")
    return missed > 0 or carried_out == 0


if __name__ == "__main__":
    sys.exit(main())
