"""The forward pass of a GPT without gradients, over and over: its weights are all that is large. With --generate token by token,
over keys and values that grow with each.

usage: torch_decoder.py [--layers N] [--width N] [--batch N] [--iterations N] [--generate]
"""
import argparse
import pathlib
import sys

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples/pytorch"))
from gpt import GPT  # noqa: E402

SEQUENCE, VOCABULARY = 512, 8192


def generate(model, batch, count):
    """One token after the other, each behind the keys and values of those before it."""
    token = torch.zeros(batch, 1, dtype=torch.long, device="cuda")
    known = [None] * len(model.blocks)
    for place in range(count):
        x = model.token(token) + model.position.weight[place]
        for i, block in enumerate(model.blocks):
            parts = block.project(block.norm1(x)).view(batch, 1, 3, block.heads, -1).permute(2, 0, 3, 1, 4)
            keys, values = parts[1], parts[2]
            if known[i] is not None:
                keys, values = torch.cat([known[i][0], keys], 2), torch.cat([known[i][1], values], 2)
            known[i] = keys, values
            x = x + block.merge(functional.scaled_dot_product_attention(parts[0], keys, values).reshape(batch, 1, -1))
            x = x + block.narrow(functional.gelu(block.widen(block.norm2(x))))
        token = model.head(model.norm(x)).argmax(-1)
        print(f"token {place}: {token.sum().item()}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="torch_decoder.py")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--generate", action="store_true")
    chosen = parser.parse_args()
    model = GPT(chosen.layers, chosen.width, 16, SEQUENCE, VOCABULARY).to("cuda")
    with torch.no_grad():
        if chosen.generate:
            return generate(model, chosen.batch, chosen.iterations)
        tokens = torch.randint(0, VOCABULARY, (chosen.batch, SEQUENCE), device="cuda")
        for _ in range(chosen.iterations):
            model(tokens)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
