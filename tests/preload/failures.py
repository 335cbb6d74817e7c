"""What goes wrong around a plan never goes into a result: the same bits as in-core, or CUDA's own error and one line.

usage: failures.py BUILD_FOLDER [SEED [COPIES]]
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

from runs import MIB, TRAIN, run

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20190517
COPIES = int(sys.argv[3]) if len(sys.argv) > 3 else 1
DEVICE = "soft:v100-pcie3:compute"
CAP = 64
DIGITS = [TRAIN, "--network", "digits", "--iterations", "8", "--json"]
SPACE = ["unshare", "--mount", "--map-root-user", "sh", "-ec"]


def can_mount():
    return subprocess.run([*SPACE, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode == 0


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.in_core = run(DEVICE, DIGITS, "--no-pooch")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"

    def train(self, command=None, policy="hybrid", cap=CAP, **more):
        env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": str(self.cache), **more}
        return run(DEVICE, command or DIGITS, "--policy", policy, "--memory", f"{cap}MiB", env=env)

    def check(self, done, in_core=None, cap=CAP):
        in_core = in_core or self.in_core
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.losses, in_core.losses)
        self.assertEqual(done.weights, in_core.weights)
        self.assertGreater(len(done.weights), 20)
        self.assertEqual(done.device["violations"], [], done.err)
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        self.assertLessEqual(done.device["peak_bytes"], cap * MIB, "the device's own account")

    def planner(self, body):
        script = self.folder / "planner"
        script.write_text("#!/bin/sh\n" + body)
        script.chmod(0o700)
        return str(script)

    def one_warning(self, done, *parts):
        lines = [line for line in done.pooch_lines() if "warning" in line]
        self.assertEqual(len(lines), 1, done.err)
        for part in parts:
            self.assertIn(part, lines[0])

    # --- planners

    def test_a_planner_that_is_killed_leaves_demand_mode(self):
        for body in ("kill -KILL $$", "kill -ALRM $$", "exit 0", "echo 'no idea' >&2; exit 1"):
            with self.subTest(planner=body):
                done = self.train(POOCH_PLANNER=self.planner(body))
                self.check(done)
                self.assertEqual(done.summary["planned_iterations"], 0)
                self.one_warning(done, "stays in demand mode",
                                 "no idea" if "no idea" in body else "ended without a plan")

    def test_a_planner_without_end_holds_nothing_up_and_ends_with_the_program(self):
        script = self.planner(f"echo $$ > {self.folder}/pid; exec sleep 1000")
        (self.folder / "tmp").mkdir()
        done = self.train(POOCH_PLANNER=script, POOCH_WAIT_FOR_PLANS="0", TMPDIR=str(self.folder / "tmp"))
        self.check(done)
        self.assertEqual(done.summary["planned_iterations"], 0)
        pid = int((self.folder / "pid").read_text())
        for _ in range(100):
            if not pathlib.Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.1)
        else:
            os.kill(pid, 9)
            self.fail("the planner outlived the program")
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "nothing is left of its files")

    def test_a_missing_planner_is_one_warning(self):
        done = self.train(POOCH_PLANNER=str(self.folder / "nobody"))
        self.check(done)
        self.one_warning(done, "no plans can be made", "nobody", "POOCH_PLANNER")

    def test_a_planner_that_writes_nonsense_leaves_demand_mode(self):
        body = 'for each; do out=$each; done\nprintf \'%s\' \'{"schema":1,"phase":\' > "$out"'
        done = self.train(POOCH_PLANNER=self.planner(body))
        self.check(done)
        self.one_warning(done, "stays in demand mode")

    # --- disks

    def test_folders_that_cannot_be_written(self):
        """/dev/shm is left for the profile, so there is a plan; it is not kept."""
        done = self.train(POOCH_CACHE="/dev/full/cache", TMPDIR="/dev/full", POOCH_REPORT=str(self.folder))
        self.check(done)
        self.assertGreater(done.summary["planned_iterations"], 0)
        self.one_warning(done, "plans are not kept", "/dev/full/cache")

    @unittest.skipUnless(can_mount(), "mounting is not allowed here")
    def test_full_disks(self):
        """The cache's and every one that files could go to: a planner's have no names, so there is a plan; it is not kept."""
        small = self.folder / "small"
        small.mkdir()
        fill = (f"for disk in {small} /dev/shm; do mount -t tmpfs -o size=64k none $disk; mkdir $disk/cache; "
                "cat /dev/zero > $disk/filler 2>/dev/null || true; done; exec \"$@\"")
        done = run(DEVICE, [*SPACE, fill, "sh", *DIGITS],
                   "--policy", "hybrid", "--memory", f"{CAP}MiB",
                   env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": f"{small}/cache", "TMPDIR": str(small),
                        "POOCH_REPORT": str(self.folder),
                        "OPENBLAS_NUM_THREADS": "1"})  # the software GPU's; unshare may have no other thread
        self.check(done)
        self.assertGreater(done.summary["planned_iterations"], 0)
        self.one_warning(done, "plans are not kept", "No space left on device")

    # --- the cache

    def planned_once(self, cap=CAP, command=None):
        """The cache's entries."""
        first = self.train(command=command, cap=cap)
        self.assertEqual(first.status, 0, first.err)
        self.assertGreater(first.summary["planned_iterations"], 0, first.err)
        return sorted(self.cache.iterdir())

    def ignored(self, why, planned=True):
        done = self.train()
        self.check(done)
        self.assertEqual(done.summary["planned_iterations"] > 0, planned, done.err)
        self.assertTrue(any("warning" in line and why in line for line in done.pooch_lines()), done.err)

    def test_corrupt_entries_are_ignored_and_written_anew(self):
        entries = self.planned_once()
        good = [entry.read_bytes() for entry in entries]
        for damage in (lambda text: text[:len(text) // 2], lambda text: b"", lambda text: os.urandom(len(text))):
            for entry, text in zip(entries, good):
                entry.write_bytes(damage(text))
            self.ignored("cached plan ignored")
            again = self.train()
            self.check(again)
            self.assertNotIn("cached plan ignored", again.err)
            for entry in entries:
                self.assertEqual(json.loads(entry.read_text())["schema"], json.loads(good[0])["schema"])

    def test_foreign_entries_are_ignored(self):
        entries = self.planned_once()
        texts = [json.loads(entry.read_text()) for entry in entries]
        other = self.planned_once(command=[TRAIN, "--network", "digits", "--iterations", "8", "--width", "48"])
        foreign = json.loads(next(e for e in other if e not in entries).read_text())
        with self.subTest("a whole entry of another network"):
            for entry in entries:
                entry.write_text(json.dumps(foreign, separators=(",", ":")))
            self.ignored("cached plan ignored")
        with self.subTest("another network's plan under the right name"):
            for entry, text in zip(entries, texts):
                entry.write_text(json.dumps({**foreign, "made_for": text["made_for"]}, separators=(",", ":")))
            self.ignored("cached plan ignored")
        with self.subTest("another network's actions, all names right"):
            for entry, text in zip(entries, texts):
                mixed = {**text, **{part: foreign[part] for part in ("maps", "before", "after")}}
                entry.write_text(json.dumps(mixed, separators=(",", ":")))
            self.check(self.train())

    # --- ops that nobody expected

    def test_an_op_in_the_middle_of_backward_that_the_plan_does_not_expect(self):
        command = [TRAIN, "--network", "digits", "--iterations", "12", "--inspect-gradient", "9", "--json"]
        in_core = run(DEVICE, command, "--no-pooch")
        self.assertIn("gradient norm", in_core.weights[-1])
        self.assertEqual(in_core.losses[:8], self.in_core.losses[:8])
        for policy, cap in (("hybrid", 64), ("superneurons", 160), ("swap-all", 120)):
            with self.subTest(policy=policy, cap=cap):
                done = self.train(command, policy, cap)
                self.check(done, in_core, cap)
                self.assertGreater(done.summary["planned_iterations"], 2, done.err)
                self.assertGreaterEqual(done.summary["plans_left"], 1, "the plan did not expect it")
                if policy not in ("swap-all",):
                    self.assertGreater(done.summary["replays"], 0)

    # --- copies

    def failed_or_right(self, done):
        if done.status == 0:
            return self.check(done)
        self.assertEqual(done.losses, self.in_core.losses[:len(done.losses)], "what it learnt until then is right")
        # Where it failed in what comes after the training, so are the weights that it read until then.
        self.assertEqual(done.weights, self.in_core.weights[:len(done.weights)])
        self.assertRegex(done.err, r"(?m)^train: ", "the program saw an error of its own call")
        # Where the copy was the program's own, so is what happens next.
        if "train: cudaMemcpyAsync" not in done.err:
            self.assertEqual(done.device["violations"], [], done.err)
            self.assertEqual(len([line for line in done.pooch_lines() if "error" in line]), 1, done.err)

    def test_a_copy_that_fails(self):
        dice = random.Random(SEED)
        for policy in ("hybrid", "demand"):
            whole = self.train(policy=policy)
            self.check(whole)
            for function, count in (("cuMemcpyDtoHAsync_v2", whole.device["copies_out"]),
                                    ("cuMemcpyHtoDAsync_v2", whole.device["copies_in"])):
                for number in sorted(dice.sample(range(10, count), COPIES)):
                    for stays in ("", "+"):
                        with self.subTest(policy=policy, fails=f"{function}:{number}{stays}"):
                            self.failed_or_right(self.train(policy=policy, SOFTGPU_FAIL=f"{function}:{number}{stays}"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
