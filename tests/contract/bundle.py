"""The bundle: runs from anywhere, and takes nothing from the system but glibc.

usage: bundle.py SOURCE_FOLDER BUILD_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
GLIBC = re.compile(r"/(ld-linux-x86-64|lib(c|m|dl|pthread|rt))\.so\.\d$")


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = subprocess.run([sys.executable, "-B", SOURCE / "tools/bundle.py", BUILD, "1.2.3", folder.name],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        cls.folder = pathlib.Path(folder.name, "elsewhere")
        shutil.move(pathlib.Path(folder.name, "pooch-1.2.3-linux-x86_64"), cls.folder)

    def run_in(self, *command, **more):
        return subprocess.run([self.folder / command[0], *command[1:]], env=BARE | more, capture_output=True,
                              text=True, timeout=200)

    def train(self, *options, **more):
        return self.run_in("bin/pooch", "run", "--device", "soft:v100-pcie3", *options, "--", self.folder / "bin/train",
                           "--network", "digits", "--iterations", "8", "--json", **more)

    def test_trains_under_a_plan_where_nothing_is_installed(self):
        summary = self.folder / "summary.json"
        done = self.train("--memory", "90MiB", "--summary", summary, POOCH_WAIT_FOR_PLANS="1",
                          POOCH_CACHE=str(self.folder / "plans"))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(summary.read_text(encoding="utf-8"))
        self.assertGreater(said["planned_iterations"], 0, done.stderr)
        self.assertEqual(done.stderr.count("warning"), 0, done.stderr)

    def test_loads_nothing_from_elsewhere_but_glibc(self):
        done = self.train(LD_DEBUG="libs")
        loaded = {os.path.realpath(path) for path in re.findall(r"calling init: (/\S+)", done.stderr)}
        self.assertGreater(len(loaded), 15)
        foreign = {path for path in loaded if not path.startswith(str(self.folder.resolve())) and not GLIBC.search(path)}
        self.assertEqual(foreign, set())

    def test_adds_nothing_of_its_own_to_a_program_on_a_real_gpu(self):
        needed = subprocess.run(["readelf", "-d", self.folder / "lib/pooch/libpooch.so"], capture_output=True, text=True)
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", needed.stdout)
        self.assertEqual({name for name in names if not re.match(r"(ld-linux-x86-64|lib(c|m|dl|pthread|rt))\.so", name)}, set())

    def test_finds_cuda_in_a_toolkit_or_in_wheels(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "driver").mkdir()
            shutil.copy(self.folder / "lib/pooch/softgpu/libcuda.so.1", root / "driver")
            places = {root / "toolkit/lib64": "libcudart.so.13", root / "nvidia/cudnn/lib": "libcudnn.so.9"}
            for place, library in places.items():
                place.mkdir(parents=True)
                (place / library).touch()
            (root / "bin").mkdir()
            (root / "bin/python3").write_text(f"#!/bin/sh\necho {root}/nvidia\n")
            (root / "bin/python3").chmod(0o755)
            environment = BARE | {"PATH": f"{root}/bin:/usr/bin:/bin", "CUDA_HOME": f"{root}/toolkit",
                                  "LD_LIBRARY_PATH": f"{root}/driver:{self.folder}/lib/pooch/deps"}
            done = subprocess.run([self.folder / "bin/pooch", "run", "--device", "real", "--no-pooch", "--", "/bin/sh", "-c",
                                   "echo $LD_LIBRARY_PATH"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = done.stdout.strip().split(":")
        self.assertEqual(told[:2], environment["LD_LIBRARY_PATH"].split(":"))
        for place, library in places.items():
            if self.loads(library):  # then the loader is left alone
                self.assertNotIn(str(place), told)
            else:
                self.assertIn(str(place), told[2:])

    @staticmethod
    def loads(library):
        import ctypes
        try:
            return ctypes.CDLL(library) is not None
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
