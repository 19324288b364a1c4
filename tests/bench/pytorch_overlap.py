"""What PyTorch's DistributedDataParallel hides of its communication: one rank of ResNet-18 over gloo, for bench/hosts.

RANK, WORLD_SIZE and MASTER_ADDR describe the ranks. Blocks of steps follow each other: the all_reduces of DDP's buckets, one after
another; then steps with both, between two blocks in no_sync(), which only compute. Without --batch-size, a rank gets
the batch whose compute takes --compute-share times as long as the communication, in the faster memory format. The output
is one JSON object of rank 0: batch size, memory format, and medians in ms of the slowest rank.
"""
import argparse
import json
import statistics
import time
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
from pytorch_ddp import DATA_PATH, FORMATS, MODELS, read_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TRIAL_BATCHES = 4, 16


class Training:
    def __init__(self, data, memory_format):
        self.images, self.labels = data[0].to(memory_format=FORMATS[memory_format]), data[1]
        self.model = DistributedDataParallel(MODELS["resnet18"]().to(memory_format=FORMATS[memory_format]),
                                             gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, fused=True)

    def step(self, batch, communicates):
        index = torch.randint(len(self.labels), (batch,))
        with nullcontext() if communicates else self.model.no_sync():
            loss = nn.functional.cross_entropy(self.model(self.images[index]), self.labels[index])
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        self.optimizer.step()

    def buckets(self):
        """Buffers of the sizes of DDP's buckets."""
        sizes = self.model._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(", ")
        return [torch.zeros(int(size) // 4) for size in sizes]


def milliseconds(times, work):
    """The median time of `work` on the slowest rank; the first one does not count."""
    dist.barrier()
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        work()
        taken.append(1e3 * (time.perf_counter() - start))
    slowest = torch.tensor(statistics.median(taken[1:]))
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, help="of a rank")
    parser.add_argument("--memory-format", choices=FORMATS)
    parser.add_argument("--compute-share", type=float, default=1.5)
    parser.add_argument("--steps", type=int, default=8, help="of a block")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    data = read_split("train", DATA_PATH)
    if not args.memory_format:
        trials = {one: Training(data, one) for one in FORMATS}
        times = {one: [milliseconds(3, lambda: trial.step(batch, False)) for batch in TRIAL_BATCHES]
                 for one, trial in trials.items()}
        args.memory_format = min(times, key=lambda one: times[one][1])
    training = Training(data, args.memory_format)
    for _ in range(3):  # DDP builds its buckets again after the first step
        training.step(TRIAL_BATCHES[0], True)
    buckets = training.buckets()

    def communicate():
        for bucket in buckets:
            dist.all_reduce(bucket)

    if not args.batch_size:
        wanted = args.compute_share * milliseconds(3, communicate)
        (small, large), (of_small, of_large) = TRIAL_BATCHES, times[args.memory_format]
        args.batch_size = max(1, round(small + (wanted - of_small) * (large - small) / (of_large - of_small)))
    communication = milliseconds(args.steps, communicate)
    before, step, after = (milliseconds(args.steps, lambda: training.step(args.batch_size, communicates))
                           for communicates in (False, True, False))
    found = {"batch": args.batch_size, "memory_format": args.memory_format, "compute": (before + after) / 2,
             "communication": communication, "step": step}
    if dist.get_rank() == 0:
        print(json.dumps(found | {"torch": torch.__version__, "buckets": [len(bucket) for bucket in buckets]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
