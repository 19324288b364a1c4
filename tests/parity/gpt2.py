#!/usr/bin/env python3
"""Compares GPT-2 in the program with transformers' GPT2LMHeadModel: weights both ways, gradients of one step, five losses.

    $BENCH_PYTHON tests/parity/gpt2.py build/cpu/ddp_train --networks gpt-tiny gpt2-124m

Both begin with transformers' initial weights plus noise, so that no bias is 0, and read the same windows of 64 random
tokens, in the order of --print-order. There is no dropout.

    weights      ddp_train reads each file that PyTorch's users have, and its checkpoint after a step with a rate of
                 1e-38 has the bits of the file. It refuses another head, another mask, and a missing tensor.
    gradients    the momentum buffer after the first step, on one and on two ranks, within 1e-4 of each tensor's norm, or of
                 1e-3 of the norm of all if that is more, from PyTorch's in float64
    losses       of five steps, within 1e-5
    back         from_pretrained reads the trained checkpoint beside PyTorch's config.json, and load_state_dict misses only
                 lm_head.weight, which is tied. Both give the same logits, within 1e-5 of PyTorch's after its own five steps.

Where PyTorch's own float32 is further away than a third of a bound, the bound is three times its distance; a line says so.

Needs torch, transformers and safetensors; gpt-tiny takes a minute on two cores, gpt2-124m some minutes and 8 GB of memory.
Exits with 0; with 1 after a difference; and with 77 and the word SKIPPED if a package is missing.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
os.environ["HF_HUB_OFFLINE"] = "1"

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn

    from networks import GPT2, gpt2
    from program import LAUNCHER, train
    from steps import bounds_of, compare_steps
    from tokens import write_tokens
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch transformers safetensors numpy")
    sys.exit(77)

VOCABULARIES = {"gpt-tiny": 257, "gpt2-124m": 50257}
BATCHES = {"gpt-tiny": 4, "gpt2-124m": 2}
STEPS, LENGTH, WINDOWS, MOMENTUM, RATE, SEED = 5, 64, 40, 0.9, 1e-2, 1
GRADIENT, LOSS, LOGITS = 1e-4, 1e-5, 1e-5
TIED = "lm_head.weight"


def initial(name):
    torch.manual_seed(0)
    model = gpt2(*GPT2[name], VOCABULARIES[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
            parameter.masked_fill_(parameter == 0, 0.02)  # some of 124 million sums; a rate of 1e-38 would change them
    return model


def write_data(name, folder):
    """Windows of random tokens; returns those of training, a row each with one token more."""
    tokens = np.random.default_rng(0).integers(0, VOCABULARIES[name], WINDOWS * LENGTH + 1)
    folder.mkdir()
    write_tokens(folder / "train.bin", tokens.tolist())
    write_tokens(folder / "val.bin", tokens[:4 * LENGTH + 1].tolist())
    return torch.from_numpy(np.stack([tokens[at * LENGTH:(at + 1) * LENGTH + 1] for at in range(WINDOWS)]))


def data_options(name, folder, batch=None):
    return ["--dataset", "tokens", "--data-path", folder, "--vocab-size", VOCABULARIES[name], "--sequence-length", LENGTH,
            "--batch-size", batch or BATCHES[name], "--seed", SEED]


def order(program, options):
    """The samples of the first epoch."""
    words = [str(word) for word in [program, *options, "--print-order", 1]]
    return [int(line) for line in subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()]


def files(model, folder):
    """Files with these weights, as PyTorch's users have them."""
    model.save_pretrained(folder / "pretrained")
    state = {key: value.clone() for key, value in model.state_dict().items()}
    positions, layers = model.config.n_positions, model.config.n_layer
    mask = torch.tril(torch.ones(positions, positions)).view(1, 1, positions, positions)
    masks = {f"transformer.h.{i}.attn.bias": mask.clone() for i in range(layers)}
    values = {f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(layers)}
    untied = {key: value for key, value in state.items() if key != TIED}
    made = {
        "torch.save, converted": state,
        "the hub's first file, without the prefix": {
            key.removeprefix("transformer."): value for key, value in (untied | masks | values).items()},
        "masks of bytes": state | {key: value.to(torch.uint8) for key, value in masks.items()} | values,
        "DistributedDataParallel": {f"module.{key}": value for key, value in state.items()},
    }
    paths = {"save_pretrained": folder / "pretrained/model.safetensors"}
    for number, (name, tensors) in enumerate(made.items()):
        paths[name] = folder / f"{number}.safetensors"
        save_file(tensors, paths[name])
    return paths


def wrong_files(model, folder):
    """Files that must be refused, with a part of the message."""
    state = {key: value.clone() for key, value in model.state_dict().items()}
    other_head = state | {TIED: state[TIED] * (1 + 1e-6)}
    other_mask = state | {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8)}
    no_norm = {key: value for key, value in state.items() if key != "transformer.ln_f.bias"}
    more = state | {"transformer.h.0.crossattention.bias": torch.ones(4)}
    wrong = {"other values: lm_head.weight": other_head, "not a causal mask": other_mask,
             "not in the file: transformer.ln_f.bias": no_norm,
             "only in the file: transformer.h.0.crossattention.bias": more}
    for number, (message, tensors) in enumerate(wrong.items()):
        save_file(tensors, folder / f"wrong{number}.safetensors")
        yield message, folder / f"wrong{number}.safetensors"


def bits_of(tensor):
    return tensor.contiguous().view(torch.int32)


def compare_weights(args, name, model, options, work):
    faults = []
    state = {key: value for key, value in model.state_dict().items() if key != TIED}
    for number, (kind, file) in enumerate(files(model, work).items()):
        folder = work / f"read{number}"
        train(args.program, 1, folder, *options, "--init-from", file, "--lr", 1e-38, "--max-steps", 1, save_every="1steps")
        got = load_file(folder / "checkpoints/latest/model.safetensors")
        same = got.keys() == state.keys() and all(torch.equal(bits_of(got[key]), bits_of(state[key])) for key in state)
        print(f"{name}, {kind}: {len(got)} tensors, {'the same bits' if same else 'other names or bits'}", flush=True)
        faults += [] if same else [f"{name}: {kind} is read as other weights"]
    for message, file in wrong_files(model, work):
        words = [LAUNCHER, "-np", 1, *options, "--init-from", file, "--max-steps", 1, "--output-dir", work / "refused"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              env={**os.environ, "DDP_TRAIN": str(args.program)})
        found = [line for line in (done.stdout + done.stderr).splitlines() if message in line]
        print(f"{name}, refused with code {done.returncode}: {found[0] if found else 'another message'}", flush=True)
        if done.returncode != 5 or not found:
            faults.append(f"{name}: a file is not refused with \"{message}\": {done.stderr}")
    return faults


def pytorch(name, weights, batches, dtype):
    """The model after the steps, the losses, and the momentum buffers after the first step."""
    model = gpt2(*GPT2[name], VOCABULARIES[name])
    model.load_state_dict(weights)
    model.to(dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    losses, buffers = [], {}
    for windows in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not buffers:
            buffers = {path: optimizer.state[p]["momentum_buffer"].double().clone() for path, p in model.named_parameters()}
    return model.eval(), losses, buffers


def compare_back(name, folder, trained, config, windows):
    """Reads the program's checkpoint with transformers."""
    from transformers import GPT2LMHeadModel
    config.save_pretrained(folder)
    read = GPT2LMHeadModel.from_pretrained(folder).eval()
    loaded = gpt2(*GPT2[name], VOCABULARIES[name]).eval()
    report = loaded.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    with torch.no_grad():
        logits, again, expected = read(windows[:, :-1]).logits, loaded(windows[:, :-1]), trained(windows[:, :-1])
    off = ((logits.double() - expected).norm() / expected.norm()).item()
    same = torch.equal(logits, again)
    print(f"{name}: from_pretrained gives logits within {off:.1e} of PyTorch's training, load_state_dict "
          f"{'the same' if same else 'others'}; missing {report.missing_keys}, unexpected {report.unexpected_keys}", flush=True)
    if report.missing_keys != [TIED] or report.unexpected_keys or not same or not off <= LOGITS:
        return [f"{name}: the checkpoint is not the trained network in PyTorch"]
    return []


def compare(args, name, work):
    """What is wrong with one network."""
    windows, model = write_data(name, work / "data"), initial(name)
    options = ["--model", name, *data_options(name, work / "data"), "--eval-every", 0]
    faults = compare_weights(args, name, model, options, work)
    weights = model.state_dict()
    numbers = order(args.program, options)[:STEPS * BATCHES[name]]
    batches = windows[numbers].split(BATCHES[name])
    trained, *reference = pytorch(name, weights, batches, torch.float64)
    _, *own = pytorch(name, weights, batches, torch.float32)
    bounds = bounds_of(name, own, reference, {"gradients": GRADIENT, "losses": LOSS})
    options += ["--init-from", work / "pretrained/model.safetensors", "--epochs", 1000, "--lr", RATE, "--momentum", MOMENTUM]
    for ranks in 1, 2:
        folder = work / f"run{ranks}"
        faults += compare_steps(args.program, name, ranks, (folder, work / f"first{ranks}"), options, STEPS, reference, bounds,
                                save_every=f"{STEPS}steps")
        faults += compare_back(name, folder / "checkpoints/latest", trained, model.config, batches[0])
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--networks", nargs="+", default=["gpt-tiny"], choices=VOCABULARIES)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.networks:
            with tempfile.TemporaryDirectory(dir=folder) as work:
                faults += compare(args, name, Path(work))
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
