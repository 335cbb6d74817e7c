"""What tests/gpu calls ok: each judgement meets an answer that is right, and one with a planted fault.

usage: gpu_judge.py SOURCE_FOLDER
"""
import contextlib
import copy
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv[1]).resolve() / "tests/gpu"))
import judge  # noqa: E402
import lookups  # noqa: E402
from checks import Checks, Failed, nothing_done, skipping  # noqa: E402
from part_bits import same  # noqa: E402
from part_pytorch import ITERATIONS, compare  # noqa: E402
from programs import Run  # noqa: E402

NAN = float("nan")


def changed(found, *path, to):
    """A copy with one value replaced."""
    found = copy.deepcopy(found)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return found


def run(losses, weights=("w 1",)):
    return Run(0, "", "", None, None, list(losses), list(weights))


class OfFacts(unittest.TestCase):
    RIGHT = {
        "device": {"copy_engines": 2, "granularity_bytes": 2 << 20, "free_bytes": 1, "total_bytes": 2},
        "versions": {"cudnn": 1, "cublaslt": 1, "cudart": 1, "cupti": None},
        "naming": {"named_exactly": 1, "rows": [{"name": "cuMemAlloc", "version": 1, "result": 0, "dladdr": "cuMemAlloc_v2", "exact": True},
                                                {"name": "cuMemAllocAsync", "version": 1, "result": 500, "dladdr": "", "exact": False}]},
        "calls": {"event_record_us": 1.5, "allocate_64MiB_us": 300.0},
        "kernel": {"launch_us": 4.0},
        "kernel_handles": {"wrong": []},
        "backend_plan": {"wrong": []},
        "vmm": {"idle": {"2MiB": {"by_handles": [{"handles": 1, "unmap_us": 20.0}]}}},
        "vmm_under_load": {"to_host": {"2MiB": {"by_handles": [{"handles": 1, "unmap_us": 20.0}]}, "waited_for_other_work": []}},
        "alias": {"wrong_words": 0},
        "remap": {"wrong_words": 0, "cycle_64MiB_us": 60.0},
        "host_numa_backed": {"word_read_by_processor": 7, "set_bytes_per_s": 4e10},
        "tensor_map": {"words_with_the_address": [0], "words_that_differ_by_address": [0], "replaced_shows_the_new_address": True,
                       "replaced_is_as_made_anew": True},
        "batch_norm_saved": {"cases": [{"case": "64 x 56 x 56", "elements": 9, "repeats": True, "differing": {"one_fma": 0, "other": 3}}]},
        "device_copy": {"copy_bytes_per_s": 1e12},
        "batch_norm_kernel": {"bytes": 1 << 28, "copy_bytes_per_s": 2e12,
                              "cases": [{"row": 49, "normalise_bytes_per_s": 1.3e12, "compare_bytes_per_s": 1.2e12}]},
        "pinning": {"allocate_us": 3e4},
        "link": {"by_size": [{"bytes": judge.LARGE, "out_bytes_per_s": 5e10, "in_bytes_per_s": 5e10, "each_when_both_bytes_per_s": 4e10}]},
    }
    FAULTS = [
        ("device", ("copy_engines",), 1, "1 copy engines"),
        ("device", ("granularity_bytes",), 4 << 20, "not of 2 MiB"),
        ("versions", ("cudnn",), None, "cudnn is not found"),
        ("naming", ("rows", 0, "exact"), False, "1 of 1 pointers have no name of their own: cuMemAlloc"),
        ("naming", ("rows", 0, "dladdr"), "cuMemFree_v2", "cuMemAlloc 1 is cuMemFree_v2"),
        ("naming", ("named_exactly",), 0, "0 of 1 are said to be named exactly"),
        ("calls", ("event_record_us",), 5000.0, "event_record_us is 5000"),
        ("calls", ("allocate_64MiB_us",), 1e6, "allocate_64MiB_us is 1000000"),
        ("kernel", ("launch_us",), None, "launch_us is no number"),
        ("kernel_handles", ("wrong",), ["kernel: name"], "kernel: name"),
        ("backend_plan", ("wrong",), ["engine 0: not same_by_another_handle"], "engine 0"),
        ("vmm", ("idle", "2MiB", "by_handles", 0, "unmap_us"), NAN, "idle.2MiB.by_handles[0].unmap_us is no number"),
        ("vmm_under_load", ("to_host", "waited_for_other_work"), ["unmap of 2MiB"], "to_host: unmap of 2MiB waits for other work"),
        ("alias", ("wrong_words",), 3, "(3 words)"),
        ("alias", (), {}, "(None words)"),
        ("remap", ("wrong_words",), 1, "(1 words)"),
        ("host_numa_backed", ("word_read_by_processor",), 0, "the processor reads 0 where the device wrote 7"),
        ("host_numa_backed", (), {"set_bytes_per_s": 1.0}, "the processor reads None"),
        ("host_numa_backed", ("set_bytes_per_s",), 0, "set_bytes_per_s is 0"),
        ("tensor_map", ("words_with_the_address",), [], "no word of a tensor map is its address"),
        ("tensor_map", ("words_that_differ_by_address",), [0, 3], "words [3] depend on the address too"),
        ("tensor_map", ("replaced_shows_the_new_address",), False, "not replaced_shows_the_new_address"),
        ("tensor_map", ("replaced_is_as_made_anew",), False, "not replaced_is_as_made_anew"),
        ("batch_norm_saved", ("cases",), [], "no case was tried"),
        ("batch_norm_saved", ("cases", 0, "repeats"), False, "does not make its own bits again"),
        ("batch_norm_saved", ("cases", 0, "elements"), 0, "does not make its own bits again"),
        ("batch_norm_saved", ("cases", 0, "differing", "one_fma"), 1, "one_fma differs in 1 of 9"),
        ("device_copy", ("copy_bytes_per_s",), NAN, "no number"),
        ("batch_norm_kernel", ("copy_bytes_per_s",), NAN, "no number"),
        ("batch_norm_kernel", ("cases",), [], "no case was tried"),
        ("batch_norm_kernel", ("copy_bytes_per_s",), 2.5e12, "rows of 49: 1300 GB/s, and copies 2500"),
        ("batch_norm_kernel", ("cases", 0, "compare_bytes_per_s"), 1e12, "comparing takes 1.30 times as long"),
        ("batch_norm_kernel", ("cases", 0, "compare_bytes_per_s"), 0, "compare_bytes_per_s is 0"),
        ("pinning", ("allocate_us",), 0, "allocate_us is 0"),
        ("link", ("by_size", 0, "out_bytes_per_s"), 1e9, "1.00 GB/s"),
        ("link", ("by_size", 0, "each_when_both_bytes_per_s"), 1e10, "10.00 GB/s each way at once, 50.00 alone"),
        ("link", ("by_size", 0, "bytes"), 4096, "no large copy was measured"),
    ]

    def test_a_right_answer_is_right(self):
        for name, found in self.RIGHT.items():
            self.assertEqual(judge.section(name, found), [], name)

    def test_substitutes_are_for_every_batch_norm_and_save_time(self):
        right = {"batch_norms": 53, "proven": 53, "by_substitute": 30, "ops_ms": 23.0, "substitutes_ms": 15.6}
        self.assertEqual(judge.substitutes(right), [])
        for name, value, words in (("proven", 52, "52 of 53"), ("proven", 0, "0 of 53"), ("by_substitute", 0, "no replay was made"),
                                   ("substitutes_ms", 20.0, "substitutes take 20.00 ms"), ("substitutes_ms", NAN, "substitutes take nan")):
            self.assertIn(words, " ".join(judge.substitutes(right | {name: value})))
        self.assertEqual(len(judge.substitutes(right | {"proven": 0, "batch_norms": 0})), 1, "none was tried")

    def test_a_planted_fault_is_found_in_every_section(self):
        for name, path, value, words in self.FAULTS:
            found = changed(self.RIGHT[name], *path, to=value) if path else value
            self.assertIn(words, "; ".join(judge.section(name, found)), (name, path))
        self.assertEqual({name for name, *_ in self.FAULTS}, set(self.RIGHT))

    def test_where_memory_has_no_content_none_is_asked_for(self):
        self.assertEqual(judge.section("remap", {"cycle_64MiB_us": 60.0}, has_content=False), [])
        self.assertTrue(judge.section("remap", {"cycle_64MiB_us": NAN}, has_content=False))

    def test_a_refusal_is_wrong_where_the_attribute_says_that_it_works(self):
        self.assertEqual(judge.refusal("host_numa_backed", "no", {"host_numa_vmm": 0}), [])
        self.assertEqual(judge.refusal("host_numa_backed", "no", {"host_numa_vmm": 1}), ["host_numa_vmm is 1, and yet: no"])
        self.assertEqual(judge.refusal("tensor_map", "no", {"capability_major": 8}), [])
        self.assertEqual(len(judge.refusal("tensor_map", "no", {"capability_major": 9})), 1)
        self.assertEqual(len(judge.refusal("tensor_map", "no", {})), 1)


class OfBits(unittest.TestCase):
    def test_the_same_bits_are_the_same(self):
        self.assertEqual(judge.losses(["0 0x1.8p+1"], ["0 0x1.8p+1"], "with pooch"), [])

    def test_what_is_no_number_equals_nothing(self):
        for bad in ("nan", "-nan", "inf", "0 nan", ""):
            self.assertTrue(judge.losses(["2.5", bad], ["2.5", bad], "with pooch"), bad)
            with self.assertRaises(Failed):
                same(run(["2.5", bad]), run(["2.5", bad]), "with pooch")
            with self.assertRaises(Failed):
                compare(*[{"losses": ["2.5"] * (ITERATIONS - 1) + [bad], "weights": "a"}] * 2, "with pooch", {})

    def test_other_bits_fewer_and_none_are_found(self):
        for found, words in ((["1", "2.5"], "differs from iteration 1"), (["1"], "differs from iteration 1")):
            self.assertEqual(judge.losses(["1", "2"], found, "with pooch"), [f"with pooch the loss {words} on"])
        self.assertEqual(judge.losses([], [], "with pooch"), ["with pooch there are no losses"])

    def test_other_weights_and_none_fail(self):
        for weights in (["w 2"], []):
            with self.assertRaises(Failed):
                same(run(["1"], weights if not weights else ["w 1"]), run(["1"], weights), "with pooch")
        with self.assertRaises(Failed):
            compare(*[{"losses": ["1"] * ITERATIONS, "weights": weights} for weights in ("a", "b")], "with pooch", {})


class OfLookUps(unittest.TestCase):
    WRAPPERS = {"cuMemAlloc_v2"}

    @staticmethod
    def ask(owner, symbol, name="cuMemAlloc"):
        return lookups.LookUp("cuGetProcAddress", "libcudart.so.13", name, "13000", "0", owner, symbol)

    def judge(self, before, after):
        others = [self.ask("libcuda.so.1", "cuInit", "cuInit")] * lookups.FEWEST_LOOK_UPS
        return lookups.judge([*others, before], [*others, after], self.WRAPPERS)

    def test_a_hook_that_is_met_is_right_whether_or_not_the_driver_names_its_function(self):
        hook = self.ask("libpooch.so", "cuMemAlloc_v2")
        for symbol in ("cuMemAlloc_v2", "-"):
            self.assertEqual(self.judge(self.ask("libcuda.so.580.95", symbol), hook), ([], 1))

    def test_a_hook_that_is_bypassed_is_found(self):
        for symbol in ("cuMemAlloc_v2", "-"):
            driver = self.ask("libcuda.so.580.95", symbol)
            wrong, _ = self.judge(driver, driver)
            self.assertEqual(len(wrong), 1)
            self.assertIn("asks for cuMemAlloc", wrong[0])

    def test_another_function_another_question_and_too_few_are_found(self):
        driver = self.ask("libcuda.so.1", "cuMemAlloc_v2")
        self.assertTrue(self.judge(driver, self.ask("libpooch.so", "cuMemFree_v2"))[0])
        self.assertTrue(self.judge(self.ask("libcuda.so.1", "cuInit", "cuInit"), self.ask("libpooch.so", "cuInit", "cuInit"))[0])
        self.assertTrue(self.judge(driver, self.ask("libpooch.so", "cuMemAlloc_v2", "cuMemFree"))[0])
        self.assertTrue(lookups.judge([driver], [self.ask("libpooch.so", "cuMemAlloc_v2")], self.WRAPPERS)[0])

    def test_no_hook_at_all_is_found(self):
        init = self.ask("libcuda.so.1", "cuInit", "cuInit")
        self.assertEqual(self.judge(init, init)[0], ["no look-up met a wrapper"])

    def test_launches(self):
        right = [["cuLaunchKernel", "kernel", "-400", "3"], ["cuLaunchKernelEx", "function", "2", "0"]]
        self.assertEqual(judge.launches(right), [])
        for wrong in ([], [["cuLaunchKernel", "kernel", "-400", "-400"]], [["cuLaunchKernel", "kernel", "2", "3"]],
                      [["cuLaunchKernel", "function", "-1", "3"]], [["cuLaunchKernel", "unknown", "1", "1"]]):
            self.assertEqual(len(judge.launches(wrong)), 1, wrong)


class OfRuns(unittest.TestCase):
    LAPS = [300.0, 250.0] + [200.0] * 20

    @staticmethod
    def profile(timer, *us):
        return {"timer": timer, "phases": [{"functions": ["conv"], "ops": [{"function": 0, "us": one} for one in us]}]}

    def test_the_arena(self):
        self.assertEqual(judge.arena("0x6a5a4c000000"), [])
        for bad in ("0x302000000", None):
            self.assertEqual(len(judge.arena(bad)), 1)

    def test_timers(self):
        cupti = self.profile("cupti", 100.0, 500.0)
        self.assertEqual(judge.timers(cupti, self.profile("events", 104.0, 505.0)), [])
        for other in (self.profile("cupti", 104.0, 505.0), self.profile("events", 104.0), self.profile("events", 104.0, None),
                      self.profile("events", 104.0, NAN), self.profile("events", 150.0, 600.0), self.profile("events", 401.0, 199.0)):
            self.assertEqual(len(judge.timers(cupti, other)), 1, other)
        self.assertTrue(judge.timers(self.profile("cupti"), self.profile("events")))

    def test_digests(self):
        self.assertEqual(judge.digests(self.LAPS, [580.0, 530.0] + [200.0] * 20), [])
        self.assertIn("digests take 5.0 iterations", judge.digests(self.LAPS, [800.0, 750.0] + [200.0] * 20)[0])
        self.assertIn("later iterations take", judge.digests(self.LAPS, [300.0, 250.0] + [210.0] * 20)[0])
        for few in ([], [200.0] * judge.STEADY, [NAN, *self.LAPS]):
            self.assertTrue(judge.digests(self.LAPS, few))

    def test_goals(self):
        ours = {"ms": 110.0, "predicted_ms": 108.0, "actual_ms": 110.0, "predicted_peak_bytes": 99, "planned_peak_bytes": 100}
        rows = {"in-core": {"ms": 100.0}, "pooch-no-cap": {"ms": 100.5}, "hybrid": ours, "save_on_cpu": {"ms": 150.0}}
        self.assertEqual(judge.goals(rows, 1.15, ("save_on_cpu",)), [])
        self.assertEqual(judge.goals({"demand": {}}, 1.15), [])
        faults = [("hybrid", "ms", 120.0), ("hybrid", "ms", NAN), ("pooch-no-cap", "ms", 102.0), ("pooch-no-cap", "ms", None),
                  ("save_on_cpu", "ms", 109.0), ("hybrid", "predicted_ms", 90.0), ("hybrid", "predicted_peak_bytes", 90),
                  ("hybrid", "actual_ms", None)]
        for row, key, value in faults:
            self.assertEqual(len(judge.goals(changed(rows, row, key, to=value), 1.15, ("save_on_cpu",))), 1, (row, key))
        self.assertEqual(len(judge.goals(changed(rows, "in-core", to={}), 1.15)), 2)


class OfARun(unittest.TestCase):
    def make(self, *checks):
        made = Checks([], 0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            part = made.make("part", checks)
            nothing = nothing_done(made, "run.py")
        return part["status"], nothing, said.getvalue()

    def test_where_all_is_skipped_nothing_was_shown(self):
        self.assertEqual(self.make(("a", skipping("no"))), ("skipped", True, "run.py: no check is ok: nothing was shown\n"))
        self.assertEqual(self.make(("a", skipping("no")), ("b", dict)), ("ok", False, ""))

    def test_what_was_ok_before_shows_nothing_now(self):
        made = Checks([], 0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            made.make("part", [("a", skipping("no"))], {"checks": [{"name": "b", "status": "ok"}]})
            self.assertTrue(nothing_done(made, "run.py"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
