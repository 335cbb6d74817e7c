"""pooch's files and signals: nothing of it harms the program, and the launcher and its command die together.

usage: outputs.py BUILD_FOLDER
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from runs import BUILD, POOCH, TRAIN, clean_environment, run

PROGRAM = BUILD / "tests/preload/lifecycle_program"
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
DIGITS = [str(TRAIN), "--network", "digits", "--iterations"]
# No shell: the software GPU's libraries bring OpenBLAS, which starts a thread in each process. Dash blocks
# signals in its own thread while it starts a command, so that thread gets them, and dash's handler drops them.
WAITS_FOR = """
import signal, sys, time
def told(*_):
    print("told", flush=True)
    sys.exit(7)
signal.signal(signal.Signals[sys.argv[1]], told)
print("ready", flush=True)
while True:
    time.sleep(1)
"""
# Whoever started this may have had them ignored, and Python handles no SIGINT that it found ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(each, signal.SIG_DFL)
CLEAN = clean_environment()


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Outputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def environment(self, **more):
        return {**CLEAN, "TMPDIR": str(self.temporary), "POOCH_POLICY": "demand", **{k: str(v) for k, v in more.items()}}

    def start(self, *words, options=(), **kinds):
        kinds.setdefault("env", self.environment())
        kinds.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([str(POOCH), "run", "--device", DEVICE, "--memory", "16MiB", *map(str, options), "--",
                                 *map(str, words)], stdout=subprocess.PIPE, text=True, **kinds)

    def child_of(self, process):
        children = pathlib.Path(f"/proc/{process}/task/{process}/children")
        self.assertTrue(wait_until(lambda: children.read_text().split()))
        return int(children.read_text().split()[0])


class Signals(Outputs):
    def test_the_reader_of_stderr_may_go_away(self):
        reads, writes = os.pipe()
        os.close(reads)
        env = self.environment(POOCH_LOG="debug", POOCH_SUMMARY=self.folder / "summary")
        with self.start(PROGRAM, "until_terminated_politely", stderr=writes, env=env) as running:
            os.close(writes)
            self.assertEqual(running.stdout.readline(), "working\n")
            running.send_signal(signal.SIGTERM)
            out, _ = running.communicate(timeout=120)
        self.assertEqual((running.returncode, out), (0, "ended\n"))
        self.assertTrue((self.folder / "summary/summary.json").exists())

    def test_files_that_may_not_grow_are_no_end_of_the_program(self):
        report, log, calls = self.folder / "report", self.folder / "log", self.folder / "calls"
        env = self.environment(POOCH_REPORT=report, POOCH_TRACE=self.folder / "trace", POOCH_LOG="debug",
                               POOCH_RECORD=calls, POOCH_LOG_FILE=log)
        with self.start(PROGRAM, "until_terminated_politely", env=env) as running:
            self.assertEqual(running.stdout.readline(), "working\n")
            # As `ulimit -f` does, but not before the software GPU has its memory: that is a file, too.
            resource.prlimit(self.child_of(running.pid), resource.RLIMIT_FSIZE, (100, 100))
            held = {path: path.stat().st_size for path in (log, calls)}
            time.sleep(0.5)
            running.send_signal(signal.SIGTERM)
            out, err = running.communicate(timeout=120)
        self.assertEqual((running.returncode, out), (0, "ended\n"), err)
        self.assertEqual(list(report.iterdir()), [], "neither a file that is half there nor a draft")
        self.assertFalse((self.folder / "trace").exists())
        for path, size in held.items():
            self.assertLessEqual(path.stat().st_size, max(size, 100), path)


class Launcher(Outputs):
    def test_it_hands_signals_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(signal=number.name):
                with self.start(sys.executable, "-c", WAITS_FOR, number.name) as running:
                    self.assertEqual(running.stdout.readline(), "ready\n")
                    running.send_signal(number)
                    out, err = running.communicate(timeout=60)
                self.assertEqual((running.returncode, out), (7, "told\n"), err)

    def test_who_kills_it_kills_the_command_and_the_next_one_sweeps(self):
        with self.start(PROGRAM, "until_terminated") as running:
            self.assertEqual(running.stdout.readline(), "working\n")
            program = self.child_of(running.pid)
            running.kill()
            running.communicate(timeout=60)
        self.assertTrue(wait_until(lambda: not alive(program), 20), "the program goes on")
        self.assertEqual(len(list(self.temporary.iterdir())), 1, "its folder could not be removed")
        like_it = self.temporary / "pooch-tmp-abcdef"
        like_it.mkdir()
        (like_it / "precious").write_text("")
        with self.start("true") as running:
            running.communicate(timeout=60)
        self.assertEqual(list(self.temporary.iterdir()), [like_it])


class Tools(Outputs):
    def pooch(self, *words, **kinds):
        return subprocess.run([str(POOCH), *map(str, words)], env=self.environment(), capture_output=True, text=True,
                              timeout=120, **kinds)

    def setUp(self):
        super().setUp()
        report = self.folder / "report"
        done = run("soft:v100-pcie3:timing", [*DIGITS, "6"], env={"POOCH_REPORT": str(report)})
        self.assertEqual(done.status, 0, done.err)
        self.plan = ["plan", report / "profile.json", "--memory", "1GiB", "--link-out", "12e9", "--link-in", "12e9", "-o"]

    def test_a_plan_goes_where_it_is_told_to(self):
        plain = self.folder / "plan.json"
        done = self.pooch(*self.plan, plain)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("-", "/dev/stdout", "/dev/fd/1"):
            with self.subTest(output=name):
                to_stdout = self.pooch(*self.plan, name)
                self.assertEqual((to_stdout.returncode, to_stdout.stdout), (0, plain.read_text()))
                self.assertEqual(to_stdout.stderr, done.stdout, "the line for people is beside it")
        self.assertTrue(pathlib.Path("/dev/stdout").is_symlink())
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
            self.assertEqual(self.pooch(*self.plan, pipe).returncode, 0)
            self.assertEqual(reader.communicate(timeout=60)[0], plain.read_text())
        self.assertTrue(pipe.is_fifo())
        link = self.folder / "link"
        (self.folder / "far").write_text("old")
        link.symlink_to("far")
        self.assertEqual(self.pooch(*self.plan, link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual((self.folder / "far").read_text(), plain.read_text())

    def test_a_recording_that_came_to_nothing_removes_no_pipe_and_no_link(self):
        link, pipe = self.folder / "link", self.folder / "pipe"
        link.symlink_to("/dev/null")
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.DEVNULL) as reader:
            for output in (link, pipe):
                done = self.pooch("record", "-o", output, "--device", DEVICE, "--", "true")
                self.assertEqual(done.returncode, 3, done.stderr)
            reader.wait(timeout=60)
        self.assertTrue(link.is_symlink())
        self.assertTrue(pipe.is_fifo())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
