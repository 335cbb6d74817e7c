"""The bundle: runs from anywhere, and takes nothing from the system but glibc.

usage: bundle.py SOURCE_FOLDER BUILD_FOLDER
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from installed import BARE, Installed

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])


class Bundle(Installed, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = subprocess.run([sys.executable, "-B", SOURCE / "tools/bundle.py", BUILD, "1.2.3", folder.name],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        cls.prefix = pathlib.Path(folder.name, "elsewhere")
        cls.trainer = cls.prefix / "bin/train"
        shutil.move(pathlib.Path(folder.name, "pooch-1.2.3-linux-x86_64"), cls.prefix)

    def test_finds_cuda_in_a_toolkit_or_in_wheels(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "driver").mkdir()
            shutil.copy(self.prefix / "lib/pooch/softgpu/libcuda.so.1", root / "driver")
            places = {root / "toolkit/lib64": "libcudart.so.13", root / "nvidia/cudnn/lib": "libcudnn.so.9"}
            for place, library in places.items():
                place.mkdir(parents=True)
                (place / library).touch()
            (root / "bin").mkdir()
            (root / "bin/python3").write_text(f"#!/bin/sh\necho {root}/nvidia\n")
            (root / "bin/python3").chmod(0o755)
            environment = BARE | {"PATH": f"{root}/bin:/usr/bin:/bin", "CUDA_HOME": f"{root}/toolkit",
                                  "LD_LIBRARY_PATH": f"{root}/driver:{self.prefix}/lib/pooch/deps"}
            done = subprocess.run([self.prefix / "bin/pooch", "run", "--device", "real", "--no-pooch", "--", "/bin/sh", "-c",
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
