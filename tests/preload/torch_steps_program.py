"""Trains the example's GPT, or torchvision's ResNet-50, with what training scripts do around their steps.

usage: torch_steps_program.py GPT_PY gpt|resnet50 [--optimizer plain|foreach|fused] [--clip] [--scaler] [--attention NAME] [--compile] …
"""
import argparse
import contextlib
import importlib.util

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

ATTENTION = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
             "cudnn": SDPBackend.CUDNN_ATTENTION}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpt")
    parser.add_argument("network", choices=["gpt", "resnet50"])
    parser.add_argument("--optimizer", choices=["plain", "foreach", "fused"], default="foreach")
    parser.add_argument("--clip", action="store_true")
    parser.add_argument("--scaler", action="store_true", help="half precision, and a GradScaler")
    parser.add_argument("--amp", action="store_true", help="bfloat16")
    parser.add_argument("--attention", choices=ATTENTION)
    parser.add_argument("--compile", action="store_true")
    for name, default in {"layers": 12, "width": 768, "heads": 12, "sequence": 1024, "batch": 16, "vocabulary": 8192,
                          "iterations": 12}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def network(o):
    """The model, and what makes a batch: inputs and targets."""
    if o.network == "resnet50":
        import torchvision
        return torchvision.models.resnet50(), lambda: (torch.randn(o.batch, 3, 224, 224), torch.randint(1000, (o.batch,)))
    spec = importlib.util.spec_from_file_location("gpt", o.gpt)
    gpt = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpt)

    def batch():
        tokens = torch.randint(o.vocabulary, (o.batch, o.sequence + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
    return gpt.GPT(o.layers, o.width, o.heads, o.sequence, o.vocabulary), batch


def main():
    o = options()
    torch.manual_seed(0)
    model, batch = network(o)
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=o.optimizer == "foreach", fused=o.optimizer == "fused")
    scaler = torch.amp.GradScaler("cuda", enabled=o.scaler)
    half = torch.float16 if o.scaler else torch.bfloat16
    forward = torch.compile(model) if o.compile else model
    for i in range(o.iterations):
        inputs, targets = (each.cuda() for each in batch())
        with contextlib.ExitStack() as how:
            if o.attention:
                how.enter_context(sdpa_kernel(ATTENTION[o.attention]))
            if o.scaler or o.amp:
                how.enter_context(torch.autocast("cuda", half))
            loss = functional.cross_entropy(forward(inputs).flatten(0, -2), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if o.clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"iteration {i}: loss {loss.item():.9g}", flush=True)


if __name__ == "__main__":
    main()
