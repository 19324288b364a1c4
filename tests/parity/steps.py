"""Shared by the scripts that compare the first steps of ddp_train with PyTorch's: gradients of the first one, and losses.

A gradient is the momentum buffer after the first step. Its distance is relative to the tensor's norm, or to FLOOR of the
norm of all if that is more.
"""
import torch
from safetensors.torch import load_file

from figures import largest, loss_distance
from program import train

FLOOR = 1e-3
BUFFER = ".momentum_buffer"


def gradient_distance(got, reference):
    whole = torch.stack([t.norm() for t in reference.values()]).norm().item()
    return {name: (got[name] - r).norm().item() / max(r.norm().item(), FLOOR * whole) for name, r in reference.items()}


def worst_of(distances):
    """The name of the largest distance; a NaN is the largest."""
    return max(distances, key=lambda key: (distances[key] != distances[key], distances[key]))


def gradients_in(folder):
    """Of a run of one step."""
    return {key.removesuffix(BUFFER): t.double()
            for key, t in load_file(folder / "checkpoints/latest/optimizer.safetensors").items()}


def bounds_of(name, own, reference, least):
    """The bounds of gradients and losses: the least ones, or three times the distance of PyTorch's float32 (`own`) from
    its float64 (`reference`), if that is more. Both are losses and gradients."""
    distance = {"gradients": largest(gradient_distance(own[1], reference[1]).values()),
                "losses": loss_distance(own[0], reference[0])}
    print(f"{name}: PyTorch's float32 has gradients within {distance['gradients']:.1e}, losses within {distance['losses']:.1e}")
    bounds = {what: largest([least[what], 3 * distance[what]]) for what in least}
    for what in least:
        if bounds[what] > least[what]:
            print(f"{name}: the bound of the {what} is {bounds[what]:.1e}, three times PyTorch's own distance")
    return bounds


def compare_steps(program, name, ranks, folders, options, steps, reference, bounds, save_every="never"):
    """Trains in two new folders, all steps and the first one only. What is wrong beside the reference, losses and gradients."""
    (losses, gradients), faults = reference, []
    events = train(program, ranks, folders[0], *options, "--max-steps", steps, save_every=save_every)
    train(program, ranks, folders[1], *options, "--max-steps", 1, save_every="1steps")
    got = gradients_in(folders[1])
    if got.keys() != gradients.keys():
        return [f"{name}: the optimizer has other tensors than PyTorch's: {got.keys() ^ gradients.keys()}"]
    distances = gradient_distance(got, gradients)
    worst = worst_of(distances)
    found = [event["loss"] for event in events if event["event"] == "step"]
    off = loss_distance(found, losses) if len(found) == steps else float("nan")
    print(f"{name}, ranks: {ranks}: gradients of {len(got)} tensors within {distances[worst]:.1e} ({worst}), losses within "
          f"{off:.1e}", flush=True)
    if not distances[worst] <= bounds["gradients"]:
        faults.append(f"{name}, ranks: {ranks}: the gradient of {worst} differs by {distances[worst]:.1e}")
    if not off <= bounds["losses"]:
        faults.append(f"{name}, ranks: {ranks}: losses {found}, PyTorch has {losses}")
    return faults
