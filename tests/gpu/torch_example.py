"""Runs a program of examples/pytorch as it is, with what a check or a comparison needs around it.

usage: torch_example.py [OPTIONS] SCRIPT [ITS OPTIONS]

At the end one line of JSON: the losses as printed, a hash of the weights, milliseconds from step to step by the device's
events, PyTorch's own peaks. Exit code 3: out of memory.
"""
import argparse
import builtins
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import statistics
import sys

OUT_OF_MEMORY = 3


def options():
    parser = argparse.ArgumentParser(description="Runs an example with something around it.")
    parser.add_argument("--deterministic", action="store_true", help="deterministic algorithms only")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--tf32", action="store_true", help="TF32 in matrix products too")
    parser.add_argument("--memory", type=int, help="bytes that PyTorch may hold")
    parser.add_argument("--variant", choices=["plain", "checkpoint", "save_on_cpu"], default="plain")
    parser.add_argument("script")
    parser.add_argument("its_options", nargs=argparse.REMAINDER)
    return parser.parse_args()


def load(path):
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watch:
    """Sees every step of an optimizer and every line that is printed."""

    def __init__(self, torch):
        self.torch, self.events, self.optimizer, self.losses = torch, [], None, []

    def step(self, optimizer, *_):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.events.append(event)
        self.optimizer = optimizer

    def line(self, *words, **more):
        text = " ".join(map(str, words))
        self.losses += re.findall(r"loss (\S+)", text)
        builtins.print(text, **more)

    def weights(self):
        digest = hashlib.sha256()
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                digest.update(parameter.detach().cpu().flatten().contiguous().view(self.torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def report(self, with_weights):
        self.torch.cuda.synchronize()
        laps = [before.elapsed_time(after) for before, after in zip(self.events, self.events[1:])]
        return {"losses": self.losses, "weights": self.weights() if with_weights else None,
                "ms_per_iteration": statistics.median(laps[1:] or laps) if laps else None, "laps_ms": laps,
                "peak_allocated_bytes": self.torch.cuda.max_memory_allocated(),
                "peak_reserved_bytes": self.torch.cuda.max_memory_reserved()}


def recompute(torch, example):
    """Every residual block, every transformer block: what people checkpoint."""
    from torch.utils.checkpoint import checkpoint
    block = getattr(example, "Block", None)
    if block is None:
        import torchvision
        block = torchvision.models.resnet.Bottleneck
    block.forward = functools.partialmethod(lambda self, forward, x: checkpoint(forward, self, x, use_reentrant=False), block.forward)


def prepare(o, torch):
    if o.deterministic:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    if o.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
    if o.memory:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, o.memory / total))


def main():
    o = options()
    if o.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    prepare(o, torch)
    watch = Watch(torch)
    register_optimizer_step_post_hook(watch.step)
    example = load(o.script)
    example.print = watch.line
    if o.variant == "checkpoint":
        recompute(torch, example)
    sys.argv = [o.script, *o.its_options]
    with contextlib.ExitStack() as around:
        if o.bf16:  # no cache: it would outlive a step of the optimizer
            around.enter_context(torch.autocast("cuda", torch.bfloat16, cache_enabled=False))
        if o.variant == "save_on_cpu":
            around.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=True))
        try:
            example.main()
        except torch.OutOfMemoryError as error:
            sys.stderr.write(f"out of memory: {str(error).splitlines()[0]}\n")
            return OUT_OF_MEMORY
    print(json.dumps(watch.report(o.deterministic)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
