"""Questions that a profile answers without a simulation of every policy: what a policy needs, how large the
largest single op is, the largest batch that fits, a policy's time over a link of another speed."""
import dataclasses
import json
import pathlib
import re
import subprocess
import tempfile

from cells import Failed, clean_environment

PLENTY = 3 << 40  # bytes: more than any network here needs


class Profiles:
    """Profiles of cells whose device has memory enough, each made once in a run."""

    def __init__(self, build, store, folder, runner):
        self.build, self.store, self.folder, self.runner = str(build), store, pathlib.Path(folder), runner

    def command(self, cell, build="build"):
        return [f"{build}/tools/pooch", "run", "--device", f"soft:{cell.device}:timing:memory=4TiB", "--memory",
                str(PLENTY), "--policy", "keep", "--", f"{build}/examples/train", *cell.trainer()]

    def profile(self, cell):
        """Path of the cell's profile.json."""
        folder = self.folder / cell.name
        path = folder / "profile.json"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(self.command(cell, self.build), env={**clean_environment(), "POOCH_REPORT": str(folder)},
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0 or not path.exists():
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise Failed(f"{cell.name}: exit code {done.returncode}, {last}")
        return path

    def plan(self, cell, policy, memory, link=None):
        """The plan, or the bytes that the policy needs where `memory` is too little."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "plan.json"
            words = [f"{self.build}/tools/pooch", "plan", str(self.profile(cell)), "--policy", policy, "--memory",
                     str(memory), "-o", str(out)]
            rate = link or model_link(self.build, cell.device)
            words += ["--link-out", str(rate), "--link-in", str(rate)]
            done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return json.loads(out.read_text(encoding="utf-8"))
        needs = re.search(r"needs at least (\d+) bytes", done.stderr)
        if not needs:
            raise Failed(f"{cell.name}: pooch plan --policy {policy}: {done.stderr.strip()}")
        return int(needs[1])

    def carried_out(self, cell, plan):
        """Milliseconds of an iteration that follows the plan on the cell's device, or the reason why there is none."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.json"
            path.write_text(json.dumps(plan), encoding="utf-8")
            words = [f"{self.build}/tools/pooch", "run", "--device", f"soft:{cell.device}:timing", "--memory", cell.memory,
                     "--summary", f"{folder}/summary.json", "--", f"{self.build}/examples/train",
                     *cell.trainer(iterations=16)]
            done = subprocess.run(words, env={**clean_environment(), "POOCH_PLAN": str(path)}, capture_output=True, text=True,
                                  check=False)
            if done.returncode == 2:
                raise Failed(f"{cell.name}: {done.stderr.strip()}")
            if done.returncode != 0:
                return f"fails (exit code {done.returncode})"
            summary = json.loads((pathlib.Path(folder) / "summary.json").read_text(encoding="utf-8"))
        if summary["planned_iterations"] < 9:  # the trainer's time is the median of 16
            return f"only {summary['planned_iterations']} of 16 iterations followed the plan"
        return json.loads(done.stdout)["ms_per_iteration"]

    def kept(self, name, make):
        value = self.store.get(name)
        if value is None:
            value = make()
            self.store.put(name, "", value)
            self.runner.say(f"{name}: {value}")
        return value

    def need(self, cell, policy):
        """The least bytes of device memory with which the policy has a plan."""
        return self.kept(f"need-{policy}-{cell.name}", lambda: self.plan(cell, policy, 2 << 20))

    def largest_batch(self, cell, policy, memory, most=4096):
        """The largest batch whose need is within `memory` bytes; 0: not even one image. The need grows by nearly the
        same with every image, so two samples tell where to look."""
        def fits(batch):
            return batch == 0 or self.need(with_batch(cell, batch), policy) <= memory
        low, high, step = 0, most + 1, max(1, cell.batch)
        guess = min(step, most)
        while high - low > 1:
            if fits(guess):
                low = guess
            else:
                high = guess
            guess = (low + high) // 2 if high <= most else min(2 * low, most)
            if low > 0 and high <= most:
                guess = between(low, self.need(with_batch(cell, low), policy), high,
                                self.need(with_batch(cell, high), policy), memory)
        return low


def between(low, low_need, high, high_need, memory):
    """A batch strictly between the two, near where the need meets the memory."""
    at = low + (memory - low_need) * (high - low) / max(1, high_need - low_need)
    middle = (low + high) // 2
    if high - low > 64 and abs(at - middle) > 0.49 * (high - low):  # crept along one side: halve
        return middle
    return min(high - 1, max(low + 1, round(at)))


def with_batch(cell, batch):
    return dataclasses.replace(cell, batch=batch)


def model_link(build, device):
    """Bytes per second, the slower way."""
    for folder in (pathlib.Path(build) / "softgpu/models", pathlib.Path(__file__).parents[2] / "softgpu/models"):
        path = folder / f"{device}.json"
        if path.exists():
            link = json.loads(path.read_text(encoding="utf-8"))["link"]
            return min(link["to_device"], link["to_host"])
    raise Failed(f"no model {device}")
