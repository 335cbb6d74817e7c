"""POOCH_CALLSITES: every op of the profile says where in the program it is called, and nothing else changes.

usage: callsites.py BUILD_FOLDER [TEST]...
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from runs import DIGITS, POOCH, TRAIN, run

PROGRAM = pathlib.Path(__file__).with_name("callsites_program.py")
DEVICE = "soft:v100-pcie3:timing"
COMPUTE = "soft:v100-pcie3:compute"
NETWORK = [TRAIN, "--network", "resnet50", "--batch", "4", "--input-size", "64", "--iterations", "8", "--json"]


def interpreter(name):
    """The program behind a name, of Python 3.11 or later with ctypes; a name may stand for nothing."""
    if shutil.which(name) is None:
        return None
    look = "import ctypes, sys; print(sys.executable); sys.exit(sys.version_info < (3, 11))"
    asked = subprocess.run([name, "-c", look], capture_output=True, text=True, check=False)
    return asked.stdout.strip() if asked.returncode == 0 else None


PYTHONS = [p for p in map(interpreter, ("/usr/bin/python3", "python3.12", "python3.13")) if p]


class CallSites(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def profiled(self, device, command, *options, env=None):
        """The run and its profile."""
        done = run(device, command, *options, env={"POOCH_REPORT": str(self.folder), **(env or {})})
        self.assertEqual(done.status, 0, done.err)
        return done, json.loads((self.folder / "profile.json").read_text(encoding="utf-8"))

    def sites_of_layers(self):
        """What `pooch graph --sites` says: layer -> (direction, function) -> lines of the stack."""
        shown = subprocess.run([POOCH, "graph", self.folder / "profile.json", "--sites"], capture_output=True,
                               text=True, check=True, timeout=120)
        self.assertEqual(shown.stderr, "")
        layers = {}
        for line in shown.stdout.splitlines():
            if line.startswith("      "):
                ops[-1][2].append(line.strip())
            elif line.startswith("  "):
                direction, function = line.strip().split(": ")
                ops.append((direction, function, []))
            elif not line.startswith("also: "):
                ops = layers[line] = []
        return layers

    def test_each_convolution_is_called_in_the_trainers_own_functions(self):
        _, profile = self.profiled(DEVICE, NETWORK, env={"POOCH_CALLSITES": "1"})
        phase = profile["phases"][0]
        self.assertEqual([op["id"] for op in phase["ops"] if "site" not in op], [])
        layers = self.sites_of_layers()
        self.assertEqual(list(layers), [layer["name"] for layer in phase["layers"]])
        convolutions = [layer["name"] for layer in phase["layers"] if layer["kind"] == "convolution"]
        self.assertEqual(len(convolutions), 53)
        methods = {"cudnnConvolutionForward": "Convolution::forward",
                   "cudnnConvolutionBackwardData": "Convolution::backward",
                   "cudnnConvolutionBackwardFilter": "Convolution::backward"}
        for name in convolutions:
            with self.subTest(layer=name):
                wanted = {op[1] for op in layers[name]} & set(methods)
                self.assertLessEqual({"cudnnConvolutionForward", "cudnnConvolutionBackwardFilter"}, wanted)
                for _, function, stack in layers[name]:
                    if function in methods:
                        frames = [line for line in stack if methods[function] in line]
                        self.assertTrue(frames, stack)
                        self.assertRegex(frames[0], r"convolution\.cpp:\d+$")

    def test_no_frame_is_pooch_and_every_module_is_named(self):
        _, profile = self.profiled(DEVICE, NETWORK, env={"POOCH_CALLSITES": "1"})
        modules = [module.get("path", "") for module in profile["modules"]]
        self.assertIn(str(TRAIN), modules)
        self.assertEqual([m for m in modules if "libpooch" in m or not m], [])
        for site in profile["sites"]:
            self.assertEqual(modules[site["frames"][0][0]], str(TRAIN), "the call itself is the trainer's")

    def test_results_and_times_are_the_same(self):
        command = [*DIGITS, "--iterations", "8", "--json"]
        without, bare = self.profiled(COMPUTE, command)
        with_sites, full = self.profiled(COMPUTE, command, env={"POOCH_CALLSITES": "1"})
        self.assertEqual(len(without.losses), 8)
        self.assertEqual(with_sites.losses, without.losses)
        self.assertEqual(with_sites.out, without.out)
        self.assertGreater(len(full["sites"]), 0)
        del full["modules"], full["sites"]
        for phase in full["phases"]:
            for op in phase["ops"]:
                op.pop("site", None)
        self.assertEqual(full, bare)

    def test_nothing_is_opened_where_it_is_not_wanted(self):
        for setting in ({}, {"POOCH_CALLSITES": "0"}, {"POOCH_CALLSITES": ""}):
            with self.subTest(setting):
                done, profile = self.profiled(COMPUTE, ["/usr/bin/python3", PROGRAM], env=setting)
                self.assertEqual(done.out, "libunwind: False\n")
                self.assertNotIn("sites", profile)

    def test_without_libunwind_the_c_library_unwinds(self):
        libraries = self.folder / "broken"
        libraries.mkdir()
        (libraries / "libunwind.so.8").write_bytes(b"not a library")
        done, profile = self.profiled(
            COMPUTE, ["/usr/bin/python3", PROGRAM], "--log", "info",
            env={"POOCH_CALLSITES": "1", "LD_LIBRARY_PATH": str(libraries)})
        self.assertEqual(done.out, "libunwind: False\n")
        self.assertEqual(done.err.count("no libunwind.so.8"), 1)
        self.assertTrue(all(site["frames"] for site in profile["sites"]))

    def test_a_value_that_is_not_understood_is_named(self):
        done = run(COMPUTE, ["/bin/true"], env={"POOCH_CALLSITES": "yes"})
        self.assertEqual(done.status, 2)
        self.assertIn("POOCH_CALLSITES: 'yes': accepted are 0, 1", done.err)

    def lines(self):
        """mark -> line number, in the Python program"""
        text = PROGRAM.read_text(encoding="utf-8").splitlines()
        marks = {number: re.search(r"# HERE: (\S+)", line) for number, line in enumerate(text, 1)}
        return {mark[1]: number for number, mark in marks.items() if mark}

    def python_stacks(self, python, *arguments):
        done, profile = self.profiled(COMPUTE, [python, *arguments], env={"POOCH_CALLSITES": "1"})
        self.assertEqual(done.out, "libunwind: True\n", "package libunwind8")
        ops = profile["phases"][0]["ops"]
        self.assertEqual(len(ops), 3)
        return [profile["sites"][op["site"]].get("python", []) for op in ops]

    def test_python_frames_have_file_line_and_function(self):
        at = self.lines()
        for python in PYTHONS:
            minor = int(subprocess.check_output([python, "-c", "import sys; print(sys.version_info[1])"]))
            # From 3.13 on frames are shown to threads that hold the interpreter's lock.
            for kind in ("CDLL", "PyDLL") if minor < 13 else ("PyDLL",):
                with self.subTest(python=python, kind=kind):
                    first, second, third = self.python_stacks(python, PROGRAM, kind)
                    frames = [("clear", at["clear"]), ("step", at["step"]), ("main", at["main"]),
                              ("<module>", at["<module>"])]
                    self.assertEqual(first, [f"{PROGRAM}:{line} {name}" for name, line in frames])
                    self.assertEqual(second[:2], [f"{PROGRAM}:{at['copy']} copy", f"{PROGRAM}:{at['step'] + 1} step"])
                    self.assertEqual(third[1], f"{PROGRAM}:{at['step'] + 2} step", "the same function, another line")

    def test_perfs_map_names_the_function_where_frames_are_not_shown(self):
        tried = [p for p in PYTHONS if subprocess.run([p, "-c", "import sys; sys.exit(sys.version_info < (3, 13))"],
                                                      check=False).returncode == 0]
        if not tried:
            self.skipTest("no Python 3.13 here")
        for python in tried:
            with self.subTest(python):
                stacks = self.python_stacks(python, "-X", "perf", PROGRAM, "CDLL")
                self.assertEqual([stack[:1] for stack in stacks],
                                 [[f"{PROGRAM} {name}"] for name in ("clear", "copy", "clear")])

    def test_a_file_of_another_build_is_named_and_not_looked_up(self):
        _, profile = self.profiled(DEVICE, NETWORK, env={"POOCH_CALLSITES": "1"})
        for module in profile["modules"]:
            module["build_id"] = "00" * 20
        (self.folder / "profile.json").write_text(json.dumps(profile), encoding="utf-8")
        shown = subprocess.run([POOCH, "graph", self.folder / "profile.json", "--sites"], capture_output=True,
                               text=True, check=True)
        self.assertEqual(shown.stderr, f"pooch: {TRAIN} is another build than the one that ran\n")
        self.assertNotIn("Convolution::", shown.stdout)
        self.assertRegex(shown.stdout, r"\n      train\+0x[0-9a-f]+\n")

    def test_a_profile_without_sites_says_how_to_get_them(self):
        self.profiled(COMPUTE, ["/usr/bin/python3", PROGRAM])
        refused = subprocess.run([POOCH, "graph", self.folder / "profile.json", "--sites"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("POOCH_CALLSITES=1", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
