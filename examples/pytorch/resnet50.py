"""torchvision's ResNet-50, trained on random images.

usage: resnet50.py [--batch N] [--iterations N] [--amp] [--channels-last] [--same-batch] [--compile]
"""

import argparse
import contextlib
import time

import torch
import torchvision
from torch.nn import functional


def options():
    parser = argparse.ArgumentParser(description="Trains torchvision's ResNet-50 on random images.")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--amp", action="store_true", help="compute in float16, with a scaled loss")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--same-batch", action="store_true", help="one batch, sent to the device once")
    parser.add_argument("--compile", action="store_true", help="let torch.compile make the kernels")
    return parser.parse_args()


def main():
    o = options()
    torch.manual_seed(0)
    layout = torch.channels_last if o.channels_last else torch.contiguous_format
    model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=layout)
    compute = torch.compile(model) if o.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=o.amp)
    for i in range(o.iterations):
        if i == 0 or not o.same_batch:
            images = torch.randn(o.batch, 3, 224, 224).cuda().to(memory_format=layout)
            labels = torch.randint(1000, (o.batch,)).cuda()
        with torch.autocast("cuda", torch.float16) if o.amp else contextlib.nullcontext():
            loss = functional.cross_entropy(compute(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"iteration {i}: loss {loss.item():.9g}", flush=True)
    time.sleep(0.1)  # autograd's thread may hold the last step yet; PyTorch aborts where the interpreter ends before it lets go


if __name__ == "__main__":
    main()
