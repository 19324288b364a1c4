#!/usr/bin/env python3
"""PyTorch's test accuracy of D2L's ResNet-18 after a few steps in this project's order of samples, as one JSON line. A
run of ddp_train from the same weights must agree within two percentage points (rounding makes losses diverge after some
steps).

    ddp_train --model resnet18 --batch-size 128 --lr 0 --max-steps 1 --output-dir W    its initial weights, unchanged
    ddp_train --model resnet18 --train-samples 1920 --print-order 1 > order
    tests/parity/accuracy_resnet18.py --order order --init W/model.safetensors

and of ddp_train, where DATA has the first 2,000 test images:

    ddp_train --model resnet18 --data-path DATA --train-samples 1920 --batch-size 128 --lr 0.02 --max-steps 15 --output-dir R

--init is a safetensors file with PyTorch's names, or `parity` for the weights of networks.py; --save-init FILE writes
these weights for ddp_train --init-from, and stops. SGD without momentum, x/255, no augmentation. Running statistics lag
behind fast steps, so the script recomputes them before the evaluation, as --bn-stats recompute does: over the first
--statistics-samples training samples in batches of --batch-size. Each batch is normalized by its own statistics; mean
and unbiased variance are over all batches together. A step of 128 samples takes about 3.5 s on one core.
"""
import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lenet import DATA_PATH, read_split
from networks import resnet18, set_parity_weights



@torch.no_grad()
def recompute_statistics(model, batches):
    """Sets every norm's running mean and variance to those of its input over all batches together."""
    sums = {m: torch.zeros(3, m.num_features, dtype=torch.float64) for m in model.modules()
            if isinstance(m, nn.BatchNorm2d)}

    def add(norm, inputs):
        x = inputs[0].double() - norm.running_mean.double().view(1, -1, 1, 1)  # keeps the squares small
        sums[norm] += torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3)),
                                   torch.full_like(sums[norm][2], x.numel() / norm.num_features)])

    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    hooks = [norm.register_forward_pre_hook(add) for norm in sums]
    for norm in sums:
        norm.momentum = 0.0  # keeps the centre of the sums
    model.train()
    for x in batches:
        model(x)
    for hook in hooks:
        hook.remove()
    for name, buffer in model.named_buffers():
        buffer.copy_(kept[name])
    for norm, (first, second, count) in sums.items():
        mean = first / count
        norm.running_mean += mean
        norm.running_var.copy_((second - count * mean.square()) / (count - 1))


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    correct, loss = 0, 0.0
    for x, y in zip(images.split(200), labels.split(200)):
        outputs = model(x)
        correct += (outputs.argmax(1) == y).sum().item()
        loss += nn.functional.cross_entropy(outputs, y, reduction="sum").item()
    return correct / len(labels), loss / len(labels)


def train(model, images, labels, order, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    losses = []
    for index in order[:args.steps * args.batch_size].split(args.batch_size):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[index]), labels[index])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", default="parity", help="FILE.safetensors or parity")
    parser.add_argument("--save-init", type=Path, metavar="FILE", help="write the parity weights and stop")
    parser.add_argument("--order", type=Path, help="numbers of training samples, one a line")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--statistics-samples", type=int, default=1920)
    parser.add_argument("--test-samples", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-path", default=DATA_PATH)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = resnet18()
    set_parity_weights(model) if args.init == "parity" else model.load_state_dict(load_file(args.init))
    if args.save_init:
        save_file(model.state_dict(), args.save_init)
        return
    if not args.order:
        parser.error("--order is missing: ddp_train --model resnet18 --print-order 1 > order")
    order = torch.tensor([int(line) for line in args.order.read_text().split()])
    if len(order) < args.steps * args.batch_size:
        parser.error(f"--order has {len(order)} samples, {args.steps} steps take {args.steps * args.batch_size}")

    start, layout = time.perf_counter(), torch.channels_last
    (images, labels), (test_images, test_labels) = (read_split(split, args.data_path) for split in ("train", "t10k"))
    images, test_images = images.to(memory_format=layout), test_images.to(memory_format=layout)
    model.to(memory_format=layout)
    losses = train(model, images, labels, order, args)
    running = {name: buffer.clone() for name, buffer in model.named_buffers()}
    recompute_statistics(model, images[:args.statistics_samples].split(args.batch_size))
    test = test_images[:args.test_samples], test_labels[:args.test_samples]
    accuracy, loss = evaluate(model, *test)
    drift = max((b - running[n]).norm().item() / b.norm().item() for n, b in model.named_buffers() if b.dim())
    print(json.dumps({
        "init": args.init, "torch": torch.__version__, "steps": args.steps, "batch_size": args.batch_size, "lr": args.lr,
        "losses": [round(x, 5) for x in losses], "test_accuracy": accuracy, "test_loss": round(loss, 5),
        "statistics_samples": args.statistics_samples, "running_statistics_lag": round(drift, 3),
        "minutes": round((time.perf_counter() - start) / 60, 1)}))


if __name__ == "__main__":
    main()
