#!/usr/bin/python3
"""`pooch doctor` finds what is wrong with a machine or a program, and says how to cure it.

usage: doctor.py BUILD_FOLDER [TEST]...
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from runs import BUILD, POOCH, clean_environment

SOFT = ("--device", "soft:v100-pcie3")


def doctor(*options, command=(), env=None, program=POOCH):
    env = dict(env or {})
    environment = clean_environment(env.pop("LD_PRELOAD", "")) | env
    words = [program, "doctor", *options, *(["--", *command] if command else [])]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def findings(*options, **more):
    done = doctor("--json", *options, **more)
    report = json.loads(done.stdout)
    by_name = {one["name"]: one for one in report["findings"]}
    return done.returncode, by_name


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content, mode=0o755):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as out:
            out.write(content)
        os.chmod(path, mode)
        return path

    def problem(self, name, expected, **more):
        status, by_name = findings(*SOFT, **more)
        self.assertEqual(status, 1)
        self.assertEqual(by_name[name]["level"], "problem")
        self.assertIn(expected, by_name[name]["text"])
        self.assertTrue(by_name[name]["cure"])
        self.assertNotIn("\n", by_name[name]["cure"])

    def test_a_software_gpu_has_no_problems_and_its_hooks_fire(self):
        status, by_name = findings(*SOFT, command=["/bin/ls"])
        self.assertEqual(status, 0, by_name)
        self.assertEqual(by_name["hooks"]["level"], "ok")
        self.assertEqual(by_name["hooks"]["text"].count("libpooch.so"), 2)
        self.assertEqual(by_name["driver"]["level"], "ok")
        for name in ("settings", "libpooch.so", "device", "runtime", "cuDNN", "CUPTI", "memlock", "host memory", "bus",
                     "program", "program's runtime"):
            self.assertIn(name, by_name)

    def test_text_names_each_level(self):
        done = doctor(*SOFT, command=[self.file("nothing", b"no program")])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ok +driver: ")
        self.assertRegex(done.stdout, r"(?m)^warning +program: .*\n +cure: ")

    def test_without_a_gpu_it_says_so_and_what_to_do(self):
        if shutil.which("nvidia-smi"):
            self.skipTest("this machine has a driver")
        status, by_name = findings()
        self.assertEqual(status, 1)
        self.assertEqual(by_name["driver"]["level"], "problem")
        self.assertIn("--device soft:", by_name["driver"]["cure"])

    def test_hooks_that_another_library_takes_are_a_problem(self):
        """Here by a library that exports dlsym ahead of libpooch.so."""
        source = self.file("thief.c", b"""
            #define _GNU_SOURCE
            #include <dlfcn.h>
            void* dlsym(void* handle, const char* name) {
              static void* (*real)(void*, const char*);
              if (!real) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
              return real(handle, name);
            }
            """)
        # By its name it goes before libpooch, as a sanitizer's runtime does.
        thief = os.path.join(self.folder.name, "libasan.thief.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", thief, source], check=True)
        self.problem("hooks", "libcuda.so.1", env={"LD_PRELOAD": thief})

    def test_programs_that_cannot_be_preloaded(self):
        with open("/bin/ls", "rb") as file:
            ls = file.read()
        small = bytearray(ls)
        small[4] = 1  # EI_CLASS: 32 bits
        self.problem("program", "32-bit", command=[self.file("small", bytes(small))])
        self.problem("program", "setuid", command=[self.file("privileged", ls, 0o4755)])
        still = bytearray(ls)
        table, = struct.unpack_from("<Q", still, 32)
        size, count = struct.unpack_from("<HH", still, 54)
        for i in range(count):
            if struct.unpack_from("<I", still, table + i * size)[0] == 3:  # PT_INTERP
                struct.pack_into("<I", still, table + i * size, 0)
        self.problem("program", "statically", command=[self.file("still", bytes(still))])
        script = self.file("script", f"#!{self.folder.name}/still -x\n".encode())
        self.problem("program", "statically", command=[script])
        self.problem("program", "no-such-program", command=["no-such-program"])

    def test_which_runtime_a_program_has(self):
        double_free = BUILD / "tests/preload/double_free"
        _, by_name = findings(*SOFT, command=[str(double_free)])
        self.assertEqual(by_name["program's runtime"]["text"], "shared, libcudart.so.13")
        with open("/bin/ls", "rb") as file:
            _, by_name = findings(*SOFT, command=[self.file("static", file.read() + b"libcuda.so.1\0")])
        self.assertIn("static", by_name["program's runtime"]["text"])

    def test_bad_settings_are_a_problem_and_do_not_stop_the_rest(self):
        self.problem("settings", "POOCH_MEMORY_CAP", env={"POOCH_MEMORY_CAP": "lots"})
        _, by_name = findings(*SOFT, env={"POOCH_MEMORY_CAP": "lots"})
        self.assertEqual(by_name["hooks"]["level"], "ok")

    def test_a_missing_libpooch_is_a_problem(self):
        os.mkdir(f"{self.folder.name}/tools")
        os.symlink(BUILD / "softgpu", f"{self.folder.name}/softgpu")
        shutil.copy(POOCH, f"{self.folder.name}/tools/pooch")
        status, by_name = findings(*SOFT, program=f"{self.folder.name}/tools/pooch")
        self.assertEqual((status, by_name["libpooch.so"]["level"]), (1, "problem"))

    def test_an_unknown_device_is_bad_usage(self):
        done = doctor("--device", "quantum")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("quantum", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
