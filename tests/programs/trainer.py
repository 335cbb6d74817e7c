"""Trains GPT-2 from scratch on random tokens with transformers' Trainer.

usage: trainer.py [--batch N] [--iterations N] [--accumulate N] [--checkpoint] [--bf16]
"""

import argparse
import tempfile

import torch
import transformers

VOCABULARY, SEQUENCE = 32000, 512


class RandomText(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = torch.arange(SEQUENCE).mul(7919).add(index).remainder(VOCABULARY)
        return {"input_ids": tokens, "labels": tokens}


def main():
    parser = argparse.ArgumentParser(description="Trains GPT-2 with transformers' Trainer.")
    for name, default in {"batch": 8, "iterations": 10, "accumulate": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--checkpoint", action="store_true", help="compute each layer again for its gradients")
    parser.add_argument("--bf16", action="store_true")
    o = parser.parse_args()
    transformers.set_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=SEQUENCE))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=o.batch, gradient_accumulation_steps=o.accumulate, max_steps=o.iterations,
            gradient_checkpointing=o.checkpoint, bf16=o.bf16, logging_steps=10, save_strategy="no", report_to=[], disable_tqdm=True)
        data = RandomText(o.batch * o.accumulate * o.iterations)
        transformers.Trainer(model, arguments, train_dataset=data).train()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
