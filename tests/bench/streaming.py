"""What a program takes without a plan: the rows of "no cliff", with their limits.

usage: streaming.py BUILD_FOLDER [--rows 0,1,...] [--python PYTHON]

Each row runs by `--policy demand` on the software GPU with 2 % noise, beside the same program in-core on the same device; what is compared is
the iterations after the first few. The limit of a row whose weights do not fit is a factor over what it cannot do without: its
compute, or the copies of what has no place. Rows of PyTorch's are left out without an interpreter that has it. Prints a Markdown
table. Fails where a row takes longer than its limit, and where no row could be carried out.
"""
import argparse
import dataclasses
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests/preload"))
# runs.py reads the build folder from the command line.
from runs import TRAIN, run  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests/bench"))
from fixed_places import checked, steady  # noqa: E402

ITERATIONS = 16  # those that count
DECODER = "torch_decoder.py"


@dataclasses.dataclass
class Row:
    device: str
    memory: str  # or a share of what the program needs
    program: str
    most: float  # times in-core; of weights that do not fit: times what it cannot do without
    link_gb: float = 0  # per second, of weights that do not fit

    def command(self, python):
        name, *options = self.program.split()
        return [python, SOURCE / "tests/bench" / name, *options] if name == DECODER else [TRAIN, "--network", name, *options]


ROWS = (
    Row("v100-pcie3", "16GiB", "resnet50 --batch 640", 1.6),
    Row("v100-nvlink2", "16GiB", "resnet50 --batch 640", 1.03),
    Row("h200", "2/3", DECODER, 1.1, 50),
    Row("h200", "1/3", DECODER, 1.1, 50),
)


def carry_out(row, python):
    """Times in-core, and times what the limit is over."""
    device, command = f"soft:{row.device}:timing", [*row.command(python), "--iterations"]

    def timed(where, *options):
        return steady(lambda iterations: checked(row, run(where, [*command, iterations], *options, timeout=1800)), ITERATIONS)

    in_core_ms, _ = timed(device + ":memory=1TiB", "--no-pooch")
    memory, least_ms = row.memory, in_core_ms
    if "/" in memory:
        need = checked(row, run(device + ":memory=1TiB", [*command, 2], "--policy", "keep", timeout=900)).summary["need_bytes"]
        part, of = map(int, memory.split("/"))
        memory = f"{need * part // of >> 20}MiB"
        least_ms = max(in_core_ms, need * (1 - part / of) / row.link_gb / 1e6)
    takes_ms, _ = timed(device, "--policy", "demand", "--memory", memory)
    return takes_ms / in_core_ms, takes_ms / least_ms


def main():
    parser = argparse.ArgumentParser(prog="streaming.py")
    parser.add_argument("build")
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    parser.add_argument("--python", help="an interpreter that has PyTorch")
    chosen = parser.parse_args()
    missed = carried_out = 0
    print("| model | memory | program | times in-core | at most | is | |\n" + "| --- " * 7 + "|")
    for row in (ROWS[int(index)] for index in chosen.rows.split(",")):
        if row.program.startswith(DECODER) and not chosen.python:
            continue
        over, of_least = carry_out(row, chosen.python)
        carried_out += 1
        missed += of_least > row.most
        print(f"| {row.device} | {row.memory} | `{row.program}` | {over:.2f} | {row.most} | {of_least:.2f} | "
              f"{'missed' if of_least > row.most else 'held'} |", flush=True)
    print(f"{carried_out - missed} passed, {missed} failed")
    return missed > 0 or carried_out == 0


if __name__ == "__main__":
    sys.exit(main())
