#!/usr/bin/env python3
"""PyTorch's test accuracy of D2L's LeNet on Fashion-MNIST after each epoch: the figures in expected/accuracy.json.

One process, batch 256, SGD at 0.2, 10 epochs, reshuffled each epoch. --init is one of
    normal:STD       weights N(0, STD^2), biases zero; each seed draws new weights
    FILE.safetensors weights with PyTorch's names, as this project writes them; seeds only shuffle
Prints one JSON line per run; --append FILE.json also adds the runs to that file.
"""
import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from lenet import BATCH, DATA_PATH, lenet, read_split


def initialised(init):
    model = lenet()
    if init.startswith("normal:"):
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=float(init.removeprefix("normal:")))
        return model
    model.load_state_dict(load_file(init))
    return model


@torch.no_grad()
def accuracy(model, images, labels):
    correct = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500)))
    return correct / len(labels)


def train(args, seed, train_data, test_data):
    torch.manual_seed(seed)
    model = initialised(args.init).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    loss_of = nn.CrossEntropyLoss()
    images, labels = train_data
    accuracies, start = [], time.perf_counter()
    for _ in range(args.epochs):
        for index in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(images[index]), labels[index]).backward()
            optimizer.step()
        accuracies.append(accuracy(model, *test_data))
    return {"init": args.init, "seed": seed, "torch": torch.__version__, "lr": args.lr, "batch_size": BATCH,
            "accuracy": accuracies, "best_of_last_three": max(accuracies[-3:]),
            "minutes": round((time.perf_counter() - start) / 60, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--append", type=Path)
    parser.add_argument("--data-path", default=DATA_PATH)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = [(images.to(memory_format=torch.channels_last), labels)
            for images, labels in (read_split(split, args.data_path) for split in ("train", "t10k"))]
    for seed in args.seeds:
        run = train(args, seed, *data)
        print(json.dumps(run), flush=True)
        if args.append:
            runs = json.loads(args.append.read_text()) if args.append.exists() else []
            lines = ",\n".join(json.dumps(r) for r in [*runs, run])
            args.append.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
