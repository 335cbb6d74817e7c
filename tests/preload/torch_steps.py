"""What PyTorch's training scripts do around their steps: plans are followed, and nothing is unforeseen.

usage: torch_steps.py BUILD_FOLDER SOURCE_ROOT PYTHON [real | steady] [seeds=N,...] [ROW]...

Each row trains a GPT or a network of convolutions at half of its need, on the software GPU, or on this machine's. It must find its iterations and follow a plan, no
launch may touch what nobody foresees, what it prints must be what it prints without pooch, and an iteration may take 1.05 times as
long as the plan foretells; where torch.compile makes the kernels, 1.2 times as long as in-core too. With sequences of four lengths in turn an
iteration may take 1.15 times as long as in-core, and where each batch is of another length 1.35 times. The software GPU does not know
what Triton's kernels compute, so what such a program prints is `nan`. All rows run where none is named. With seeds each row runs
once with the noise of each, and the median counts: the clock drifts, and no two runs meet the same stretch of it. What is compared
with in-core is run with three seeds where none is said.
"""
import pathlib
import re
import statistics
import sys
import tempfile
import unittest

from runs import MIB, STEADY, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import missed  # noqa: E402

SOURCE, PYTHON = pathlib.Path(sys.argv[2]), sys.argv[3]
SEEDS = [seed for word in sys.argv[4:] if word.startswith("seeds=") for seed in word[len("seeds="):].split(",")]
NAMED = [word for word in sys.argv[4:] if word not in ("real", "steady") and not word.startswith("seeds=")]
GPT = ["gpt.py", "--layers", 12, "--width", 768, "--batch", 16, "--vocabulary", 8192]
DEVICE = "real" if "real" in sys.argv[4:] else "soft:h200:timing" + (STEADY if "steady" in sys.argv[4:] else "")
ROWS = {
    "plain": [*GPT, "--optimizer", "adamw-plain"],
    "foreach": [*GPT, "--optimizer", "adamw"],
    "fused": [*GPT, "--optimizer", "adamw-fused"],
    "clip": [*GPT, "--clip"],
    "scaler": [*GPT, "--optimizer", "adamw-fused", "--half"],
    "scaler-clip": [*GPT, "--optimizer", "adamw-fused", "--half", "--clip"],
    "efficient": [*GPT, "--attention", "efficient"],
    "flash": [*GPT, "--attention", "flash", "--amp"],
    "cudnn": [*GPT, "--attention", "cudnn", "--amp"],
    "compiled": [*GPT, "--compile"],
    "compiled-resnet50": ["resnet50.py", "--batch", 256, "--compile"],
    "lengths": [*GPT, "--optimizer", "adamw-plain", "--lengths", "1024,768,512,384"],
    "any-length": [*GPT, "--optimizer", "adamw-plain", "--any-length"],
    "short-ops": ["../../tests/preload/short_ops_program.py", "--batch", 128],
}
FEW, ITERATIONS = 24, 40
LIMIT, COMPILED_LIMIT = 1.05, 1.2
LENGTHS_LIMITS = {"lengths": 1.15, "any-length": 1.35}


class Steps(unittest.TestCase):
    def program(self, device, row, iterations, *pooch, **env):
        name, *options = ROWS[row]
        done = run(device, [PYTHON, SOURCE / "examples/pytorch" / name, *options, "--iterations", iterations], *pooch,
                   env={"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_LOG": "info", **env}, timeout=600)
        self.assertEqual(done.status, 0, done.err)
        if done.device is not None:
            self.assertEqual(done.device["violations"], [])
            if "--compile" not in ROWS[row]:
                self.assertEqual(done.device["tokens"]["unknown"], {})
        return done

    def carry_out(self, device, row):
        """Times its prediction, and times in-core."""
        # Several phases, each of which has to be known; or one, whose sizes have to be.
        few, all_of_them, unplanned = (60, 100, 24) if row in LENGTHS_LIMITS else (FEW, ITERATIONS, 8)
        cap = self.program(device, row, few if row == "any-length" else 2).summary["need_bytes"] // 2 // MIB
        in_core_few, in_core = (self.program(device, row, n, "--no-pooch") for n in (few, all_of_them))
        with tempfile.TemporaryDirectory() as cache:
            # Once settled: what more iterations take in two runs that take their plan from a third.
            _, less, done = (self.program(device, row, n, "--memory", f"{cap}MiB", POOCH_CACHE=cache) for n in (few, few, all_of_them))
        summary = done.summary
        self.assertEqual(re.findall("(?m)^iteration.*", done.out), re.findall("(?m)^iteration.*", in_core.out))
        self.assertEqual(summary["unforeseen_kernels"], [])
        self.assertEqual(summary["unforeseen_ops"], 0)
        self.assertIn(summary["iterations"], range(all_of_them - 4, all_of_them + 1))
        self.assertGreaterEqual(summary["planned_iterations"], all_of_them - unplanned)
        self.assertEqual(summary["mismatches"], 0)
        if done.device is None:  # no virtual time: all planned iterations, and ops alone
            ms, in_core_ms = summary["actual_ms"], float(re.findall(r"([\d.]+) ms in core", done.err)[-1])
        else:
            ms, in_core_ms = ((more.device["virtual_ns"] - earlier.device["virtual_ns"]) / (all_of_them - few) / 1e6
                              for more, earlier in ((done, less), (in_core, in_core_few)))
        ratio, over = ms / summary["predicted_ms"], ms / in_core_ms
        print(f"{row}: {cap} MiB, in-core {in_core_ms:.1f} ms, predicted {summary['predicted_ms']:.1f}, executed {ms:.1f} ({ratio:.3f}, "
              f"{over:.3f} times in-core); {summary['planned_iterations']} of {summary['iterations']} iterations planned, "
              f"{summary['verified']} maps compared", flush=True)
        return ratio, over

    def row(self, row):
        noisy = DEVICE.startswith("soft") and "noise" not in DEVICE
        seeds = SEEDS or (["1", "2", "3"] if noisy and "--compile" in ROWS[row] else [])
        devices = [f"{DEVICE}:noise=2,{seed}" for seed in seeds] or [DEVICE]
        ratio, over = (statistics.median(figures) for figures in zip(*(self.carry_out(device, row) for device in devices)))
        if row in LENGTHS_LIMITS:  # the prediction is of one of them
            return self.keeps(row + ", over in-core", over, LENGTHS_LIMITS[row])
        self.keeps(row, ratio, LIMIT)
        if "--compile" in ROWS[row]:
            self.keeps(row + ", over in-core", over, COMPILED_LIMIT)

    def test_generate(self):
        """Token by token, over keys and values that grow with each: no step is of the size of another."""
        command = [PYTHON, SOURCE / "tests/bench/torch_decoder.py", "--generate", "--layers", 12, "--batch", 32, "--iterations", 100]
        in_core = run(DEVICE, command, "--no-pooch", timeout=600)
        done = run(DEVICE, command, "--memory", "2400MiB", timeout=600, env={"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1"})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(re.findall("(?m)^token.*", done.out), re.findall("(?m)^token.*", in_core.out))
        self.assertGreaterEqual(done.summary["any_size_iterations"], 50, done.err)
        if done.device is not None:
            self.assertEqual(done.device["violations"], [])

    def test_adamw_at_a_third(self):
        """Sixty iterations, whose losses say where they come from where nothing is computed."""
        name, *options = ROWS["plain"]
        command = [PYTHON, SOURCE / "examples/pytorch" / name, *options, "--iterations", 60]
        in_core = run(DEVICE, command, "--no-pooch", timeout=600)
        need = run(DEVICE, [*command[:-1], 2], "--policy", "keep", timeout=600).summary["need_bytes"]
        done = run(DEVICE, command, "--memory", f"{need // 3 // MIB}MiB", timeout=600,
                   env={"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1"})
        self.assertEqual(done.status, 0, done.err)
        losses = re.findall("(?m)^iteration.*", in_core.out)
        self.assertEqual(len(losses), 60)
        self.assertEqual(re.findall("(?m)^iteration.*", done.out), losses)
        self.assertGreaterEqual(done.summary["planned_iterations"], 50, done.err)
        self.assertEqual(done.summary["mismatches"], 0)

    def test_captured_blocks(self):
        """make_graphed_callables, whose captures free in streams of their own; all fits, so nothing is planned."""
        command = [PYTHON, SOURCE / "tests/programs/graphed.py", "--layers", 4, "--iterations", 20]
        in_core = run(DEVICE, command, "--no-pooch", timeout=600)
        done = run(DEVICE, command, timeout=600, env={"POOCH_POLICY": "", "POOCH_WAIT_FOR_PLANS": "1"})
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(re.findall("(?m)^iteration.*", done.out), re.findall("(?m)^iteration.*", in_core.out))
        self.assertEqual((done.summary["planned_iterations"], done.summary["evictions"]), (0, 0))
        if done.device is not None:
            self.assertEqual(done.device["violations"], [])

    @unittest.skipUnless(DEVICE.startswith("soft"), "a device with more memory than all that is ever asked for")
    def test_where_all_fits(self):
        """Lengths that never recur take no more memory than PyTorch's own allocator keeps, give or take a tenth."""
        roomy = DEVICE + ":memory=1TiB"
        own, done = (self.program(roomy, "any-length", 100, *how, POOCH_POLICY="keep") for how in (("--no-pooch",), ()))
        self.assertEqual(re.findall("(?m)^iteration.*", done.out), re.findall("(?m)^iteration.*", own.out))
        self.assertLessEqual(done.device["peak_bytes"], 1.1 * own.device["peak_bytes"])

    def keeps(self, what, figure, limit):
        if round(figure, 3) > limit:
            self.assertLessEqual(round(figure, 3), missed.figure("torch_steps: " + what, limit))


def named(row):
    return lambda self: self.row(row)


OTHERS = ("generate", "adamw-at-a-third", "where-all-fits")
for name in ROWS:
    setattr(Steps, "test_" + name.replace("-", "_"), named(name))
for name in (*ROWS, *OTHERS):
    if NAMED and name not in NAMED:
        delattr(Steps, "test_" + name.replace("-", "_"))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
