"""The trainer with pooch, against itself without: the same losses and weights, under every policy."""
import functools

import judge
from checks import require, skipping
from programs import MIB

# Of the need, what each policy makes do with on digits (tests/preload/planned_policies.py), and some more.
SHARE = {"swap-all-unscheduled": 0.4, "swap-all": 0.35, "swap-opt": 0.35, "pooch": 0.35, "superneurons": 0.6, "vdnn-all": 0.45,
         "vdnn-conv": 0.75, "vdnn-dyn": 0.75, "lms": 0.45, "lms-sync": 0.35, "hybrid": 0.35}
SMALL_SHARE = 0.85
LAYOUT_SHARE = 0.15  # more, where a plan is followed: every address keeps its place
LIBRARIES = 160 * MIB  # of a device, beside the small network: workspaces and code of its libraries, 116 MiB on an H200
FIELDS = ("cap_bytes", "need_bytes", "peak_device_bytes", "iterations", "planned_iterations", "plans_left", "replays", "verified",
          "mismatches", "evictions", "predicted_ms", "actual_ms", "predicted_peak_bytes", "planned_peak_bytes")


class Bits:
    def __init__(self, programs, device, repetitions):
        self.programs, self.device, self.repetitions = programs, device, repetitions
        self.iterations = 10 if device.software else 24  # the first few are measured

    def command(self, network):
        of_digits = ["--batch", "256"] if self.device.software else []
        of_others = ["--input-size", "32", "--batch", "128"] if self.device.software else ["--batch", "64"]
        return [self.programs.train, "--network", network, "--iterations", str(self.iterations), "--json",
                *(of_digits if network == "digits" else of_others)]

    @functools.lru_cache(maxsize=None)
    def in_core(self, network):
        run = self.programs.run(self.device, self.command(network), "--no-pooch")
        require(run.status == 0, f"in-core, exit code {run.status}: {run.last_words()}")
        require(len(run.losses) == self.iterations, f"in-core, {len(run.losses)} losses of {self.iterations} iterations")
        return run

    def twice(self, network):
        """What differs from run to run without pooch cannot be compared with it."""
        again = self.programs.run(self.device, self.command(network), "--no-pooch")
        same(self.in_core(network), again, "a second run without pooch")
        return {"need_bytes": again.result()["need_bytes"], "loss": again.result()["loss"]}

    def check(self, network, policy, **env):
        for _ in range(self.repetitions):
            numbers = self.once(network, policy, env)
        return numbers

    def once(self, network, policy, env):
        need = self.in_core(network).result()["need_bytes"]
        share = SHARE.get(policy, 0.75) + (LAYOUT_SHARE if policy in SHARE else 0)
        if network != "digits" and self.device.software:
            share = SMALL_SHARE  # small images: most of the need are parameters
        cap = int(need * share) // MIB * MIB + (LIBRARIES if network == "digits" and not self.device.software else 0)
        limit = [] if policy == "keep" else ["--memory", str(cap)]
        run = self.programs.run(self.device, self.command(network), "--policy", policy, *limit,
                                env={"POOCH_WAIT_FOR_PLANS": "1", "POOCH_LOG": "info"} | env)
        require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
        numbers = {field: run.summary[field] for field in FIELDS}
        same(self.in_core(network), run, "with pooch", numbers)
        require(run.summary["mismatches"] == 0, f"{run.summary['mismatches']} replays made something else", numbers)
        peak = run.summary["peak_device_bytes"]
        require(policy == "keep" or peak <= cap, f"the peak of {peak} bytes is above the cap of {cap}", numbers)
        if self.device.software:
            require(run.device["violations"] == [], f"the software GPU complains: {run.device['violations'][:1]}", numbers)
        if policy not in ("demand", "keep"):
            require(run.summary["planned_iterations"] > 0, "no iteration followed a plan", numbers)
            if run.out_of_alias():
                numbers["remark"] = run.out_of_alias()
        return numbers

    def checks(self):
        if self.device.timing:
            yield "all", skipping("timing mode computes nothing; take :compute")
            return
        for network in ("digits", "resnet50"):
            yield f"{network}/in-core-twice", functools.partial(self.twice, network)
            yield f"{network}/demand", functools.partial(self.check, network, "demand")
            planned = self.programs.policies() if network == "digits" else ["hybrid", "superneurons"]
            for policy in planned:
                yield f"{network}/{policy}", functools.partial(self.check, network, policy)
            yield f"{network}/hybrid/verify-all", functools.partial(self.check, network, "hybrid", POOCH_VERIFY="all")


def same(reference, run, what, numbers=None):
    wrong = judge.losses(reference.losses, run.losses, what)
    require(not wrong, "; ".join(wrong), numbers)
    require(run.weights == reference.weights and run.weights, f"{what} the weights differ, or there are none", numbers)
