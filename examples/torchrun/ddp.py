"""torchvision's ResNet-18 on random images, data-parallel: one process per GPU.

usage: torchrun --nproc-per-node N ddp.py [--batch N] [--iterations N] [--backend nccl|gloo]
"""

import argparse
import os

import torch
import torchvision
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def options():
    parser = argparse.ArgumentParser(description="Trains torchvision's ResNet-18 on random images, data-parallel.")
    parser.add_argument("--batch", type=int, default=32, help="images per process")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    return parser.parse_args()


def main():
    o = options()
    distributed.init_process_group(o.backend)
    rank = distributed.get_rank()
    # More processes than devices share them, which NCCL refuses.
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.manual_seed(0)
    model = DistributedDataParallel(torchvision.models.resnet18(weights=None).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1 + rank)
    for i in range(o.iterations):
        images = torch.randn(o.batch, 3, 224, 224).cuda()
        labels = torch.randint(1000, (o.batch,)).cuda()
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank}, iteration {i}: loss {loss.item():.9g}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
