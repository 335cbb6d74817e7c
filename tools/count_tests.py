#!/usr/bin/python3
"""Adds up meson's test logs: count_tests.py TESTLOG.json…, last line "N passed, N failed"; exit 1 if any failed.

What was left out is named, in tests that pass as well: a skip must not look like a check."""
import json
import re
import sys

GOOD = {"OK", "EXPECTEDFAIL"}
GTEST = re.compile(r"(?:: Skipped\n(?P<why>[^\n]*)\n\s*)?^\[  SKIPPED \] (?P<name>\S+) \(\d+ ms\)$", re.M)
UNITTEST = re.compile(r"^(?P<name>\w+) \(.*\.\.\. skipped ['\"](?P<why>.*)['\"]$", re.M)
UNNAMED = re.compile(r"^OK \(skipped=(\d+)\)$", re.M)
WHOLE = re.compile(r"^skipped: (.*)$", re.M)


def left_out(test):
    """Of one test: what was not run, with the reason where it is told."""
    said = test.get("stdout", "") + "\n" + test.get("stderr", "")
    if test["result"] == "SKIP":
        why = WHOLE.search(said)
        return [f"{test['name']}: {why[1]}" if why else test["name"]]
    named = [": ".join(filter(None, (test["name"], found["name"], found["why"])))
             for pattern in (GTEST, UNITTEST) for found in pattern.finditer(said)]
    unnamed = sum(map(int, UNNAMED.findall(said)))
    return named if named or not unnamed else [f"{test['name']}: {unnamed} of its tests"]


def why(test):
    """Of a test that failed: the first line that an assertion wrote, else the last of all."""
    lines = [line.strip() for name in ("stdout", "stderr") for line in test.get(name, "").splitlines() if line.strip()]
    asserted = [line for line in lines if re.match(r"\w*(Error|Exception)\b|\S+:\d+: Failure$", line)]
    return (asserted or lines[-1:] or [""])[0][:300]


def main():
    passed, failed, skipped = 0, [], []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as lines:
            for test in map(json.loads, lines):
                skipped += left_out(test)
                if test["result"] in GOOD:
                    passed += 1
                elif test["result"] != "SKIP":
                    failed.append(": ".join(filter(None, (test["name"], test["result"].lower(), why(test)))))
    for kind, tests in (("failed", failed), ("skipped", skipped)):
        for line in tests:
            print(f"{kind}: {line}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
