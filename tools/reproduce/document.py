"""docs/reproduction.md from results: tables, charts, commands."""
import pathlib

import notes
import published
from charts import Chart
from markdown import NO_FIT, code, gib, percent, rate, table, times

POLICIES = ("keep", "swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons", "vdnn-all", "vdnn-conv",
            "vdnn-dyn", "lms", "lms-sync", "hybrid")


class Document:
    def __init__(self, grid, results, folder="reproduction"):
        self.grid, self.results, self.folder = grid, results, folder
        self.parts, self.charts = [], {}

    def add(self, *parts):
        self.parts += [part for part in parts if part]

    def chart(self, name, chart):
        self.charts[name] = chart.svg()
        self.add(f"![{chart.title}, in {chart.unit}]({self.folder}/{name}.svg)")

    def command(self, cell, *varied):
        """One command for all cells of a table: what differs from cell to cell stands as a capital letter."""
        words = cell.words()
        for value, letter in varied:
            words = [letter if word == str(value) else word for word in words]
        return code(words)

    def known(self, cells):
        return {label: cell for label, cell in cells.items() if cell in self.results}

    def note(self, key):
        self.add(notes.NOTES.get(key))

    def ablation(self, figure):
        cells = self.known(figure.cells)
        head = ["network (batch)", "in-core need", *(f"`{policy}`" for policy in figure.policies)]
        rows, series = [], {policy: [] for policy in figure.policies}
        for label, cell in cells.items():
            result = self.results[cell]
            factors = [result.times_as_fast(policy, "swap-all-unscheduled") for policy in figure.policies]
            for policy, factor in zip(figure.policies, factors):
                series[policy].append(factor)
            rows.append([label, gib(result.need_bytes()), *(NO_FIT if f is None else times(f) for f in factors)])
        self.chart(f"figure-{figure.key}", Chart(figure.title, "times as fast as swap-all-unscheduled", list(cells), series))
        self.add(table(head, rows), steps(self.results, cells))

    def throughput(self, figure):
        cells = self.known(figure.cells)
        executed = any(self.results[cell].has_executed() for cell in cells.values())
        head = ["batch" if figure.scale is None else "clip", "need", "in-core", *(f"`{p}`" for p in figure.policies),
                "`pooch` ÷ `superneurons`", "published `pooch`"]
        head += ["executed `hybrid`"] if executed else []
        rows, series = [], {name: [] for name in ("in-core", *figure.policies)}
        for label, cell in cells.items():
            result = self.results[cell]
            scale = 1 if figure.scale is None else figure.scale[label]
            in_core = result.in_core_images_per_s() * scale
            values = [result.images_per_s(p) * scale if result.fits(p) else None for p in figure.policies]
            fits = result.fits("keep")
            series["in-core"].append(in_core if fits else None)
            for policy, value in zip(figure.policies, values):
                series[policy].append(value)
            row = [label, gib(result.need_bytes()), rate(in_core) + ("" if fits else " *")]
            row += [NO_FIT if v is None else f"{rate(v)} ({percent(result.overhead(p))})"
                    for p, v in zip(figure.policies, values)]
            row += [times(result.times_as_fast("pooch", "superneurons")), figure.says.of(label)]
            rows.append(row + ([percent(result.executed("hybrid"))] if executed else []))
        marks = {mark: value for mark, value in figure.says.marks.items() if mark[0] in cells}
        self.chart(f"figure-{figure.key}", Chart(figure.title, figure.unit, list(cells), series, marks))
        self.add(table(head, rows), f"{figure.unit}, in brackets the extra time over in-core; * the memory does not suffice, "
                 "in-core is the time that it would take with memory enough.")

    def figure(self, figure):
        self.add(f"## {figure.title}", f"Published ({figure.says.source}): {figure.says.says}")
        if not self.known(figure.cells):
            self.add("No cell of it was run.")
            return
        (self.ablation if figure.kind == "ablation" else self.throughput)(figure)
        first = next(iter(figure.cells.values()))
        if figure.kind == "ablation":
            self.add("Command: " + self.command(first, (first.network, "NETWORK"), (first.batch, "N")))
        elif figure.scale is None:
            self.add("Command: " + self.command(first, (first.batch, "N")))
        else:
            sizes = {name: value for name, value in zip(first.more[::2], first.more[1::2])}
            self.add("Command: " + code([{"--input-size": "H", "--input-width": "W", "--frames": "F"}.get(before, word)
                                         for before, word in zip(["", *first.words()], first.words())]) +
                     f" (here {sizes['--input-size']} × {sizes['--input-width']} × {sizes['--frames']} in the first row)")
        self.note(f"figure {figure.key}")

    def table_3(self):
        cells = self.known(self.grid.table_3)
        if not cells:
            return
        self.add("## Table 3: how many maps are kept, swapped, recomputed",
                 f"Published: section 5.2, Table 3, p. 12, ResNet-50, batch 512.")
        rows = []
        for device, cell in cells.items():
            for policy in ("pooch", "superneurons", "hybrid"):
                ours = self.results[cell].counts(policy)
                theirs = published.TABLE_3.get((device, policy))
                rows.append([device, f"`{policy}`", NO_FIT if None in ours else " / ".join(map(str, ours)),
                             " / ".join(map(str, theirs)) if theirs else "–"])
        self.add(table(["machine", "policy", "keep / swap / recompute", "published"], rows))
        first = next(iter(cells.values()))
        self.add("Command: " + self.command(first, (f"soft:{first.device}", "soft:MACHINE")))
        self.note("table 3")

    def less_memory(self):
        cells = self.known(self.grid.less_memory)
        if not cells:
            return
        self.add("## Figure 17 with less memory: ResNet-50, v100-pcie3")
        rows = []
        for label, cell in cells.items():
            result = self.results[cell]
            rows.append([label, *(percent(result.overhead(p)) for p in ("superneurons", "pooch", "hybrid")),
                         times(result.times_as_fast("pooch", "superneurons"))])
        first = next(iter(cells.values()))
        self.add(table(["batch, memory", "`superneurons`", "`pooch`", "`hybrid`", "`pooch` ÷ `superneurons`"], rows),
                 "Command: " + self.command(first, (first.memory, "M"), (first.batch, "N")))
        self.note("less memory")

    def vdnn(self, title, cells, says, key, policies=("vdnn-all", "vdnn-conv", "vdnn-dyn", "hybrid")):
        known = self.known(cells)
        if not known:
            return
        self.add(f"## {title}", f"Published ({says.source}): {says.says}")
        rows, series = [], {policy: [] for policy in policies}
        for label, cell in known.items():
            result = self.results[cell]
            host = f" (host memory {cell.host_memory})" if cell.host_memory else ""
            rows.append([label + host, gib(result.need_bytes()), *(percent(result.overhead(p)) for p in policies), says.of(label)])
            for policy in policies:
                series[policy].append(100 / (1 + result.overhead(policy)) if result.fits(policy) else None)
        self.chart(key, Chart(title, "% of in-core throughput", list(known), series))
        first = next(iter(known.values()))
        self.add(table(["network (batch)", "need", *(f"`{p}`" for p in policies), "published"], rows),
                 "Extra time over in-core. Command: " + self.command(first, (first.network, "NETWORK"), (first.batch, "N")))
        self.note(key)

    def everything(self):
        """The grid, cell by cell: what check 1 stands on."""
        rows = [[cell.name, f"{result.in_core_ms:.1f}",
                 *("✕" if not result.fits(p) else percent(result.overhead(p)) for p in POLICIES)]
                for cell, result in self.results.items()]
        self.add("## The whole grid", "Extra time over in-core for every policy, ✕: does not fit. A cell's name is machine, "
                 "memory, network, batch and further options of the trainer.",
                 table(["cell", "in-core ms", *(f"`{p}`" for p in POLICIES)], sorted(rows)))

    def write(self, path):
        """The document and its charts; charts that are no longer made are removed."""
        path = pathlib.Path(path)
        folder = path.parent / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.svg"):
            if old.stem not in self.charts:
                old.unlink()
        for name, svg in self.charts.items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        path.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")


def steps(results, cells):
    """What each optimisation adds, as the text of 5.1 counts it."""
    rows = [[label, *(times(results[cell].times_as_fast(a, b)) for a, b in
                      (("swap-all", "swap-all-unscheduled"), ("swap-opt", "swap-all"), ("pooch", "swap-opt")))]
            for label, cell in cells.items()]
    return table(["network (batch)", "`swap-all` ÷ `swap-all-unscheduled`", "`swap-opt` ÷ `swap-all`", "`pooch` ÷ `swap-opt`"],
                 rows)

