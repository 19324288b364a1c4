#!/usr/bin/env python3
"""Compares torchvision's networks in the program with PyTorch's: gradients of one step, and five losses.

    $BENCH_PYTHON tests/parity/torchvision_networks.py build/cpu/ddp_train

Both begin with the parity weights of networks.py, and the networks with batch norms with running statistics of eight
batches of noise; there, biases of the norms are larger by SHIFTS, so that few ReLUs are near 0. ddp_train reads the
network's file in src/nn/models with all rates of dropouts and stochastic depths 0 (--model FILE.toml), and trains on
one and on two ranks, where there are batch norms with --sync-bn, on pictures of ten classes (pictures.py makes them).
PyTorch gets the exact batches of ddp_train show.

A gradient is the momentum buffer after the first step. Its distance from PyTorch's in float64 must be at most 1e-4 of
the tensor's norm, or of 1e-3 of the norm of all if that is more; that of a loss 1e-5. Where PyTorch's own float32 is
further away than a third of a bound, the bound is three times its distance; a line says so.

Needs torch, torchvision, safetensors and Pillow; four minutes on two cores, and 4 GB of memory. Exits with 0; with 1
after a difference; and with 77 and the word SKIPPED if a package is missing.
"""
import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import numpy as np
    import torch
    from safetensors.torch import save_file
    from torch import nn

    from networks import GAINS, TORCHVISION, set_parity_weights, torchvision_network
    from pictures import make_pictures
    from program import run
    from steps import bounds_of, compare_steps
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision safetensors numpy pillow")
    sys.exit(77)

MODELS = Path(__file__).resolve().parents[2] / "src" / "nn" / "models"
STEPS, BATCH, MOMENTUM = 5, 8, 0.9
SIDES = {"vit-tiny": 32, "vgg16": 32}
RATES = {"vgg16": 1e-6}
SHIFTS = {"densenet121": 4.0, "mobilenet_v3_small": 4.0}
GRADIENT, LOSS = 1e-4, 1e-5


def network(name):
    return torchvision_network(name, SIDES.get(name, 64))


def initial(name):
    """The state dict that both begin with."""
    torch.manual_seed(0)
    model = set_parity_weights(network(name), SHIFTS.get(name, 0.0), gain=GAINS.get(name, 1.0))
    norms = [(m, m.momentum) for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm, _ in norms:
        norm.momentum = None  # the mean of all batches
    with torch.no_grad():
        for _ in range(8 if norms else 0):
            model(torch.randn(BATCH, 3, SIDES.get(name, 64), SIDES.get(name, 64)))
    return {key: value.clone() for key, value in model.state_dict().items()}


def without_rates(name, folder):
    """A network file with all rates 0."""
    text = re.sub(r'(dropout|stochastic_depth) = (?:[\d.]+|"[^"]*")', r"\1 = 0", (MODELS / f"{name}.toml").read_text())
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def pytorch(name, weights, batches, lr, dtype):
    """Losses of the steps, and the momentum buffers after the first one."""
    model = network(name)
    model.load_state_dict(weights)
    model.to(dtype).train()
    for module in model.modules():
        if type(module).__name__ in ("Dropout", "StochasticDepth"):
            module.p = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)
    losses, buffers = [], {}
    for images, labels in zip(batches[0].split(BATCH), batches[1].split(BATCH), strict=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(dtype)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not buffers:
            buffers = {path: optimizer.state[p]["momentum_buffer"].double().clone() for path, p in model.named_parameters()}
    return losses, buffers


def compare(args, name, data, work):
    """What is wrong with one network."""
    weights, file, faults = initial(name), work / f"{name}.safetensors", []
    save_file(weights, file)
    options = ["--data-path", data, "--batch-size", BATCH, "--train-crop-size", SIDES.get(name, 64), "--rrc-scale", "0.3,1",
               "--mean", "imagenet", "--seed", 1]
    run(args.program, "show", *options, "--steps", STEPS, "--batches", work / f"{name}.npy")
    batches = [torch.from_numpy(np.load(work / part)) for part in (f"{name}.npy", f"{name}.labels.npy")]
    lr = RATES.get(name, 1e-4)
    reference = pytorch(name, weights, batches, lr, torch.float64)
    bounds = bounds_of(name, pytorch(name, weights, batches, lr, torch.float32), reference,
                       {"gradients": GRADIENT, "losses": LOSS})
    options += ["--model", without_rates(name, work), "--init-from", file, "--epochs", 1000, "--eval-every", 0, "--lr", lr,
                "--momentum", MOMENTUM, *["--sync-bn"] * any(key.endswith("running_mean") for key in weights)]
    for ranks in 1, 2:
        folders = work / f"{name}-{ranks}", work / f"{name}-{ranks}-first"
        faults += compare_steps(args.program, name, ranks, folders, options, STEPS, reference, bounds)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--networks", nargs="+", default=TORCHVISION, choices=TORCHVISION)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        make_pictures(work / "pictures")
        for name in args.networks:
            faults += compare(args, name, work / "pictures", work)
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
