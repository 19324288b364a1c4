#!/usr/bin/env python3
"""Writes augment.txt: what torchvision's automatic augmentations do with small uint8 pictures.

    python3 tests/data/expected/make_augment.py > tests/data/expected/augment.txt      needs torchvision

A line `op INTERPOLATION PICTURE H W C NAME MAGNITUDE HEX` has the pixels (H, W, C) after _apply_op, or `same` if it
changes nothing. A line `magnitude POLICY OP BIN H W VALUE` has an entry of the policy's _augmentation_space. Both sides
make the pictures by `pixel`.
"""
import torch
from torchvision.transforms import InterpolationMode, autoaugment

OPS = ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"]
FACTORS = ["Brightness", "Color", "Contrast", "Sharpness"]
POLICIES = {"ta_wide": autoaugment.TrivialAugmentWide(), "ra": autoaugment.RandAugment()}


def pixel(picture, y, x, c):
    if picture == "flat":
        return 140 + 40 * c
    if picture == "gradient":
        return (9 * x + 5 * y + 30 * c + 20) % 256
    n = (x * 73856093 + y * 19349663 + c * 83492791) % 2**32
    n = (n ^ n >> 13) * 1274126177 % 2**32
    return (n >> 24) // 2 + 40 if picture == "dull" else n >> 24


def image(picture, h, w, c):
    values = [[[pixel(picture, y, x, k) for x in range(w)] for y in range(h)] for k in range(c)]
    return torch.tensor(values, dtype=torch.uint8)


def op(picture, size, name, magnitude, interpolation=InterpolationMode.NEAREST):
    before = image(picture, *size)
    after = autoaugment._apply_op(before, name, magnitude, interpolation=interpolation, fill=None)
    text = "same" if torch.equal(before, after) else bytes(after.permute(1, 2, 0).flatten().tolist()).hex()
    print("op", interpolation.value, picture, *size, name, repr(magnitude), text)


for size in (5, 7, 3), (6, 5, 1):
    for interpolation in InterpolationMode.NEAREST, InterpolationMode.BILINEAR:
        for name, magnitudes in {
            "ShearX": (0.13, -0.99),
            "ShearY": (0.99, -0.297),
            "TranslateX": (2.9, -3.2),
            "TranslateY": (1.0, -32.0),
            "Rotate": (13.5, -45.0, 135.0),
        }.items():
            for magnitude in magnitudes:
                op("noise", size, name, magnitude, interpolation)
    for name in FACTORS:
        for magnitude in (0.27, -0.99, 0.99):
            op("noise", size, name, magnitude)
    for magnitude in 7.0, 4.0, 2.0:
        op("noise", size, "Posterize", magnitude)
    for magnitude in 255.0, 110.5:
        op("noise", size, "Solarize", magnitude)
for size in (5, 7, 3), (6, 5, 1):
    for picture in "flat", "gradient", "dull":
        op(picture, size, "Rotate", -27.0, InterpolationMode.BILINEAR)
        for name in FACTORS:
            op(picture, size, name, 0.63)
        op(picture, size, "AutoContrast", 0.0)
        op(picture, size, "Equalize", 0.0)
        op(picture, size, "Identity", 0.0)
for picture, size in ("noise", (23, 27, 1)), ("dull", (16, 17, 3)), ("flat", (17, 17, 1)):  # above 255 pixels
    op(picture, size, "Equalize", 0.0)
for size in (1, 1, 3), (2, 5, 1):
    for name in FACTORS + ["AutoContrast", "Equalize"]:
        op("noise", size, name, -0.5)
    op("noise", size, "ShearX", 0.5, InterpolationMode.BILINEAR)

for policy, transform in POLICIES.items():
    for h, w in (224, 224), (32, 45):
        space = transform._augmentation_space(*([31, (h, w)] if policy == "ra" else [31]))
        for name, (magnitudes, _) in space.items():
            for b in 1, 14, 15, 30:
                value = float(magnitudes[b].item()) if magnitudes.ndim else 0.0
                if (h == 224 or name.startswith("Translate")) and magnitudes.ndim:
                    print("magnitude", policy, name, b, h, w, repr(value))
