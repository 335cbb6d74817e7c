"""What pooch costs the host where everything fits: pairs of runs with and without it, of a PyTorch network bound by its
launches and of the trainer with a small batch.

usage: launch_cost.py BUILD_FOLDER_OR_BUNDLE [--python PYTHON] [--policy POLICY] [--pairs N] [--iterations N] [--processor N]
                      [--device DEVICE] [--limit PERCENT]

PYTHON has PyTorch; without it the trainer alone runs. Without POLICY calls are not watched; with one, demand for
instance, they are. Each run's figures are medians over its iterations, and pairs of runs are compared. With --processor
all threads of a run share that one, which leaves out most of the noise of a machine that others use too. Exit code 1: a median
is above the limit.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "gpu"))
from programs import Programs  # noqa: E402


def run(options, command, plain, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}
    environment.update(variables)
    if options.policy:
        environment["POOCH_POLICY"] = options.policy
    done = subprocess.run([options.programs.pooch, "run", "--device", options.device,
                           *(["--no-pooch"] if plain else []), "--", *map(str, command)], env=environment,
                          capture_output=True, text=True, timeout=600,
                          preexec_fn=lambda: options.processor is None or os.sched_setaffinity(0, {options.processor}))
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def torch_mlp(allocator):
    def one(options, plain):
        command = [options.python, FOLDER / "torch_mlp.py", options.iterations]
        _, processor, clock = run(options, command, plain, PYTORCH_ALLOC_CONF=f"backend:{allocator}").split()
        return {"processor": float(processor), "clock": float(clock)}
    return one


def trainer(*arguments):
    def one(options, plain):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "host")
            run(options, [options.programs.train, *arguments, "--iterations", options.iterations, "--host-log", log],
                plain)
            each = [float(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines()]
        return {"processor": statistics.median(each[len(each) // 4:])}
    return one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--policy")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=250)
    parser.add_argument("--processor", type=int)
    parser.add_argument("--device", default="soft:h200:timing", help="real: this machine's")
    parser.add_argument("--limit", type=float, help="most that pooch may cost")
    options = parser.parse_args()
    over = []
    options.programs = Programs(options.build)
    programs = {"trainer, ResNet-50 of batch 2": trainer("--network", "resnet50", "--batch", "2")}
    if options.python:
        programs |= {f"PyTorch MLP, {name}": torch_mlp(name) for name in ("cudaMallocAsync", "native")}
    for name, program in programs.items():
        pairs = [(program(options, plain=True), program(options, plain=False)) for _ in range(options.pairs)]
        for figure in pairs[0][0]:
            plain, ours = (statistics.median(pair[i][figure] for pair in pairs) for i in (0, 1))
            shares = sorted(pair[1][figure] / pair[0][figure] - 1 for pair in pairs)
            print(f"{name}, {figure}: {statistics.median(shares):+.1%} (median of {options.pairs} pairs, "
                  f"{shares[0]:+.1%} to {shares[-1]:+.1%}; {plain:.0f} us an iteration without, {ours:.0f} us with)",
                  flush=True)
            if options.limit is not None and not 100 * statistics.median(shares) <= options.limit:
                over.append(f"{name}, {figure}")
    if over:
        sys.exit(f"more than {options.limit:g} %: {'; '.join(over)}")


if __name__ == "__main__":
    main()
