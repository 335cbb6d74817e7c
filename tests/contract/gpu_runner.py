"""tests/gpu/run.py, tests/bench/silicon.py and tools/calibrate.py, on the software GPU.

usage: gpu_runner.py SOURCE_FOLDER BUILD_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
PLACES = {"pooch": "tools/pooch", "train": "examples/train", "device_test": "tests/device_test", "facts": "tests/facts",
          "cudnn_facts": "tests/cudnn_facts", "softgpu": "softgpu", "real_libraries": "tests/preload/real_libraries",
          "spy": "tests/preload/libreal_libraries_spy.so"}
MODEL = SOURCE / "softgpu/models/h200.json"
# pooch, but for the library that it preloads: one without any hook.
WITHOUT_HOOKS = """#!/bin/sh
if [ "$1" = path ]; then echo {library}; else exec {pooch} "$@"; fi
"""
# The trainer, but for one digit of its last loss under pooch.
WRONG_TRAINER = """#!/bin/sh
{train} "$@" || exit
case "$LD_PRELOAD" in *libpooch.so*) ;; *) exit 0 ;; esac
while [ "$1" != --loss-log ]; do shift; done
sed -i '$s/p/1p/' "$2"
"""


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, *words, build=BUILD):
        return subprocess.run([sys.executable, "-B", SOURCE / name, *words, "--build", build], capture_output=True, text=True,
                              timeout=250, cwd=self.folder)

    def checks(self, only, device="soft:v100-pcie3:compute", build=BUILD, more=()):
        done = self.script("tests/gpu/run.py", "--device", device, "--only", only, *more, build=build)
        path = self.folder / "gpu-results.json"
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        found = {f"{part}/{check['name']}": check for part, made in (results or {"parts": {}})["parts"].items()
                 for check in made["checks"]}
        return done, results, found

    def changed_build(self, **programs):
        """A build folder with programs replaced: by a text, or None for not there."""
        build = self.folder / "changed"
        for name, place in PLACES.items():
            (build / place).parent.mkdir(parents=True, exist_ok=True)
            if name not in programs:
                (build / place).symlink_to(BUILD / place)
            elif programs[name] is not None:
                (build / place).write_text(programs[name], encoding="utf-8")
                (build / place).chmod(0o755)
        return build

    def test_every_part_runs_and_what_cannot_is_named(self):
        done, results, found = self.checks("facts,device,links,pytorch,bits:digits/hybrid,lookups,runs:arena")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({part: made["status"] for part, made in results["parts"].items()},
                         {"facts": "ok", "device": "ok", "bits": "ok", "pytorch": "skipped", "links": "ok", "lookups": "ok", "runs": "ok"})
        self.assertEqual(found["runs/arena"]["arena"], "0x6a5a4c000000")
        self.assertGreater(found["lookups/launches"]["kernels"]["cuLaunchKernel of a kernel"], 5)
        self.assertEqual(results["machine"]["gpu"]["name"], "Tesla V100-PCIE-16GB")
        self.assertEqual(found["facts/alias"]["found"]["wrong_words"], 0)
        self.assertIn("CUDA_ERROR_NOT_SUPPORTED", found["facts/host_backed"]["reason"])
        self.assertEqual(found["facts/kernel_handles"]["found"]["function"]["parameters"], [[0, 8], [8, 4], [16, 24]])
        self.assertEqual(found["facts/kernel_handles"]["found"]["kernel_as_function"], {"parameters": [], "name": ""})
        self.assertTrue(any(engine["same_without_its_maker"] for engine in found["facts/backend_plan"]["found"]["engines"]))
        cases = found["facts/batch_norm_saved"]["found"]["cases"]
        self.assertEqual(len(cases), 5)
        for case in cases:  # other rounding than the software GPU's, and the right channel: with another one nothing is equal
            self.assertTrue(case["repeats"], case)
            self.assertLess(min(case["differing"].values()), case["elements"] / 2, case)
        self.assertIn("cuTensorMapEncodeTiled", found["facts/tensor_map"]["reason"])
        self.assertIn("model's", found["facts/vmm"]["on_the_software_gpu"])
        self.assertGreater(found["device/battery"]["tests"], 10)
        bits = found["bits/digits/hybrid"]
        self.assertGreater(bits["planned_iterations"], 0)
        self.assertLess(bits["peak_device_bytes"], bits["need_bytes"] // 2)
        for check in found.values():
            self.assertEqual("reason" in check, check["status"] != "ok", check)

    def test_losses_that_differ_fail(self):
        build = self.changed_build(train=WRONG_TRAINER.format(train=BUILD / PLACES["train"]))
        done, _, found = self.checks("bits:digits/hybrid", build=build)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        check = found["bits/digits/hybrid"]
        self.assertEqual(check["status"], "failed")
        self.assertEqual(check["reason"], "with pooch the loss differs from iteration 9 on")

    def test_hooks_that_no_look_up_meets_fail(self):
        pooch = WITHOUT_HOOKS.format(library=BUILD / "softgpu/kernels/nothing.so", pooch=BUILD / PLACES["pooch"])
        done, _, found = self.checks("lookups:cud*", build=self.changed_build(pooch=pooch))
        statuses = {check["status"] for check in found.values()}
        if statuses == {"skipped"}:
            self.skipTest("the vendor's libraries are not installed")
        self.assertEqual((done.returncode, statuses), (1, {"failed"}), done.stdout + done.stderr)
        self.assertIn("no look-up met a wrapper", found["lookups/cudart"]["reason"])

    def test_a_run_that_skips_everything_fails(self):
        done, results, _ = self.checks("pytorch")
        self.assertEqual((done.returncode, results["parts"]["pytorch"]["status"]), (1, "skipped"), done.stdout + done.stderr)
        self.assertIn("nothing was shown", done.stderr)

    def test_a_program_that_is_missing_fails(self):
        done, _, found = self.checks("device", build=self.changed_build(device_test=None))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(found["device/battery"]["status"], "failed")

    def test_a_check_that_does_not_exist_fails(self):
        done, _, _ = self.checks("facts:devices")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'facts:devices' names no check", done.stderr)
        self.assertEqual(self.checks("fact")[0].returncode, 2)

    def test_without_time_everything_is_skipped_and_checks_made_before_are_kept(self):
        self.checks("facts:device")
        done, results, found = self.checks("links,facts:naming", more=("--add", "--time-limit", "0.000001"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual((found["facts/device"]["status"], found["facts/naming"]["status"]), ("ok", "skipped"))
        self.assertEqual((found["links/by-size"]["status"], found["links/by-size"]["reason"]), ("skipped", "no time was left"))
        self.assertEqual(results["parts"]["facts"]["status"], "ok")

    def calibrate(self, *words):
        return subprocess.run([sys.executable, "-B", SOURCE / "tools/calibrate.py", *words], capture_output=True, text=True, timeout=60)

    def test_calibration_from_a_software_gpu_gives_its_own_model(self):
        """What is measured in virtual time is what the model says: the program measures right, and the fields are the right ones."""
        done, _, _ = self.checks("facts,links", device="soft:h200:timing")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.calibrate(self.folder / "gpu-results.json", MODEL, "-o", self.folder / "new.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertGreater(len(rows), 20)
        for field, before, after, *_ in rows:
            self.assertAlmostEqual(float(after), float(before), delta=max(0.01 * float(before), 1), msg=field)
        self.assertLessEqual({f"host_ns.vmm_{call}" for call in ("create", "map", "set_access", "set_access_per_handle", "unmap",
                                                                 "unmap_per_handle")}, {row[0] for row in rows})
        old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (MODEL, self.folder / "new.json"))
        self.assertEqual(len(new.pop("source")), len(old.pop("source")) + 1)
        self.assertEqual(list(new), list(old))
        for field in ("flops_per_s", "launch_gap_ns", "host_bytes"):
            self.assertEqual(new[field], old[field], "not measured, so not changed")

    def test_calibration_from_another_device_changes_what_differs(self):
        self.checks("facts,links", device="soft:v100-pcie3:timing")
        done = self.calibrate(self.folder / "gpu-results.json", MODEL, "-o", self.folder / "new.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        new = json.loads((self.folder / "new.json").read_text(encoding="utf-8"))
        self.assertAlmostEqual(new["link"]["to_host"] / 12e9, 1, delta=0.01)
        self.assertEqual(new["multiprocessors"], 80)
        done = self.calibrate(MODEL, MODEL)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)

    def test_ways_to_train_are_compared_under_one_cap(self):
        done = self.script("tests/bench/silicon.py", "--device", "soft:h200:timing", "--batch", "64", "--memory", "3GiB",
                           "--only", "trainer:in-core,trainer:hybrid,trainer:vdnn-conv,torch-gpt", "--iterations", "16", "--python", "/nonexistent")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = json.loads((self.folder / "silicon.json").read_text(encoding="utf-8"))
        rows = {row["name"]: row for row in results["groups"]["trainer"]["checks"]}
        self.assertEqual(list(rows), ["in-core", "hybrid", "vdnn-conv"])
        self.assertLess(rows["in-core"]["ms"], rows["hybrid"]["ms"])
        self.assertLessEqual(rows["hybrid"]["peak_device_bytes"], 3 << 30)
        self.assertIn("virtual time", done.stdout)
        self.assertIn("Goals are not judged", done.stdout)
        self.assertRegex(done.stdout, r"\| in-core \| [\d.]+ \| [\d.]+ \| 1\.000 × \|")
        self.assertEqual({row["status"] for row in results["groups"]["torch-gpt"]["checks"]}, {"skipped"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
