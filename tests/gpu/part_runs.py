"""The trainer's ResNet-50 in less memory: what its runs show besides their bits. Each check has a limit (judge.py)."""
import json
import pathlib
import re
import tempfile

import judge
from checks import Skipped, require
from programs import GIB, MIB

CAP = ["--memory", "16GiB"]
BATCH = 640
NEED_PER_IMAGE = 85e6  # bytes, ResNet-50
OVER_MEMORY = 1.15     # of the device's memory, without a cap
LANDING_SHARE = 0.35    # of the need


def holds(wrong, found):
    require(not wrong, "; ".join(wrong), found)
    return found


def iterations_of(trace):
    """Milliseconds of the iterations that followed a plan, from a timeline (docs/trace.md)."""
    events = json.loads(pathlib.Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    tracks = {event["tid"] for event in events if event["name"] == "thread_name" and event["args"]["name"] == "iterations"}
    return [event["dur"] / 1e3 for event in events
            if event["ph"] == "X" and event["tid"] in tracks and event["args"].get("mode") == "plan"]


class Runs:
    def __init__(self, programs, device, total_bytes):
        self.programs, self.device, self.total_bytes = programs, device, total_bytes

    def train(self, *options, batch=BATCH, iterations=24, **env):
        """Batch 640 is computed by devices alone."""
        if self.device.software and not self.device.timing:
            raise Skipped("the software GPU computes that for hours; take :timing")
        return self.run([*self.command("resnet50", iterations), "--batch", str(batch)], *options, **env)

    def command(self, network, iterations):
        return [self.programs.train, "--network", network, "--iterations", str(iterations), "--json"]

    def run(self, command, *options, **env):
        run = self.programs.run(self.device, command, *options, env={"POOCH_LOG": "info", "POOCH_WAIT_FOR_PLANS": "1"} | env)
        require(run.status == 0, f"exit code {run.status}: {run.last_words()}")
        require("--no-pooch" in options or run.summary["mismatches"] == 0, "replays made something else", run.summary)
        return run

    def arena(self):
        run = self.run(self.command("digits", 2))
        found = re.search(r"addresses from (0x[0-9a-f]+)", run.err)
        address = found[1] if found else None
        return holds(judge.arena(address), {"arena": address, "remark": f"addresses from {address}"})

    def no_cap(self):
        """As a user starts it, with a need above the device's memory."""
        batch = int(OVER_MEMORY * self.total_bytes / NEED_PER_IMAGE) // 8 * 8
        summary = self.train(batch=batch, iterations=12).summary
        found = {key: summary[key] for key in ("cap_bytes", "need_bytes", "peak_device_bytes", "planned_iterations", "evictions")}
        require(found["need_bytes"] > self.total_bytes, "it needs less than the device has: nothing was shown", found)
        require(found["evictions"] > 0, "nothing left the device", found)
        require(found["planned_iterations"] > 0, "no iteration followed a plan", found)
        return found | {"batch": batch, "remark": f"batch {batch}, need {found['need_bytes'] / GIB:.1f} GiB"}

    def timers(self):
        profiles = {}
        for timer in ("cupti", "events"):
            with tempfile.TemporaryDirectory() as folder:
                self.train(*CAP, "--policy", "demand", iterations=8, POOCH_TIMER=timer, POOCH_REPORT=folder)
                profiles[timer] = json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="utf-8"))
        sums = {f"{timer}_ms": sum(us for _, us in judge.ops_of(profile) if judge.finite(us)) / 1e3 for timer, profile in profiles.items()}
        remark = ", ".join(f"{timer} {value:.1f}" for timer, value in sums.items())
        # Where they are farthest apart, to see what the difference is.
        both = zip(judge.ops_of(profiles["cupti"]), judge.ops_of(profiles["events"]))
        sums["farthest"] = sorted(([name, a, b] for (name, a), (_, b) in both if judge.finite(a) and judge.finite(b)),
                                  key=lambda row: -abs(row[1] - row[2]))[:20]
        return holds(judge.timers(profiles["cupti"], profiles["events"]), sums) | {"remark": remark}

    def substitutes(self):
        """Batch norms that have a formula which makes their bits, and what they take that way."""
        with tempfile.TemporaryDirectory() as folder:
            run = self.train(*CAP, "--policy", "hybrid", POOCH_REPORT=folder)
            profile = json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="utf-8"))
        ops = [op for op in profile["phases"][0]["ops"] if "substitute" in op]
        proven = [op for op in ops if "formula" in op["substitute"]]
        found = {"batch_norms": len(ops), "proven": len(proven), "by_substitute": run.summary["substitutes"],
                 "ops_ms": sum(op["us"] for op in proven) / 1e3,
                 "substitutes_ms": sum(op["substitute"]["us"] for op in proven) / 1e3}
        remark = f"{found['proven']} of {found['batch_norms']}, {found['substitutes_ms']:.1f} in place of {found['ops_ms']:.1f} ms"
        return holds(judge.substitutes(found), found | {"remark": remark})

    def laps(self, folder, *options, **env):
        trace = pathlib.Path(folder, "trace")
        self.train(*CAP, "--policy", "hybrid", *options, POOCH_TRACE=str(trace), POOCH_CACHE=f"{folder}/plans", **env)
        return iterations_of(trace)

    def digests(self):
        """The first run leaves its plan to the others."""
        with tempfile.TemporaryDirectory() as folder:
            _, off, sample = (self.laps(folder, POOCH_VERIFY=verify) for verify in ("off", "off", "sample"))
        found = holds(judge.digests(off, sample), {"off_ms": off, "sample_ms": sample})
        return found | {"remark": f"they take {judge.digests_extra(off, sample):.1f} iterations in all"}

    def layout(self):
        """The plan has a layout, and keeps it to the end."""
        run = self.train(*CAP, "--policy", "hybrid", iterations=50)
        found = {key: run.summary[key] for key in ("planned_iterations", "aliased_iterations", "predicted_ms", "actual_ms")}
        require(not run.out_of_alias(), f"not in alias mode: {run.out_of_alias()}", found)
        require(found["aliased_iterations"] > 25, f"{found['aliased_iterations']} iterations followed the layout", found)
        return found | {"remark": f"{found['aliased_iterations']} iterations, {found['actual_ms']:.1f} ms, {found['predicted_ms']:.1f} foretold"}

    def landing(self):
        """Evicted memory is mapped to its copy on the host; the same bits, and what that costs."""
        computed = self.device.software and not self.device.timing  # then a small network
        command = self.command("digits", 12) if computed else [*self.command("resnet50", 12), "--batch", "160"]
        alone = self.run(command, "--no-pooch")
        cap = ["--memory", str(int(alone.result()["need_bytes"] * LANDING_SHARE) // MIB * MIB), "--policy", "hybrid"]
        on, off = (self.run(command, *cap, POOCH_LANDING=landing) for landing in ("on", "off"))
        found = {"landings": on.summary["landings"], "on_ms": on.result()["ms_per_iteration"],
                 "off_ms": off.result()["ms_per_iteration"], "evictions": on.summary["evictions"]}
        no = re.search(r"pooch: (.*no host memory is mapped.*)", on.err)
        require(not no, no and no[1], found)
        require(found["landings"] > 0, "nothing landed", found)
        if not self.device.timing:
            wrong = [wrong for run, what in ((on, "with landing"), (off, "without landing"))
                     for wrong in judge.losses(alone.losses, run.losses, what)]
            holds(wrong, found)
            require(alone.weights and on.weights == alone.weights, "the weights differ, or there are none", found)
        return found | {"remark": f"{found['landings']} landings"}

    def checks(self):
        yield from (("arena", self.arena), ("no-cap", self.no_cap), ("timers", self.timers), ("digests", self.digests),
                    ("substitutes", self.substitutes), ("layout", self.layout), ("landing", self.landing))
