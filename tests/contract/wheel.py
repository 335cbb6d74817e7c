"""The wheel: once installed it runs like the bundle, serves Python, and goes away again.

usage: wheel.py WHEEL
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from installed import Installed

WHEEL = pathlib.Path(sys.argv[1]).resolve()
NAME, VERSION = WHEEL.name.split("-")[:2]
# Takes 8 MiB of a device through the driver, as libraries under Python do.
CUDA_PROGRAM = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
context, address, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, f"{name}: {status}"
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 << 20))
call("cuMemsetD8_v2", address, ctypes.c_ubyte(7), ctypes.c_size_t(8 << 20))
got = ctypes.c_ubyte()
call("cuMemcpyDtoH_v2", ctypes.byref(got), address, ctypes.c_size_t(1))
print(got.value)
"""


def environment_with_the_wheel(folder):
    """A new virtual environment's folder; the interpreter runs this test."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-index", WHEEL], check=True)
    return pip


class Wheel(Installed, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name, "venv")
        environment_with_the_wheel(cls.prefix)
        cls.trainer = cls.prefix / "lib/pooch/examples/train"

    def test_serves_every_python_on_linux_with_a_glibc_as_new_as_it_needs(self):
        self.assertRegex(WHEEL.name, r"-py3-none-(linux|manylinux_2_\d+)_x86_64\.whl$")
        programs = [self.prefix / "bin/pooch", self.trainer, *self.prefix.glob("lib/pooch/**/*.so*")]
        newest = max(int(minor) for program in programs for minor in re.findall(r"GLIBC_2\.(\d+)", self.versions(program)))
        tagged = re.search(r"manylinux_2_(\d+)", WHEEL.name)
        if tagged:
            self.assertEqual(int(tagged[1]), newest)
        with zipfile.ZipFile(WHEEL) as archive:
            self.assertIn(b"Root-Is-Purelib: false", archive.read(f"{NAME}-{VERSION}.dist-info/WHEEL"))

    @staticmethod
    def versions(program):
        return subprocess.run(["readelf", "-VW", program], capture_output=True, text=True, check=True).stdout

    def test_takes_no_modules_name(self):
        with zipfile.ZipFile(WHEEL) as archive:
            tops = {name.split("/")[0] for name in archive.namelist()}
        self.assertEqual(tops, {f"{NAME}-{VERSION}.data", f"{NAME}-{VERSION}.dist-info"})

    def test_the_command_is_the_program_itself(self):
        self.assertEqual((self.prefix / "bin/pooch").read_bytes()[:4], b"\x7fELF")
        done = self.run_in("bin/pooch", "--version")
        self.assertEqual((done.returncode, done.stdout), (0, f"pooch {VERSION}\n"))

    def test_serves_a_program_in_python(self):
        summary = self.prefix / "python.json"
        done = self.run_in("bin/pooch", "run", "--device", "soft:v100-pcie3:compute", "--summary", summary, "--",
                           self.prefix / "bin/python", "-c", CUDA_PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (0, "7\n"), done.stderr)
        self.assertEqual(json.loads(summary.read_text(encoding="utf-8"))["need_bytes"], 8 << 20)

    def test_preloads_into_python_without_the_launcher(self):
        library = self.run_in("bin/pooch", "path").stdout.strip()
        done = self.run_in("bin/python", "-c", "print(open('/proc/self/maps').read())", LD_PRELOAD=library)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(library, done.stdout)

    def test_what_is_uninstalled_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = pathlib.Path(folder, "venv")
            pip = environment_with_the_wheel(prefix)
            self.assertTrue((prefix / "lib/pooch/libpooch.so").exists())
            subprocess.run([*pip, "uninstall", "--yes", NAME], check=True)
            left = [path for path in prefix.rglob("*") if "pooch" in path.name]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
