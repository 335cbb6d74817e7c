"""`pooch record`, and what `pooch graph` makes of recordings: of those that are kept here, and of new ones.

usage: record.py BUILD_FOLDER [TEST]...
"""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from runs import POOCH, STEADY, TRAIN, clean_environment, run

KEPT = pathlib.Path(__file__).resolve().parent.parent / "recordings"
TIMING = "soft:v100-pcie3:timing"
SMALL = ["--input-size", "32", "--batch", "8"]


def environment(**more):
    clean = clean_environment()
    return {**clean, **{k: str(v) for k, v in more.items()}}


def pooch(*words, env=None, timeout=120):
    return subprocess.run([str(POOCH), *map(str, words)], env=env or environment(), capture_output=True, text=True,
                          timeout=timeout)


def graph(path, *options):
    done = pooch("graph", path, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def described(network):
    done = run(TIMING, [TRAIN, "--network", network, *SMALL, "--describe"], "--no-pooch")
    assert done.status == 0, done.err
    text = json.loads(done.out)
    return {"layers": [*text["layers"], text["loss"]]}


def kinds(network):
    return collections.Counter(layer["kind"] for layer in network["layers"])


class Kept(unittest.TestCase):
    def test_the_recordings_hold_the_networks_that_their_names_tell(self):
        found = sorted(KEPT.glob("*.zst"))
        self.assertGreaterEqual(len(found), 2)
        for path in found:
            with self.subTest(recording=path.name):
                self.assertLess(path.stat().st_size, 100_000)
                layers, said = graph(path)
                self.assertEqual(said, "", "the recording is complete")
                self.assertEqual(kinds(layers), kinds(described(path.stem.split("-")[0])))


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "calls.zst"

    def record(self, *words, options=(), env=None):
        return pooch("record", "-o", self.file, "--device", TIMING, *options, "--", *words, env=env)

    def test_a_recording_tells_what_the_profile_of_the_same_run_tells(self):
        env = environment(POOCH_REPORT=self.folder)
        done = self.record(TRAIN, "--network", "resnet50", *SMALL, "--iterations", 4, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pooch: recorded ", done.stderr)
        profile = json.loads((self.folder / "profile.json").read_text())
        self.assertGreater(len(profile["phases"]), 0)
        for phase in profile["phases"]:
            online, _ = graph(self.folder / "profile.json", "--phase", phase["id"])
            offline, said = graph(self.file, "--phase", phase["id"])
            self.assertEqual(said, "")
            for network in (online, offline):
                for layer in network["layers"]:
                    for key in [key for key in layer if key.endswith("_us")]:
                        del layer[key]
            self.assertEqual(offline, online)

    def test_the_command_and_its_output_are_as_under_run(self):
        done = self.record("sh", "-c", "echo out; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\n"))
        self.assertFalse(self.file.exists())
        plain = run(TIMING + STEADY, [TRAIN, "--network", "resnet50", *SMALL, "--iterations", "2"])
        done = self.record(TRAIN, "--network", "resnet50", *SMALL, "--iterations", 2)
        self.assertEqual((done.returncode, done.stdout), (0, plain.out))

    def test_a_command_that_uses_no_gpu_leaves_no_recording(self):
        done = self.record("true")
        self.assertEqual(done.returncode, 3)
        self.assertIn("record: the command used no memory of a GPU", done.stderr)
        self.assertFalse(self.file.exists())

    def test_a_killed_program_leaves_a_readable_recording(self):
        losses = self.folder / "losses"
        command = [str(word) for word in ("record", "-o", self.file, "--device", TIMING, "--", TRAIN, "--network",
                                          "googlenet", *SMALL, "--iterations", 100000, "--loss-log", losses)]
        # The shell stands for a program that starts the one that is killed.
        command[command.index("--") + 1:] = ["sh", "-c", '"$@" & echo $! > "$0"; wait', str(self.folder / "pid"),
                                             *command[command.index("--") + 1:]]
        started = subprocess.Popen([str(POOCH), *command], env=environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not (losses.exists() and losses.read_text().count("\n") > 6):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        _, err = started.communicate(timeout=60)
        self.assertNotIn("error", err)
        layers, said = graph(self.file)
        self.assertIn("it stops before the program's own end", said)
        self.assertEqual(kinds(layers), kinds(described("googlenet")))

    def test_what_is_left_behind_does_not_keep_the_recording_open(self):
        # As a worker that was forked from the program and outlives it.
        script = 'exec 3>"$POOCH_RECORD"; "$@"; sleep 20 >/dev/null 2>&1 & exit 0'
        start = time.monotonic()
        done = self.record("sh", "-c", script, "sh", TRAIN, "--network", "googlenet", *SMALL, "--iterations", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - start, 15)
        self.assertTrue(self.file.exists())

    def test_of_two_programs_the_first_is_recorded_and_both_run(self):
        train = [str(TRAIN), "--network", "googlenet", *SMALL, "--iterations"]
        done = self.record("sh", "-c", f"{' '.join(train)} 3 && {' '.join(train)} 1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "POOCH_RECORD: .*; (nothing is recorded|the recording ends here)\n")
        self.assertEqual(kinds(graph(self.file)[0]), kinds(described("googlenet")))

    def test_the_library_alone_writes_the_plain_stream(self):
        plain = self.folder / "calls"
        done = run(TIMING, [TRAIN, "--network", "googlenet", *SMALL, "--iterations", "3"],
                   env={"POOCH_RECORD": str(plain)})
        self.assertEqual(done.status, 0, done.err)
        self.assertTrue(plain.read_bytes().startswith(b"poochrec\x01"))
        self.assertEqual(kinds(graph(plain)[0]), kinds(described("googlenet")))

    def test_bad_usage_is_one_line(self):
        for words in (["record", "--", "true"], ["record", "-o", self.file],
                      ["record", "-o", self.folder / "none/calls", "--", "true"],
                      ["record", "-o", self.file, "--memory", "much", "--", "true"]):
            with self.subTest(words=words):
                done = pooch(*words)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, r"\Apooch: error: .*\n\Z")

    def test_a_damaged_recording_is_refused_in_one_line(self):
        kept = next(KEPT.glob("*.zst")).read_bytes()
        cases = {"magic": b"\x28\xb5\x2f\xfd", "cut": kept[:60], "changed": kept[:2000] + b"\0\0\0\0" + kept[2004:],
                 "version": b"poochrec\x07", "kind": b"poochrec\x01\0\0\0\0\0\x09"}
        for name, content in cases.items():
            with self.subTest(case=name):
                self.file.write_bytes(content)
                done = pooch("graph", self.file)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(f"pooch: error: graph: {self.file}: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
