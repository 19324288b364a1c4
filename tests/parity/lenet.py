"""Shared by the Python sides of parity and benchmark: D2L's LeNet, Fashion-MNIST, and the parity weights.

Parity weights. Tensor t is the t-th of NAMES, element e its position in PyTorch's own layout (O,I,H,W; rows of a linear
layer). With 64-bit wrap-around arithmetic,

    hash(x):  z = x + 0x9E3779B97F4A7C15
              z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
              z = (z ^ (z >> 27)) * 0x94D049BB133111EB
              return z ^ (z >> 31)                                                      (SplitMix64)
    weight(t, e) = float32((2 * (hash(t << 32 | e) >> 11) * 2**-53 - 1) / sqrt(fan_in))   computed in double

where fan_in is 9, 180, 800 and 128 in the four layers, for weights and biases.

Parity order. Sample j of the stream is number (j * 7919) mod 60000 of the training set; global batch k holds samples
k * 256 ... k * 256 + 255 of the stream. Pixels are x/255, without further normalisation.
"""
import gzip
from pathlib import Path

import numpy as np
import torch
from torch import nn

DATA_PATH = "/usr/share/datasets/fashion-mnist"
NAMES = ["0.weight", "0.bias", "3.weight", "3.bias", "7.weight", "7.bias", "9.weight", "9.bias"]
BATCH = 256


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


def read_idx(folder, name):
    raw = gzip.open(Path(folder) / f"{name}.gz").read()
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def read_split(split, folder=DATA_PATH):
    """Images as (n,1,28,28) float32 in [0,1] and labels as int64; split is "train" or "t10k"."""
    images = torch.from_numpy(read_idx(folder, f"{split}-images-idx3-ubyte").copy()).unsqueeze(1).float() / 255
    return images, torch.from_numpy(read_idx(folder, f"{split}-labels-idx1-ubyte").astype(np.int64))


def hash64(x):
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def element_hashes(tensor_index, count, stride=1):
    return hash64(np.uint64(tensor_index << 32) | np.arange(0, count * stride, stride, dtype=np.uint64))


def set_parity_weights(model):
    fan_in = {"0": 9, "3": 180, "7": 800, "9": 128}
    state = model.state_dict()
    assert list(state) == NAMES
    for t, name in enumerate(NAMES):
        unit = (element_hashes(t, state[name].numel()) >> np.uint64(11)) * 2.0**-53
        values = ((2 * unit - 1) / np.sqrt(fan_in[name[0]])).astype(np.float32)
        state[name].copy_(torch.from_numpy(values).reshape(state[name].shape))
    return model


def parity_batch(k):
    return torch.from_numpy(np.arange(k * BATCH, (k + 1) * BATCH) * 7919 % 60000)
