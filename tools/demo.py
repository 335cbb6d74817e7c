#!/usr/bin/python3
"""Trains the digits three times on the software GPU: in-core, without room, and with pooch in a third of the room.

demo.py BUILD_FOLDER; exit code 0 only if everything is as it should be."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 1 << 20
MODEL = "soft:v100-pcie3"
OUT_OF_MEMORY = 3  # the trainer's exit code


def mib(count):
    return "-" if count is None else f"{count / MIB:.1f} MiB"


class Demo:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.rows, self.problems = [], []

    def expect(self, condition, problem):
        if not condition:
            self.problems.append(problem)

    def log(self, name):
        return self.folder / f"{name}.losses"

    def train(self, name, device, *pooch_options):
        """One run of the trainer; gives its exit code, its JSON (None if it failed) and what it said on stderr."""
        print(f"running {name} …", flush=True)
        command = [self.build / "tools/pooch", "run", "--device", device, *pooch_options, "--",
                   self.build / "examples/train", "--network", "digits", "--seed", "1", "--json",
                   "--loss-log", self.log(name)]
        environment = os.environ | {"POOCH_CACHE": str(self.folder / "plans")}
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                              env=environment)
        result = json.loads(done.stdout) if done.returncode == 0 else None
        return done.returncode, result, done.stderr

    def row(self, name, memory, cap, need, summary, result):
        summary = summary or {}
        self.rows.append([name, memory, mib(cap), mib(need), mib(summary.get("peak_device_bytes")),
                          str(summary.get("evictions", "-")),
                          f"{mib(summary.get('bytes_out'))} / {mib(summary.get('bytes_in'))}", result])

    def in_core(self):
        code, result, said = self.train("in-core", MODEL, "--no-pooch")
        if result is None:
            sys.exit(f"{said}demo: in-core training ended with exit code {code}")
        self.expect(result["need_bytes"] >= 256 * MIB, f"the need is {mib(result['need_bytes'])}, below 256 MiB")
        self.expect((result["test_accuracy"] or 0) >= 0.95, f"in-core test accuracy {result['test_accuracy']}")
        self.row("in-core", "16384.0 MiB", None, result["need_bytes"], None,
                 f"trained, {100 * (result['test_accuracy'] or 0):.2f} %")
        return result

    def without_room(self, cap, need):
        code, _, said = self.train("without room", f"{MODEL}:memory={cap}", "--no-pooch")
        line = next((line for line in said.splitlines() if "out of memory" in line), "")
        print(f"  {line}")
        self.expect(code == OUT_OF_MEMORY and line, f"without pooch: expected out of memory, got exit code {code}: {said}")
        self.row("without room", mib(cap), None, need, None, "out of memory" if line else f"exit code {code}")

    def with_pooch(self, cap, need):
        summary_file = self.folder / "summary.json"
        code, result, said = self.train("pooch", MODEL, "--memory", str(cap), "--summary", summary_file)
        if result is None:
            sys.exit(f"{said}demo: training with pooch ended with exit code {code}")
        summary = json.loads(summary_file.read_text(encoding="utf-8"))
        if summary is None:
            sys.exit("demo: pooch saw no CUDA call")
        self.expect(summary["peak_device_bytes"] <= cap, "the cap did not hold")
        self.expect(summary["evictions"] > 0, "nothing was evicted")
        self.expect(summary["planned_iterations"] > 0, "no iteration followed a plan")
        self.planned = (f"{summary['planned_iterations']} of {summary['iterations']} iterations, "
                        f"{summary['replays']} ops replayed")
        self.managed = summary["need_managed_bytes"] / summary["need_bytes"]
        self.expect(self.managed >= 0.8, "too little of the need is managed")
        self.expect((result["test_accuracy"] or 0) >= 0.95, f"test accuracy with pooch {result['test_accuracy']}")
        self.row("pooch", "16384.0 MiB", cap, summary["need_bytes"], summary,
                 f"trained, {100 * (result['test_accuracy'] or 0):.2f} %")
        return result

    def print_table(self):
        head = ["run", "device memory", "cap", "need", "peak device", "evictions", "out / in", "result"]
        widths = [max(map(len, column)) for column in zip(head, *self.rows)]
        for row in [head, ["-" * width for width in widths], *self.rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def run(self):
        result = self.in_core()
        need = result["need_bytes"]
        cap = need // 3 // MIB * MIB
        self.without_room(cap, need)
        capped = self.with_pooch(cap, need)
        same = self.log("in-core").read_bytes() == self.log("pooch").read_bytes()
        self.expect(same, "the losses differ")
        self.expect(capped["test_accuracy"] == result["test_accuracy"], "the test accuracies differ")
        print()
        self.print_table()
        print(f"\n{result['iterations']} iterations, last loss {result['loss']:.6f}")
        print(f"managed by pooch: {100 * self.managed:.0f} % of the need")
        print(f"followed a plan: {self.planned}")
        print(f"losses identical: {'yes' if same else 'no'}")
        for problem in self.problems:
            print(f"demo: not as expected: {problem}")
        return 1 if self.problems else 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        return Demo(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder)).run()


if __name__ == "__main__":
    sys.exit(main())
