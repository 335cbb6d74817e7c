"""Faults that once gave what must not be, each by its name.

usage: known.py BUILD_FOLDER [Answers|Content]
"""
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "preload"))
# pylint: disable=wrong-import-position
import faults
from programs import PROGRAMS


class Known(unittest.TestCase):
    def struck(self, name, kind="UNKNOWN", **settings):
        program = PROGRAMS[name]
        reference = types.SimpleNamespace(program=program, bits=program.bits(program.plain()))
        done = program.run(**settings)
        if "SOFTGPU_FAIL" in settings:
            self.assertIsNotNone(done.device["failed"], "the fault did not strike")
        return faults.verdict(reference, done, kind, own=True), done


class Answers(Known):
    """What a call says, or its failure, is taken for what it is."""

    def test_a_launch_whose_parameters_the_driver_does_not_tell_fails(self):
        for number in (1, 2, 6):
            verdict, done = self.struck("demand", SOFTGPU_FAIL=f"cuKernelGetParamInfo:{number}=OUT_OF_MEMORY")
            self.assertEqual(verdict, "clean", done.err)
            self.assertIn("cuLaunchKernel: the driver does not say what a kernel's parameters are", done.err)

    def test_a_capture_is_not_spoilt_by_a_mode_that_cannot_be_changed(self):
        verdict, done = self.struck("graphs", SOFTGPU_FAIL="cuThreadExchangeStreamCaptureMode:1")
        self.assertNotIn("CUDA_ERROR_STREAM_CAPTURE", done.err)
        self.assertIn(verdict, faults.GOOD, done.err)

    def test_a_capture_that_the_driver_does_not_name_is_not_let_through(self):
        """What it touched could leave before the graph ran."""
        verdict, done = self.struck("graphs", SOFTGPU_FAIL="cuStreamGetCaptureInfo_v2:1")
        self.assertEqual(verdict, "same", done.err)
        verdict, done = self.struck("graphs", "UNKNOWN+", SOFTGPU_FAIL="cuStreamGetCaptureInfo_v2:1+")
        self.assertEqual(verdict, "clean", done.err)
        self.assertIn("the driver does not say which capture it is part of", done.err)

    def test_a_question_that_fails_is_put_once_more(self):
        for number in (1, 5):
            verdict, done = self.struck("demand", SOFTGPU_FAIL=f"cuEventQuery:{number}")
            self.assertEqual(verdict, "same", done.err)

    def test_landing_stays_where_the_driver_does_not_answer_once(self):
        """Without it, what a kernel that nobody foresees reads is a fault."""
        for number in range(1, 1 + PROGRAMS["landing"].run().device["calls"]["cuDeviceGetAttribute"]):
            verdict, done = self.struck("landing", SOFTGPU_FAIL=f"cuDeviceGetAttribute:{number}")
            self.assertIn(verdict, faults.GOOD, done.err)

    def test_a_launch_does_not_pass_where_the_driver_does_not_name_the_context(self):
        """It touched what had been moved."""
        for number in (2, 3):  # the first is the runtime's
            verdict, done = self.struck("demand", SOFTGPU_FAIL=f"cuCtxGetCurrent:{number}")
            self.assertEqual(verdict, "same", done.err)
        for number in (2, 3):
            verdict, done = self.struck("demand", "UNKNOWN+", SOFTGPU_FAIL=f"cuCtxGetCurrent:{number}+")
            self.assertIn(verdict, faults.GOOD, done.err)

    def test_all_threads_are_told_and_one_line_says_it(self):
        for _ in range(3):
            verdict, done = self.struck("threads", "ILLEGAL_ADDRESS", SOFTGPU_FAIL="cuKernelGetParamInfo:1=ILLEGAL_ADDRESS")
            self.assertIn(verdict, faults.GOOD, done.err)

    def test_an_event_that_is_out_of_memory_is_not_taken_for_memory_that_is_short(self):
        for function in ("cuEventSynchronize", "cuStreamWaitEvent", "cuMemcpyDtoHAsync_v2"):
            verdict, done = self.struck("demand", "OUT_OF_MEMORY+", SOFTGPU_FAIL=f"{function}:3+=OUT_OF_MEMORY")
            self.assertIn(verdict, faults.GOOD, done.err)
            self.assertNotIn("cannot have its operands", done.err)

    def test_what_is_freed_behind_a_refusal_for_want_of_memory_adds_no_line(self):
        """The program frees on its way out, and the device it waits for has no memory either."""
        with tempfile.TemporaryDirectory() as folder:
            reference = faults.Reference(PROGRAMS["digits-planned"], pathlib.Path(folder))
            paths = enumerate(reference.paths["OUT_OF_MEMORY+"], 1)
            late = [(path, number) for number, path in paths if path.startswith("cuMemMap ")][-16:]
            self.assertNotEqual(late, [])
            for number in dict(late).values():  # one of each way that leads there
                with self.subTest(number=number):
                    record = faults.strike(reference, "OUT_OF_MEMORY+", number)
                    self.assertEqual(record["verdict"], "clean", record.get("said"))

    def test_a_refused_answer_is_not_taken_for_want_of_memory(self):
        """A program may do something else where memory is short, and have other bits."""
        verdict, done = self.struck("demand", "ILLEGAL_ADDRESS", SOFTGPU_FAIL="cuMemcpyDtoHAsync_v2:2=ILLEGAL_ADDRESS")
        self.assertEqual(verdict, "clean", done.err)
        self.assertIn("every call that uses device memory fails from now on", done.err)


class Content(Known):
    """What is in memory, and how long it must wait, is never lost sight of."""

    def test_what_is_looked_at_for_addresses_is_ordered_behind_all_that_writes_it(self):
        """Three of ten such runs were races: a launch whose kernel nothing is known of, and other threads' copies."""
        for number in range(100, 170, 10):
            verdict, done = self.struck("threads", "MALLOC+", ahead=faults.FAILING_MALLOC, FAULTS_MALLOC=f"{number}+")
            self.assertIn(verdict, faults.GOOD, done.err)

    def test_an_op_whose_event_is_refused_keeps_its_mark(self):
        """It was forgotten, with what the op had written: wrong losses, exit code 0."""
        for number in (3, 30):
            for fault in ("UNKNOWN", "OUT_OF_MEMORY", "UNKNOWN+", "OUT_OF_MEMORY+"):
                with self.subTest(number=number, fault=fault):
                    plus = "+" * fault.endswith("+")
                    verdict, done = self.struck(
                        "demand", fault, SOFTGPU_FAIL=f"cuEventRecord:{number}{plus}={fault.rstrip('+')}")
                    self.assertIn(verdict, faults.GOOD if plus else ("same",), done.err)

    def test_training_under_a_plan_whose_queries_fail_has_the_same_losses(self):
        queries = PROGRAMS["digits-planned"].run().device["calls"]["cuEventQuery"]
        for number in (queries // 2, queries * 3 // 4):
            verdict, done = self.struck("digits-planned", SOFTGPU_FAIL=f"cuEventQuery:{number}")
            self.assertEqual(verdict, "same", done.err)

    def test_an_allocation_of_pooch_that_fails_is_had_from_the_reserve(self):
        for number in (1, 50, 400):
            verdict, done = self.struck("demand", "MALLOC", ahead=faults.FAILING_MALLOC, FAULTS_MALLOC=str(number))
            self.assertEqual(verdict, "same", done.err)
            self.assertEqual(done.err.count("the host has no memory left; going on with a small reserve"), 1)

    def test_where_the_host_has_no_memory_for_long_calls_are_refused(self):
        verdict, done = self.struck("planned", "MALLOC", ahead=faults.FAILING_MALLOC, FAULTS_MALLOC="1+")
        self.assertIn(verdict, faults.GOOD, done.err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
