#!/usr/bin/env python3
"""Microseconds of one training step of D2L's LeNet in PyTorch on a GPU, batch 256: the comparison for `check speed`.

One process. All images are on the GPU as float tensors (x/255), channels_last; batches are indexed from a permutation
of each epoch. Measures two variants: eager mode under DistributedDataParallel over NCCL, as users write it; and the
full step in one CUDA graph, captured by hand, without DDP. Reads lines from standard input and answers each with one
line of JSON.
"""
import argparse
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
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


class Trainer:
    """A model with the state of its training steps; `images` and `labels` are on the GPU."""

    def __init__(self, images, labels, bf16, distributed):
        self.images, self.labels, self.bf16 = images, labels, bf16
        torch.manual_seed(0)
        model = lenet().cuda().to(memory_format=torch.channels_last)
        if distributed:
            model = DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True)
        self.model = model
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="tf32")
    parser.add_argument("--eager-steps", type=int, default=600)
    parser.add_argument("--graph-steps", type=int, default=4000)
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
    images, labels = read_split("train", args.data_path)
    images, labels = images.cuda().to(memory_format=torch.channels_last), labels.cuda()
    bf16 = args.precision == "bf16"
    graph_step = Trainer(images, labels, bf16, distributed=False).capture()
    eager = Trainer(images, labels, bf16, distributed=True)
    for _ in sys.stdin:
        print(json.dumps({"eager_us": microseconds(eager.eager_step, args.eager_steps),
                          "graph_us": microseconds(graph_step, args.graph_steps),
                          "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
