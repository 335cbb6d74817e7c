#!/usr/bin/python3
"""The hooks alone, over a driver that only keeps books.

    hooks_test.py LIBPOOCH FAKE_FOLDER PROGRAM NEXT_FIRST NEXT_MAIN

FAKE_FOLDER has libcuda.so.1 and libcudnn.so.9 built from hooks_fake_*.cpp. HOOKS_PRELOAD_FIRST in the environment is
preloaded before libpooch.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBPOOCH, FAKE_FOLDER, PROGRAM, NEXT_FIRST, NEXT_MAIN = (os.path.abspath(path) for path in sys.argv[1:6])

# A sanitizer's runtime must stand first.
PRELOAD = f"{os.environ.get('HOOKS_PRELOAD_FIRST', '')} {LIBPOOCH}".strip()


class Hooks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_scenario(self, scenario, code=0, libraries=None, **variables):
        """Returns stderr and the fake driver's log."""
        log = os.path.join(self.folder.name, "log")
        environment = {
            **os.environ,
            "LD_PRELOAD": PRELOAD,
            "LD_LIBRARY_PATH": FAKE_FOLDER if libraries is None else libraries,
            "FAKE_LOG": log,
            "POOCH_REPORT": os.path.join(self.folder.name, "report"),
            "POOCH_HOST_MEMORY": "1GiB",
            **variables,
        }
        done = subprocess.run([PROGRAM, scenario], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "", "nothing on stdout")
        if not os.path.exists(log):
            return done.stderr, []
        with open(log, encoding="utf-8") as file:
            return done.stderr, file.read().splitlines()

    def summary(self):
        with open(os.path.join(self.folder.name, "report", "summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_look_ups_match_exact_abis(self):
        self.run_scenario("look_up")

    def test_look_ups_of_functions_without_a_name(self):
        self.run_scenario("look_up", FAKE_UNNAMED="1")

    def test_rtld_next_means_the_caller(self):
        environment = {**os.environ, "LD_PRELOAD": f"{PRELOAD} {NEXT_FIRST}"}
        done = subprocess.run([NEXT_MAIN], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("42\n", ""))

    def test_allocations(self):
        stderr, log = self.run_scenario("allocations")
        self.assertIn("cuMemAlloc_v2 1000", log)
        self.assertNotIn("cuMemAlloc_v2 8388608", log)
        self.assertEqual(log.count("cuMemFree_v2"), 2)
        self.assertEqual(len([line for line in stderr.splitlines() if line.startswith("pooch: error: ")]), 2, stderr)

    def test_pools_that_the_driver_must_serve(self):
        self.run_scenario("pools")

    def test_allocations_under_capture_are_the_graphs(self):
        self.run_scenario("capture")

    def test_what_only_the_drivers_pool_keeps_makes_way(self):
        _, log = self.run_scenario("kept_by_pool", POOCH_MEMORY_CAP="64MiB")
        self.assertIn(f"cuMemPoolSetAttribute {64 << 20}", log)
        self.assertIn("cuMemPoolTrimTo", log)

    def test_what_pooch_has_no_part_in_passes_through_and_is_counted(self):
        stderr, log = self.run_scenario("outside")
        self.assertIn(f"cuMemAllocManaged {8 << 20}", log)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)  # about the memory that cannot be shared
        counted = {name: self.summary()[name] for name in ("unified_bytes", "arrays", "ipc_handles", "peer_accesses")}
        self.assertEqual(counted, {"unified_bytes": 8 << 20, "arrays": 2, "ipc_handles": 2, "peer_accesses": 1})

    def test_what_is_named_for_later_stays_on_the_device(self):
        # The launch that is given a tensor map shows its address, where the map has it as it is.
        for variables, held in (({}, 1), ({"FAKE_MAPS": "hidden"}, 2)):
            with self.subTest(variables):
                stderr, _ = self.run_scenario("named_for_later", **variables)
                self.assertEqual(self.summary()["pinned_allocations"], held)
                self.assertRegex(stderr, r"\Apooch: warning: cuMulticastBindAddr: [^\n]*cannot be shared[^\n]*\n\Z")

    def test_what_is_not_followed_says_so_once(self):
        stderr, _ = self.run_scenario("obsolete_launches")
        self.assertRegex(stderr, r"\Apooch: warning: cuLaunch is not followed: [^\n]+\n\Z")

    def test_a_device_that_is_let_in_gets_at_managed_memory(self):
        stderr, log = self.run_scenario("peers", FAKE_DEVICES="2")
        self.assertEqual(stderr, "")
        rights = [line for line in log if line.startswith("cuMemSetAccess")]
        self.assertEqual(rights, ["cuMemSetAccess 0", "cuMemSetAccess 1", "cuMemSetAccess 0 1"])

    def test_a_session_on_another_device(self):
        self.run_scenario("other_device", FAKE_DEVICE="3")

    def test_the_context_is_asked_for_only_where_it_may_have_changed(self):
        _, log = self.run_scenario("contexts")
        self.assertEqual(log.count("cuCtxGetCurrent"), 2 + 1 + 1 + 1 + 3)
        os.remove(os.path.join(self.folder.name, "log"))
        _, log = self.run_scenario("contexts", FAKE_DEVICES="2")
        self.assertEqual(log.count("cuCtxGetCurrent"), 5 + 1 + 1 + 1 + 3)

    def test_programs_that_are_started_have_pooch_unless_told_otherwise(self):
        self.run_scenario("starts_with")
        self.run_scenario("starts_with", POOCH_CHILDREN="1")
        self.run_scenario("starts_without", POOCH_CHILDREN="0")
        stderr, _ = self.run_scenario("start", code=2, POOCH_CHILDREN="no")
        self.assertRegex(stderr, r"\Apooch: error: [^\n]*POOCH_CHILDREN[^\n]*no[^\n]*\n\Z")

    def test_launches_make_what_they_point_at_resident(self):
        _, log = self.run_scenario("launches")
        mapped = [sum(int(line.split()[1]) for line in part.splitlines() if line.startswith("cuMemMap"))
                  for part in "\n".join(log).split("cuLaunchKernel")]
        self.assertEqual(mapped, [4 << 20, 6 << 20, 0, 0])
        self.assertEqual(self.summary()["ops"], 2)

    def test_library_calls(self):
        _, log = self.run_scenario("library_calls")
        self.assertEqual(log.count("cuMemAlloc_v2 8388608"), 2, "a library's allocations pass through")
        summary = self.summary()
        self.assertEqual(summary["ops"], 1, "launches inside belong to the call")
        self.assertEqual(summary["need_bytes"], 4 << 20, "a library's memory is not the program's need")
        self.assertGreaterEqual(summary["peak_device_bytes"], 12 << 20, "but it counts against the cap")

    def test_calls_that_pass_have_their_memory_and_what_libraries_take_in_them_counts(self):
        report = {"POOCH_REPORT": "", "POOCH_SUMMARY": os.path.join(self.folder.name, "report")}
        _, log = self.run_scenario("library_calls", **report)
        self.assertEqual(log.count("cuMemAlloc_v2 8388608"), 2)
        summary = self.summary()
        self.assertEqual((summary["ops"], summary["need_bytes"]), (0, 4 << 20))
        self.assertGreaterEqual(summary["peak_device_bytes"], 12 << 20)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "report", "profile.json")))
        os.remove(os.path.join(self.folder.name, "log"))
        _, log = self.run_scenario("launches", **report)
        self.assertEqual(self.summary()["ops"], 0)
        mapped = [line for line in log[:log.index("cuLaunchKernel")] if line.startswith("cuMemMap")]
        self.assertEqual(sum(int(line.split()[1]) for line in mapped), 4 << 20)
        self.assertEqual(len(log) - log[::-1].index("cuLaunchKernel"), len(log), log)

    def test_forked_child_is_inert(self):
        _, log = self.run_scenario("fork")
        self.assertEqual(log.count("cuMemAlloc_v2 4194304"), 1)
        self.assertEqual(self.summary()["need_bytes"], 4 << 20)

    def test_missing_library_is_one_line(self):
        stderr, _ = self.run_scenario("missing_library")
        self.assertRegex(stderr, r"\Apooch: error: cudnnScaleTensor [^\n]* libcudnn\.so\.9 [^\n]*\n\Z")

    def test_variables_that_cannot_be_understood_end_the_program(self):
        for variable, value in (("POOCH_MEMORY_CAP", "lots"), ("POOCH_POLICY", "wish"), ("POOCH_LOG", "loud")):
            with self.subTest(variable):
                stderr, log = self.run_scenario("start", code=2, **{variable: value})
                self.assertRegex(stderr, rf"\Apooch: error: [^\n]*{variable}[^\n]*{value}[^\n]*\n\Z")
                self.assertNotIn("cuInit", log)

    def test_cap_that_is_too_small_ends_the_program(self):
        stderr, _ = self.run_scenario("allocate", code=2, POOCH_MEMORY_CAP="1MiB")
        self.assertRegex(stderr, r"\Apooch: error: [^\n]*POOCH_MEMORY_CAP[^\n]*smallest that works[^\n]*\n\Z")


class File(unittest.TestCase):
    """What the dynamic linker sees."""

    def output(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_nothing_of_cuda_is_needed(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", self.output("readelf", "-d", LIBPOOCH))
        allowed = r"(libc|libm|libdl|libpthread|libasan|libubsan|libtsan|ld-linux[-\w]*)\.so\.\d+"
        self.assertEqual([name for name in needed if not re.fullmatch(allowed, name)], [])

    def test_it_stays_loaded(self):
        self.assertIn("NODELETE", self.output("readelf", "-d", LIBPOOCH))

    def test_only_hooks_are_exported_and_without_versions(self):
        self.assertNotIn(".gnu.version_d", self.output("readelf", "-SW", LIBPOOCH))
        names = [line.split()[-1] for line in self.output("nm", "-D", "--defined-only", LIBPOOCH).splitlines()]
        self.assertIn("dlsym", names)
        self.assertEqual([n for n in names if n != "dlsym" and not re.match(r"(cu|cudnn|cublas|p?nccl)[A-Z]", n)], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
