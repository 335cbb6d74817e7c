"""The forward pass of a GPT without gradients, over and over: its weights are all that is large.

usage: torch_decoder.py [--layers N] [--width N] [--batch N] [--iterations N]
"""
import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples/pytorch"))
from gpt import GPT  # noqa: E402

SEQUENCE, VOCABULARY = 512, 8192


def main():
    parser = argparse.ArgumentParser(prog="torch_decoder.py")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=8)
    chosen = parser.parse_args()
    model = GPT(chosen.layers, chosen.width, 16, SEQUENCE, VOCABULARY).to("cuda")
    tokens = torch.randint(0, VOCABULARY, (chosen.batch, SEQUENCE), device="cuda")
    with torch.no_grad():
        for _ in range(chosen.iterations):
            model(tokens)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
