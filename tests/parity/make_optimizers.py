#!/usr/bin/env python3
"""Makes expected/optimizers.json: the results of twenty steps of each optimizer in PyTorch. Run it without arguments
from any folder.

Weights and samples are those of networks.py: the parity weights, global batches 0 ... 19 of Fashion-MNIST. Norms are in
training mode, dropout is off. A run has the `network`, its `batch_size`, the `options` that differ from plain SGD, and
    tensors  t of each float tensor, by name
    losses   mean cross-entropy (with label smoothing if the options set it) before each of the twenty steps
    changes  weights after minus weights before the steps of each trainable tensor, as fingerprints (figures.py). The bias of a
             convolution before a norm is left out: its true gradient is zero, and Adam makes full steps of its rounding errors
    spread, tolerances  of losses and changes (figures.py)

Options, by the names of torch.optim and torch.nn: optimizer, lr, momentum, nesterov, weight_decay, betas, eps,
clip_grad_norm (torch.nn.utils.clip_grad_norm_), label_smoothing. If decay_biases is false, tensors named *.bias do not
decay; otherwise all tensors decay. `groups` has parameter groups, with the prefix of their names as `match`. PyTorch has no lars; Lars below is algorithm 1 of You, Gitman and Ginsburg (2017),
with a local rate of 1 and no decay for biases.
"""
from pathlib import Path

import torch

from figures import (VARIANTS, Run, distance, fingerprints, loss_distance, rounded, rounded_spread, tolerances,
                     whole_norm, write_json)
from networks import NETWORKS, FashionMnist, float_tensors, set_parity_weights

STEPS = 20
LEAST = {"losses": 1e-5, "changes": 1e-4}
BATCH = {"mlp": 256, "keras-convnet": 32}  # at 256 ten times as many ReLUs are near zero (make_networks.py)
RUNS = [  # network, options
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4, "decay_biases": False}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "weight_decay": 0.05}),
    ("mlp", {"optimizer": "adam", "lr": 1e-3}),
    ("mlp", {"optimizer": "adam", "lr": 1e-3, "weight_decay": 5e-4}),
    ("mlp", {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.01}),
    ("mlp", {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1, "betas": [0.8, 0.99], "eps": 1e-6,
             "decay_biases": False}),
    ("mlp", {"optimizer": "lars", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "trust": 0.02}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "clip_grad_norm": 0.5}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "label_smoothing": 0.1}),
    ("mlp", {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "groups": [
        {"match": "3.", "lr": 0.2, "weight_decay": 0.01, "momentum": 0.5}, {"match": "1.bias", "lr": 0.005}]}),
    ("mlp", {"optimizer": "adam", "lr": 1e-3, "weight_decay": 5e-4, "groups": [
        {"match": "3.bias", "lr": 1e-4}, {"match": "3.", "lr": 2e-3, "weight_decay": 0.05}]}),
    ("mlp", {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1, "eps": 1e-6, "groups": [
        {"match": "3.", "lr": 5e-4, "weight_decay": 0.0}]}),
    ("keras-convnet", {"optimizer": "adam", "lr": 1e-4}),
    ("keras-convnet", {"optimizer": "sgd", "lr": 0.002, "momentum": 0.9, "weight_decay": 5e-4}),
]


class Lars(torch.optim.Optimizer):
    """l = trust * |w| / (|g| + d * |w|) for tensors that decay, otherwise l = 1 and d = 0;
    m = momentum * m + lr * l * (g + d * w);  w = w - m."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay = group["weight_decay"]
            for w in group["params"]:
                local = group["trust"] * w.norm() / (w.grad.norm() + decay * w.norm()) if decay else 1.0
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                m.mul_(group["momentum"]).add_(group["lr"] * local * (w.grad + decay * w))
                w.sub_(m)


def optimizer_of(options):
    class_of = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
                "lars": lambda groups, **o: Lars(groups, o)}[options["optimizer"]]
    ours = {"optimizer", "decay_biases", "clip_grad_norm", "label_smoothing", "groups"}
    theirs = {k: v for k, v in options.items() if k not in ours}
    excluded = options["optimizer"] == "lars" or not options.get("decay_biases", True)

    def make(parameters):
        if "groups" in options:
            left, groups = dict(parameters), []
            for group in options["groups"]:
                names = [n for n in left if n.startswith(group["match"])]
                values = {k: v for k, v in group.items() if k != "match"}
                groups.append({"params": [left.pop(n) for n in names], **values})
            return class_of([*groups, {"params": list(left.values())}], **theirs)
        if not excluded:
            return class_of(list(parameters.values()), **theirs)
        biases = [p for n, p in parameters.items() if n.endswith(".bias")]
        weights = [p for n, p in parameters.items() if not n.endswith(".bias")]
        return class_of([{"params": weights}, {"params": biases, "weight_decay": 0.0}], **theirs)

    return make


def twenty_steps(network, options, data, variant):
    weights = set_parity_weights(NETWORKS[network]()).state_dict()
    run = Run(NETWORKS[network], weights, data, BATCH[network], optimizer_of(options), variant,
              smoothing=options.get("label_smoothing", 0.0), clip=options.get("clip_grad_norm"))
    first_loss, gradients = run.step(0)
    losses = [first_loss, *run.losses(range(1, STEPS))]
    after, floor = run.tensors(), 1e-9 * whole_norm(gradients)
    return losses, {n: after[n] - weights[n].double() for n, g in gradients.items() if g.norm() > floor}


def expected(network, options, data):
    losses, changes = twenty_steps(network, options, data, "float64")
    spread = {}
    for variant in VARIANTS if network != "mlp" else VARIANTS[:1]:  # the other variants differ in convolutions
        other_losses, other_changes = twenty_steps(network, options, data, variant)
        spread[variant] = {"losses": loss_distance(other_losses, losses), "changes": distance(other_changes, changes)}
    index = {name: t for t, name in enumerate(float_tensors(NETWORKS[network]()))}
    return {"network": network, "batch_size": BATCH[network], "options": options,
            "losses": [rounded(x, 12) for x in losses], "spread": rounded_spread(spread),
            "tolerances": tolerances(spread, LEAST), "tensors": index,
            "changes": fingerprints(changes, index)}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    data, runs = FashionMnist(), []
    for network, options in RUNS:
        runs.append(expected(network, options, data))
        print(network, options, [f"{x:.4f}" for x in runs[-1]["losses"][::5]])
        for variant, spread in runs[-1]["spread"].items():
            print(f"    {variant:15} {spread}", flush=True)
    write_json(Path(__file__).parent / "expected" / "optimizers.json",
               {"torch": torch.__version__, "runs": runs})


if __name__ == "__main__":
    main()
