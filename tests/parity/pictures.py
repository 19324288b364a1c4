#!/usr/bin/env python3
"""Feeds PyTorch the batches that ddp_train trains on, from a folder of pictures, and compares the losses of 20 steps.

    $BENCH_PYTHON tests/parity/pictures.py build/cpu/ddp_train

ddp_train show --batches writes the batches: pictures decoded, cropped, flipped and normalized. PyTorch's resnet18
(networks.py) and ddp_train on one and on two ranks train on them, with plain SGD and --sync-bn. The weights are the
open weights with biases of the norms that are 1 larger, not 8. So the losses depend on every picture (mirrored ones
change them by 2e-2), and rounding does not grow (from the parity weights it grows to 5e-4 in twenty steps). Each loss
of each run must agree with PyTorch's in float64. The bound on the relative distance is that of the other figures
(figures.py): 1e-5, or three times the distance of PyTorch's own float32 where that is more. A bound above 1e-4 is an
error: then the comparison would show little.

Without --data-path the script makes 400 pictures of ten classes: waves of a class's colour and length with noise, JPEG,
40 to 90 pixels a side. A DATA_PATH of one's own has ten classes. Needs torch, safetensors and Pillow; a minute on two
cores. Exits with 0; with 1 after a difference; and with 77 and the word SKIPPED if a package is missing.
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import numpy as np
    import torch
    from PIL import Image
    from safetensors.torch import save_file

    from figures import Run, loss_distance, tolerances
    from networks import resnet18, set_parity_weights
    from program import run, train
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch safetensors numpy pillow")
    sys.exit(77)

LEAST = {"losses": 1e-5}
LARGEST_BOUND = 1e-4
CLASSES, PICTURES = 10, 400


def make_pictures(folder):
    """Waves of a class's colour and frequency, with noise."""
    random = np.random.default_rng(1)
    for number in range(PICTURES):
        label = number % CLASSES
        height, width = random.integers(40, 91, 2)
        y, x = np.mgrid[:height, :width] / 16
        angle, colour = random.uniform(0, 2 * np.pi), np.array([label * 25, 255 - label * 25, label * 131 % 256])
        wave = np.sin((1 + label / 3) * (x * np.cos(angle) + y * np.sin(angle)) + random.uniform(0, 2 * np.pi))
        pixels = colour + 60 * wave[..., None] + random.normal(0, 10, (height, width, 3))
        path = folder / f"class-{label}" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


class ShownBatches(Run):
    """Runs a network through the batches of ddp_train show."""

    def batch_of(self, k):
        images, labels = self.data
        return images[k * self.batch:(k + 1) * self.batch], labels[k * self.batch:(k + 1) * self.batch]


def initial_weights():
    return set_parity_weights(resnet18(3), shift=1.0).state_dict()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN")
    parser.add_argument("--data-path", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        faults = compare(args, Path(name))
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


def compare(args, work):
    if not args.data_path:
        make_pictures(work / "pictures")
    save_file(initial_weights(), work / "init.safetensors")
    options = ["--data-path", args.data_path or work / "pictures", "--batch-size", args.batch_size,
               "--train-crop-size", 32, "--rrc-scale", "0.3,1", "--hflip", 0.5, "--crop-padding", 4, "--seed", 1]
    run(args.program, "show", *options, "--steps", args.steps, "--batches", work / "batches.npy")
    batches = [torch.from_numpy(np.load(work / file)) for file in ("batches.npy", "batches.labels.npy")]
    if len(batches[0]) != args.steps * args.batch_size:
        sys.exit(f"{args.steps} steps of {args.batch_size} need full batches; there are {len(batches[0])} samples")

    losses = {}
    for ranks in 1, 2:
        events = train(args.program, ranks, work / f"run{ranks}", *options, "--model", "resnet18", "--init-from",
                       work / "init.safetensors", "--max-steps", args.steps, "--epochs", 1000, "--lr", args.lr,
                       "--sync-bn", "--eval-every", 0)
        losses[f"ddp_train, ranks: {ranks}"] = [event["loss"] for event in events if event["event"] == "step"]

    def sgd(parameters):
        return torch.optim.SGD(parameters.values(), lr=args.lr)

    def losses_of(variant):
        network = ShownBatches(lambda: resnet18(3), initial_weights(), batches, args.batch_size, sgd, variant)
        return network.losses(range(args.steps))

    pytorch = {variant: losses_of(variant) for variant in ("float64", "float32", "without_onednn")}
    reference = pytorch.pop("float64")
    spread = {variant: {"losses": loss_distance(got, reference)} for variant, got in pytorch.items()}
    bound = tolerances(spread, LEAST)["losses"]
    return judge(reference, losses, spread, bound)


def judge(reference, losses, spread, bound):
    print("PyTorch, float64:", *(f"{loss:.6f}" for loss in reference))
    for variant, of in spread.items():
        print(f"PyTorch, {variant}: within {of['losses']:.1e}")
    faults = []
    if not bound <= LARGEST_BOUND:
        faults.append(f"PyTorch's own losses are too far apart for a comparison: the bound would be {bound:.1e}")
    for run_name, got in losses.items():
        if len(got) != len(reference):
            faults.append(f"{run_name}: {len(got)} losses")
            continue
        distances = [abs(a / b - 1) for a, b in zip(got, reference)]
        print(f"{run_name}: within {max(distances):.1e}, bound {bound:.1e}")
        faults += [f"{run_name}, step {k + 1}: {got[k]}, PyTorch has {reference[k]}"
                   for k, distance in enumerate(distances) if not distance <= bound]
    return faults


if __name__ == "__main__":
    main()
