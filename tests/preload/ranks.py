"""Processes of one job: they share the node's host budget, and each leaves its own summary.

usage: ranks.py BUILD_FOLDER [TEST]...
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from runs import BUILD, MIB, POOCH, TRAIN

DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
# Two of them, as a launcher would start them; each has a software GPU of its own.
LAUNCHER = """
import os, subprocess, sys
count, variables, folder, command = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3], sys.argv[4:]
started = []
for rank in range(count):
    env = dict(os.environ)
    env.update({v: str(count if v.endswith("SIZE") else rank) for v in variables})
    env["SOFTGPU_REPORT"] = f"{folder}/device-{rank}"
    started.append(subprocess.Popen([*command, "--seed", str(rank + 1), "--loss-log", f"{folder}/losses-{rank}"],
                                    env=env, stdout=subprocess.DEVNULL))
sys.exit(max(each.wait() for each in started))
"""
# What mpirun starts in each of its ranks.
RANK = """
export SOFTGPU_REPORT="$0/device-$OMPI_COMM_WORLD_RANK"
exec "$@" --seed $((OMPI_COMM_WORLD_RANK + 1)) --loss-log "$0/losses-$OMPI_COMM_WORLD_RANK" >"$0/said-$OMPI_COMM_WORLD_RANK"
"""
TRAINER = [TRAIN, "--network", "digits", "--batch", "256", "--iterations", "4"]
TORCHRUN = "LOCAL_RANK LOCAL_WORLD_SIZE RANK"
OPEN_MPI = "OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_RANK"


class Ranks(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, *options, count=2):
        """Losses by rank, and what `pooch run` said and wrote; `options` end with the command."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("POOCH_", "SOFTGPU_", "LD_", "OMPI_", "PMIX_"))}
        done = subprocess.run([POOCH, "run", "--device", DEVICE, *options], env=environment, capture_output=True,
                              text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(count):
            self.assertEqual(json.loads((self.folder / f"device-{rank}").read_text())["violations"], [])
        return [(self.folder / f"losses-{rank}").read_text() for rank in range(count)], done.stderr

    def launch(self, variables, *options, count=2):
        return self.start(*options, "--", sys.executable, "-c", LAUNCHER, str(count), variables, self.folder, *TRAINER)

    def mpirun(self, *options):
        return self.start(*options, "--", "mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", "sh", "-c",
                          RANK, self.folder, *TRAINER)

    def capped(self, start, *words, cap="64MiB", host="400MiB"):
        summary = self.folder / "summary"
        losses, said = start(*words, "--memory", cap, "--host-memory", host, "--summary", str(summary))
        return losses, said, json.loads(summary.read_text())

    def check_shared(self, plain, losses, said, summaries):
        self.assertEqual(losses, plain)
        self.assertEqual(sorted(summaries), ["rank-0", "rank-1"])
        for each in summaries.values():
            self.assertEqual(each["host_budget_bytes"], 200 * MIB)
            self.assertGreater(each["evictions"], 0)
        self.assertEqual(said.count("pooch: rank-1\n"), 1)

    def test_two_ranks_share_the_host_budget_and_learn_the_same(self):
        plain, _ = self.launch(TORCHRUN, "--no-pooch")
        self.assertNotEqual(plain[0], plain[1])
        for variables in (TORCHRUN, OPEN_MPI):
            with self.subTest(variables):
                self.check_shared(plain, *self.capped(self.launch, variables))

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun (openmpi-bin) is not installed")
    def test_two_ranks_under_mpirun_share_the_host_budget_and_learn_the_same(self):
        plain, _ = self.mpirun("--no-pooch")
        self.assertNotEqual(plain[0], plain[1])
        self.check_shared(plain, *self.capped(self.mpirun))

    def test_processes_that_are_no_ranks_leave_a_summary_each(self):
        _, _, summaries = self.capped(self.launch, "SOME_VARIABLE")
        self.assertEqual(len(summaries), 2)
        self.assertIn("", summaries)
        self.assertRegex(sorted(summaries)[1], r"^process-\d+$")
        for each in summaries.values():
            self.assertEqual(each["host_budget_bytes"], 400 * MIB)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
