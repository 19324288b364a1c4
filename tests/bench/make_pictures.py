#!/usr/bin/env python3
"""tests/bench/make_pictures.py KIND FOLDER: makes the pictures of a benchmark, unless FOLDER is complete already.

plain      500 photographs of 500 x 375, about 43 kB a file
noise      the same with more noise, about 97 kB a file
large      24 photographs of 3000 x 2250
cifar      60,000 files of 32 x 32 in 10 classes: train/ with 50,000, val/ with 10,000
million    1.28 million files of a few hundred bytes in 1,000 classes; no two are equal. Takes 5 GB

The photographs have what matters to a decoder and to a resize: structure of all sizes, edges and noise; little of it
in `plain`, much in `noise`. Needs numpy and Pillow.
"""
import argparse
import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def field(rng, width, height):
    """Smooth random values, of each size from the picture's down to two pixels; weaker the smaller."""
    total = np.zeros((height, width), np.float32)
    size = max(width, height)
    while size >= 2:
        cells = rng.normal(size=(height // size + 2, width // size + 2)).astype(np.float32)
        grown = Image.fromarray(cells).resize((cells.shape[1] * size, cells.shape[0] * size), Image.BICUBIC)
        x, y = rng.integers(0, size, 2)
        total += np.asarray(grown)[y:y + height, x:x + width] * size**0.45
        size //= 2
    return total / total.std()


def photograph(rng, width, height, noise):
    """Brightness with shapes whose edges are sharp, a slow change of colour, and noise of this standard deviation."""
    brightness = field(rng, width, height) * 38
    draw = Image.new("L", (width, height), 128)
    pen = ImageDraw.Draw(draw)
    for _ in range(12):
        centre, radius = rng.uniform((0, 0), (width, height)), rng.uniform(0.03, 0.25) * width
        angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 9)))
        corners = centre + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
        pen.polygon([tuple(corner) for corner in corners], fill=int(rng.integers(70, 190)))
    brightness += np.asarray(draw, np.float32)
    tints = [np.asarray(Image.fromarray(rng.normal(size=(3, 4)).astype(np.float32)).resize((width, height), Image.BICUBIC))
             for _ in range(2)]
    colours = np.stack([brightness + 18 + 16 * tints[0], brightness, brightness - 18 + 16 * tints[1]], 2)
    colours += rng.normal(0, noise, colours.shape)
    return Image.fromarray(colours.clip(0, 255).astype(np.uint8))


def photographs(folder, count, width, height, noise):
    for i in range(count):
        path = folder / "train" / "ab"[i % 2] / f"{i:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photograph(np.random.default_rng([1, i]), width, height, noise).save(path, quality=QUALITY)


def small_files(folder, parts, classes, size, bases):
    """A file is one of a class's base pictures with its number as a comment."""
    rng = np.random.default_rng(1)
    for part, count in parts.items():
        for label in range(classes):
            pictures = []
            for _ in range(bases):
                noise = rng.integers(0, 255, (4, 4, 3), np.uint8)
                file = io.BytesIO()
                Image.fromarray(noise).resize(size, Image.BICUBIC).save(file, "JPEG", quality=60)
                pictures.append(file.getvalue())
            place = folder / part / f"class{label:04}"
            place.mkdir(parents=True, exist_ok=True)
            for i in range(label, count, classes):
                text = f"{part} {i:08}".encode()
                comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text
                picture = pictures[i // classes % bases]
                (place / f"{i:08}.jpg").write_bytes(picture[:2] + comment + picture[2:])


QUALITY = 88
KINDS = {
    "plain": lambda folder: photographs(folder, 500, 500, 375, 6),
    "noise": lambda folder: photographs(folder, 500, 500, 375, 25),
    "large": lambda folder: photographs(folder, 24, 3000, 2250, 3),
    "cifar": lambda folder: small_files(folder, {"train": 50_000, "val": 10_000}, 10, (32, 32), 100),
    "million": lambda folder: small_files(folder, {"train": 1_280_000}, 1_000, (24, 16), 4),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    complete = args.folder / "complete"  # a file beside train/ is no class
    if complete.exists():
        return
    print(f"making pictures in {args.folder}", file=sys.stderr)
    KINDS[args.kind](args.folder)
    complete.touch()


if __name__ == "__main__":
    main()
