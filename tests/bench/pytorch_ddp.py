#!/usr/bin/env python3
"""Samples per second of PyTorch's DistributedDataParallel on Fashion-MNIST: the comparison for bench/run and
bench/networks. torchvision's networks have a first convolution of one channel. A GPT-2 is transformers', with the attention
"sdpa" and without dropout; it reads windows of the file train.bin (tests/parity/tokens.py).

CPU ranks over gloo. All images are in memory as float tensors
(x/255), without a DataLoader: each rank indexes its shard of a global batch from a per-epoch permutation. Rank r is
pinned to its own `--threads` cores.
--forms names the forms of the training to measure, each a mode (eager, or compiled by torch.compile) and a memory format.
The result is that of the fastest form. The warm-up includes the compilation. --precision bf16 is torch.autocast around
forward pass and loss. The last output line is one JSON object.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "parity"))
from lenet import DATA_PATH, lenet, read_split  # noqa: E402
from networks import GPT2, TORCHVISION, freeze, gpt2, keras_convnet, resnet18, torchvision_network  # noqa: E402
from tokens import read_tokens  # noqa: E402

# keras-convnet with PyTorch's own norm: KerasBatchNorm2d does extra work for exact parity, which would cost time here.
MODELS = {"lenet": lenet, "resnet18": resnet18, "keras-convnet": lambda: keras_convnet(nn.BatchNorm2d)}
NAMES = [*MODELS, "torchvision-resnet18", "torchvision-resnet50", *TORCHVISION, "gpt-tiny", "gpt2-124m"]
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
FORMS = [f"{mode}-{name}" for mode in ("eager", "compiled") for name in FORMATS]


def read_windows(args):
    """Tokens and the token behind each."""
    tokens = torch.frombuffer(read_tokens(Path(args.data_path) / "train.bin"), dtype=torch.uint16).long()
    windows = (len(tokens) - 1) // args.sequence_length
    return [tokens[first:first + windows * args.sequence_length].view(windows, -1) for first in (0, 1)]


def make_model(name, size, vocabulary):
    if name in GPT2:
        return gpt2(*GPT2[name], vocabulary)
    return MODELS[name]() if name in MODELS else torchvision_network(name.removeprefix("torchvision-"), size, in_channels=1)


def measure(model, data, args, rank, form):
    """Samples per second over all ranks, one figure per block of steps."""
    images, labels = data
    mode, name = form.split("-")
    memory_format = FORMATS[name]
    model = freeze(model, args.freeze)
    if images.is_floating_point():
        images = images.to(memory_format=memory_format)
    model = DistributedDataParallel(model.to(memory_format=memory_format), gradient_as_bucket_view=True)
    if mode == "compiled":
        torch.compiler.reset()  # no form gets code for the shapes of an earlier one
        model = torch.compile(model)
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=args.lr, fused=True)
    local = args.batch_size // args.ranks
    steps_per_epoch = len(labels) // args.batch_size
    generator = torch.Generator().manual_seed(0)
    block_rates, step = [], 0
    for block in range(-args.warm_up_blocks, args.blocks):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(args.block_steps):
            at = step % steps_per_epoch
            if at == 0:
                order = torch.randperm(len(labels), generator=generator)
            first = at * args.batch_size + rank * local
            index = order[first:first + local]
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
                loss = loss_of(model(images[index]).flatten(0, -2), labels[index].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
        dist.barrier()
        if block >= 0:
            block_rates.append(args.block_steps * args.batch_size / (time.perf_counter() - start))
    assert torch.isfinite(loss), "the loss is not finite: this measures nothing"
    return block_rates


def worker(rank, args, port):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= args.ranks * args.threads:
        os.sched_setaffinity(0, cores[rank * args.threads:(rank + 1) * args.threads])
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    data = read_windows(args) if args.model in GPT2 else read_split("train", args.data_path)
    rates = {}
    for form in args.forms:
        model = make_model(args.model, data[0].shape[-1], args.vocabulary)
        rates[form] = statistics.median(measure(model, data, args, rank, form))
    if rank == 0:
        best = max(rates, key=rates.get)
        print(json.dumps({
            "torch": torch.__version__, "model": args.model, "precision": args.precision, "ranks": args.ranks,
            "threads": args.threads, "batch_size": args.batch_size, "form": best,
            "samples_per_second": round(rates[best], 2), "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "all": {form: round(rate, 1) for form, rate in rates.items()}}), flush=True)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort the interpreter's end: "terminate called without an active exception"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=NAMES, default="lenet")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="per rank")
    parser.add_argument("--batch-size", type=int, default=256, help="global batch size")
    parser.add_argument("--block-steps", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--warm-up-blocks", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--freeze", type=lambda text: text.split(","), default=[], help="as ddp_train's option")
    parser.add_argument("--data-path", default=DATA_PATH)
    parser.add_argument("--sequence-length", type=int, default=256, help="tokens of a sample of a GPT-2")
    parser.add_argument("--vocabulary", type=int, default=50257, help="of a GPT-2")
    args = parser.parse_args()
    if args.batch_size % args.ranks:
        parser.error("--batch-size must be a multiple of --ranks")
    os.environ.update(OMP_NUM_THREADS=str(args.threads), TORCHINDUCTOR_COMPILE_THREADS="1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(worker, args=(args, port), nprocs=args.ranks)


if __name__ == "__main__":
    main()
