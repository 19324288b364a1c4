#!/usr/bin/env python3
"""Makes expected/schedules.json: learning rates of PyTorch's schedulers. Run it without arguments from any folder.

`by_step` has schedules of a step each: the options, and the `rates` of the steps 0 ... steps - 1. `warm_up` counts steps
of a linear warm-up from `warm_up_factor`. `plateau` has runs of ReduceLROnPlateau: the options, the `metrics` of the
evaluations in their order, and the `rates` after them.
"""
from pathlib import Path

import torch
from torch.optim import lr_scheduler

from figures import write_json

STEPS = 24
BY_STEP = [
    {"kind": "polynomial", "lr": 0.1, "power": 1.0},
    {"kind": "polynomial", "lr": 0.1, "power": 0.9},
    {"kind": "polynomial", "lr": 0.3, "power": 2.0, "warm_up": 6, "warm_up_factor": 0.1},
    {"kind": "onecycle", "lr": 0.1},
    {"kind": "onecycle", "lr": 0.1, "anneal": "linear", "pct_start": 0.45, "div_factor": 10.0,
     "final_div_factor": 100.0},
    {"kind": "onecycle", "lr": 0.2, "pct_start": 0.0},
    {"kind": "onecycle", "lr": 0.2, "pct_start": 1.0, "anneal": "linear"},
]
LOSSES = [2.3, 1.9, 1.95, 1.9, 1.8999, 1.91, 1.5, 1.6, 1.7, 1.55, 1.52, 1.499, 1.6, 1.6, 1.6, 1.6, float("nan"), 1.6, 1.6,
          1.6, 1.6, 1.6, 1.6, 1.6]
ACCURACIES = [0.1, 0.3, 0.3, 0.31, 0.312, 0.32, 0.33, 0.33, 0.33, 0.33, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]
PLATEAU = [
    {"metric": "loss", "lr": 0.1, "factor": 0.1, "patience": 1, "threshold": 1e-4, "cooldown": 0, "min_lr": 0.0},
    {"metric": "loss", "lr": 0.1, "factor": 0.5, "patience": 0, "threshold": 1e-2, "cooldown": 2, "min_lr": 0.003},
    {"metric": "acc", "lr": 0.4, "factor": 0.3, "patience": 2, "threshold": 0.05, "cooldown": 1, "min_lr": 0.0},
    {"metric": "acc", "lr": 1e-6, "factor": 0.1, "patience": 0, "threshold": 0.0, "cooldown": 0, "min_lr": 0.0},
]


def optimizer(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)


def scheduler(of, o):
    if o["kind"] == "onecycle":
        theirs = {"anneal": "anneal_strategy", "pct_start": "pct_start", "div_factor": "div_factor",
                  "final_div_factor": "final_div_factor"}
        return lr_scheduler.OneCycleLR(of, o["lr"], total_steps=STEPS, cycle_momentum=False,
                                       **{theirs[k]: v for k, v in o.items() if k in theirs})
    warm_up = o.get("warm_up", 0)
    main = lr_scheduler.PolynomialLR(of, total_iters=STEPS - warm_up, power=o["power"])
    if not warm_up:
        return main
    rising = lr_scheduler.LinearLR(of, start_factor=o["warm_up_factor"], total_iters=warm_up)
    return lr_scheduler.SequentialLR(of, [rising, main], milestones=[warm_up])


def rates_by_step(o):
    of = optimizer(o["lr"])
    schedule, rates = scheduler(of, o), []
    for step in range(STEPS):
        rates.append(of.param_groups[0]["lr"])
        of.step()
        if step + 1 < STEPS:
            schedule.step()
    return rates


def rates_at_plateaus(o, metrics):
    of = optimizer(o["lr"])
    schedule = lr_scheduler.ReduceLROnPlateau(of, mode="min" if o["metric"] == "loss" else "max", factor=o["factor"],
                                              patience=o["patience"], threshold=o["threshold"],
                                              cooldown=o["cooldown"], min_lr=o["min_lr"])
    rates = []
    for metric in metrics:
        schedule.step(metric)
        rates.append(of.param_groups[0]["lr"])
    return rates


def main():
    metrics = {"loss": LOSSES, "acc": ACCURACIES}
    write_json(Path(__file__).parent / "expected" / "schedules.json",
               {"torch": torch.__version__, "steps": STEPS,
                "by_step": [{**o, "rates": rates_by_step(o)} for o in BY_STEP],
                "plateau": [{**o, "metrics": [None if m != m else m for m in metrics[o["metric"]]],
                             "rates": rates_at_plateaus(o, metrics[o["metric"]])} for o in PLATEAU]})


if __name__ == "__main__":
    main()
