#!/usr/bin/env python3
"""Compares the fine-tuning of torchvision's ResNets with PyTorch's: gradients of one step, five losses, frozen tensors.

    $BENCH_PYTHON tests/parity/finetune.py build/cpu/ddp_train

PyTorch makes the weights of a network with 1000 classes: the parity weights of networks.py with biases of the norms that
are 4 larger, and running statistics of eight batches of noise. So a few ReLUs close, but hardly one is near 0: with
biases 1 larger, rounding flips one of a million now and then, which moves gradients by 1e-2. ddp_train begins with them
and --new-head on pictures of ten classes (pictures.py makes them), on one and on two ranks with --sync-bn, and PyTorch
gets the same new head and the exact batches of ddp_train show. The cases:

    new head    all layers train
    frozen      --freeze conv1,bn1,layer1; in PyTorch requires_grad is False there, and its batch norms are in eval mode
    groups      --head-lr, and a [[group]] for layer4 with a rate, weight decay and momentum of its own

A gradient is the momentum buffer after the first step, which has the weight decay in it. Its distance from PyTorch's in
float64 must be at most 1e-4 of the tensor's norm, or of 1e-3 of the norm of all if that is more; that of a loss 1e-5, or
three times the distance of PyTorch's own float32 where that is more. Each tensor below a frozen prefix keeps every bit,
its running statistics too. A case whose option this program does not have fails.

Needs torch, torchvision, safetensors and Pillow; two minutes on two cores. Exits with 0; with 1 after a difference; and
with 77 and the word SKIPPED if a package is missing.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import numpy as np
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
    from torch import nn

    from figures import largest, loss_distance
    from networks import set_parity_weights
    from pictures import CLASSES, make_pictures
    from program import run, train
    from steps import gradient_distance
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision safetensors numpy pillow")
    sys.exit(77)

STEPS, BATCH, SIDE = 5, 16, 64
RATE, MOMENTUM, DECAY = 1e-3, 0.9, 1e-4
HEAD_RATE = 1e-2
GROUP = {"match": "layer4.*", "lr": 3e-4, "weight-decay": 1e-3, "momentum": 0.5}
FROZEN = ("conv1", "bn1", "layer1")
GRADIENT, LOSS = 1e-4, 1e-5
OPTIONS = {"new head": [], "frozen": ["--freeze", ",".join(FROZEN)], "groups": ["--head-lr", HEAD_RATE]}


def pretrained(name):
    """The state dict of a network for 1000 classes."""
    torch.manual_seed(0)
    model = set_parity_weights(getattr(torchvision.models, name)(num_classes=1000), shift=4.0)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the mean of all batches
    with torch.no_grad():
        for _ in range(8):
            model(torch.randn(BATCH, 3, SIDE, SIDE))
    return {key: value.clone() for key, value in model.state_dict().items()}


def is_frozen(name, case):
    return case == "frozen" and any(name == prefix or name.startswith(prefix + ".") for prefix in FROZEN)


def settings(name, case):
    """Rate, weight decay and momentum of a parameter."""
    if case == "groups" and name.startswith("fc."):
        return HEAD_RATE, DECAY, MOMENTUM
    if case == "groups" and name.startswith("layer4."):
        return GROUP["lr"], GROUP["weight-decay"], GROUP["momentum"]
    return RATE, DECAY, MOMENTUM


def pytorch(name, weights, batches, case, dtype):
    """Losses of the steps, and the momentum buffers after the first one."""
    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    model.load_state_dict(weights)
    model.to(dtype).train()
    for path, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d) and is_frozen(path, case):
            module.eval()
    groups = []
    for path, parameter in model.named_parameters():
        if is_frozen(path, case):
            parameter.requires_grad_(False)
            continue
        rate, decay, momentum = settings(path, case)
        groups.append({"params": [parameter], "lr": rate, "weight_decay": decay, "momentum": momentum})
    optimizer = torch.optim.SGD(groups, lr=RATE)
    losses, buffers = [], {}
    for images, labels in zip(batches[0].split(BATCH), batches[1].split(BATCH), strict=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(dtype)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not buffers:
            buffers = {path: optimizer.state[p]["momentum_buffer"].double().clone()
                       for path, p in model.named_parameters() if p.requires_grad}
    return losses, buffers


class Comparison:
    def __init__(self, program, name, work, data):
        self.program, self.name, self.work, self.faults = program, name, work, []
        self.options = ["--data-path", data, "--batch-size", BATCH, "--train-crop-size", SIDE, "--rrc-scale", "0.3,1",
                        "--mean", "imagenet", "--seed", 1]
        self.file, self.weights = work / f"{name}.safetensors", pretrained(name)
        save_file(self.weights, self.file)
        run(program, "show", *self.options, "--steps", STEPS, "--batches", work / f"{name}.npy")
        self.batches = [torch.from_numpy(np.load(work / file)) for file in (f"{name}.npy", f"{name}.labels.npy")]
        self.head = {}

    def train(self, ranks, folder, steps, *options, **more):
        return train(self.program, ranks, self.work / folder, *self.options, "--model", f"torchvision-{self.name}",
                     "--init-from", self.file, "--new-head", "--max-steps", steps, "--epochs", 1000, "--sync-bn",
                     "--eval-every", 0, *options, **more)

    def same_start(self):
        """The new head of a run whose rate is 0; all else must be the file's."""
        self.train(1, f"{self.name}-start", 1, "--lr", 0)
        start = load_file(self.work / f"{self.name}-start" / "model.safetensors")
        self.head = {name: start[name] for name in ("fc.weight", "fc.bias")}
        for name, tensor in start.items():
            learned = name.endswith(("weight", "bias")) and not name.startswith("fc.")
            if learned and not torch.equal(tensor, self.weights[name]):
                self.faults.append(f"{self.name}: {name} is not the file's")
        return {**self.weights, **self.head}

    def case(self, case, extra):
        start = self.same_start() if not self.head else {**self.weights, **self.head}
        reference, gradients = pytorch(self.name, start, self.batches, case, torch.float64)
        losses, buffers = pytorch(self.name, start, self.batches, case, torch.float32)
        own, spread = loss_distance(losses, reference), largest(gradient_distance(buffers, gradients).values())
        bound = largest([LOSS, 3 * own])
        print(f"{self.name}, {case}: PyTorch's float32 has gradients within {spread:.1e}, losses within {own:.1e}")
        for ranks in 1, 2:
            label = f"{self.name}, {case}, ranks: {ranks}"
            rates = ["--lr", RATE, "--momentum", MOMENTUM, "--weight-decay", DECAY, *extra]
            one, five = (self.work / f"{self.name}-{case.replace(' ', '-')}-{ranks}-{steps}" for steps in (1, STEPS))
            self.train(ranks, one, 1, *rates, save_every="1steps")
            events = self.train(ranks, five, STEPS, *rates)
            self.compare(label, case, gradients, load_file(one / "checkpoints/latest/optimizer.safetensors"))
            losses = [event["loss"] for event in events if event["event"] == "step"]
            off = loss_distance(losses, reference) if len(losses) == STEPS else float("nan")
            print(f"{label}: losses within {off:.1e} (bound {bound:.1e})")
            if not off <= bound:
                self.faults.append(f"{label}: losses {losses}, PyTorch has {reference}")
            self.keeps(label, case, load_file(five / "model.safetensors"))

    def compare(self, label, case, reference, buffers):
        got = {name.removesuffix(".momentum_buffer"): t.double() for name, t in buffers.items()
               if name.endswith(".momentum_buffer")}
        got = {name: t for name, t in got.items() if not is_frozen(name, case)}
        if got.keys() != reference.keys():
            return self.faults.append(f"{label}: the optimizer has {len(got)} tensors, PyTorch's {len(reference)}")
        distances = gradient_distance(got, reference)
        worst = max(distances, key=lambda name: (distances[name] != distances[name], distances[name]))
        print(f"{label}: gradients of {len(got)} tensors within {distances[worst]:.1e} ({worst}; bound {GRADIENT:.0e})")
        off = sum(not d <= GRADIENT for d in distances.values())
        if off:
            self.faults.append(f"{label}: {off} gradients differ, that of {worst} by {distances[worst]:.1e}")

    def keeps(self, label, case, after):
        frozen = [name for name in self.weights if is_frozen(name, case)]
        changed = [name for name in frozen if name.split(".")[-1] != "num_batches_tracked"
                   and not torch.equal(after[name], self.weights[name])]
        self.faults += [f"{label}: {name} is frozen and has changed" for name in changed]
        if frozen:
            print(f"{label}: {len(frozen) - len(changed)} of {len(frozen)} frozen tensors keep every bit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--networks", nargs="+", default=["resnet18", "resnet50"], choices=["resnet18", "resnet50"])
    parser.add_argument("--cases", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    faults, known = [], subprocess.run([args.program, "--help"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        make_pictures(work / "pictures")
        group = "".join(f"{key} = {value!r}\n" for key, value in GROUP.items())
        (work / "groups.toml").write_text("[[group]]\n" + group)
        for name in args.networks:
            comparison = Comparison(args.program, name, work, work / "pictures")
            for case in args.cases:
                if OPTIONS[case] and f"{OPTIONS[case][0]} " not in known:
                    comparison.faults.append(f"{case}: this program has no option {OPTIONS[case][0]}")
                    continue
                config = ["--config", work / "groups.toml"] if case == "groups" else []
                comparison.case(case, OPTIONS[case] + config)
            faults += comparison.faults
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
