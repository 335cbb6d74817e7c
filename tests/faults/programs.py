"""The programs of the campaign: what is run under which settings, and what it gives where nothing fails."""
import dataclasses
import shutil
import tempfile

from runs import BUILD, STEADY, TRAIN, run

PROGRAM = BUILD / "tests/faults/faults_program"
SMALL = "soft:v100-pcie3:compute:memory=96MiB" + STEADY  # a call has the same number in each run


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    what: str
    command: tuple
    device: str
    cap: int  # MiB
    host: int  # MiB
    env: dict
    expects: str  # figure of the summary that tells that the run is what its name says
    plans: bool = False

    def run(self, plans=None, inside=(), timeout=120, ahead=None, **env):
        """`plans`: the cache of an earlier run, which is left as it is. `inside`: a command that runs this one."""
        with tempfile.TemporaryDirectory() as folder:
            settings = {**self.env, "TMPDIR": folder, "POOCH_CACHE": f"{folder}/plans"}
            if self.plans:
                settings["POOCH_WAIT_FOR_PLANS"] = "1"
            if plans is not None:
                shutil.copytree(plans, f"{folder}/plans")
            return run(self.device, [*inside, *self.command], "--memory", f"{self.cap}MiB", "--host-memory",
                       f"{self.host}MiB", env=settings | env, timeout=timeout, ahead=ahead, weights=True)

    def plain(self):
        return run(self.device, self.command, "--no-pooch", weights=True)

    def bits(self, done):
        """What is compared, line by line."""
        return done.losses + done.weights if self.command[0] == TRAIN else done.out.splitlines()


def small(name, what, scenario, cap, expects, host=48, device=SMALL, **env):
    return Program(name, what, (PROGRAM, scenario), device, cap, host, {"POOCH_POLICY": "demand", **env}, expects,
                   plans="POOCH_POLICY" in env)


PROGRAMS = {each.name: each for each in (
    small("demand", "sets, copies, kernels on demand", "memory", 16, "evictions"),
    small("planned", "training under a plan", "train", 26, "planned_iterations", host=320, POOCH_POLICY="hybrid"),
    small("landing", "kernels that nobody foresees, and landing", "unforeseen", 14, "landings", host=320,
          device=SMALL + ":host_handles=on"),
    small("graphs", "captured graphs", "graphs", 14, "pinned_allocations"),
    small("threads", "8 threads", "threads", 16, "vmm_calls"),
    # In timing mode losses and weights tell where they come from, and a run takes a hundredth of the time.
    Program("digits-planned", "the digits network under a plan", (TRAIN, "--network", "digits", "--iterations", "6"),
            "soft:v100-pcie3:timing" + STEADY, 64, 512, {"POOCH_POLICY": "hybrid"}, "planned_iterations", plans=True),
)}
