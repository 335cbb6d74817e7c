"""Ways to train in less memory, side by side in one run: the trainer's ResNet-50, and PyTorch's. Writes JSON and a table.

usage: silicon.py [--device real] [--batch 640] [--memory 16GiB] … ; --help lists all

Ratios are to in-core training on the same device in the same run. On a software GPU (soft:h200:timing) times are virtual. A
row that did not run says why. Goals (GOALS, and tests/gpu/judge.py) are for the batches and the cap that are the defaults.
Exit code 1: a row failed, a goal was missed, or all rows were skipped.
"""
import argparse
import datetime
import functools
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
import judge  # noqa: E402
from checks import Checks, Failed, Skipped, nothing_done, require, skipping, write_json  # noqa: E402
from part_pytorch import example, said, torch_version  # noqa: E402
from torch_example import OUT_OF_MEMORY  # noqa: E402
from programs import GIB, Device, Programs  # noqa: E402

IN_CORE = "in-core"
POLICIES = ("hybrid", "pooch", "superneurons", "vdnn-conv", "swap-all", "demand")
OURS = ("hybrid", "pooch")
PEERS = {"torch.utils.checkpoint": "checkpoint", "save_on_cpu": "save_on_cpu"}
# Options of torch_example.py, script, its options. The batch of each is an option of this program.
# One batch for all iterations: drawing images takes the host longer than training on them takes the device.
TORCH = {"torch-resnet50-tf32": ["--tf32", "resnet50.py", "--same-batch"],
         "torch-resnet50-bf16": ["--bf16", "resnet50.py", "--same-batch", "--channels-last"],
         "torch-gpt": ["--bf16", "gpt.py", "--width", "2048", "--heads", "16", "--layers", "8", "--vocabulary", "8192"]}

# By group: how many times as long as in-core training, and what must be slower.
GOALS = {"trainer": (1.15, ()), "torch-resnet50-tf32": (1.15, tuple(PEERS)), "torch-resnet50-bf16": (1.15, ()), "torch-gpt": (1.12, ())}
FOR_GOALS = ("network", "batch", "torch_batch", "gpt_batch", "memory")  # options


class Silicon:
    def __init__(self, o):
        self.o, self.programs, self.device = o, Programs(o.build, o.logs, o.run_limit), Device(o.device)

    def pooch(self, command, policy, memory):
        limit = ["--memory", memory, "--policy", policy] if memory else []  # without a cap as a user starts it
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_LOG": "info"}
        run = self.programs.run(self.device, command, *limit, env=env)
        require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
        s = run.summary
        numbers = {key: s[key] for key in ("cap_bytes", "need_bytes", "peak_device_bytes", "peak_host_bytes", "planned_iterations",
                                           "plans_left", "replays", "mismatches", "bytes_out", "bytes_in", "predicted_ms",
                                           "actual_ms", "predicted_peak_bytes", "planned_peak_bytes")}
        if memory and policy != "demand" and run.out_of_alias():
            numbers["remark"] = run.out_of_alias()
        require(s["mismatches"] == 0, f"{s['mismatches']} replays made something else", numbers)
        require(s["peak_device_bytes"] <= s["cap_bytes"], "the peak is above the cap", numbers)
        if memory and policy != "demand" and s["planned_iterations"] == 0:
            why = next((line for line in reversed(run.err.splitlines()) if ": warning: " in line), run.last_words())
            why = why.split("profile.json: ")[-1]  # the planner's own words
            verdict = Failed if policy in OURS else Skipped  # others may have no plan under a cap
            raise verdict(f"no iteration followed a plan: {why}", numbers)
        return run, numbers

    def trainer(self, policy=None, memory=None):
        o = self.o
        command = [self.programs.train, "--network", o.network, "--batch", str(o.batch), "--iterations", str(o.iterations), "--json"]
        if policy is None:
            run, numbers = self.programs.run(self.device, command, "--no-pooch"), {}
            require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
        else:
            run, numbers = self.pooch(command, policy, memory)
        result = run.result()
        need = result["need_bytes"]
        return {"ms": result["ms_per_iteration"], "per_s": result["images_per_s"], "need_bytes": need, "peak_device_bytes": need} | numbers

    def torch(self, model, variant="plain", policy=None, memory=None):
        o = self.o
        words = TORCH[model]
        around = ["--variant", variant] + (["--memory", str(o.memory_bytes)] if variant != "plain" else [])
        batch = o.gpt_batch if model == "torch-gpt" else o.torch_batch * (2 if "bf16" in model else 1)
        command = example(self.programs, o.python, [*around, *words, "--batch", str(batch), "--iterations", str(o.iterations)])
        run, numbers = (self.programs.run(self.device, command, "--no-pooch"), {}) if policy is None else \
            self.pooch(command, policy, memory)
        if policy is None and run.status == OUT_OF_MEMORY:
            raise Skipped(f"does not fit: {run.last_words()[:80]}")
        told = said(run)
        peak = {} if policy else {"peak_device_bytes": told["peak_reserved_bytes"]}
        return {"ms": told["ms_per_iteration"], "per_s": batch * 1000 / told["ms_per_iteration"], "batch": batch} | peak | numbers

    def rows_of_trainer(self):
        yield IN_CORE, self.trainer
        yield "pooch-no-cap", functools.partial(self.trainer, "hybrid")
        for policy in POLICIES:
            yield policy, functools.partial(self.trainer, policy, self.o.memory)

    def rows_of_torch(self, model):
        why_not = None
        if torch_version(self.o.python) is None:
            why_not = f"torch and torchvision are not installed for {self.o.python} (--python)"
        elif not self.programs.examples.is_dir():
            why_not = "examples/pytorch is not there"
        rows = {IN_CORE: functools.partial(self.torch, model), "pooch-no-cap": functools.partial(self.torch, model, policy="hybrid"),
                "hybrid": functools.partial(self.torch, model, policy="hybrid", memory=self.o.memory)}
        rows |= {name: functools.partial(self.torch, model, variant) for name, variant in PEERS.items()}
        for name, row in rows.items():
            yield name, skipping(why_not) if why_not else row

    def groups(self):
        yield "trainer", self.rows_of_trainer
        for model in TORCH:
            yield model, functools.partial(self.rows_of_torch, model)


def off(predicted, actual):
    return f"{100 * (predicted / actual - 1):+.1f} %" if predicted and actual else "–"


def gib(count):
    return "–" if count is None else f"{count / GIB:.1f} GiB"


def table(group, made):
    """Markdown. Ratio: milliseconds per iteration over those in-core; predictions against what was measured. The peak of the
    trainer in-core is its need, that of PyTorch without pooch what PyTorch held."""
    in_core = next((row.get("ms") for row in made["checks"] if row["name"] == IN_CORE), None)
    lines = [f"### {group}", "", "| | ms per iteration | per second | over in-core | peak | predicted time | predicted peak | |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in made["checks"]:
        ms = row.get("ms")
        if ms is None:
            cells = ["–"] * 6 + [f"{row['status']}: {row['reason']}".replace("|", "/")]
        else:
            cells = [f"{ms:.1f}", f"{row['per_s']:.1f}", f"{ms / in_core:.3f} ×" if in_core else "–",
                     gib(row.get("peak_device_bytes")), off(row.get("predicted_ms"), row.get("actual_ms")),
                     off(row.get("predicted_peak_bytes"), row.get("planned_peak_bytes")), row.get("remark", "")]
        lines.append("| " + " | ".join([row["name"], *cells]) + " |")
    return "\n".join(lines)


def bytes_of(text):
    found = re.fullmatch(r"(\d+)(MiB|GiB)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not like 16GiB or 900MiB")
    return int(found[1]) << {"MiB": 20, "GiB": 30}[found[2]]


def options(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="real")
    parser.add_argument("--network", default="resnet50", help="of the trainer (resnet50)")
    parser.add_argument("--batch", type=int, default=640, help="of the trainer (640)")
    parser.add_argument("--torch-batch", type=int, default=640, help="of PyTorch's ResNet-50; bf16 takes twice as many (640)")
    parser.add_argument("--gpt-batch", type=int, default=64, help="sequences of 1024 tokens (64)")
    parser.add_argument("--memory", default="16GiB", help="the cap of all rows but in-core (16GiB)")
    parser.add_argument("--iterations", type=int, default=30, help="the median lap counts, so most should follow a plan (30)")
    parser.add_argument("--only", default="", help=f"trainer, {', '.join(TORCH)}, or GROUP:PATTERN of rows, with commas between; "
                        "without in-core there are no ratios")
    parser.add_argument("--out", default="silicon.json")
    parser.add_argument("--table", help="file for the table as well")
    parser.add_argument("--time-limit", type=float, default=0, help="seconds; rows not begun by then are skipped (none)")
    parser.add_argument("--run-limit", type=float, default=550, metavar="SECONDS", help="what one run may take (550)")
    parser.add_argument("--logs", metavar="FOLDER", help="keep there all that each run says, one file each")
    parser.add_argument("--build")
    parser.add_argument("--python", default=sys.executable, help="for PyTorch")
    o = parser.parse_args(words)
    o.with_goals = all(getattr(o, name) == parser.get_default(name) for name in FOR_GOALS)
    try:
        o.memory_bytes = bytes_of(o.memory)
    except argparse.ArgumentTypeError as error:
        parser.error(f"--memory: {error}")
    o.only = [choice for choice in o.only.split(",") if choice]
    for choice in o.only:
        if choice.partition(":")[0] not in ("trainer", *TORCH):
            parser.error(f"--only '{choice}': the groups are trainer, {', '.join(TORCH)}")
    return o


def main(words):
    o = options(words)
    bench, checks = Silicon(o), Checks(o.only, o.time_limit)
    results = {"schema": 1, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": o.device,
               "clock": bench.device.clock, "memory": o.memory, "batch": o.batch, "torch_batch": o.torch_batch,
               "gpt_batch": o.gpt_batch, "iterations": o.iterations, "groups": {}}
    for group, rows in bench.groups():
        if checks.chosen(group):
            made = results["groups"][group] = checks.make(group, rows())
            if o.with_goals:
                made["missed"] = judge.goals({row["name"]: row for row in made["checks"]}, *GOALS[group])
            write_json(o.out, results)
    text = "\n\n".join([f"{o.device}, cap {o.memory}, {results['date']}; times are {results['clock']}.",
                        *(table(group, made) for group, made in results["groups"].items()),
                        *(f"{group}: goal missed: {goal}" for group, made in results["groups"].items() for goal in made.get("missed", [])),
                        *([] if o.with_goals else ["Goals are not judged: they are for the default batches and cap."])]) + "\n"
    print("\n" + text, end="")
    if o.table:
        pathlib.Path(o.table).write_text(text, encoding="utf-8")
    bad = checks.unused or any(made["failed"] or made.get("missed") for made in results["groups"].values())
    return 1 if nothing_done(checks, "silicon.py") or bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
