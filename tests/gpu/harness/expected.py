#!/usr/bin/env python3
"""Expected time of a step, from one model of all GPUs: products, then the traffic of the other kernels, then 2 us for each
launch, one after another. A GPU differs from another only in the bandwidth of its memory."""
from dataclasses import dataclass

BANDWIDTH = {"H100": 3.35, "H200": 4.8}                # TB/s
PEAK = {"bf16": 790, "tf32": 395, "fp32": 60}          # TFLOP/s of products, the same on both
OF_PEAK, OF_BANDWIDTH, LAUNCH_US = 0.55, 0.9, 2.0
BYTES = {"bf16": 2, "tf32": 4, "fp32": 4}              # of an activation


@dataclass(frozen=True)
class Work:
    """Of a step with 256 samples."""
    gflop: float        # of products
    values: float       # millions of activations that other kernels read or write
    kernels: int


WORK = {"lenet": Work(3.1, 25, 26), "resnet18": Work(700, 1300, 157),
        "torchvision-resnet18": Work(2800, 6400, 160), "torchvision-resnet50": Work(6300, 22000, 430)}


def microseconds(model, precision, gpu):
    work = WORK[model]
    products = work.gflop / (PEAK[precision] * OF_PEAK) * 1e3
    traffic = work.values * BYTES[precision] / (BANDWIDTH[gpu] * OF_BANDWIDTH)
    return products + traffic + work.kernels * LAUNCH_US


def text(model, precision):
    return "expected " + ", ".join(f"{microseconds(model, precision, gpu):.0f} us on an {gpu}" for gpu in BANDWIDTH)


def limit(model, precision, limit_on_h200, gpu):
    """The limit of an H200 for another GPU; None for a GPU that the model does not know."""
    known = next((name for name in BANDWIDTH if name in gpu), None)
    if not limit_on_h200 or not known:
        return None
    return limit_on_h200 * microseconds(model, precision, known) / microseconds(model, precision, "H200")


if __name__ == "__main__":
    for model, precision in (("lenet", "tf32"), ("resnet18", "bf16"), ("torchvision-resnet50", "bf16")):
        print(f"{model}, {precision}: {text(model, precision)}")
