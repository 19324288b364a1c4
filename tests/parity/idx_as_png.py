#!/usr/bin/env python3
"""Writes Fashion-MNIST as 70,000 PNG files with a CSV file in the order of the images, trains on both, and compares.

    $BENCH_PYTHON tests/parity/idx_as_png.py build/cpu/ddp_train

LeNet trains for one epoch on two ranks. The tensors of both model.safetensors must have the same bytes, and both runs
the same losses. Names of files say nothing about the order. Needs the Debian package dataset-fashion-mnist and Pillow;
a minute on two cores. Exits with 0; with 1 after a difference; and with 77 and the word SKIPPED without Pillow.
"""
import gzip
import random
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    from PIL import Image

    from program import train
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install pillow")
    sys.exit(77)

DATA = Path("/usr/share/datasets/fashion-mnist")
SIDE = 28


def write_pngs(folder):
    rows = ["path,label,split"]
    names = list(range(70_000))
    random.Random(1).shuffle(names)
    for part, split in ("train", "train"), ("t10k", "val"):
        pixels = gzip.decompress((DATA / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((DATA / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
        for i, label in enumerate(labels):
            name = f"{names.pop():05}.png"
            image = pixels[i * SIDE * SIDE:(i + 1) * SIDE * SIDE]
            Image.frombytes("L", (SIDE, SIDE), image).save(folder / name)
            rows.append(f"{name},{label},{split}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")


def tensors(run):
    content = (run / "model.safetensors").read_bytes()
    return content[8 + int.from_bytes(content[:8], "little"):]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="ddp-png-") as name:
        folder = Path(name)
        pngs = folder / "pngs"
        pngs.mkdir()
        write_pngs(pngs)
        options = {"idx": [], "png": ["--data-path", pngs, "--labels", pngs / "labels.csv", "--mean", "none"]}
        losses = {}
        for run, of_data in options.items():
            events = train(sys.argv[1], 2, folder / run, *of_data, "--epochs", 1)
            losses[run] = [event["loss"] for event in events if event["event"] in ("step", "eval")]
        weights = {run: tensors(folder / run) for run in options}
    print(f"{len(weights['idx'])} bytes of weights, {len(losses['idx'])} losses, the last {losses['idx'][-1]:.6f}")
    same = weights["idx"] == weights["png"] and losses["idx"] == losses["png"] and len(losses["idx"]) > 1
    print("the same" if same else "DIFFERENT")
    sys.exit(0 if same else 1)


main()
