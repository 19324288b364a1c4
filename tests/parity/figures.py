"""Shared by the scripts that make the figures in expected/: PyTorch steps of a network with one way of rounding, the
fingerprint of a tensor, distances, and the format of the figures.

The fingerprint of a tensor t (networks.py) has `norm`, its L2 norm, and 64 random projections:
    projection[p] = sum over e of (bit p of hash((256 + t) << 32 | e) ? +1 : -1) * value[e],    t, e, hash as in networks.py.
The mean over p of the squares of the differences between two tensors' projections is an unbiased estimate of the
squared L2 norm of their difference, with a relative deviation of 0.18. Figures of networks with frozen parts have the
first 8 projections only, with a deviation of 0.5; those of torchvision's newer networks and of GPT the first 4, with one of 0.7.
The latter are those of a sample where the tensor is large: with a `stride` s, of the elements 0, s, 2s, ... The estimate
is then s times as large.

`spread` is the distance of PyTorch's float32 from its float64 in three ways of rounding (VARIANTS): no tolerance can be
below it. `tolerances` are three times the worst spread without channels_last, and at least the caller's `least`.
PyTorch's channels_last batch norm loses digits in f32: the error is 3e-4 in the outputs of keras-convnet's first norm;
the plain layout has 1e-6.
"""
import json

import numpy as np
import torch
from torch import nn

from lenet import element_hashes
from networks import float_tensors, parity_numbers

VARIANTS = ["float32", "channels_last", "without_onednn"]


def projections(t, tensor, count=64, stride=1):
    values, total = tensor.detach().double().flatten()[::stride].numpy(), np.zeros(64)
    hashes = element_hashes(256 + t, len(values), stride)
    for part in range(0, len(values), 1 << 16):
        bits = np.unpackbits(hashes[part:part + (1 << 16)].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        total += values[part:part + (1 << 16)] @ (2.0 * bits - 1)
    return total[:count]


class Run:
    """Runs a network through the parity samples. `optimizer` makes the optimizer from the named parameters."""

    def __init__(self, make_network, weights, data, batch, optimizer, variant="float64", smoothing=0.0, clip=None):
        self.dtype = torch.float64 if variant == "float64" else torch.float32
        self.layout = torch.channels_last if variant == "channels_last" else torch.contiguous_format
        self.variant, self.data, self.batch, self.smoothing, self.clip = variant, data, batch, smoothing, clip
        self.model = make_network()
        self.model.load_state_dict(weights)
        self.model.to(dtype=self.dtype, memory_format=self.layout)
        for module in self.model.modules():
            if type(module).__name__ in ("Dropout", "StochasticDepth"):
                module.p = 0.0
        self.parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer = optimizer(self.parameters)

    def batch_of(self, k):
        return self.data.samples(parity_numbers(k, self.batch))

    def loss(self, k):
        images, labels = self.batch_of(k)
        with torch.backends.mkldnn.flags(enabled=self.variant != "without_onednn"):
            if images.is_floating_point():
                images = images.to(self.dtype, memory_format=self.layout)
            outputs = self.model(images).flatten(0, -2)  # of tokens, one row each
            return nn.functional.cross_entropy(outputs, labels.flatten(), label_smoothing=self.smoothing)

    def step(self, k):
        self.optimizer.zero_grad()
        loss = self.loss(k)
        with torch.backends.mkldnn.flags(enabled=self.variant != "without_onednn"):
            loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters.values(), self.clip)
        gradients = {name: p.grad.double().clone() for name, p in self.parameters.items()}
        self.optimizer.step()
        return loss.item(), gradients

    def losses(self, batches):
        return [self.step(k)[0] for k in batches]

    def tensors(self, kind=""):
        """Copies of the float tensors whose names end with `kind`."""
        return {n: t.double().clone() for n, t in float_tensors(self.model).items() if n.endswith(kind)}

    @torch.no_grad()
    def evaluate(self, k):
        self.model.eval()
        loss = self.loss(k).item()
        self.model.train()
        return loss


def fingerprints(tensors, index, count=64):
    return {name: {"tensor": index[name], "norm": rounded(tensor.norm(), 9),
                   "projections": [rounded(p, 7) for p in projections(index[name], tensor, count)]}
            for name, tensor in tensors.items()}


def sampled_fingerprints(tensors, index, count=4, sample=1 << 16):
    def of(name, tensor):
        stride = -(-tensor.numel() // sample) | 1
        return {"tensor": index[name], "norm": rounded(tensor.norm(), 7),
                **({"stride": stride} if stride > 1 else {}),
                "projections": [rounded(p, 7) for p in projections(index[name], tensor, count, stride)]}

    return {name: of(name, tensor) for name, tensor in tensors.items()}


def largest(values):
    """The largest value, 0 without one, or NaN if one is NaN; max() could lose the NaN."""
    return float(np.max([0.0, *values]))


def loss_distance(got, reference):
    return largest(abs(a - b) / abs(b) for a, b in zip(got, reference, strict=True))


def distance(got, reference, floor=0.0):
    """The largest distance of a tensor over its norm, or over `floor` if that is larger."""
    return largest((got[n] - r).norm().item() / max(r.norm().item(), floor) for n, r in reference.items())


def whole_norm(tensors):
    return torch.stack([t.norm() for t in tensors.values()]).norm().item()


def rounded(x, digits):
    return float(f"{float(x):.{digits}g}")


def rounded_spread(spread):
    return {variant: {what: rounded(x, 2) for what, x in of.items()} for variant, of in spread.items()}


def tolerances(spread, least):
    """The permitted error of an f32 implementation, for each figure of the spread; at least `least`."""
    worst = {what: largest(of[what] for variant, of in spread.items() if variant != "channels_last") for what in least}
    return {what: rounded(largest([least[what], 3 * worst[what]]), 2) for what in least}


def write_json(path, figures):
    """Writes JSON with one line per innermost object or list, so diffs are readable."""
    def text(value, indent):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        if not any(isinstance(v, (dict, list)) for v in inner) or (isinstance(value, dict) and "projections" in value):
            return json.dumps(value)
        pad, opening, closing = " " * (indent + 1), *("{}" if isinstance(value, dict) else "[]")
        items = [f"{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items()] if isinstance(value, dict) \
            else [text(v, indent + 1) for v in value]
        return f"{opening}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * indent}{closing}"

    path.parent.mkdir(exist_ok=True)
    path.write_text(text(figures, 0) + "\n")
