"""The programs that people run, under pooch: how each of them fares, as a table.

usage: table.py BUILD_FOLDER PYTHON [ROW ...] [--list] [--keep]

Each row is a program of this folder, on the software GPU with 2 % noise: without pooch, with it and no cap, and with caps of half and a
third of its need. Times are of the iterations after the first ones, over those without pooch. ROW is a part of a program's command; none:
all. With --keep, results replace earlier ones in docs/programs.json, and the table in docs/programs.md is made of all that are there. Fails
where a program fails that works without pooch.
"""
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "preload"))
# runs.py reads the build folder from the command line.
from runs import run  # noqa: E402

DOCUMENT = HERE.parent.parent / "docs/programs.md"
RESULTS = DOCUMENT.with_suffix(".json")
MARKS = "<!-- the table -->\n", "<!-- its end -->\n"
DEVICE = "soft:h200:timing"
TIMEOUT = 900  # seconds
AS_USERS_DO = {"POOCH_POLICY": ""}  # none is set


@dataclasses.dataclass
class Row:
    name: str
    program: str
    first: int = 24  # iterations that do not count
    counted: int = 24


ROWS = (
    Row("torchvision ResNet-50", "vision.py torchvision:resnet50 --batch 64"),
    Row("... bf16, channels-last", "vision.py torchvision:resnet50 --batch 64 --amp bf16 --channels-last"),
    Row("... fp16 with GradScaler", "vision.py torchvision:resnet50 --batch 64 --amp fp16"),
    Row("... average of the weights", "vision.py torchvision:resnet50 --batch 64 --ema"),
    Row("... workers, pinned memory", "vision.py torchvision:resnet50 --batch 64 --workers 2"),
    Row("... torch.profiler on", "vision.py torchvision:resnet50 --batch 64 --profile"),
    Row("... torch.compile", "vision.py torchvision:resnet50 --batch 64 --compile default"),
    Row("torchvision ViT-B/16", "vision.py torchvision:vit_b_16 --batch 64"),
    Row("torchvision EfficientNet-B0", "vision.py torchvision:efficientnet_b0 --batch 128"),
    Row("torchvision ConvNeXt-T", "vision.py torchvision:convnext_tiny --batch 64"),
    Row("timm ViT-B/16, bf16", "vision.py timm:vit_base_patch16_224 --batch 128 --amp bf16"),
    Row("timm ResNet-50", "vision.py timm:resnet50 --batch 64"),
    Row("timm EfficientNet-B0, channels-last", "vision.py timm:efficientnet_b0 --batch 128 --channels-last"),
    Row("timm ConvNeXt-T, fp16", "vision.py timm:convnext_tiny --batch 64 --amp fp16"),
    Row("transformers GPT-2", "language.py gpt2"),
    Row("... bf16, clipping, accumulation of 4", "language.py gpt2 --amp bf16 --clip --accumulate 4"),
    Row("... fp16 with GradScaler, clipping", "language.py gpt2 --amp fp16 --clip"),
    Row("... checkpointing", "language.py gpt2 --batch 16 --checkpoint"),
    Row("... validation", "language.py gpt2 --validate 8"),
    Row("... eager attention", "language.py gpt2 --attention eager"),
    Row("... torch.compile", "language.py gpt2 --compile default"),
    Row("... torch.compile, reduce-overhead", "language.py gpt2 --compile reduce-overhead"),
    Row("... generate()", "language.py gpt2 --generate 64"),
    Row("transformers Llama, bf16", "language.py llama --amp bf16"),
    Row("... LoRA by peft", "language.py llama --amp bf16 --lora"),
    Row("... generate()", "language.py llama --generate 64"),
    Row("transformers T5", "language.py t5"),
    Row("transformers Trainer, GPT-2", "trainer.py"),
    Row("... accumulation, bf16, checkpointing", "trainer.py --accumulate 2 --bf16 --checkpoint"),
    Row("diffusers UNet", "diffusion.py"),
    Row("... bf16", "diffusion.py --amp bf16"),
    Row("Lightning, ResNet-18 with validation", "with_lightning.py"),
    Row("make_graphed_callables", "graphed.py"),
)


@dataclasses.dataclass
class Took:
    """What a row took in one of its ways."""
    ms: float = 0  # of an iteration
    peak: int = 0  # bytes of device memory
    need: int = 0
    planned: int = 0
    iterations: int = 0
    predicted_ms: float | None = None
    error: str | None = None


def took(row, command, *options, env=None):
    """From two runs of different length. Where plans are made, a run ahead of them makes those that both take."""
    done = []
    ahead = [row.first] if "POOCH_CACHE" in (env or {}) else []
    for count in (*ahead, row.first, row.first + row.counted):
        try:
            done.append(run(DEVICE, [*command, "--iterations", count], *options, env=env, timeout=TIMEOUT))
        except subprocess.TimeoutExpired:
            return Took(error=f"not done after {TIMEOUT} s")
        if done[-1].status != 0:
            lines = [line for line in done[-1].err.splitlines() if line.strip()] or ["no output"]
            return Took(error=next((line for line in lines if line.startswith("pooch: error") or "Error: " in line), lines[-1]))
    few, more = done[-2:]
    made = Took(ms=(more.device["virtual_ns"] - few.device["virtual_ns"]) / row.counted / 1e6, peak=more.device["peak_bytes"])
    if more.summary is not None:
        made.need, made.planned, made.iterations = (more.summary[k] for k in ("need_bytes", "planned_iterations", "iterations"))
        made.predicted_ms = more.summary.get("predicted_ms")
    return made


def carry_out(row, python):
    name, *words = row.program.split()
    command = [python, HERE / name, *words]
    results = {"alone": took(row, command, "--no-pooch")}
    if results["alone"].error is None:
        results["no cap"] = took(row, command, env=AS_USERS_DO)
    need = results.get("no cap", Took()).need
    for part, of in ((("half", 2), ("third", 3)) if need else ()):
        with tempfile.TemporaryDirectory() as cache:
            results[part] = took(row, command, "--memory", f"{need // of >> 20}MiB",
                                 env=AS_USERS_DO | {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": cache})
    return {way: dataclasses.asdict(result) for way, result in results.items()}


def cells(results):
    alone = results["alone"]
    if alone["error"]:
        return [f"cannot run here: {alone['error'][:80]}", "", "", ""]
    yield_of = []
    for way in ("no cap", "half", "third"):
        made = results.get(way) or {"error": "no need known"}
        if made["error"]:
            yield_of.append(f"**fails**: {made['error'][:80]}")
            continue
        text = f"{made['ms'] / alone['ms']:.2f} ×"
        if way == "no cap":
            text += f", {(made['peak'] - alone['peak']) >> 20:+d} MiB"
        else:
            text += f", {made['planned']} of {made['iterations']} planned"
            if made["predicted_ms"]:
                text += f", {made['ms'] / made['predicted_ms']:.2f} of the prediction"
        yield_of.append(text)
    need = results["no cap"].get("need", 0) / (1 << 30)
    return [f"{need:.1f} GiB", *yield_of]


def written(text, table):
    """The document with another table between its marks."""
    begin, end = (text.index(mark) for mark in MARKS)
    return text[:begin + len(MARKS[0])] + table + text[end:]


def table_of(all_results):
    lines = ["| program | command | needs | no cap | at half | at a third |", "| --- " * 6 + "|"]
    above = ""
    for row in ROWS:
        name = row.name.replace("... ", f"{above}, ")
        above = above if name != row.name else name
        if row.program in all_results:
            lines.append(f"| {name} | `{row.program}` | " + " | ".join(cells(all_results[row.program])) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="table.py")
    parser.add_argument("build")
    parser.add_argument("python")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if not chosen.rows or any(part in row.program for part in chosen.rows)]
    if chosen.list:
        print("\n".join(row.program for row in rows))
        return 0
    failed = 0
    for row in rows:
        made = carry_out(row, chosen.python)
        failed += made["alone"]["error"] is None and any(way["error"] for way in made.values())
        print(f"| `{row.program}` | " + " | ".join(cells(made)) + " |", flush=True)
        if chosen.keep:
            known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            RESULTS.write_text(json.dumps(known | {row.program: made}, indent=1) + "\n", encoding="utf-8")
            DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), table_of(known | {row.program: made})), encoding="utf-8")
    print(f"{len(rows) - failed} passed, {failed} failed")
    return failed > 0 or not rows


if __name__ == "__main__":
    sys.exit(main())
