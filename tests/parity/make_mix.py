#!/usr/bin/env python3
"""Makes expected/mix.json: steps of mlp in PyTorch on mixed and erased images, and with weights of labels. Run it
without arguments from any folder; it needs torchvision.

torchvision's MixUp and CutMix compute the batches. Their random numbers are ours, which this script draws by the
formulas of src/train/step/draw_mix.h and src/ops/erased_box.h. Weights and samples are those of networks.py, the seed of
the draws is SEED, all steps are of epoch 0. A run has its `batch_size`, the number of `samples` (the last step has the
rest of them), the `options` (mixup_alpha, cutmix_alpha, random_erase, label_smoothing, label_weights), and
    draws    of each mixed step: lambda, and the box of CutMix as top, left, bottom, right
    erased   number of erased images
    losses   before each step, at a rate of LR
    changes  weights after minus weights before the steps, as fingerprints (figures.py)
"""
import math
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torchvision.transforms import functional, v2

from figures import fingerprints, rounded, write_json
from networks import NETWORKS, FashionMnist, float_tensors, parity_numbers, set_parity_weights

SEED, LR, CLASSES = 5, 0.1, 10
MIX, ERASE = 9, 10  # operations
RUNS = [
    (32, 96, {"mixup_alpha": 0.4}),
    (32, 80, {"cutmix_alpha": 1.0, "label_smoothing": 0.1}),
    (32, 180, {"mixup_alpha": 0.2, "cutmix_alpha": 1.0, "random_erase": 0.5}),
    (32, 80, {"label_weights": [0.5, 4, 1, 1.5, 2, 0.25, 3, 1, 8, 0.125]}),
]


def philox(counter, key):
    c, k = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class MixDraws:
    def __init__(self, step):
        self.step, self.k = step, 0

    def at(self, k):
        return philox((k, self.step, 0, MIX), SEED)

    def next(self):
        self.k += 1
        return [(word + 1) / 2**32 for word in self.at(self.k)]

    def log_gamma(self, alpha):
        """By Marsaglia and Tsang (2000)."""
        boost = math.log(self.next()[0]) / alpha if alpha < 1 else 0
        d = (alpha + 1 if alpha < 1 else alpha) - 1 / 3
        while True:
            u1, u2, u3, _ = self.next()
            x = math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * (u2 - 1 / 2**32))
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(u3) < x * x / 2 + d - d * v + d * math.log(v):
                return math.log(d * v) + boost

    def beta(self, alpha):
        x, y = self.log_gamma(alpha), self.log_gamma(alpha)
        return 1 / (1 + math.exp(y - x))


class Fixed:
    def __init__(self, value):
        self.value = value

    def sample(self, _):
        return self.value


def mixed(options, step, images, labels):
    """The images, the probabilities of the classes, and the draw."""
    mixup, cutmix, draws = options.get("mixup_alpha", 0), options.get("cutmix_alpha", 0), MixDraws(step)
    word = draws.at(0)
    if mixup and (not cutmix or word[0] < 2**31):
        transform = v2.MixUp(alpha=mixup, num_classes=CLASSES)
        transform._dist = Fixed(draws.beta(mixup))
        return *transform(images, labels), {"lambda": transform._dist.value, "box": [0, 0, 0, 0]}
    transform = v2.CutMix(alpha=cutmix, num_classes=CLASSES)
    transform._dist = Fixed(draws.beta(cutmix))
    height, width = images.shape[-2:]
    centre = [torch.tensor([word[1] * width >> 32]), torch.tensor([word[2] * height >> 32])]
    make, made = transform.make_params, {}
    transform.make_params = lambda flat: made.update(make(flat)) or made
    with mock.patch("torch.randint", side_effect=centre):
        images, labels = transform(images, labels)
    x1, y1, x2, y2 = made["box"]
    return images, labels, {"lambda": made["lam_adjusted"], "box": [y1, x1, y2, x2]}


def erased_box(p, key, rows, columns):
    """RandomErasing.get_params, with our numbers: top, left, height, width, or None."""
    def uniform(k):
        return [word / 2**32 for word in philox((k, key, 0, ERASE), SEED)]

    if uniform(0)[0] >= p:
        return None
    for k in range(1, 11):
        u = uniform(k)
        area = rows * columns * (0.02 + u[0] * (0.33 - 0.02))
        ratio = math.exp(math.log(0.3) + u[1] * (math.log(3.3) - math.log(0.3)))
        h, w = int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))
        if h < rows and w < columns:
            return int(u[2] * (rows - h + 1)), int(u[3] * (columns - w + 1)), h, w
    return None


def run(batch, samples, options, data):
    model = set_parity_weights(NETWORKS["mlp"]())
    before = {n: t.double().clone() for n, t in float_tensors(model).items()}
    model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    weights = torch.tensor(options["label_weights"], dtype=torch.double) if "label_weights" in options else None
    criterion = nn.CrossEntropyLoss(weight=weights, label_smoothing=options.get("label_smoothing", 0.0))
    draws, losses, erased = [], [], 0
    for step in range(-(-samples // batch)):
        first, end = step * batch, min((step + 1) * batch, samples)
        images, labels = data.samples(parity_numbers(0, samples)[first:end])
        images = images.double().clone()
        for i in range(end - first if "random_erase" in options else 0):
            box = erased_box(options["random_erase"], first + i, *images.shape[-2:])
            if box:
                images[i] = functional.erase(images[i], *box, v=torch.zeros(()).double())
                erased += 1
        if "label_weights" not in options:
            images, labels, draw = mixed(options, step, images, labels.long())
            draws.append(draw)
        optimizer.zero_grad()
        loss = criterion(model(images), labels.double() if labels.ndim == 2 else labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    index = {name: t for t, name in enumerate(float_tensors(NETWORKS["mlp"]()))}
    changes = {n: t.double() - before[n] for n, t in float_tensors(model).items()}
    return {"batch_size": batch, "samples": samples, "options": options, "draws": draws, "erased": erased,
            "losses": [rounded(x, 10) for x in losses], "tensors": index, "changes": fingerprints(changes, index)}


def main():
    torch.set_num_threads(1)
    data = FashionMnist()
    runs = [run(*of, data) for of in RUNS]
    for made in runs:
        print(made["options"], made["erased"], made["draws"], made["losses"])
    write_json(Path(__file__).parent / "expected" / "mix.json", {"torch": torch.__version__, "seed": SEED, "lr": LR,
                                                                 "runs": runs})


if __name__ == "__main__":
    main()
