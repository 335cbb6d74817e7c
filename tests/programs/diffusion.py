"""Trains a UNet of diffusers' to predict the noise in random images.

usage: diffusion.py [--batch N] [--size N] [--iterations N] [--amp bf16]
"""

import argparse

import diffusers
import torch
from torch.nn import functional


def main():
    parser = argparse.ArgumentParser(description="Trains a UNet on random images.")
    for name, default in {"batch": 16, "size": 64, "iterations": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--amp", choices=("bf16",))
    o = parser.parse_args()
    torch.manual_seed(0)
    model = diffusers.UNet2DModel(
        sample_size=o.size, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 128, 256, 256, 512, 512),
        down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4).to("cuda")
    schedule = diffusers.DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for iteration in range(o.iterations):
        clean = torch.full((o.batch, 3, o.size, o.size), iteration / o.iterations).to("cuda")
        noise = torch.randn(clean.shape, device="cuda")
        steps = torch.arange(o.batch).mul(37).add(iteration).remainder(1000).to("cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=o.amp == "bf16"):
            predicted = model(schedule.add_noise(clean, noise, steps), steps, return_dict=False)[0]
            loss = functional.mse_loss(predicted, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if iteration % 10 == 9:
            print(f"iteration {iteration + 1}: loss {loss.item():.6g}", flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
