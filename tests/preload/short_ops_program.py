"""torchvision's EfficientNet-B0 on random images: many ops, each of them short, channels last. Nothing in it is random but
the weights: what draws numbers touches memory that no rule knows.

usage: short_ops_program.py [--batch N] [--iterations N] [--bf16]
"""
import argparse
import contextlib
import time

import torch
import torchvision
from torch.nn import functional


def options():
    parser = argparse.ArgumentParser(description="Trains a network of many short ops.")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    return parser.parse_args()


def main():
    o = options()
    torch.manual_seed(0)
    model = torchvision.models.efficientnet_b0(weights=None, dropout=0, stochastic_depth_prob=0)
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(o.batch, 3, 224, 224).cuda().to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (o.batch,)).cuda()
    for i in range(o.iterations):
        with torch.autocast("cuda", torch.bfloat16) if o.bf16 else contextlib.nullcontext():
            loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"iteration {i}: loss {loss.item():.9g}", flush=True)
    time.sleep(0.1)  # autograd's thread may hold the last step yet; PyTorch aborts where the interpreter ends before it lets go


if __name__ == "__main__":
    main()
