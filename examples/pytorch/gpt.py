"""A small GPT, trained on random tokens.

usage: gpt.py [--layers N] [--width N] [--heads N] [--sequence N] [--batch N] [--vocabulary N] [--iterations N]
              [--optimizer NAME] [--clip] [--attention NAME] [--amp | --half] [--compile] [--checkpoint]
              [--lengths N,N,... | --any-length]
"""

import argparse
import contextlib
import time

import torch
from torch import nn
from torch.nn import attention, functional
from torch.utils.checkpoint import checkpoint


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
    def __init__(self, layers, width, heads, sequence, vocabulary, checkpoints=False):
        super().__init__()
        self.checkpoints = checkpoints
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(places)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(self.norm(x))


OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=3e-4),
    "adamw-plain": lambda parameters: torch.optim.AdamW(parameters, lr=3e-4, foreach=False),
    "adamw-fused": lambda parameters: torch.optim.AdamW(parameters, lr=3e-4, fused=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=3e-4),
}
ATTENTION = {
    "flash": attention.SDPBackend.FLASH_ATTENTION,
    "efficient": attention.SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": attention.SDPBackend.CUDNN_ATTENTION,
    "math": attention.SDPBackend.MATH,
}


def options():
    parser = argparse.ArgumentParser(description="Trains a small GPT on random tokens.")
    for name, default in {"layers": 12, "width": 768, "heads": 12, "sequence": 1024, "batch": 8, "iterations": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument("--clip", action="store_true", help="limit the gradients' norm")
    parser.add_argument("--attention", choices=ATTENTION, help="whose attention (PyTorch's choice)")
    parser.add_argument("--amp", action="store_true", help="compute in bfloat16")
    parser.add_argument("--half", action="store_true", help="compute in float16, with a scaled loss")
    parser.add_argument("--checkpoint", action="store_true", help="compute each block again for its gradients")
    parser.add_argument("--lengths", help="of the sequences, in turn, each at most --sequence")
    parser.add_argument("--any-length", action="store_true", help="each batch of another length, up to --sequence")
    parser.add_argument("--compile", action="store_true", help="let torch.compile make the kernels")
    return parser.parse_args()


def precision(o):
    if o.amp or o.half:
        return torch.autocast("cuda", torch.float16 if o.half else torch.bfloat16)
    return contextlib.nullcontext()


def length(o, iteration):
    if o.lengths:
        lengths = [int(length) for length in o.lengths.split(",")]
        return lengths[iteration % len(lengths)]
    return int(torch.randint(o.sequence // 4, o.sequence + 1, ())) if o.any_length else o.sequence


def main():
    o = options()
    torch.manual_seed(0)
    model = GPT(o.layers, o.width, o.heads, o.sequence, o.vocabulary, o.checkpoint).cuda()
    optimizer = OPTIMIZERS[o.optimizer](model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=o.half)
    compute = torch.compile(model) if o.compile else model
    for i in range(o.iterations):
        tokens = torch.randint(o.vocabulary, (o.batch, length(o, i) + 1)).cuda()
        with precision(o), attention.sdpa_kernel(ATTENTION[o.attention]) if o.attention else contextlib.nullcontext():
            logits = compute(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if o.clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"iteration {i}: loss {loss.item():.9g}", flush=True)
    time.sleep(0.1)  # autograd's thread may hold the last step yet; PyTorch aborts where the interpreter ends before it lets go


if __name__ == "__main__":
    main()
