"""Trains torchvision's ResNet-18 on random images with Lightning, and validates after every few batches.

usage: with_lightning.py [--batch N] [--iterations N] [--validate N]
"""

import argparse

import lightning
import torch
import torchvision
from torch.nn import functional


class RandomImages(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((3, 224, 224), index / self.count), index % 1000


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torchvision.models.resnet18(num_classes=1000)

    def training_step(self, batch, _):
        images, labels = batch
        loss = functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("validation", functional.cross_entropy(self.model(images), labels))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser(description="Trains ResNet-18 with Lightning.")
    for name, default in {"batch": 64, "iterations": 10, "validate": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    lightning.seed_everything(0)
    loader = torch.utils.data.DataLoader(RandomImages(o.batch * o.iterations), o.batch)
    validation = torch.utils.data.DataLoader(RandomImages(o.batch * 2), o.batch)
    trainer = lightning.Trainer(
        accelerator="gpu", devices=1, max_steps=o.iterations, val_check_interval=min(o.validate, o.iterations), num_sanity_val_steps=0,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Classifier(), loader, validation)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
