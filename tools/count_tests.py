#!/usr/bin/python3
"""Adds up meson's test logs: count_tests.py TESTLOG.json…, last line "N passed, N failed"; exit 1 if any failed."""
import json
import sys

GOOD = {"OK", "EXPECTEDFAIL"}


def main():
    passed, failed, skipped = 0, [], 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as lines:
            for test in map(json.loads, lines):
                if test["result"] == "SKIP":
                    skipped += 1
                elif test["result"] in GOOD:
                    passed += 1
                else:
                    failed.append(f"{test['name']}: {test['result'].lower()}")
    for line in failed:
        print(f"failed: {line}")
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
