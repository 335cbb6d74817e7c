#!/usr/bin/python3
"""What tools/coverage.py makes of gcovr's summary.

usage: coverage_table.py SOURCE_ROOT
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def file(name, lines, of, branches=0, branches_of=0):
    return {"filename": name, "line_covered": lines, "line_total": of, "branch_covered": branches, "branch_total": branches_of}


class CoverageTable(unittest.TestCase):
    FILES = (file("core/plan.cpp", 9, 10, 3, 4), file("runtime/memory/held.cpp", 1, 2), file("runtime/session/watch.h", 8, 8))

    def table(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            summary = pathlib.Path(folder, "summary.json")
            summary.write_text(json.dumps({"files": self.FILES}), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/coverage.py", summary, *arguments], capture_output=True,
                                  text=True, check=False)
        rows = [line.split() for line in done.stdout.splitlines()[1:]]
        return done, {row[0]: row[1:] for row in rows}

    def test_a_folder_counts_the_files_of_its_sub_folders(self):
        done, rows = self.table("2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows, {"core": ["10", "90.0%", "4", "75.0%"], "runtime": ["10", "90.0%", "0", "100.0%"],
                                "runtime/memory": ["2", "50.0%", "0", "100.0%"], "runtime/session": ["8", "100.0%", "0", "100.0%"]})
        self.assertEqual(sorted(self.table("1")[1]), ["core", "runtime"])

    def test_fewer_lines_than_asked_are_a_failure_that_names_the_folder(self):
        self.assertEqual(self.table("1", "core=90", "runtime=90")[0].returncode, 0)
        done, _ = self.table("2", "core=90", "runtime/memory=51")
        self.assertEqual((done.returncode, done.stderr), (1, "fewer lines are covered than asked: runtime/memory=51 %\n"))
        self.assertEqual(self.table("2", "nowhere=1")[0].returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
