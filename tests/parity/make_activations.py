#!/usr/bin/env python3
"""Makes expected/activations.json: the activation functions and the adaptive average pooling of PyTorch, in float64. Run
it without arguments from any folder.

    functions  of each name (name_of() in src/nn/network.h): `y` at the arguments `x`, and the derivative `dy_dx` there
    pools      of each pair of extents: `y` of an image whose place (i, j) has the value (i * w + j)^2, and `dx` for a
               gradient of y whose place k has the value k + 1
"""
from pathlib import Path

import torch
from torch.nn import functional as F

from figures import rounded, write_json

X = [-12.0, -6.0, -4.5, -3.0, -2.75, -1.5, -0.75, -0.25, 0.0, 0.125, 0.5, 1.0, 2.5, 3.0, 4.0, 6.0, 9.0]
FUNCTIONS = {
    "relu": F.relu, "relu6": F.relu6, "leaky_relu": F.leaky_relu, "sigmoid": torch.sigmoid,
    "hard_sigmoid": F.hardsigmoid, "silu": F.silu, "hard_swish": F.hardswish, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "tanh": torch.tanh,
}
POOLS = [((5, 7), (3, 4)), ((1, 1), (3, 2)), ((4, 3), (6, 2))]


def nine_digits(values):
    return [rounded(v, 9) for v in values.detach().flatten()]


def main():
    figures = {"x": X, "functions": {}, "pools": []}
    for name, function in FUNCTIONS.items():
        x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
        y = function(x)
        slope, = torch.autograd.grad(y.sum(), x)
        figures["functions"][name] = {"y": nine_digits(y), "dy_dx": nine_digits(slope)}
    for extents, output in POOLS:
        places = extents[0] * extents[1]
        x = (torch.arange(places, dtype=torch.float64) ** 2).reshape(1, 1, *extents).requires_grad_()
        y = F.adaptive_avg_pool2d(x, output)
        dx, = torch.autograd.grad(y, x, torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape))
        figures["pools"].append({"input": extents, "output": output, "y": nine_digits(y),
                                 "dx": nine_digits(dx)})
    write_json(Path(__file__).parent / "expected" / "activations.json", figures)


if __name__ == "__main__":
    main()
