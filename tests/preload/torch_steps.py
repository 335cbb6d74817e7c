"""What PyTorch's training scripts do around their steps: plans are followed, and nothing is unforeseen.

usage: torch_steps.py BUILD_FOLDER SOURCE_ROOT PYTHON [real] [ROW]...

Each row trains a GPT at half of its need, on the software GPU, or on this machine's. It must find its iterations and follow a plan, no launch may touch
what nobody foresees, what it prints must be what it prints without pooch, and an iteration may take 1.05 times as long as
the plan foretells. The rows of ALWAYS run where none is named; `all` names all.
"""
import pathlib
import re
import sys
import unittest

from runs import MIB, run

SOURCE, PYTHON = pathlib.Path(sys.argv[2]), sys.argv[3]
NAMED = [word for word in sys.argv[4:] if word != "real"]
GPT = ["gpt.py", "--layers", 12, "--width", 768, "--batch", 16, "--vocabulary", 8192]
DEVICE = "real" if "real" in sys.argv[4:] else "soft:h200:timing"
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
}
ALWAYS = ["clip", "scaler", "flash"]
LIMIT = 1.05


class Steps(unittest.TestCase):
    def program(self, row, iterations, *pooch, **env):
        name, *options = ROWS[row]
        done = run(DEVICE, [PYTHON, SOURCE / "examples/pytorch" / name, *options, "--iterations", iterations], *pooch,
                   env={"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1", "POOCH_LOG": "info", **env}, timeout=600)
        self.assertEqual(done.status, 0, done.err)
        if done.device is not None:
            self.assertEqual(done.device["violations"], [])
            self.assertEqual(done.device["tokens"]["unknown"], {})
        return done

    def row(self, row):
        need = self.program(row, 2).summary["need_bytes"]
        in_core = self.program(row, 20, "--no-pooch")
        done = self.program(row, 20, "--memory", f"{need // 2 // MIB}MiB")
        summary = done.summary
        self.assertEqual(re.findall("(?m)^iteration.*", done.out), re.findall("(?m)^iteration.*", in_core.out))
        self.assertEqual(summary["unforeseen_kernels"], [])
        self.assertEqual(summary["unforeseen_ops"], 0)
        self.assertGreaterEqual(summary["iterations"], 15)
        self.assertGreaterEqual(summary["planned_iterations"], 8)
        self.assertEqual(summary["mismatches"], 0)
        ratio = summary["actual_ms"] / summary["predicted_ms"]
        print(f"{row}: need {need / MIB:.0f} MiB, predicted {summary['predicted_ms']:.2f} ms, {ratio:.3f} times as long; "
              f"{summary['planned_iterations']} of {summary['iterations']} iterations planned, {summary['replays']} replays", flush=True)
        self.assertLessEqual(ratio, LIMIT)


def named(row):
    return lambda self: self.row(row)


rows = list(ROWS) if NAMED == ["all"] else NAMED or ALWAYS
for name in rows:
    setattr(Steps, "test_" + name.replace("-", "_"), named(name))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
