"""Trains a small GPT's blocks as CUDA graphs: torch.cuda.make_graphed_callables.

usage: graphed.py [--layers N] [--width N] [--batch N] [--sequence N] [--iterations N]
"""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description="Trains transformer blocks as CUDA graphs.")
    for name, default in {"layers": 12, "width": 768, "batch": 8, "sequence": 512, "iterations": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(o.batch, o.sequence, o.width, device="cuda")
    blocks = [nn.TransformerEncoderLayer(o.width, o.width // 64, 4 * o.width, dropout=0.0, batch_first=True, norm_first=True).to("cuda")
              for _ in range(o.layers)]
    head = nn.Linear(o.width, o.width).to("cuda")
    sample = x.clone().requires_grad_()
    blocks = torch.cuda.make_graphed_callables(tuple(blocks), tuple((sample,) for _ in blocks))
    parameters = [p for module in (*blocks, head) for p in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4)
    for iteration in range(o.iterations):
        y = x.clone().requires_grad_()
        for block in blocks:
            y = block(y)
        loss = head(y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if iteration % 10 == 9:
            print(f"iteration {iteration + 1}: loss {loss.item():.6g}", flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
