#!/usr/bin/env python3
"""Makes expected/attention.json: a step and five losses of a small network with nn.GroupNorm, nn.LayerNorm and
nn.MultiheadAttention, full and causal, in float64. Run it without arguments from any folder.

Weights and samples are those of networks.py; the norms' weights and biases those of a batch norm. The file has
    losses      before each of five steps at a rate of LR
    gradients   of the first step, as fingerprints (figures.py)
    spread      the distance of PyTorch's float32 from these figures
"""
from pathlib import Path

import numpy as np
import torch
from torch import nn

from figures import Run, distance, fingerprints, loss_distance, rounded, write_json
from networks import FashionMnist, float_tensors, units

BATCH, LR, WIDTH = 32, 0.1, 24


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 7, stride=7)
        self.group_norm = nn.GroupNorm(4, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.full = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.causal = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.norm1(self.group_norm(self.patches(images)).flatten(2).transpose(1, 2))
        x = self.full(x, x, x, need_weights=False)[0]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = self.causal(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)[0]
        return self.head(self.norm2(x).mean(1))


def parity_weights():
    model = Attention()
    weights = {}
    for t, (name, tensor) in enumerate(float_tensors(model).items()):
        u = units(t, tensor.numel())
        if "norm" in name:
            u = (1 if name.endswith("weight") else 0) + 0.25 * u
        else:
            u = u / np.sqrt(49 if name.startswith("patches") else WIDTH)
        weights[name] = torch.from_numpy(u.astype(np.float32)).reshape(tensor.shape)
    return weights


def main():
    torch.set_num_threads(1)
    weights, data = parity_weights(), FashionMnist()
    found = {}
    for variant in "float64", "float32":
        run = Run(Attention, weights, data, BATCH, lambda parameters: torch.optim.SGD(parameters.values(), lr=LR), variant)
        loss, gradients = run.step(0)
        found[variant] = [loss, *run.losses(range(1, 5))], gradients
    losses, gradients = found["float64"]
    spread = {"losses": loss_distance(found["float32"][0], losses), "gradients": distance(found["float32"][1], gradients)}
    print(losses, spread)
    index = {name: t for t, name in enumerate(weights)}
    write_json(Path(__file__).parent / "expected" / "attention.json",
               {"torch": torch.__version__, "batch_size": BATCH, "lr": LR, "tensors": index,
                "losses": [rounded(x, 10) for x in losses], "gradients": fingerprints(gradients, index, 8),
                "spread": {what: rounded(x, 2) for what, x in spread.items()}})


if __name__ == "__main__":
    main()
