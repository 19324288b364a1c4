#!/usr/bin/env python3
"""Writes transforms.txt: what torchvision's transforms do with pictures of random sizes.

    python3 tests/data/expected/make_transforms.py > tests/data/expected/transforms.txt      needs torchvision

A line `rrc W H SCALE0 SCALE1 RATIO0 RATIO1 | X Y W H | UNIFORMS` has the box of RandomResizedCrop.get_params for these
uniform numbers (multiples of 2^-24, printed as that multiple). A line `center W H RESIZE CROP_W CROP_H | RESIZED_W
RESIZED_H X Y` has the size after Resize, and where CenterCrop begins.
"""
import random

import torch
from PIL import Image
from torchvision import transforms

random.seed(1)


class Uniforms:
    """Replaces torch's random numbers by a list that both sides know."""

    def __init__(self):
        self.drawn = []

    def next(self):
        self.drawn.append(random.randrange(1 << 24))
        return torch.tensor([self.drawn[-1]], dtype=torch.float32) * 2.0**-24

    def empty(self, _):
        return self

    def uniform_(self, low, high):
        low, high = (torch.as_tensor(x, dtype=torch.float32) for x in (low, high))
        return self.next() * (high - low) + low

    def randint(self, low, high, size):
        return torch.tensor([int(self.next().double().item() * (high - low)) + low])


def crop_box(w, h, scale, ratio):
    uniforms = Uniforms()
    kept = torch.empty, torch.randint
    torch.empty, torch.randint = uniforms.empty, uniforms.randint
    y, x, height, width = transforms.RandomResizedCrop.get_params(Image.new("L", (w, h)), scale, ratio)
    torch.empty, torch.randint = kept
    return (x, y, width, height), uniforms.drawn


for number in range(120):
    w, h = random.choice([(random.randint(1, 600), random.randint(1, 600)), (random.randint(1, 4), 500), (5000, 3)])
    scale, ratio = random.choice([((0.08, 1.0), (0.75, 1.3333)), ((0.5, 0.5), (1.0, 1.0)), ((0.9, 1.0), (0.25, 4.0))])
    box, drawn = crop_box(w, h, scale, ratio)
    print("rrc", w, h, *scale, *ratio, "|", *box, "|", *drawn)

for number in range(60):
    w, h = random.randint(1, 700), random.randint(1, 700)
    crop = random.choice([1, 31, 224])
    resize = crop + random.randint(0, 40)
    picture = transforms.Resize(resize)(Image.new("L", (w, h)))
    marked = Image.new("I", picture.size)
    marked.putdata(range(picture.size[0] * picture.size[1]))
    first = transforms.CenterCrop(crop)(marked).getpixel((0, 0))
    print("center", w, h, resize, crop, crop, "|", *picture.size, first % picture.size[0], first // picture.size[0])
