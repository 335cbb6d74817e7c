#!/usr/bin/python3
"""bash completes pooch's commands and options.

usage: completion.py BUILD_FOLDER [TEST]...
"""
import shlex
import subprocess
import sys
import unittest

from runs import POOCH, clean_environment


class Completion(unittest.TestCase):
    def completed(self, *words):
        """What bash offers in place of the last word."""
        script = f"""source <({shlex.quote(str(POOCH))} completion)
COMP_WORDS=(pooch {' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words)}; COMPREPLY=()
_pooch; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=clean_environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.completed("s"), ["simulate"])
        self.assertIn("run", self.completed(""))
        self.assertEqual(self.completed("--ver"), ["--version"])

    def test_options_of_a_command(self):
        self.assertEqual(self.completed("run", "--mem"), ["--memory"])
        self.assertEqual(self.completed("fit", "--memory", "16GiB", "--sec"), ["--seconds"])
        self.assertEqual(self.completed("graph", ""), [], "files are bash's")
        self.assertNotIn("--serve", self.completed("effects", "--"), "it is for the library")

    def test_behind_two_dashes_stands_another_command(self):
        self.assertEqual(self.completed("run", "--", "--mem"), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
