#!/usr/bin/python3
"""What tools/count_tests.py says of meson's logs.

usage: count_tests.py SOURCE_ROOT
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
GTEST = """[ RUN      ] Files.OfAnotherUser
../tests/unit/core/files_test.cpp:190: Skipped
files of another user cannot be made

[  SKIPPED ] Files.OfAnotherUser (0 ms)
[ RUN      ] Files.Read
[       OK ] Files.Read (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Files.OfAnotherUser
"""
VERBOSE = """test_wheel (__main__.Symbols.test_wheel) ... skipped 'no installed wheel was named'
test_list (__main__.Symbols.test_list) ... ok

OK (skipped=1)
"""


class CountTests(unittest.TestCase):
    def lines(self, *tests):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "testlog.json")
            log.write_text("".join(json.dumps(test) + "\n" for test in tests), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/count_tests.py", log], capture_output=True,
                                  text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_a_failure_is_named_and_the_exit_code(self):
        status, lines = self.lines({"name": "a", "result": "FAIL"}, {"name": "b", "result": "OK", "stdout": "x"})
        self.assertEqual((status, lines), (1, ["failed: a: fail", "1 passed, 1 failed"]))

    def test_a_failure_says_why_in_its_line(self):
        trace = "Traceback (most recent call last):\nAssertionError: 5 not less than 4\n\nFAILED (failures=1)\n"
        for test, reason in (({"stderr": trace}, "AssertionError: 5 not less than 4"),
                             ({"stdout": "1020 ns added\n", "stderr": ""}, "1020 ns added"),
                             ({"stdout": "../a_test.cpp:12: Failure\nValue of: x\n"}, "../a_test.cpp:12: Failure")):
            lines = self.lines({"name": "a", "result": "TIMEOUT", **test})[1]
            self.assertEqual(lines[0], "failed: a: timeout: " + reason)

    def test_a_test_that_is_left_out_is_named(self):
        status, lines = self.lines({"name": "real", "result": "SKIP", "stdout": "skipped: no toolkit\n"})
        self.assertEqual((status, lines), (0, ["skipped: real: no toolkit", "0 passed, 0 failed"]))
        self.assertEqual(self.lines({"name": "real", "result": "SKIP"})[1][0], "skipped: real")

    def test_parts_that_are_left_out_of_tests_that_pass_are_named_with_their_reasons(self):
        status, lines = self.lines(
            {"name": "files", "result": "OK", "stdout": GTEST}, {"name": "symbols", "result": "OK", "stderr": VERBOSE},
            {"name": "doctor", "result": "OK", "stderr": "Ran 3 tests\n\nOK (skipped=2)\n"})
        self.assertEqual((status, lines), (0, [
            "skipped: files: Files.OfAnotherUser: files of another user cannot be made",
            "skipped: symbols: test_wheel: no installed wheel was named",
            "skipped: doctor: 2 of its tests",
            "3 passed, 0 failed"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
