"""What must hold on the grid, and which of the papers' relations come out."""
import dataclasses

from markdown import percent, times

LEAST, MOST = 1.3, 1.9  # Figure 17: 1.40 to 1.73 in the paper, with some room
PLANNING_SECONDS, PLANNING_CORES = 2.0, 2


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    holds: bool
    found: str
    required: bool = True  # False: a relation of a paper's, which may not come out

    def line(self):
        verdict = "holds" if self.holds else "DOES NOT HOLD" if self.required else "does not come out"
        return f"{verdict}: {self.name}: {self.found}"


def never_worse(results):
    """`hybrid` against every other policy in every cell that leaves the program's algorithms alone."""
    worse, pairs = [], 0
    for cell, result in results.items():
        for policy, row in result.rows.items():
            if policy == "hybrid" or ":" in policy or not row["feasible"]:
                continue
            pairs += 1
            if not result.fits("hybrid") or result.ms("hybrid") > row["time_ms"] * (1 + 1e-9):
                worse.append(f"{cell.name} ({policy})")
    found = ", ".join(worse) if worse else f"{pairs} plans in {len(results)} cells, none faster"
    return Check("`hybrid` is never worse than another policy", not worse and pairs > 0, found)


def against_superneurons(figure, results):
    """Figure 17: `pooch` 1.3 to 1.9 times as fast, from batch 256 to 512; and out of memory at 640."""
    checks, ratios = [], {}
    for label, cell in figure.cells.items():
        if cell in results and 256 <= cell.batch <= 512:
            ratios[label] = results[cell].times_as_fast("pooch", "superneurons")
    if ratios:
        found = ", ".join(f"{label}: {times(ratio)}" for label, ratio in ratios.items())
        inside = all(ratio is not None and LEAST <= ratio <= MOST for ratio in ratios.values())
        checks.append(Check(f"`pooch` is {LEAST}–{MOST}× as fast as `superneurons` for ResNet-50, batch 256 to 512, on "
                            f"{figure.device} (Figure 17)", inside, found, False))
    at_640 = figure.cells.get("640")
    if at_640 in results:
        row = results[at_640].rows["superneurons"]
        found = "fits" if row["feasible"] else row["why"]
        checks.append(Check("`superneurons` runs out of memory at batch 640 (Figure 17)", not row["feasible"], found, False))
    return checks


def recomputes_more(table_3, results):
    """Table 3: on the slow link `pooch` recomputes more and swaps less."""
    if any(cell not in results for cell in table_3.values()) or len(table_3) < 2:
        return []
    counts = {device: results[cell].counts("pooch") for device, cell in table_3.items()}
    if any(None in of for of in counts.values()):
        return [Check("`pooch` recomputes more on the slower link (Table 3)", False, "does not fit", False)]
    (slow, a), (fast, b) = counts.items()
    return [Check("`pooch` recomputes more on the slower link (Table 3)", a[2] > b[2],
                  f"{a[2]} maps on {slow}, {b[2]} on {fast}", False)]


def planning(seconds):
    """`seconds`: network → processor time of the planner. Elapsed time tells only where nothing else runs."""
    if not seconds:
        return []
    most = PLANNING_SECONDS * PLANNING_CORES
    found = ", ".join(f"{name}: {'at most' if s <= most else 'more than'} {most:.0f} s of processor time"
                      for name, s in seconds.items())
    return [Check(f"`hybrid` plans within {PLANNING_SECONDS:.0f} s on {PLANNING_CORES} cores",
                  all(s <= most for s in seconds.values()), found)]


LIMITS = {  # cell → most overhead of `hybrid`
    "v100-pcie3-16GiB-resnet50-512": 0.09, "v100-pcie3-16GiB-resnet50-640": 0.11, "v100-pcie3-16GiB-resnet50-1024": 0.25,
    "v100-nvlink2-16GiB-resnet50-640": 0.02, "v100-nvlink2-16GiB-resnet50-1152": 0.04, "v100-pcie3-16GiB-alexnet-2688": 0.03,
    "v100-pcie3-16GiB-resnext101-3d-1-input-size-448-input-width-224-frames-256": 0.05,
    "titanx-12GiB-vgg16-229-separate-relu": 0.03,
}


def limits(results):
    found, above = [], []
    for cell, result in results.items():
        most = LIMITS.get(cell.name)
        if most is None:
            continue
        overhead = result.overhead("hybrid")
        found.append(f"{cell.name} {percent(overhead)} (at most {percent(most)})")
        if overhead is None or overhead > most:
            above.append(cell.name)
    if not found:
        return []
    return [Check("`hybrid` stays within the limits that this project has set itself", not above, "; ".join(found))]


def all_checks(grid, results, seconds):
    checks = [never_worse(results), *limits(results)]
    for figure in grid.figures:
        if figure.key == "17":
            checks += against_superneurons(figure, results)
    return [*checks, *recomputes_more(grid.table_3, results), *planning(seconds)]
