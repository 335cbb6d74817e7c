"""`./dev reproduce` on its smallest grid: from nothing, then from what it kept."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from runs import BUILD

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools/reproduce"


def reproduce(build, *options):
    return subprocess.run([sys.executable, "-B", str(PROGRAM), str(build), *map(str, options)], capture_output=True,
                          text=True, timeout=250)


class Reproduce(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = BUILD / "reproduce"
        for old in kept.glob("*-600MiB-resnet50-8.json"):
            old.unlink()

    def test_the_smallest_grid_makes_document_and_charts_and_keeps_results(self):
        document = self.folder / "out.md"
        ran = reproduce(BUILD, "--grid", "tiny", "--output", document)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        text = document.read_text(encoding="utf-8")
        self.assertRegex(text, r"\| 8 \| [\d.]+ GiB \| [\d.]+ \* \|")
        self.assertRegex(text, r"`hybrid` is never worse than another policy \| holds \| \d+ plans in 2 cells, none faster")
        self.assertIn("holds: `pooch` recomputes more on the slower link", ran.stdout)
        for chart in re.findall(r"\]\((\S+\.svg)\)", text):
            self.assertTrue((self.folder / chart).is_file(), chart)
        self.assertEqual(len(re.findall(r"^v100-\S+-600MiB-resnet50-8: \d+ s$", ran.stderr, re.M)), 2, ran.stderr)

        again = reproduce(BUILD, "--grid", "tiny", "--output", document)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertEqual(document.read_text(encoding="utf-8"), text)

    def test_a_build_that_is_not_there_fails_with_its_name(self):
        nothing = self.folder / "nothing"
        ran = reproduce(nothing, "--grid", "tiny", "--output", self.folder / "out.md")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertRegex(ran.stderr, rf"^reproduce: {nothing}: .*\./dev build\n$")
        self.assertFalse(nothing.exists())
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
