"""The published experiments on the software GPU: docs/reproduction.md with its charts.

usage: reproduce BUILD_FOLDER [--grid full|quick|tiny] [--execute] [--jobs N] [--minutes N] [--output FILE]
Results are kept in BUILD_FOLDER/reproduce and used again by the same build.
"""
import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import checks
import grid as grids
import notes
import published
from cells import Failed, Runner, Store, clean_environment
from document import Document
from markdown import table
from profile_sections import batch_factors, link_comparison, other_plans
from profiles import Profiles, model_link

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_arguments():
    parser = argparse.ArgumentParser(prog="reproduce", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--grid", choices=grids.GRIDS, default="full", help="which cells (full)")
    parser.add_argument("--quick", action="store_const", const="quick", dest="grid", help="the same as --grid quick")
    parser.add_argument("--execute", action="store_true", help="carry the plans out as well")
    parser.add_argument("--jobs", type=int, default=2, choices=range(1, 65), metavar="N", help="cells at once (2)")
    parser.add_argument("--minutes", type=float, default=60, help="start no cell later than this (60)")
    parser.add_argument("--output", type=pathlib.Path,
                        help="the document (full grid: docs/reproduction.md, others: beside their results)")
    return parser.parse_args()


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def planner_seconds(runner, profiles, large):
    """Processor time of `pooch plan --policy hybrid`, one after the other; the better of two runs."""
    seconds = {}
    for name, cell in large.items():
        rate = model_link(profiles.build, cell.device)
        profile = str(profiles.profile(cell))
        with tempfile.TemporaryDirectory() as folder:
            words = [f"{runner.build}/tools/pooch", "plan", profile, "--policy", "hybrid", "--memory", cell.memory,
                     "--link-out", str(rate), "--link-in", str(rate), "-o", f"{folder}/plan.json"]
            taken = []
            for _ in range(2):
                start, before = time.monotonic(), processor_seconds()
                subprocess.run(words, env=clean_environment(), check=True, capture_output=True)
                taken.append(processor_seconds() - before)
                print(f"planner, {name}: {time.monotonic() - start:.1f} s, {taken[-1]:.1f} s of processor time")
        seconds[name] = min(taken)
    return seconds


def check_section(document, found):
    rows = [[check.name, "holds" if check.holds else "**does not hold**" if check.required else "**does not come out**",
             check.found] for check in found]
    document.add("## Checks", table(["what", "", "found"], rows))
    document.note("checks")


def write_document(arguments, grid, runner, profiles, output):
    results = runner.all(grid.cells())
    document = Document(grid, results)
    document.add(notes.HEAD)
    for figure in grid.figures:
        document.figure(figure)
        if figure.key == "17":
            document.less_memory()
            if grid.profiles:
                other_plans(document, profiles, {b: figure.cells[b] for b in ("512", "640")}, grids.NVLINK)
        if figure.key == "18":
            document.table_3()
    document.vdnn("vDNN's networks, titanx", grid.vdnn, published.VDNN_CONVENTIONAL, "vdnn")
    document.vdnn("vDNN's networks with a choice of algorithms, titanx", grid.tried, published.VDNN_CONVENTIONAL, "vdnn-tried",
                  ("vdnn-all:m", "vdnn-conv:p", "vdnn-dyn:p", "vdnn-dyn", "hybrid"))
    document.vdnn("vDNN's very deep networks, titanx", grid.deep, published.VDNN_DEEP, "vdnn-deep")
    if grid.profiles:
        batch_factors(document, profiles)
        link_comparison(document, profiles)
    found = checks.all_checks(grid, document.results, planner_seconds(runner, profiles, grid.large))
    check_section(document, found)
    document.everything()
    document.write(output)
    return found


def main():
    arguments = read_arguments()
    build = arguments.build.resolve()
    grid = grids.GRIDS[arguments.grid]()
    kept = build / "reproduce"
    output = arguments.output
    if output is None:
        output = ROOT / "docs/reproduction.md" if grid.name == "full" else kept / grid.name / "reproduction.md"
    if not all((build / part).is_file() for part in ("tools/pooch", "examples/train")):
        print(f"reproduce: {arguments.build}: no build with tools/pooch and examples/train; see ./dev build", file=sys.stderr)
        return 2
    output.parent.mkdir(parents=True, exist_ok=True)
    store = Store(kept, build)
    runner = Runner(build, store, arguments.jobs, 60 * arguments.minutes, arguments.execute)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = write_document(arguments, grid, runner, Profiles(build, store, folder, runner), output)
        except Failed as why:
            print(f"reproduce: {why}", file=sys.stderr)
            return 1
    for check in found:
        print(check.line())
    for name, why in runner.failures.items():
        print(f"failed: {name}: {why}")
    print(output)
    return 1 if runner.failures or any(check.required and not check.holds for check in found) else 0


if __name__ == "__main__":
    sys.exit(main())
