#!/usr/bin/python3
"""Bad input of many kinds: one line that names what is wrong and what is accepted, an exit code, and nothing else happens.

usage: refusals.py BUILD_FOLDER [TEST]...
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runs import POOCH, clean_environment

SOFT = ("--device", "soft:v100-pcie3:timing")
TRUE = ("--", "true")
COMMANDS = ("run", "fit", "doctor", "top", "record", "graph", "effects", "plan", "explain", "compare", "simulate")
VARIABLES = {  # with a value that none of them takes, where there is one
    "MEMORY_CAP": "lots", "HOST_MEMORY": "some", "MEMORY_INFO": "maybe", "POLICY": "magic", "VERIFY": "often", "LANDING": "yes",
    "SUBSTITUTES": "2", "CHECK": "yes", "WAIT_FOR_PLANS": "no", "TIMER": "clock", "CALLSITES": "all", "CHILDREN": "none", "LOG": "loud",
    "CACHE": None, "PLAN": None, "PLANNER": None, "TRACE": None, "REPORT": None, "SUMMARY": None, "STATUS": None, "RECORD": None,
    "LOG_FILE": None}
OPTIONS = {
    "run": ("memory", "host-memory", "policy", "device", "summary", "log", "seed", "no-pooch"),
    "fit": ("memory", "host-memory", "policy", "device", "seconds", "json"),
    "plan": ("policy", "memory", "link-out", "link-in", "phase", "seed", "effort", "unplaced", "allow-numerics", "room", "beside"),
    "simulate": ("device", "memory", "policy", "execute", "allow-numerics"),
    "graph": ("phase", "json", "dot", "sites"), "top": ("interval", "once", "json"), "doctor": ("device", "json"),
    "effects": ("kernel", "arch", "sample", "seed", "json", "nvdisasm"), "record": ("memory", "policy", "device", "output")}
SIZES = ("lots", "", " ", "0", "-1", "-16GiB", "16XB", "GiB", "16 GiB extra", "nan", "inf", "1e400", "99999999T", "101%", "120 %", "-5%", "%",
         "0x10", "16,5GiB", "16GiBB", "1/2")
POLICIES = ("hybird", "demnad", "kepe", "swap-al", "swap_opt", "poohc", "superneuron", "vdnn", "HYBRID", "all", "none")
DEVICES = ("soft", "soft:", "soft:v100", "soft:h300", "soft:h200:fast", "soft:h200:timing:memory=", "soft:h200:timing:memory=lots",
           "soft:h200:timing:noise=x", "soft:h200:timing:devices=0", "hard", "cuda:0", "Real")


def mistyped(name):
    """With two neighbours swapped that differ."""
    at = next(i for i in range(len(name) // 2, len(name) - 1) if name[i] != name[i + 1])
    return name[:at] + name[at + 1] + name[at] + name[at + 2:]


class Refusals(unittest.TestCase):
    asked = 0

    @classmethod
    def tearDownClass(cls):
        if cls.asked < 200 and len(sys.argv) == 2:
            raise AssertionError(f"only {cls.asked} inputs")

    def refused(self, words, *parts, code=2, **variables):
        """`parts` are in the one line."""
        type(self).asked += 1
        done = subprocess.run([str(POOCH), *map(str, words)], env=clean_environment() | variables, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)
        with self.subTest(words=words, variables=variables):
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertTrue(lines[0].startswith("pooch: error: "), lines[0])
            for part in parts:
                self.assertIn(part, lines[0])

    def test_names_of_commands(self):
        for name in COMMANDS:
            self.refused((mistyped(name), *TRUE), f"'{mistyped(name)}' is no command", "accepted are run", f"did you mean {name}?")
        self.refused((), "no command", "--help")
        self.refused(("unlike-anything",), "'unlike-anything' is no command")
        self.refused(("--vesion",), "there is no option --vesion; did you mean --version?")

    def test_names_of_options(self):
        for command, names in OPTIONS.items():
            for name in names:
                wrong = "--" + mistyped(name)
                self.refused((command, wrong, *TRUE), f"{command}: there is no option {wrong}", f"did you mean --{name}?")

    def test_names_of_variables(self):
        for name in VARIABLES:
            wrong = "POOCH_" + mistyped(name)
            self.refused(("run", *SOFT, *TRUE), f"{wrong}: pooch has no such variable", f"did you mean POOCH_{name}?", **{wrong: "1"})

    def test_others_may_have_variables_with_that_beginning(self):
        done = subprocess.run([str(POOCH), "run", *SOFT, *TRUE], env=clean_environment() | {"POOCH_DATA_DIR": "/data"}, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_values_of_variables(self):
        for name, value in VARIABLES.items():
            if value is not None:
                self.refused(("run", *SOFT, *TRUE), f"POOCH_{name}: '{value}'", "accepted are", **{f"POOCH_{name}": value})

    def test_sizes(self):
        for size in SIZES:
            if size:
                self.refused(("run", *SOFT, f"--memory={size}", *TRUE), "--memory", f"'{size}'", "accepted are")
                self.refused(("fit", *SOFT, f"--memory={size}", *TRUE), "--memory", f"'{size}'", "accepted are")
                self.refused(("run", *SOFT, *TRUE), "POOCH_HOST_MEMORY", f"'{size}'", "accepted are", POOCH_HOST_MEMORY=size)

    def test_policies(self):
        for policy in POLICIES:
            if policy not in ("all", "none"):
                self.refused(("fit", *SOFT, "--policy", policy, *TRUE), f"--policy '{policy}'", "accepted are")
            self.refused(("run", *SOFT, "--policy", policy, *TRUE), f"--policy '{policy}'", "accepted are", "hybrid")

    def test_devices(self):
        for device in DEVICES:
            self.refused(("run", "--device", device, *TRUE), "--device", f"'{device}'")

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            contents = {"empty": "", "text": "hello", "list": "[1, 2]", "half": '{"schema": 1, "phases": [', "other": '{"schema": 99}'}
            for kind, content in contents.items():
                (folder / kind).write_text(content)
            for path in (folder / "missing", folder, *(folder / kind for kind in contents)):
                for words in (("plan", path, "--memory", "1GiB", "-o", folder / "plan"), ("fit", path), ("graph", path), ("explain", path),
                              ("compare", path, path)):
                    self.refused(words, str(path))
            self.assertFalse((folder / "plan").exists())

    def test_outputs(self):
        for name in ("TRACE", "RECORD"):
            self.refused(("run", *SOFT, *TRUE), f"POOCH_{name}: '/nowhere/at/all' cannot be written", **{f"POOCH_{name}": "/nowhere/at/all"})
        for name in ("REPORT", "SUMMARY"):
            self.refused(("run", *SOFT, *TRUE), f"POOCH_{name}: '/etc/passwd/x' cannot be written", **{f"POOCH_{name}": "/etc/passwd/x"})

    def test_commands_to_run(self):
        self.refused(("run",), "it goes after --")
        self.refused(("run", "ls", "-l"), "run: what is 'ls'?", "pooch run -- ls -l")
        self.refused(("run", "here", *TRUE), "what is 'here'?", "before --")
        for command in ("run", "fit"):
            self.refused((command, *SOFT, "--", "/nowhere/train"), "'/nowhere/train' cannot be run: No such file", code=127)
            self.refused((command, *SOFT, "--", "/etc/passwd"), "'/etc/passwd' cannot be run: Permission denied", code=126)
        self.refused(("fit",), "either a command after -- or a profile.json")

    def test_numbers(self):
        for words in (("run", "--seed", "x"), ("fit", "--seconds", "0"), ("fit", "--seconds", "soon"), ("top", "abc"), ("top", "0"),
                      ("top", "--interval", "0"), ("plan", "p", "--memory", "1", "-o", "x", "--effort", "0"),
                      ("plan", "p", "--memory", "1", "-o", "x", "--seed", "-1")):
            self.refused((*words, *TRUE))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
