"""Prints what a suite's tests are made of, as targets for ninja.

usage: suite_targets.py MESON BUILD_FOLDER SUITE
"""
import json
import os
import subprocess
import sys


def introspect(meson, build, what):
    return json.loads(subprocess.run([meson, "introspect", build, f"--{what}"], check=True, capture_output=True).stdout)


def main(meson, build, suite):
    files = {target["id"]: target["filename"] for target in introspect(meson, build, "targets")}
    needed = {name for test in introspect(meson, build, "tests") if f"pooch:{suite}" in test["suite"]
              for one in test.get("depends", []) for name in files[one]}
    print(*sorted(os.path.relpath(name, build) for name in needed), sep="\n")


main(*sys.argv[1:])
