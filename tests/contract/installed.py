"""What holds wherever pooch is installed: a part of the tests of the bundle and of the wheel."""
import json
import os
import re
import shutil
import subprocess
import unittest

BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
GLIBC = re.compile(r"/(ld-linux-x86-64|lib(c|m|dl|pthread|rt))\.so\.\d$")


class Installed:
    """`prefix`: the folder of bin and lib; `trainer`: the program to run."""

    def run_in(self, *command, **more):
        return subprocess.run([self.prefix / command[0], *command[1:]], env=BARE | more, capture_output=True,
                              text=True, timeout=200)

    def train(self, *options, **more):
        return self.run_in("bin/pooch", "run", "--device", "soft:v100-pcie3", *options, "--", self.trainer,
                           "--network", "digits", "--iterations", "8", "--json", **more)

    def test_trains_under_a_plan_where_nothing_is_installed(self):
        summary = self.prefix / "summary.json"
        done = self.train("--memory", "90MiB", "--summary", summary, POOCH_WAIT_FOR_PLANS="1",
                          POOCH_CACHE=str(self.prefix / "plans"))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(summary.read_text(encoding="utf-8"))
        self.assertGreater(said["planned_iterations"], 0, done.stderr)
        self.assertEqual(done.stderr.count("warning"), 0, done.stderr)

    def test_loads_nothing_from_elsewhere_but_glibc(self):
        done = self.train(LD_DEBUG="libs")
        loaded = {os.path.realpath(path) for path in re.findall(r"calling init: (/\S+)", done.stderr)}
        self.assertGreater(len(loaded), 15)
        foreign = {path for path in loaded if not path.startswith(str(self.prefix.resolve())) and not GLIBC.search(path)}
        self.assertEqual(foreign, set())

    def test_adds_nothing_of_its_own_to_a_program_on_a_real_gpu(self):
        needed = subprocess.run(["readelf", "-d", self.prefix / "lib/pooch/libpooch.so"], capture_output=True, text=True)
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", needed.stdout)
        self.assertTrue(names)
        self.assertEqual({name for name in names if not GLIBC.search("/" + name)}, set())

    @unittest.skipUnless(shutil.which("dpkg-query"), "no Debian")
    def test_brings_the_licences_of_what_it_brings(self):
        names = {path.name for path in self.prefix.glob("lib/pooch/licences/*")}
        for part in ("coinor-libclp", "libgomp", "libstdc++", "GPL-3", "Apache-2.0"):
            self.assertTrue(any(name.startswith(part) for name in names), (part, names))

    def test_path_names_the_library_for_ld_preload(self):
        done = self.run_in("bin/pooch", "path")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{self.prefix.resolve()}/lib/pooch/libpooch.so\n")
