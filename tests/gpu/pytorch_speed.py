#!/usr/bin/env python3
"""Microseconds of one training step in PyTorch on a GPU, batch 256: the comparison for `check speed`.

One process. All images are on the GPU as float tensors (x/255), channels_last; batches are indexed from a permutation
of each epoch. Peers: `eager`, under DistributedDataParallel over NCCL, as users write it; `graph`, the full step in one
CUDA graph, captured by hand, without DDP; `compiled`, torch.compile of the eager one. Prints a line when it is ready.
Then reads lines from standard input and answers each with one line of JSON; a peer that this machine cannot make is
null in it.
"""
import argparse
import functools
import json
import os
import socket
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "parity"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from lenet import BATCH, DATA_PATH, lenet, read_split  # noqa: E402
from networks import resnet18, torchvision_network  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

MODELS = {"lenet": lenet, "resnet18": resnet18, "torchvision-resnet18": lambda: torchvision_network("resnet18"),
          "torchvision-resnet50": lambda: torchvision_network("resnet50")}
STEPS = {"lenet": 600, "resnet18": 60, "torchvision-resnet18": 20, "torchvision-resnet50": 10}  # of a measurement; a graph takes five times as many


class Trainer:
    """A model with the state of its training steps; `images` and `labels` are on the GPU."""

    def __init__(self, make_model, images, labels, bf16, distributed, compiled=False):
        self.images, self.labels, self.bf16 = images, labels, bf16
        torch.manual_seed(0)
        model = make_model().cuda().to(memory_format=torch.channels_last)
        if distributed:
            model = DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True)
        self.model = torch.compile(model) if compiled else model
        self.loss_of = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, fused=True)
        self.taken = len(labels)

    def next_index(self):
        if self.taken + BATCH > len(self.labels):
            self.order, self.taken = torch.randperm(len(self.labels), device="cuda"), 0
        self.taken += BATCH
        return self.order[self.taken - BATCH:self.taken]

    def forward_backward(self, index):
        # Disables the cache of casts, because its tensors must not outlive a captured graph.
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            loss = self.loss_of(self.model(self.images[index]), self.labels[index])
        loss.backward()
        return loss

    def eager_step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward_backward(self.next_index())
        self.optimizer.step()
        return loss

    def capture(self):
        """Captures a step; returns a function that replays it."""
        index = self.next_index().clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(10):
                self.eager_step()
        torch.cuda.current_stream().wait_stream(aside)
        self.optimizer.zero_grad(set_to_none=True)  # the captured backward then writes gradients instead of adding
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = self.forward_backward(index)
            self.optimizer.step()

        def step():
            index.copy_(self.next_index())
            graph.replay()
            return loss
        return step


def microseconds(step, steps):
    for _ in range(steps // 10):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        loss = step()
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    if not torch.isfinite(loss):
        sys.exit("the loss is not finite: this measures nothing")
    return 1e6 * elapsed / steps


def made(make):
    """The step of a peer that has run once; None if it cannot, as torch.compile without a compiler."""
    try:
        step = make()
        step()
        torch.cuda.synchronize()
    except Exception as error:  # whatever the peer's libraries throw
        print(f"pytorch_speed.py: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        return None
    return step


def data_for(model, path):
    """Images and labels on the GPU."""
    if model.startswith("torchvision"):
        return torch.rand(4 * BATCH, 3, 224, 224, device="cuda"), torch.randint(10, (4 * BATCH,), device="cuda")
    images, labels = read_split("train", path)
    return images.cuda(), labels.cuda()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="tf32")
    parser.add_argument("--model", choices=list(MODELS), default="lenet")
    parser.add_argument("--peers", default="eager,graph", help="some of eager, graph, compiled")
    parser.add_argument("--data-path", default=DATA_PATH)
    args = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.precision != "fp32"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1)
    images, labels = data_for(args.model, args.data_path)
    images = images.to(memory_format=torch.channels_last)
    trainer = functools.partial(Trainer, MODELS[args.model], images, labels, args.precision == "bf16")
    make = {"eager": lambda: trainer(distributed=True).eager_step,
            "graph": lambda: trainer(distributed=False).capture(),
            "compiled": lambda: trainer(distributed=True, compiled=True).eager_step}
    steps = {peer: made(make[peer]) for peer in sorted(args.peers.split(","), reverse=True)}  # the graph before eager mode
    print("ready", flush=True)
    for _ in sys.stdin:
        figures = {peer: step and microseconds(step, STEPS[args.model] * (5 if peer == "graph" else 1))
                   for peer, step in steps.items()}
        print(json.dumps({"torch": torch.__version__, **figures}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
