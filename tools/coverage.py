"""Lines and branches per folder, from gcovr's summary of files.

usage: coverage.py SUMMARY.json MOST_FOLDERS_DEEP [FOLDER=PERCENT…]

Exits with 1 where a folder has fewer of its lines covered than the percentage that is asked of it.
"""
import collections
import json
import pathlib
import sys


def main(summary, deep, *asked):
    counts = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in json.loads(pathlib.Path(summary).read_text(encoding="utf-8"))["files"]:
        parts = pathlib.PurePosixPath(file["filename"]).parts[:-1]
        for end in range(1, min(len(parts), int(deep)) + 1):
            folder = counts["/".join(parts[:end])]
            for i, what in enumerate(("line_covered", "line_total", "branch_covered", "branch_total")):
                folder[i] += file[what]
    print(f"{'folder':24} {'lines':>8} {'covered':>8}   {'branches':>8} {'covered':>8}")

    def percent(part, whole):
        return 100 * part / whole if whole else 100.0

    for folder, (lines, all_lines, branches, all_branches) in sorted(counts.items()):
        print(f"{folder:24} {all_lines:8} {percent(lines, all_lines):7.1f}%   {all_branches:8} {percent(branches, all_branches):7.1f}%")
    short = []
    for one in asked:
        folder, least = one.split("=")
        if folder not in counts or percent(*counts[folder][:2]) < float(least):
            short.append(one)
    for one in short:
        print(f"fewer lines are covered than asked: {one} %", file=sys.stderr)
    return 1 if short else 0


if len(sys.argv) < 3:
    sys.exit(__doc__.strip())
sys.exit(main(*sys.argv[1:]))
