#!/usr/bin/env python3
"""Compares the validation loss of a small GPT on a text of a megabyte with PyTorch's, after the same steps.

    $BENCH_PYTHON tests/parity/accuracy_text.py build/cpu/ddp_train

The text is Debian's: the files of /usr/share/common-licenses, then /usr/share/doc/*/copyright, in the order of their names,
a million bytes. The last tenth is for validation. A token is a byte. The network is that of gpt-tiny with 4 layers, 4 heads
and 128 channels, and reads windows of 64 tokens.

Both begin with the same weights of transformers' GPT2LMHeadModel and train an epoch on the same batches of 32 windows, in
the order of --print-order: 440 steps of AdamW with a weight decay of 0.1, without dropout. The rate falls from 0.001 to 0 by
a cosine: at a constant rate, two runs with equal first losses end up to 0.016 apart by rounding alone. ddp_train has two
ranks. The losses of all validation windows must differ by at most 0.01.

Needs torch, transformers and safetensors; five minutes on two cores. --only runs one side. Exits with 0; with 1 above the
bound; and with 77 and the word SKIPPED if a package is missing.
"""
import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

try:
    import torch
    from safetensors.torch import save_file
    from torch import nn

    from gpt2 import TIED, order
    from networks import gpt2
    from program import train
    from tokens import write_tokens
    from torchvision_networks import MODELS
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install torch torchvision transformers safetensors numpy pillow")
    sys.exit(77)

BYTES, VALIDATION, VOCABULARY, LENGTH, BATCH, RATE, DECAY, BOUND = 10**6, 10**5, 256, 64, 32, 1e-3, 0.1, 0.01
LAYERS, HEADS, CHANNELS, POSITIONS = 4, 4, 128, 256


def text():
    files = [*sorted(Path("/usr/share/common-licenses").iterdir()), *sorted(Path("/usr/share/doc").glob("*/copyright"))]
    whole = b""
    for file in files:
        if file.is_file() and not file.is_symlink() and len(whole) < BYTES:
            whole += file.read_bytes()
    if len(whole) < BYTES:
        sys.exit(f"the files of this system have {len(whole)} bytes of text, not {BYTES}")
    return whole[:BYTES]


def write_network(file):
    content = (MODELS / "gpt-tiny.toml").read_text()
    for old, new in (("384", str(CHANNELS)), ("repeat = 6", f"repeat = {LAYERS}"), ("attention = 6", f"attention = {HEADS}")):
        assert old in content
        content = content.replace(old, new)
    file.write_text(content)


def windows_of(tokens):
    """Inputs and labels, a row for each window."""
    tokens = torch.tensor(list(tokens))
    count = (len(tokens) - 1) // LENGTH
    return [tokens[first:first + count * LENGTH].view(count, LENGTH) for first in (0, 1)]


@torch.no_grad()
def validation_loss(model, inputs, labels):
    model.eval()
    loss = sum(nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
               for x, y in zip(inputs.split(BATCH), labels.split(BATCH)))
    model.train()
    return loss / labels.numel()


def train_pytorch(model, numbers, train_part, validation):
    inputs, labels = windows_of(train_part)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    for step, batch in enumerate(torch.tensor(numbers).split(BATCH), 1):
        optimizer.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * (step - 1) * BATCH / len(numbers))) / 2
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[batch]).flatten(0, 1), labels[batch].flatten())
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"PyTorch, step {step}: loss {loss.item():.4f}", flush=True)
    return validation_loss(model, *windows_of(validation))


def train_here(args, folder, options):
    events = train(args.program, args.ranks, folder / "run", *options, "--init-from", folder / "initial.safetensors",
                   "--epochs", 1, "--optimizer", "adamw", "--lr", RATE, "--lr-scheduler", "cosine", "--weight-decay", DECAY)
    return [event["loss"] for event in events if event["event"] == "eval"][-1]


def timed(name, call):
    start = time.perf_counter()
    loss = call()
    print(f"{name}: validation loss {loss:.5f}, {(time.perf_counter() - start) / 60:.1f} minutes", flush=True)
    return loss


def compare(args, folder):
    whole = text()
    parts = {"train": whole[:-VALIDATION], "val": whole[-VALIDATION:]}
    (folder / "data").mkdir()
    for name, part in parts.items():
        write_tokens(folder / "data" / f"{name}.bin", part)
    write_network(folder / "gpt-small.toml")
    torch.manual_seed(0)
    model = gpt2(LAYERS, HEADS, CHANNELS, POSITIONS, VOCABULARY)
    save_file({key: value for key, value in model.state_dict().items() if key != TIED}, folder / "initial.safetensors")
    options = ["--model", folder / "gpt-small.toml", "--dataset", "tokens", "--data-path", folder / "data", "--vocab-size",
               VOCABULARY, "--sequence-length", LENGTH, "--batch-size", BATCH, "--seed", 0]
    print(f"before training: validation loss {validation_loss(model, *windows_of(parts['val'])):.5f}", flush=True)
    losses = []
    if args.only != "pytorch":
        losses.append(timed("ddp_train", lambda: train_here(args, folder, options)))
    if args.only != "ddp_train":
        numbers = order(args.program, options)
        losses.append(timed("PyTorch", lambda: train_pytorch(model, numbers, parts["train"], parts["val"])))
    if len(losses) == 2:
        print(f"difference {losses[0] - losses[1]:+.5f}, bound {BOUND}")
        if not abs(losses[0] - losses[1]) <= BOUND:
            sys.exit("FAILED: the validation losses differ by more than the bound")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="DDP_TRAIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--ranks", type=int, default=2, help="of ddp_train")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    parser.add_argument("--only", choices=["ddp_train", "pytorch"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        compare(args, Path(folder))


if __name__ == "__main__":
    main()
