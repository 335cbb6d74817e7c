"""Trains an image classifier of torchvision's or timm's on random images, as their reference scripts do.

usage: vision.py MODEL [--batch N] [--size N] [--iterations N] [--amp bf16|fp16] [--channels-last] [--ema] [--workers N]
                 [--compile MODE] [--profile]

MODEL: torchvision:NAME or timm:NAME.
"""

import argparse
import contextlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 1000


class RandomImages(Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((3, self.size, self.size), index / self.count), index % CLASSES


def make_model(name):
    library, _, name = name.partition(":")
    if library == "timm":
        import timm

        return timm.create_model(name, pretrained=False, num_classes=CLASSES)
    import torchvision

    return torchvision.models.get_model(name, weights=None, num_classes=CLASSES)


def options():
    parser = argparse.ArgumentParser(description="Trains an image classifier on random images.")
    parser.add_argument("model")
    for name, default in {"batch": 32, "size": 224, "iterations": 10, "workers": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--amp", choices=("bf16", "fp16"))
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--ema", action="store_true", help="keep a moving average of the weights")
    parser.add_argument("--compile", help="let torch.compile make the kernels, in this mode")
    parser.add_argument("--profile", action="store_true", help="with torch.profiler on")
    return parser.parse_args()


def main():
    o = options()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = make_model(o.model).to(device)
    layout = torch.channels_last if o.channels_last else torch.contiguous_format
    model = model.to(memory_format=layout)
    decay = torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=decay) if o.ema else None
    step_model = torch.compile(model, mode=o.compile) if o.compile else model
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=o.amp == "fp16")
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(o.amp)
    loader = DataLoader(RandomImages(o.batch * o.iterations, o.size), o.batch, num_workers=o.workers, pin_memory=True)
    watch = torch.profiler.profile() if o.profile else contextlib.nullcontext()
    model.train()
    with watch:
        for number, (images, labels) in enumerate(loader):
            images = images.to(device, non_blocking=True, memory_format=layout)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast("cuda", kind, enabled=kind is not None):
                loss = criterion(step_model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if ema is not None:
                ema.update_parameters(model)
            if number % 10 == 9:
                print(f"iteration {number + 1}: loss {loss.item():.6g}", flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
