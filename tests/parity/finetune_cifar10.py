#!/usr/bin/env python3
"""Fine-tunes a network that knows eight classes of CIFAR-10 on the other two, with 100 pictures of each, beside PyTorch.

    $BENCH_PYTHON tests/parity/finetune_cifar10.py build/cpu/ddp_train CIFAR10

CIFAR10 is a folder with train/CLASS/*.jpg and test/CLASS/*.jpg, or a .tar.gz of these two folders.

ddp_train trains keras-convnet on the first eight classes (Adam at 0.001 with a cosine, batches of 128). From these
weights ddp_train and PyTorch begin a new last layer for the other two classes, and train in three ways with three seeds:

    head         the last layer alone: --freeze of all others; in PyTorch requires_grad is False there, and the batch
                 norms are in eval mode
    all          all layers
    scratch      all layers, and new weights everywhere

All have batches of 32, random crops of a padding of 4 pixels, flips, and Adam with a cosine to 0. The pictures are the
same in all runs of a seed: the 100 of a class that follow the place 100 * seed, in the order of their names. The
accuracy is that of all test pictures of the two classes with the running statistics. The two programs draw other crops,
flips, dropout and last layers, so only means agree.

Prints each accuracy, then a table of the means, ddp_train's and PyTorch's, with their difference. Exits with 0; with 1
if a difference is above two points, or if a fine-tuned network is no better than one from scratch; and with 77 and the
word SKIPPED if a package is missing. Takes three minutes on two cores. --only leaves out ways, --weights FILE the first
training.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import torch
    from safetensors.torch import load_file
    from torch import nn

    from accuracy_cifar10 import MEAN, PADDING, STD, accuracy_of, augmented, cosine, draws, normalized, read
    from networks import KerasBatchNorm2d, keras_convnet
    from program import train
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision safetensors numpy pillow")
    sys.exit(77)

KNOWN, PICTURES, BATCH, POINTS = 8, 100, 32, 0.02
WAYS = {"head": 0.003, "all": 0.001, "scratch": 0.001}  # Adam's rate
AUGMENTED = ["--model", "keras-convnet", "--crop-padding", PADDING, "--hflip", 0.5, "--optimizer", "adam",
             "--lr-scheduler", "cosine"]
NORMS = ["--sync-bn", "--bn-stats", "running"]
STATISTICS = ["--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD))]


def unpacked(path, work):
    if path.is_dir():
        return path
    with tarfile.open(path) as archive:
        archive.extractall(work / "cifar10", filter="data")
    return work / "cifar10"


def link(pictures, folder):
    folder.mkdir(parents=True)
    for picture in pictures:
        (folder / picture.name).symlink_to(picture.resolve())


def known_classes(data, folder):
    for part in "train", "test":
        for name in sorted(path.name for path in (data / part).iterdir())[:KNOWN]:
            link((data / part / name).iterdir(), folder / part / name)
    return folder


def new_classes(data, folder, seed):
    for name in sorted(path.name for path in (data / "train").iterdir())[KNOWN:]:
        pictures = sorted((data / "train" / name).iterdir())
        link(pictures[PICTURES * seed:PICTURES * (seed + 1)], folder / "train" / name)
        link((data / "test" / name).iterdir(), folder / "test" / name)
    return folder


def frozen_prefixes():
    """All modules with tensors but the last linear layer."""
    names = [name for name, module in keras_convnet(in_channels=3).named_children() if module.state_dict()]
    return names[:-1]


def here(args, way, seed, data, weights, folder):
    begun = ["--init-from", weights, "--new-head"]
    start = {"head": [*begun, "--freeze", ",".join(frozen_prefixes())], "all": [*begun, *NORMS],
             "scratch": [*STATISTICS, *NORMS]}[way]
    events = train(args.program, args.ranks, folder, *AUGMENTED, *start, "--data-path", data, "--batch-size", BATCH,
                   "--epochs", args.epochs, "--lr", WAYS[way], "--seed", seed, "--eval-every", args.epochs)
    return [event["accuracy"] for event in events if event["event"] == "eval"][-1]


def in_pytorch(args, way, seed, data, weights):
    torch.manual_seed(seed)
    model = keras_convnet(in_channels=3)
    if way != "scratch":
        model.load_state_dict(weights, strict=True)
    model[-1] = nn.Linear(model[-1].in_features, 2)
    trained = model[-1] if way == "head" else model
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in trained.modules():
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad_(True)
        if isinstance(module, KerasBatchNorm2d):
            module.weight.requires_grad_(False)  # there is no scale
    images, labels = read(data / "train", 2)
    rates = argparse.Namespace(lr=WAYS[way], epochs=args.epochs)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rates.lr)

    def begin_training():
        model.train()
        if way == "head":
            for module in model.modules():
                if isinstance(module, KerasBatchNorm2d):
                    module.eval()

    seen = 0
    begin_training()
    for _ in range(args.epochs):
        for index in torch.randperm(len(labels)).split(BATCH):
            optimizer.param_groups[0]["lr"] = cosine(rates, seen / len(labels))
            optimizer.zero_grad()
            x = normalized(augmented(images[index], *draws(len(index))))
            nn.functional.cross_entropy(model(x), labels[index]).backward()
            optimizer.step()
            seen += len(index)
    return accuracy_of(model, *read(data / "test", 2))


def judge(accuracies):
    """Prints the table. Returns what is wrong."""
    print("| way | ddp_train | PyTorch | difference |\n| --- | --- | --- | --- |")
    faults, means = [], {}
    for way, (ours, theirs) in accuracies.items():
        means[way] = statistics.mean(ours)
        difference = means[way] - statistics.mean(theirs)
        print(f"| {way} | {means[way]:.4f} | {statistics.mean(theirs):.4f} | {difference:+.4f} |")
        if not abs(difference) <= POINTS:
            faults.append(f"{way}: the difference is above {POINTS}")
    for way in means.keys() - {"scratch"}:
        if "scratch" in means and not means[way] > means["scratch"]:
            faults.append(f"{way} is no better than from scratch")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("data", type=Path, metavar="CIFAR10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=60, help="of the fine-tuning")
    parser.add_argument("--first-epochs", type=int, default=10, help="of the first training")
    parser.add_argument("--first-samples", type=int, default=0, help="of the first training, for a quick trial; 0: all")
    parser.add_argument("--weights", type=Path, help="model.safetensors of an earlier first training")
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--ranks", type=int, default=2, help="of ddp_train")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    help_text = subprocess.run([args.program, "--help"], capture_output=True, text=True, check=True).stdout
    if "head" in args.only and "--freeze " not in help_text:
        sys.exit("this program has no --freeze: give --only all scratch")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data, weights = unpacked(args.data, work), args.weights
        if not weights:
            events = train(args.program, args.ranks, work / "first", *AUGMENTED, *NORMS, *STATISTICS, "--data-path",
                           known_classes(data, work / "known"), "--batch-size", 128, "--epochs", args.first_epochs,
                           "--lr", 0.001, "--train-samples", args.first_samples)
            weights = work / "first" / "model.safetensors"
            last = [event["accuracy"] for event in events if event["event"] == "eval"][-1]
            print(f"the first training, on {KNOWN} classes: {last:.4f}", flush=True)
        tensors = load_file(weights)
        head = keras_convnet(in_channels=3)[-1]
        tensors = {name: t for name, t in tensors.items() if t.shape[:1] != (KNOWN,)}
        tensors.update({"14.weight": head.weight.detach(), "14.bias": head.bias.detach()})  # of ten classes; replaced
        accuracies = {way: ([], []) for way in args.only}
        for seed in args.seeds:
            pictures = new_classes(data, work / f"new{seed}", seed)
            for way, (ours, theirs) in accuracies.items():
                ours.append(here(args, way, seed, pictures, weights, work / f"{way}{seed}"))
                theirs.append(in_pytorch(args, way, seed, pictures, tensors))
                print(json.dumps({"way": way, "seed": seed, "ddp_train": ours[-1], "PyTorch": theirs[-1]}), flush=True)
    faults = judge(accuracies)
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
