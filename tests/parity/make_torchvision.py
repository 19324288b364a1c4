#!/usr/bin/env python3
"""Makes expected/torchvision.json: what torchvision's networks are, for images of 224 x 224 x 3 and 1000 classes, and
vit-tiny for 32 x 32 x 3 and 10. Run it from any folder (2 minutes on one core). Needs torch and torchvision.

For each network:
    tensors, elements   of its state_dict, without num_batches_tracked
    state_dict          hash of the sorted lines "name 64x3x7x7" of these tensors
    options             hash of the sorted lines of its norms, "name epsilon", in batch norms "name epsilon momentum"; of its
                        dropouts and its stochastic depths, "name rate", without those of rate 0 and those that never run
    init                mean of the absolute values and standard deviation of each parameter before training, one after
                        the other, sorted by name: means over three seeds

The hash is FNV-1a of 64 bits over the lines, each with a line feed. --print NETWORK prints the lines and writes nothing.
"""
import argparse
from pathlib import Path

import torch
from torch import nn
from torchvision.models.efficientnet import MBConv
from torchvision.ops import StochasticDepth

from figures import rounded, write_json
from networks import TORCHVISION, float_tensors, torchvision_network

FILE = Path(__file__).parent / "expected" / "torchvision.json"
SEEDS = 3


def fnv(lines):
    value = 0xCBF29CE484222325
    for byte in "".join(f"{line}\n" for line in sorted(lines)).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def shapes(model):
    return [f"{name} {'x'.join(map(str, tensor.shape))}" for name, tensor in float_tensors(model).items()]


def options(model):
    never_run = {id(m.stochastic_depth) for m in model.modules() if isinstance(m, MBConv) and not m.use_res_connect}
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            yield f"{name} {module.eps:.6g} {module.momentum:.6g}"
        elif isinstance(module, nn.LayerNorm):
            yield f"{name} {module.eps:.6g}"
        elif isinstance(module, (nn.Dropout, StochasticDepth)) and module.p > 0 and id(module) not in never_run:
            yield f"{name} {module.p:.6g}"


def deviations(network):
    sums = {}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        for name, parameter in network().named_parameters():
            values = parameter.detach().double()
            figures = torch.stack([values.abs().mean(), values.std(correction=0)]) / SEEDS
            sums[name] = sums.get(name, 0) + figures
    return [rounded(x, 3) for name in sorted(sums) for x in sums[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", choices=TORCHVISION, metavar="NETWORK")
    args = parser.parse_args()
    figures = {}
    for name in [args.print] if args.print else TORCHVISION:
        size, classes = (32, 10) if name == "vit-tiny" else (224, 1000)
        model = torchvision_network(name, size, classes)
        if args.print:
            return print(*sorted(shapes(model)), *sorted(options(model)), sep="\n")
        tensors = float_tensors(model)
        figures[name] = {
            "image": size, "classes": classes, "tensors": len(tensors), "elements": sum(t.numel() for t in tensors.values()),
            "state_dict": fnv(shapes(model)), "options": fnv(options(model)),
            "init": deviations(lambda: torchvision_network(name, size, classes))}
        print(name, figures[name]["tensors"], figures[name]["elements"], flush=True)
    write_json(FILE, figures)


if __name__ == "__main__":
    main()
