#!/usr/bin/env python3
"""Compares the test accuracy of a network on CIFAR-10, as a folder of pictures, with PyTorch's.

    $BENCH_PYTHON tests/parity/accuracy_cifar10.py build/cpu/ddp_train CIFAR10
    $BENCH_PYTHON tests/parity/accuracy_cifar10.py build/cpu/ddp_train CIFAR10 --model vit-tiny --init pytorch --lr 5e-4
    $BENCH_PYTHON tests/parity/accuracy_cifar10.py build/cpu/ddp_train CIFAR10 --model mobilenet_v3_small --init pytorch

CIFAR10 has train/CLASS/*.jpg and test/CLASS/*.jpg.

Both train five epochs with three seeds: Adam at 0.001 with a cosine to 0 that moves with every step, batches of 128,
RandomCrop(32, padding=4), RandomHorizontalFlip, CIFAR-10's mean and standard deviation, and new weights of --init; with
--init pytorch both begin with the same weights of the seed.
ddp_train has two ranks and --sync-bn, so that its batch norms see whole batches. Dropout is on; evaluations use the
running averages. PyTorch reads all pictures once, with torchvision's ImageFolder, and augments a batch at a time; a
check compares that with torchvision's own functions. The two draw other numbers, so only means agree.

Prints each accuracy, the means and their difference. Its bound is a percentage point, or twice the standard error of
the difference where that is more. Exits with 0; with 1 above the bound; and with 77 and the word SKIPPED if a package
is missing. --only runs one side. A run of keras-convnet takes a minute on two cores, PyTorch's three to five. Its means
were 0.572 and 0.569 with torch 2.15, single runs from 0.562 to 0.587.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import numpy as np
    import torch
    from safetensors.torch import save_file
    from torch import nn
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import functional as transforms

    from networks import keras_convnet, torchvision_network
    from program import train as train_ddp
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision safetensors numpy pillow")
    sys.exit(77)

SIDE, PADDING, CLASSES, POINT = 32, 4, 10, 0.01
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read(folder, classes=CLASSES):
    """All pictures as uint8 (n,3,32,32), and labels."""
    data = ImageFolder(folder)
    if len(data.classes) != classes:
        sys.exit(f"{folder} has {len(data.classes)} classes, not {classes}")
    images = torch.empty(len(data), 3, SIDE, SIDE, dtype=torch.uint8)
    for image, (path, _) in zip(images, data.samples):
        image.copy_(torch.from_numpy(np.array(data.loader(path))).permute(2, 0, 1))
    return images, torch.tensor(data.targets)


def normalized(images):
    """ToTensor and Normalize."""
    return (images.float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def augmented(images, tops, lefts, flips):
    """RandomCrop(32, padding=4), then RandomHorizontalFlip, of a batch, with these draws."""
    padded = nn.functional.pad(images, (PADDING,) * 4)
    pixels = torch.arange(SIDE)
    columns = torch.where(flips[:, None], SIDE - 1 - pixels, pixels) + lefts[:, None]
    rows, samples = tops[:, None] + pixels, torch.arange(len(images))
    return padded[samples[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def draws(count):
    """Those of the two transforms: tops and lefts in [0, 8], and flips."""
    tops, lefts = torch.randint(2 * PADDING + 1, (2, count))
    return tops, lefts, torch.rand(count) < 0.5


def check_augmentation(images):
    drawn = draws(len(images))
    for got, image, top, left, flip in zip(augmented(images, *drawn), images, *drawn):
        expected = transforms.crop(transforms.pad(image, PADDING), top, left, SIDE, SIDE)
        assert torch.equal(got, transforms.hflip(expected) if flip else expected)
        normal = transforms.normalize(image.float() / 255, MEAN, STD)
        assert torch.allclose(normalized(image[None])[0], normal, atol=1e-6)


def initialised(args):
    """By the default of PyTorch or torchvision, unless --init is glorot."""
    model = keras_convnet(in_channels=3) if args.model == "keras-convnet" else torchvision_network(args.model, SIDE)
    if args.init == "glorot":
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
    return model


@torch.no_grad()
def accuracy_of(model, images, labels):
    model.eval()
    correct = sum((model(normalized(x)).argmax(1) == y).sum().item()
                  for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return correct / len(labels)


def train_pytorch(args, seed, train_data, test_data):
    """The accuracy after each epoch."""
    torch.manual_seed(seed)
    model = initialised(args)
    images, labels = train_data
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    accuracies, seen = [], 0
    for _ in range(args.epochs):
        for index in torch.randperm(len(labels)).split(args.batch_size):
            optimizer.param_groups[0]["lr"] = cosine(args, seen / len(labels))
            optimizer.zero_grad()
            x = normalized(augmented(images[index], *draws(len(index))))
            nn.functional.cross_entropy(model(x), labels[index]).backward()
            optimizer.step()
            seen += len(index)
        accuracies.append(accuracy_of(model, *test_data))
    return accuracies


def cosine(args, epochs_seen):
    return args.lr * (1 + math.cos(math.pi * epochs_seen / args.epochs)) / 2


def train_here(args, seed):
    """The accuracy after each epoch. Checks the learning rate of each step."""
    with tempfile.TemporaryDirectory() as folder:
        start = ["--init", args.init]
        if args.init == "pytorch":
            torch.manual_seed(seed)
            file = Path(folder) / "initial.safetensors"
            save_file({name: t.clone() for name, t in initialised(args).state_dict().items()}, file)
            start = ["--init-from", file]
        norms = [] if args.model == "vit-tiny" else ["--sync-bn", "--bn-stats", "running"]  # it has no batch norms
        events = train_ddp(
            args.program, args.ranks, Path(folder) / "run", "--model", args.model, "--data-path", args.data_path,
            "--train-samples", args.train_samples, "--crop-padding", PADDING, "--hflip", 0.5,
            "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), *start,
            "--optimizer", "adam", "--lr", args.lr, "--lr-scheduler", "cosine", "--epochs", args.epochs,
            "--batch-size", args.batch_size, "--seed", seed, *norms)
    steps = [event for event in events if event["event"] == "step"]
    seen, samples = 0, sum(step["samples"] for step in steps)
    for step in steps:
        wanted = cosine(args, seen * args.epochs / samples)
        if not abs(step["lr"] - wanted) <= 1e-6 * args.lr:
            sys.exit(f"step {step['step']} had the learning rate {step['lr']}, here it is {wanted}")
        seen += step["samples"]
    return [event["accuracy"] for event in events if event["event"] == "eval"]


def last_accuracies(name, train, args):
    last = []
    for seed in args.seeds:
        start = time.perf_counter()
        accuracies = train(seed)
        print(json.dumps({"program": name, "seed": seed, "accuracy": accuracies,
                          "minutes": round((time.perf_counter() - start) / 60, 1)}), flush=True)
        last.append(accuracies[-1])
    print(f"{name}: mean {statistics.mean(last):.4f}", flush=True)
    return last


def judge(ours, pytorch):
    difference = statistics.mean(ours) - statistics.mean(pytorch)
    spread = [statistics.variance(runs) / len(runs) if len(runs) > 1 else 0.0 for runs in (ours, pytorch)]
    bound = max(POINT, 2 * math.sqrt(sum(spread)))
    print(f"difference {difference:+.4f}, standard error {math.sqrt(sum(spread)):.4f}, bound {bound:.4f}")
    if not abs(difference) <= bound:
        sys.exit("FAILED: the mean accuracies differ by more than the bound")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN")
    parser.add_argument("data_path", type=Path, metavar="CIFAR10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--model", choices=["keras-convnet", "vit-tiny", "mobilenet_v3_small"], default="keras-convnet")
    parser.add_argument("--init", choices=["default", "glorot", "pytorch"], default="glorot")
    parser.add_argument("--train-samples", type=int, default=0, help="for a quick trial; 0: all")
    parser.add_argument("--ranks", type=int, default=2, help="of ddp_train")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    parser.add_argument("--only", choices=["ddp_train", "pytorch"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ours = pytorch = None
    if args.only != "pytorch":
        ours = last_accuracies("ddp_train", lambda seed: train_here(args, seed), args)
    if args.only != "ddp_train":
        train_data, test_data = (read(args.data_path / part) for part in ("train", "test"))
        check_augmentation(train_data[0][:100])
        if args.train_samples:
            chosen = torch.randperm(len(train_data[1]), generator=torch.Generator().manual_seed(0))[:args.train_samples]
            train_data = tuple(t[chosen] for t in train_data)
        pytorch = last_accuracies("PyTorch", lambda seed: train_pytorch(args, seed, train_data, test_data), args)
    if ours and pytorch:
        judge(ours, pytorch)


if __name__ == "__main__":
    main()
