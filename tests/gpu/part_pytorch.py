"""Plain PyTorch, the examples of examples/pytorch as they are: the same bits with pooch as without."""
import functools
import json
import pathlib
import subprocess

import judge
from checks import require, skipping
from programs import MIB

AROUND = pathlib.Path(__file__).resolve().parent / "torch_example.py"
MODELS = {"resnet50-fp32": ["resnet50.py", "--batch", "64"],
          "resnet50-bf16": ["--bf16", "resnet50.py", "--batch", "64", "--channels-last"],
          "gpt": ["gpt.py", "--batch", "4"]}
CAP_SHARE = 0.5  # of what PyTorch holds in-core
VERIFIED = ("resnet50-fp32", "gpt")  # every replay's every map compared, in a third of that
VERIFIED_SHARE = 1 / 3
ITERATIONS = 20


def torch_version(python):
    """None where it is not installed for that Python."""
    try:
        said = subprocess.run([python, "-c", "import torch, torchvision; print(torch.__version__)"], capture_output=True,
                              text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None


def example(programs, python, words):
    """The command for an example, with what stands around it. `words`: options of torch_example.py, script, its options."""
    at = next(i for i, word in enumerate(words) if word.endswith(".py"))
    return [python, "-B", AROUND, *words[:at], programs.examples / words[at], *words[at + 1:]]


def said(run):
    """What torch_example.py says at the end."""
    require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
    return json.loads(run.out.strip().splitlines()[-1])


class PyTorch:
    def __init__(self, programs, device, python):
        self.programs, self.device, self.python = programs, device, python

    def command(self, model):
        return example(self.programs, self.python, ["--deterministic", *MODELS[model], "--iterations", str(ITERATIONS)])

    @functools.lru_cache(maxsize=None)
    def in_core(self, model):
        return said(self.programs.run(self.device, self.command(model), "--no-pooch"))

    def twice(self, model):
        again = said(self.programs.run(self.device, self.command(model), "--no-pooch"))
        compare(self.in_core(model), again, "a second run without pooch", {})
        return again

    def verified(self, model):
        numbers = self.check(model, VERIFIED_SHARE, POOCH_VERIFY="all")
        require(numbers["replays"] > 0 and numbers["verified"] > 0,
                f"{numbers['verified']} maps of {numbers['replays']} replays were compared", numbers)
        return numbers

    def check(self, model, share=CAP_SHARE, **env):
        cap = int(self.in_core(model)["peak_reserved_bytes"] * share) // MIB * MIB
        run = self.programs.run(self.device, self.command(model), "--policy", "hybrid", "--memory", str(cap),
                                env={"POOCH_WAIT_FOR_PLANS": "1"} | env)
        numbers = dict(run.summary or {})
        compare(self.in_core(model), said(run), "with pooch", numbers)
        require(numbers["mismatches"] == 0, f"{numbers['mismatches']} replays made something else", numbers)
        require(numbers["peak_device_bytes"] <= cap, "the peak is above the cap", numbers)
        require(numbers["evictions"] > 0, "nothing left the device, so nothing was shown", numbers)
        require(numbers["planned_iterations"] > 0, "no iteration followed a plan", numbers)
        return numbers

    def checks(self):
        why_not = None
        if self.device.software:
            why_not = "the software GPU does not compute PyTorch's own kernels"
        elif torch_version(self.python) is None:
            why_not = f"torch and torchvision are not installed for {self.python} (--python)"
        elif not self.programs.examples.is_dir():
            why_not = "examples/pytorch is not there"
        for model in MODELS:
            yield f"{model}/in-core-twice", skipping(why_not) if why_not else functools.partial(self.twice, model)
            yield f"{model}/hybrid", skipping(why_not) if why_not else functools.partial(self.check, model)
        for model in VERIFIED:
            yield f"{model}/verify-all", skipping(why_not) if why_not else functools.partial(self.verified, model)


def compare(reference, run, what, numbers):
    wrong = judge.losses(reference["losses"], run["losses"], what)
    require(not wrong, "; ".join(wrong), numbers)
    require(run["weights"] == reference["weights"] and run["weights"], f"{what} the weights differ, or there are none", numbers)
    require(len(run["losses"]) == ITERATIONS, f"{what} there are {len(run['losses'])} losses of {ITERATIONS}", numbers)
