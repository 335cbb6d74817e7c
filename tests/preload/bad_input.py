"""Bad input gets one clear line (what, which value, what is accepted) and the right status.

usage: bad_input.py BUILD_FOLDER [TEST]...
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from runs import BUILD, POOCH, TO_THE_BYTE, TRAIN, run

DEVICE = "soft:v100-pcie3:compute"
DIGITS = [TRAIN, "--network", "digits", "--iterations", "1"]


class BadInput(unittest.TestCase):
    def refused(self, expected, *options, device=DEVICE, command=DIGITS, status=2, env=None):
        done = run(device, command, *options, env=env)
        self.assertEqual(done.status, status, done.err)
        self.assertEqual(done.out, "")
        lines = done.pooch_lines()
        self.assertEqual(len(lines), 1, done.err)
        for part in expected:
            self.assertIn(part, lines[0])

    def test_malformed_cap(self):
        self.refused(["--memory", "'lots'", "16GiB"], "--memory", "lots")
        self.refused(["--host-memory", "'-1'"], "--host-memory=-1")

    def test_malformed_cap_in_the_environment_ends_the_program_at_its_first_cuinit(self):
        done = run(DEVICE, ["env", "POOCH_MEMORY_CAP=12parsecs", *DIGITS])
        self.assertEqual(done.status, 2, done.err)
        lines = [line for line in done.pooch_lines() if "error" in line]
        self.assertEqual(len(lines), 1, done.err)
        self.assertIn("POOCH_MEMORY_CAP: '12parsecs'", lines[0])
        # … and not before: a shell has no use for a GPU.
        self.assertEqual(run(DEVICE, ["env", "POOCH_MEMORY_CAP=12parsecs", "true"]).status, 0)

    def test_cap_too_small_for_anything(self):
        self.refused(["POOCH_MEMORY_CAP", "'1MiB'", "smallest that works is 2.00 MiB"], "--memory", "1MiB")

    def test_cap_too_small_for_an_op_names_it_and_the_smallest_that_works(self):
        done = run(DEVICE + TO_THE_BYTE, DIGITS, "--memory", "12MiB")
        self.assertEqual(done.status, 3, done.err)
        line = next(line for line in done.pooch_lines() if "smallest cap that works" in line)
        self.assertRegex(line, r"pooch: error: cu\w+ needs [\d.]+ MiB at once: the smallest cap that works is")
        self.assertIn("out of memory", done.err.replace(line, ""), "the program sees its API's own status")

    def test_cap_too_small_for_what_cannot_be_moved(self):
        done = run(DEVICE, DIGITS, "--memory", "4MiB")
        self.assertEqual(done.status, 3, done.err)
        self.assertRegex(done.err, r"pooch: error: .* small allocations cannot leave the device: the smallest cap that")

    def test_cap_beyond_the_device(self):
        self.refused(["POOCH_MEMORY_CAP", "'64GiB'", "accepted are up to"], "--memory", "64GiB")

    def test_unknown_policy(self):
        self.refused(["--policy", "'magic'", "keep, demand"], "--policy", "magic")

    def test_unknown_device(self):
        self.refused(["--device", "quantum"], device="quantum")
        self.refused(["--device", "soft:v9000", "v100-nvlink2", "v100-pcie3"], device="soft:v9000")
        self.refused(["--device", "soft:v100-pcie3:guess"], device="soft:v100-pcie3:guess")

    def test_exhausted_host_budget(self):
        done = run(DEVICE, DIGITS, "--memory", "64MiB", "--host-memory", "16MiB")
        self.assertEqual(done.status, 3, done.err)
        lines = [line for line in done.pooch_lines() if "out of memory" in line]
        self.assertEqual(len(lines), 1, done.err)
        self.assertIn("the cap is 64.0 MiB, the host budget 16.0 MiB", lines[0])

    def test_freeing_a_bad_pointer_is_the_drivers_error_and_the_program_goes_on(self):
        program = BUILD / "tests/preload/double_free"
        plain = run(DEVICE, [program], "--no-pooch")
        self.assertEqual((plain.status, plain.out), (0, "went on\n"), plain.err)
        done = run(DEVICE, [program])
        self.assertEqual((done.status, done.out), (0, "went on\n"), done.err)
        self.assertEqual(len([line for line in done.pooch_lines() if "free" in line.lower()]), 2, done.err)

    def test_no_driver(self):
        if shutil.which("nvidia-smi"):
            self.skipTest("this machine has a driver")
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        done = subprocess.run([POOCH, "run", "--", *map(str, DIGITS)], env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("libcuda.so.1", done.stderr)

    def test_missing_preload_library(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/tools")
            os.symlink(BUILD / "softgpu", f"{folder}/softgpu")
            shutil.copy(POOCH, f"{folder}/tools/pooch")
            for words in (["run", "--device", DEVICE, "--", "true"], ["path"]):
                done = subprocess.run([f"{folder}/tools/pooch", *words], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("libpooch.so", done.stderr)

    def test_a_path_that_ld_preload_cannot_carry(self):
        with tempfile.TemporaryDirectory(prefix="two words") as folder:
            os.mkdir(f"{folder}/tools")
            os.mkdir(f"{folder}/interpose")
            shutil.copy(POOCH, f"{folder}/tools/pooch")
            shutil.copy(BUILD / "interpose/libpooch.so", f"{folder}/interpose/libpooch.so")
            done = subprocess.run([f"{folder}/tools/pooch", "path"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("spaces", done.stderr)

    def test_missing_vendor_library(self):
        """A program whose libcudnn is missing does not start; the loader says so, and its status comes through."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("libcuda.so.1", "libcudart.so.13", "libcublas.so.13"):
                os.symlink(BUILD / "softgpu" / name, f"{folder}/{name}")
            environment = dict(os.environ, LD_LIBRARY_PATH=folder, LD_PRELOAD=str(BUILD / "interpose/libpooch.so"))
            # A toolkit that happens to be installed must not serve instead.
            loader = ["/lib64/ld-linux-x86-64.so.2", "--inhibit-cache"]
            done = subprocess.run([*loader, str(TRAIN), "--network", "digits"], env=environment, capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertIn("libcudnn.so.9", done.stderr)

    def test_unknown_command(self):
        done = run(DEVICE, ["no-such-program"])
        self.assertEqual(done.status, 127)
        self.assertIn("no-such-program", done.err)

    def test_the_childs_exit_code_comes_through(self):
        self.assertEqual(run(DEVICE, ["sh", "-c", "exit 42"]).status, 42)
        self.assertEqual(run(DEVICE, ["sh", "-c", "kill -TERM $$"]).status, 128 + 15)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
