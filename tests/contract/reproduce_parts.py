"""The parts of `./dev reproduce`: results read, tables and charts made, checks that can fail.

usage: reproduce_parts.py SOURCE_ROOT SAMPLE
"""
import copy
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT, SAMPLE = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(ROOT / "tools/reproduce"))
import checks  # noqa: E402
import grid as grids  # noqa: E402
import profiles  # noqa: E402
import published  # noqa: E402
from cells import Cell, Failed, Result, Runner, Store, run_json  # noqa: E402
from charts import Chart, nice_top  # noqa: E402
from document import Document  # noqa: E402
from markdown import percent, table, table_cells, times  # noqa: E402

DATA = json.loads(SAMPLE.read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


def changed(policy, **fields):
    data = copy.deepcopy(DATA)
    next(row for row in data["rows"] if row["policy"] == policy).update(fields)
    return Result(data)


def misfit(policy):
    return changed(policy, feasible=False, why=f"{policy} needs at least 5000 bytes (0.00 GiB) of device memory here, and "
                   "may use 4000", **dict.fromkeys(("time_ms", "overhead", "peak_bytes", "keep", "swap", "recompute")))


class Reading(unittest.TestCase):
    def test_a_result_tells_times_counts_and_the_need(self):
        result = Result(DATA)
        self.assertFalse(result.fits("keep"))
        self.assertEqual(result.need_bytes(), int(result.rows["keep"]["why"].split()[4]))
        self.assertAlmostEqual(result.overhead("pooch"), result.ms("pooch") / result.in_core_ms - 1)
        self.assertAlmostEqual(result.images_per_s("pooch"), result.rows["pooch"]["images_per_s"])
        self.assertEqual(sum(result.counts("pooch")), sum(result.counts("hybrid")))
        self.assertGreaterEqual(result.times_as_fast("hybrid", "pooch"), 1)
        self.assertIsNone(result.times_as_fast("hybrid", "keep"))
        self.assertEqual(misfit("keep").need_bytes(), 5000)

    def test_columns_of_executed_plans_show_where_they_are_there(self):
        self.assertFalse(Result(DATA).has_executed())
        self.assertIsNone(Result(DATA).executed("hybrid"))
        result = changed("hybrid", executed={"ms": 200.0, "overhead": 0.25, "peak_bytes": 1, "iterations": 9})
        self.assertEqual(result.executed("hybrid"), 0.25)
        text = small_document(result)
        self.assertIn("executed `hybrid`", text)
        self.assertIn("+25.0 %", text)

    def test_the_command_of_a_cell_is_one_that_a_shell_takes(self):
        cell = Cell("v100-pcie3", "16GiB", "resnext101-3d", 1, ("--input-size", "448"))
        self.assertEqual(" ".join(cell.words(execute=True)),
                         "build/tools/pooch simulate --device soft:v100-pcie3 --memory 16GiB --policy all --execute --json -- "
                         "build/examples/train --network resnext101-3d --batch 1 --input-size 448 --iterations 8 --json")
        tried = Cell("titanx", "12GiB", "vgg16", 64, ("--benchmark-algorithms",))
        self.assertIn("--policy all --allow-numerics --json -- ", " ".join(tried.words()))
        names = [cell.name for cell in grids.full().cells()]
        self.assertEqual(len(names), len(set(names)))

    def test_the_largest_batch_is_found(self):
        class Linear(profiles.Profiles):
            def __init__(self, base, each):
                self.base, self.each, self.asked = base, each, 0

            def need(self, cell, policy):
                self.asked += 1
                return self.base + self.each * cell.batch + (cell.batch % 3)

        for base, each, memory in ((1000, 37, 100000), (0, 1, 4000), (10, 50, 45), (5, 7, 12), (1, 90, 500)):
            found = Linear(base, each)
            batch = found.largest_batch(Cell("d", "1GiB", "n", 64), "keep", memory)
            fits = [b for b in range(4097) if b == 0 or base + each * b + b % 3 <= memory]
            self.assertEqual(batch, max(fits), (base, each, memory))
            self.assertLess(found.asked, 90)


def small_document(result):
    grid = grids.tiny()
    document = Document(grid, dict.fromkeys(grid.cells(), result))
    document.figure(grid.figures[0])
    document.table_3()
    document.everything()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "reproduction.md"
        document.write(path)
        charts = list((path.parent / "reproduction").glob("*.svg"))
        assert charts, "no chart"
        for chart in charts:
            xml.etree.ElementTree.parse(chart)
        return path.read_text(encoding="utf-8")


class Writing(unittest.TestCase):
    def test_numbers_are_written_as_the_document_has_them(self):
        self.assertEqual([percent(x) for x in (0.0876, -0.004, 0, 2.5, None)],
                         ["+8.8 %", "−0.4 %", "+0.0 %", "+250 %", "does not fit"])
        self.assertEqual([times(x) for x in (1.5, None)], ["1.50×", "–"])
        with self.assertRaises(ValueError):
            table(["a", "b"], [["1"]])

    def test_tables_have_as_many_cells_in_every_line(self):
        text = small_document(Result(DATA))
        lines, before = text.splitlines(), None
        rows = 0
        for line in lines:
            width = len(table_cells(line)) if line.startswith("|") else None
            if width and before:
                self.assertEqual(width, before, line)
                rows += 1
            before = width
        self.assertGreater(rows, 8)
        self.assertIn("66 / 12 / 27", text)
        self.assertIn("build/tools/pooch simulate --device soft:MACHINE --memory 600MiB", text)

    def test_a_chart_has_a_bar_for_each_value_and_a_mark_for_what_does_not_fit(self):
        chart = Chart("A & B", "images/s", ["1", "2"], {"x": [10.0, None], "y<z": [20.0, 40.0]}, {("2", "x"): 33.0})
        root = xml.etree.ElementTree.fromstring(chart.svg())
        bars = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
        self.assertEqual(len(bars), 3)
        heights = [float(bar.get("height")) for bar in bars]
        self.assertAlmostEqual(heights[2] / heights[0], 4, places=1)
        words = [t.text for t in root.iter(f"{SVG}text")]
        self.assertIn("✕", words)
        self.assertIn("published", words)
        self.assertIn("prefers-color-scheme:dark", root.find(f"{SVG}style").text)
        for x in (float(r.get("x")) + float(r.get("width")) for r in bars):
            self.assertLess(x, float(root.get("width")))
        with self.assertRaises(ValueError):
            Chart("a", "b", ["1", "2"], {"x": [1.0]})

    def test_axes_reach_above_the_largest_value(self):
        for most in (0, 0.3, 1, 7, 19.9, 100, 316, 2047):
            top, step = nice_top(most)
            self.assertGreaterEqual(top, most)
            self.assertAlmostEqual(top / step, round(top / step))
            self.assertLessEqual(top / step, 11)


class Checking(unittest.TestCase):
    cell = grids.resnet50("17", grids.PCIE, 1024, published.FIGURE_17).cells["512"]

    def test_a_policy_that_beats_hybrid_is_found(self):
        self.assertTrue(checks.never_worse({self.cell: Result(DATA)}).holds)
        faster = changed("pooch", time_ms=Result(DATA).ms("hybrid") * 0.99)
        found = checks.never_worse({self.cell: faster})
        self.assertFalse(found.holds)
        self.assertIn("(pooch)", found.found)
        self.assertFalse(checks.never_worse({self.cell: misfit("hybrid")}).holds)
        self.assertFalse(checks.never_worse({}).holds)

    def test_a_policy_that_changes_the_numbers_may_beat_hybrid(self):
        data = copy.deepcopy(DATA)
        data["rows"].append({**data["rows"][0], "policy": "vdnn-conv:p", "feasible": True, "time_ms": 1.0})
        self.assertTrue(checks.never_worse({self.cell: Result(data)}).holds)

    def test_the_relation_to_superneurons_can_come_out_or_not(self):
        figure = grids.full_figures()[2]
        for ratio, holds in ((1.0, False), (1.5, True), (2.1, False)):
            result = changed("superneurons", time_ms=Result(DATA).ms("pooch") * ratio, feasible=True)
            self.assertEqual(checks.against_superneurons(figure, {self.cell: result})[0].holds, holds, ratio)
        at_640 = figure.cells["640"]
        self.assertTrue(checks.against_superneurons(figure, {at_640: misfit("superneurons")})[0].holds)
        self.assertFalse(checks.against_superneurons(figure, {at_640: Result(DATA)})[0].holds)

    def test_counts_times_and_limits(self):
        table_3 = grids.full().table_3
        slow, fast = table_3.values()
        for slow_count, holds in ((27, True), (3, False)):
            results = {slow: changed("pooch", recompute=slow_count), fast: changed("pooch", recompute=3)}
            self.assertEqual(checks.recomputes_more(table_3, results)[0].holds, holds)
        self.assertEqual([checks.planning({"n": s})[0].holds for s in (3.9, 4.1)], [True, False])
        self.assertEqual([checks.limits({self.cell: changed("hybrid", overhead=x)})[0].holds for x in (0.08, 0.1, None)],
                         [True, False, False])


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_results_are_kept_for_the_build_that_made_them(self):
        (self.folder / "tools").mkdir()
        (self.folder / "tools/pooch").write_text("one")
        store = Store(self.folder / "kept", self.folder)
        store.put("a", "command", {"x": 1})
        self.assertEqual(store.get("a"), {"x": 1})
        self.assertIsNone(store.get("b"))
        (self.folder / "tools/pooch").write_text("two")
        self.assertIsNone(Store(self.folder / "kept", self.folder).get("a"))

    def test_a_command_that_fails_or_takes_too_long_is_named(self):
        with self.assertRaisesRegex(Failed, "exit code 7, why: sh"):
            run_json(["sh", "-c", "echo why >&2; exit 7"], 10)
        with self.assertRaisesRegex(Failed, "took more than 0 s: sleep 9"):
            run_json(["sleep", "9"], 0.2)
        runner = Runner(self.folder, Store(self.folder / "kept", self.folder), seconds=0)
        runner.say = lambda text: None
        self.assertEqual(runner.all([self.cell()]), {})
        self.assertIn("no time left", runner.failures[self.cell().name])

    def cell(self):
        return Cell("v100-pcie3", "600MiB", "resnet50", 8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
