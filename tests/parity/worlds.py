#!/usr/bin/env python3
"""Trains torchvision's networks and gpt-tiny in several worlds, and kills one run of each: no result changes.

    $BENCH_PYTHON tests/parity/worlds.py build/cpu/ddp_train --networks vit-tiny convnext_tiny

Each network trains six steps of ten samples on 1, 2, 3 and 5 ranks, and on two with --rank-weights 3,1, where there are
batch norms with --sync-bn. Dropout and stochastic depth have the rates of the network's file; vit-tiny and gpt-tiny, whose
files have none, get a dropout of 0.1 behind their positions. Pictures and initial weights are those of
torchvision_networks.py, tokens those of gpt2.py.

Against one rank, a gradient of the first step (the momentum buffer) must be within 1e-4 of its tensor's norm, or of 1e-3
of the norm of all if that is more, and each loss within 1e-5. A second run on two ranks ends after the third step, goes on,
is killed in the sixth, within the epoch, and resumes from its checkpoint of the third: its last checkpoint must have the
bytes of the undisturbed run's.

Needs torch, torchvision, transformers, safetensors and Pillow; half a minute a network on two cores, more for vgg16 and
vit_b_16, which need 8 GB of memory. Exits with 0; with 1 after a difference; and with 77 and the word SKIPPED if a package
is missing.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

try:
    from safetensors.torch import save_file

    import gpt2
    from figures import loss_distance
    from networks import TORCHVISION
    from pictures import make_pictures
    from program import LAUNCHER, train
    from steps import gradient_distance, gradients_in, worst_of
    from torchvision_networks import GRADIENT, LOSS, MODELS, MOMENTUM, RATES, SIDES, initial
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision transformers safetensors numpy pillow")
    sys.exit(77)

NETWORKS = [*TORCHVISION, "gpt-tiny"]
STEPS, SAVED, BATCH = 6, 3, 10
# With seed 1, an input of the hard-swish behind features.6.block.1 lies at its kink: the gradient of channel 102 takes one
# side or the other by rounding. It is 6.7e-5 off, every other channel of the weight at most 2e-7. So it is with the ReLU
# behind classifier.3 of vgg16: channel 3164 is 8.5e-4 off, every other one at most 1e-7.
SEEDS = {"mobilenet_v3_small": 2, "vgg16": 2}
WORLDS = {"1": [], "2": [], "3": [], "5": [], "2, weights 3,1": ["--rank-weights", "3,1"]}


def with_dropout(name, folder):
    """The network's name, or a file with a dropout behind its positions."""
    if name not in ("vit-tiny", "gpt-tiny"):
        return name
    text, count = re.subn(r"^( *)(\{ position_embedding = .*)$", r'\1\2\n\1{ dropout = 0.1, name = "drop" },',
                          (MODELS / f"{name}.toml").read_text(), flags=re.MULTILINE)
    assert count == 1
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def kill_and_resume(args, name, options, work):
    """What is wrong with the checkpoints of a run that was killed; work / "2" has the undisturbed run's."""
    folder, undisturbed = work / "killed", work / "2/checkpoints"
    saved = sorted(path.name for path in undisturbed.iterdir() if not path.is_symlink())
    words = [LAUNCHER, "-np", 2, *options, "--device", "cpu", "--save-every", f"{SAVED}steps", "--print-freq", 0,
             "--output-dir", folder, "--resume", "auto", "--max-steps"]
    subprocess.run([str(word) for word in [*words, SAVED]], stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "DDP_TRAIN": str(args.program)})  # a large checkpoint is complete after some steps only
    for inject in ["--inject", f"rank=1,step={STEPS},kind=kill"], []:
        done = subprocess.run([str(word) for word in [*words, STEPS, *inject]], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE if inject else None, env={**os.environ, "DDP_TRAIN": str(args.program)})
        if bool(done.returncode) != bool(inject):
            return [f"{name}: the run {'was not killed' if inject else 'did not resume'}"]
        if inject and os.readlink(folder / "checkpoints/latest") != saved[0]:
            return [f"{name}: the killed run has not saved {saved[0]}"]
    different = [file for file in ("model.safetensors", "optimizer.safetensors")
                 if (folder / "checkpoints/latest" / file).read_bytes() != (undisturbed / "latest" / file).read_bytes()]
    print(f"{name}, killed in step {STEPS} and resumed: {'other bytes' if different else 'the same bytes'}", flush=True)
    return [f"{name}: {file} of the resumed run differs" for file in different]


def compare(args, name, options, work):
    """What is wrong with one network."""
    faults, gradients, losses = [], {}, {}
    for world, weights in WORLDS.items():
        ranks = world.split(",")[0]
        first, folder = work / f"{world} first", work / world
        train(args.program, ranks, first, *options, *weights, "--max-steps", 1, save_every="1steps")
        gradients[world] = gradients_in(first)
        events = train(args.program, ranks, folder, *options, *weights, "--max-steps", STEPS,
                       save_every=f"{SAVED}steps" if world == "2" else "never")
        losses[world] = [event["loss"] for event in events if event["event"] == "step"]
        distances = gradient_distance(gradients[world], gradients["1"])
        worst = worst_of(distances)
        off = loss_distance(losses[world], losses["1"]) if len(losses[world]) == STEPS else float("nan")
        print(f"{name}, ranks: {world}: gradients within {distances[worst]:.1e} ({worst}), losses within {off:.1e}", flush=True)
        if not distances[worst] <= GRADIENT:
            faults.append(f"{name}, ranks: {world}: the gradient of {worst} differs by {distances[worst]:.1e}")
        if not off <= LOSS:
            faults.append(f"{name}, ranks: {world}: losses {losses[world]}, one rank has {losses['1']}")
    return faults + kill_and_resume(args, name, options, work)


def options_of(name, work):
    file = work / f"{name}.safetensors"
    options = ["--model", with_dropout(name, work), "--init-from", file, "--epochs", 1000, "--eval-every", 0, "--momentum",
               MOMENTUM]
    if name == "gpt-tiny":
        gpt2.write_data(name, work / "data")
        save_file({key: value.clone() for key, value in gpt2.initial(name).state_dict().items()}, file)
        return [*options, *gpt2.data_options(name, work / "data", BATCH), "--lr", gpt2.RATE]
    weights = initial(name)
    save_file(weights, file)
    return [*options, "--data-path", work.parent / "pictures", "--batch-size", BATCH, "--train-crop-size", SIDES.get(name, 64),
            "--rrc-scale", "0.3,1", "--mean", "imagenet", "--seed", SEEDS.get(name, 1), "--lr", RATES.get(name, 1e-4),
            *["--sync-bn"] * any(key.endswith("running_mean") for key in weights)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    args = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(Path(folder) / "pictures")
        for name in args.networks:
            with tempfile.TemporaryDirectory(dir=folder) as work:
                faults += compare(args, name, options_of(name, Path(work)), Path(work))
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
