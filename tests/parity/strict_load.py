#!/usr/bin/env python3
"""Loads the weights of a run strictly into PyTorch's own modules, and evaluates them there.

    tests/parity/strict_load.py RUN_FOLDER                     model.safetensors, summary.json and config.toml of a finished run
    tests/parity/strict_load.py RUN_FOLDER/checkpoints/best    a checkpoint that was saved with its evaluation
    tests/parity/strict_load.py --model resnet18 FILE          any safetensors file with PyTorch's names

Keys, shapes and types must equal those of the network's state_dict (networks.py; torchvision's own constructors for its
two networks), including num_batches_tracked: load_state_dict(strict=True) alone accepts a missing one. The accuracy on
the 10,000 test images (28 x 28, pixels/255, f32) must equal that of summary.json, or of the checkpoint's state.json, up
to --tolerance samples: if two logits are within rounding of each other, the order of the sums decides. The tolerance is 2 samples for a run in f32, 20
in tf32, and 100 in bf16, whose rounding decides more often. A run without evaluation is only loaded. Exits with 0; with
1 after a difference; and with 77 and the word SKIPPED if torch, safetensors or torchvision is missing.
"""
import argparse
import json
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import torch
    from safetensors.torch import load_file

    from lenet import DATA_PATH, read_split
    from networks import NETWORKS
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision safetensors numpy")
    sys.exit(77)

DEFAULT_TOLERANCE = {"fp32": 2, "tf32": 20, "bf16": 100}  # samples


def load_strictly(network, file):
    try:
        model = NETWORKS[network]()
    except ImportError as missing:
        print(f"SKIPPED: {missing}; pip install torchvision")
        sys.exit(77)
    expected, got = model.state_dict(), load_file(file)
    faults = [f"missing {name}" for name in expected.keys() - got.keys()]
    faults += [f"unexpected {name}" for name in got.keys() - expected.keys()]
    faults += [f"{name} is {got[name].dtype} {list(got[name].shape)}, not {t.dtype} {list(t.shape)}"
               for name, t in expected.items() if name in got and (t.dtype, t.shape) != (got[name].dtype, got[name].shape)]
    if faults:
        sys.exit(f"{file} is not a {network}:\n  " + "\n  ".join(sorted(faults)))
    counts = {t.item() for name, t in got.items() if name.endswith("num_batches_tracked")}
    if len(counts) > 1:
        sys.exit(f"{file}: norms have seen different numbers of batches: {sorted(counts)}")
    model.load_state_dict(got, strict=True)
    return model.eval(), len(got), counts


def results_of(folder):
    """The accuracy, config.toml and summary.json of a run; the accuracy and the run's config.toml of a checkpoint."""
    state = folder / "state.json"
    run = folder.resolve().parents[1] if state.exists() else folder
    config = tomllib.loads((run / "config.toml").read_text())
    if state.exists():
        accuracy = json.loads(state.read_text())["accuracy"]
        return accuracy if accuracy >= 0 else None, config, {}
    summary = json.loads((folder / "summary.json").read_text())
    return summary.get("test_accuracy"), config, summary


@torch.no_grad()
def count_correct(model, images, labels):
    return sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(200), labels.split(200)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="RUN_FOLDER|CHECKPOINT|FILE")
    parser.add_argument("--model", choices=NETWORKS, help="default: the model in the run's config.toml")
    parser.add_argument("--tolerance", type=int, help="permitted difference in samples")
    parser.add_argument("--data-path", help="folder with the IDX files, gzipped; default: the run's, or Fashion-MNIST")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    folder, ours, config, summary = args.path, None, {}, {}
    if folder.is_dir():
        ours, config, summary = results_of(folder)
    elif not args.model:
        parser.error("a file alone needs --model")
    network = args.model or config.get("model", "lenet")
    model, tensors, counts = load_strictly(network, folder / "model.safetensors" if folder.is_dir() else folder)
    print(f"{network}: {tensors} tensors loaded strictly" +
          (f", norms have seen {counts.pop()} batches" if counts else ""), flush=True)
    if folder.is_dir() and ours is None:
        print("not evaluated: the run has no accuracy to compare with")
        return
    images, labels = read_split("t10k", args.data_path or config.get("data-path") or DATA_PATH)
    correct = count_correct(model, images, labels)
    print(f"{correct}/{len(labels)} correct in PyTorch", flush=True)
    if ours is None:
        return
    precision = config.get("precision", "auto")
    if precision == "auto":
        precision = "tf32" if "NVIDIA" in summary.get("device", "") else "fp32"
    tolerance = args.tolerance if args.tolerance is not None else DEFAULT_TOLERANCE[precision]
    difference = abs(round(ours * len(labels)) - correct)
    print(f"the run says {round(ours * len(labels))}: {difference} samples apart, {tolerance} allowed")
    if difference > tolerance:
        sys.exit(f"the saved weights do not compute what the run did: {ours} there, {correct / len(labels)} here")


if __name__ == "__main__":
    main()
