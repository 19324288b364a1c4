#!/usr/bin/env python3
"""Makes the figures in expected/ for the parity test. Run it without arguments from any folder.

Weights, order and pixels are those of lenet.py. There are four starting states: the parity weights (state 0), and
PyTorch's weights after 50, 200 and 400 steps at lr 0.2 from state 0. The latter are rounded to bfloat16 precision and
stored as float32 in expected/weights_STEP.safetensors; half of their bits are zero, so the files compress well. From
each state, on global batches first_batch, first_batch + 1, ...:
    losses      mean cross-entropy before each of six successive SGD steps at lr 0.2
    gradients   gradients of the first step; for each tensor its L2 norm and 64 random projections:
                projection[p] = sum over e of (bit p of hash((256 + t) << 32 | e) ? +1 : -1) * gradient[e],   t, e, hash as
                in lenet.py. The mean over p of the squares of the differences between two gradients' projections is an
                unbiased estimate of the squared L2 norm of their difference, with a relative deviation of 0.18.
and from state 0, `free_running`: the losses before each of 100 steps at lr 0.02, for each of three first_batch.

The figures are PyTorch's in float64 on one thread. `spread` is the distance of PyTorch's float32 from them in three
ways of rounding (VARIANTS): no tolerance can be below it. For gradients it is the largest L2 distance of a tensor over
its norm, for losses the largest relative difference. Its main cause are ReLUs whose input is within rounding of zero:
their gradient jumps. One such ReLU changes a tensor's gradient by 1e-4 or more, and every third batch has one, so
FIRST_BATCH has starts without any. In 100 free-running steps they cannot be avoided: PyTorch agrees with itself to 2e-6
in the first 40 steps, and in all steps to 1e-5 in some runs and 6e-5 in others. So there are three runs. Wrong
mathematics shows at once in every run.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from figures import largest, loss_distance, write_json
from lenet import NAMES, element_hashes, lenet, parity_batch, read_split, set_parity_weights

EXPECTED = Path(__file__).parent / "expected"
FIRST_BATCH = {0: 0, 50: 58, 200: 214, 400: 422}  # key: number of steps before the starting weights
FREE_RUNNING_FIRST_BATCH = [20, 100, 140]
VARIANTS = ["float32", "channels_last", "without_onednn"]


class Run:
    """Runs LeNet through the parity order, with one way of rounding."""

    def __init__(self, data, weights, lr, variant="float64"):
        dtype = torch.float64 if variant == "float64" else torch.float32
        layout = torch.channels_last if variant == "channels_last" else torch.contiguous_format
        self.variant = variant
        self.images, self.labels = data[0].to(dtype, memory_format=layout), data[1]
        self.model = lenet().to(dtype)
        self.model.load_state_dict(weights)
        self.model.to(memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def step(self, k):
        index = parity_batch(k)
        with torch.backends.mkldnn.flags(enabled=self.variant != "without_onednn"):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.images[index]), self.labels[index])
            loss.backward()
        gradients = [p.grad.double() for p in self.model.parameters()]
        self.optimizer.step()
        return loss.item(), gradients

    def losses(self, batches):
        return [self.step(k)[0] for k in batches]


def projections(t, gradient):
    values = gradient.flatten().numpy()
    hashes = element_hashes(256 + t, len(values))
    bits = (hashes >> np.arange(64, dtype=np.uint64)[:, None]) & np.uint64(1)
    return (2.0 * bits - 1) @ values


def stored_weights(step):
    if step == 0:
        return set_parity_weights(lenet()).state_dict()
    return load_file(EXPECTED / f"weights_{step:03}.safetensors")


def make_weights(data):
    run = Run(data, stored_weights(0), lr=0.2)
    for k in range(max(FIRST_BATCH)):
        run.step(k)
        if k + 1 in FIRST_BATCH:
            rounded = {name: w.bfloat16().float() for name, w in run.model.state_dict().items()}
            save_file(rounded, EXPECTED / f"weights_{k + 1:03}.safetensors")


def gradient_distance(got, reference):
    return largest(((a - b).norm() / b.norm()).item() for a, b in zip(got, reference, strict=True))


def expected_of_state(data, step):
    first = FIRST_BATCH[step]

    def six_steps(variant):
        run = Run(data, stored_weights(step), 0.2, variant)
        loss, gradients = run.step(first)
        return [loss, *run.losses(range(first + 1, first + 6))], gradients

    losses, gradients = six_steps("float64")
    spread = {}
    for variant in VARIANTS:
        other_losses, other_gradients = six_steps(variant)
        spread[variant] = {"gradients": gradient_distance(other_gradients, gradients),
                           "losses": loss_distance(other_losses, losses)}
    return {
        "step": step, "first_batch": first, "losses": losses,
        "gradients": {name: {"norm": g.norm().item(), "projections": projections(t, g).tolist()}
                      for t, (name, g) in enumerate(zip(NAMES, gradients))},
        "spread": spread}


def free_running(data, first):
    def run(variant):
        return Run(data, stored_weights(0), 0.02, variant).losses(range(first, first + 100))

    losses = run("float64")
    return {"first_batch": first, "losses": losses,
            "spread": {variant: loss_distance(run(variant), losses) for variant in VARIANTS}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-weights", action="store_true", help="start from the existing weights_*.safetensors")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    EXPECTED.mkdir(exist_ok=True)
    data = read_split("train")
    if not args.keep_weights:
        make_weights(data)
    figures = {"torch": torch.__version__, "batch_size": 256, "lr": 0.2,
               "states": [expected_of_state(data, step) for step in FIRST_BATCH],
               "free_running": {"lr": 0.02, "runs": [free_running(data, k) for k in FREE_RUNNING_FIRST_BATCH]}}
    write_json(EXPECTED / "parity.json", figures)
    for state in figures["states"]:
        print(state["step"], state["losses"], state["spread"])
    for run in figures["free_running"]["runs"]:
        print(run["first_batch"], run["losses"][::20], run["spread"])


if __name__ == "__main__":
    main()
