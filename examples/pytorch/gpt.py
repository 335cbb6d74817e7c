"""A small GPT, trained on random tokens.

usage: gpt.py [--layers N] [--width N] [--heads N] [--sequence N] [--batch N] [--iterations N] [--optimizer NAME] [--amp]
"""

import argparse
import contextlib

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, sequence, width = x.shape
        parts = self.project(x).view(batch, sequence, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.merge(y.transpose(1, 2).reshape(batch, sequence, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, sequence, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(places))))


def options():
    parser = argparse.ArgumentParser(description="Trains a small GPT on random tokens.")
    for name, default in {"layers": 12, "width": 768, "heads": 12, "sequence": 1024, "batch": 8, "iterations": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    parser.add_argument("--amp", action="store_true", help="compute in bfloat16")
    return parser.parse_args()


def main():
    o = options()
    torch.manual_seed(0)
    model = GPT(o.layers, o.width, o.heads, o.sequence, o.vocabulary).cuda()
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = kinds[o.optimizer](model.parameters(), lr=3e-4)
    for i in range(o.iterations):
        tokens = torch.randint(o.vocabulary, (o.batch, o.sequence + 1)).cuda()
        with torch.autocast("cuda", torch.bfloat16) if o.amp else contextlib.nullcontext():
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"iteration {i}: loss {loss.item():.9g}", flush=True)


if __name__ == "__main__":
    main()
