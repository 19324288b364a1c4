#!/usr/bin/env python3
"""Makes expected/averages.json: the average of a small network's weights and batch-norm statistics in
torch.optim.swa_utils.AveragedModel. Run it without arguments from any folder.

`values` are the weights and the statistics of a linear layer and a batch norm after each of some steps of SGD. For each
decay, `averages` are those after as many updates with get_ema_multi_avg_fn(decay) and use_buffers=True.
"""
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from figures import write_json

DECAYS = [0.3, 0.9, 0.99998]
STEPS = 5


def parts(model):
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    statistics = torch.cat([b.flatten() for b in model.buffers() if b.is_floating_point()])
    return {name: [float(f"{value:.9g}") for value in values.tolist()]  # enough for each float
            for name, values in [("weights", weights), ("statistics", statistics)]}


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    averages = [AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True) for decay in DECAYS]
    optimizer, values = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9), []
    expected = [[] for _ in DECAYS]
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mul(torch.randn(16, 3)).sum().backward()
        optimizer.step()
        values.append(parts(model))
        for average, of_decay in zip(averages, expected):
            average.update_parameters(model)
            of_decay.append(parts(average.module))
    write_json(Path(__file__).parent / "expected" / "averages.json",
               {"torch": torch.__version__, "values": values,
                "runs": [{"decay": decay, "averages": of_decay} for decay, of_decay in zip(DECAYS, expected)]})


if __name__ == "__main__":
    main()
