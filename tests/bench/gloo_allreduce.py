"""gloo_allreduce.py NAME ROUNDS BYTES...: measures torch.distributed's all_reduce over gloo as allreduce_bench measures its
algorithms. The process is one rank; RANK, WORLD_SIZE and MASTER_ADDR describe the ranks. Rank 0 prints the first columns
of allreduce_bench, with NAME as the algorithm."""
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def reduced(value, op):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, op=op)
    return tensor.item()


def count_wrong(data):
    """The number of wrong sums on all ranks, of whole numbers whose sums are exact in any order."""
    values = torch.arange(len(data)) % 61
    data.copy_(values + dist.get_rank() % 64)
    dist.all_reduce(data)
    expected = dist.get_world_size() * values + sum(rank % 64 for rank in range(dist.get_world_size()))
    return reduced(int((data != expected).sum()), dist.ReduceOp.SUM)


def run(data, all_reduces):
    """The time of one all_reduce in s, of the slowest rank."""
    data.zero_()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(all_reduces):
        dist.all_reduce(data)
    return reduced((time.perf_counter() - start) / all_reduces, dist.ReduceOp.MAX)


def main():
    rounds, *sizes = map(int, sys.argv[2:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    for size in sizes:
        data = torch.zeros(size // 4)
        wrong = count_wrong(data)
        times = [run(data, max(1, min(200, 2**20 // size))) for _ in range(rounds)]
        if dist.get_rank() == 0:
            print(size, sys.argv[1], f"{1e6 * statistics.median(times):.2f}", wrong, sep="|", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
