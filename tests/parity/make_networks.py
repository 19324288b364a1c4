#!/usr/bin/env python3
"""Makes expected/networks/CASE.json, the expected figures of networks other than LeNet. Run it from any folder, with
names of cases, or without for all cases (5 minutes on one core). Needs torch, torchvision and transformers.

Weights and samples are those of networks.py. Dropout and stochastic depth are off, norms are in training mode, and the steps are plain SGD at
`lr` on global batches of `batch_size`: first_batch, first_batch + 1, ... Each case has several `states`; `start` is one
of
    parity   the parity weights
    open     the open weights
    frozen   the parity weights, and the running statistics of a network with frozen parts
    trained  PyTorch's weights after 50 such steps from the parity weights in float32. All float tensors are rounded to bfloat16
             precision (half of their bits are zero) and stored as float32 in the file `weights` in the same folder
For each state:
    losses           mean cross-entropy before each of six successive steps
    gradients        gradients of the first step, as fingerprints (figures.py); `tensor` is t, the index among the float tensors
    gradient_norm    norm of all gradients together
    tensors          of a network with frozen parts: the index of each float tensor
    gain             of the parity weights, where it is not 1
    buffers          running_mean and running_var of the norms that train, after the first step, as fingerprints
    evaluation_loss  loss of first_batch after the six steps, in evaluation mode: with the running statistics

Small gradients. The bias of a convolution before a batch norm has a true gradient of zero. Its norm here is float64
rounding, below 1e-9 * gradient_norm, so it has an absolute tolerance. The distance of other gradients is relative to
max(norm, 1e-3 * gradient_norm). For each way of rounding `spread` has the largest relative distance in losses,
gradients, buffers and evaluation_loss; zero_gradients is the largest norm of a gradient that should be zero, over
gradient_norm.

`tolerances` have the same names and follow from the spread (figures.py).

Meaning of the spread. A ReLU whose input is within rounding of zero changes gradients by 1e-3 to 1e-2 of a tensor's
norm, and a batch of 32 has ten million ReLUs. So gradients at the parity weights agree to 1e-4 only for small batches
with a first_batch that has a wide margin (found with --margins); ResNet-50 has none. At the open weights no ReLU is
near zero. Deep networks with norms also amplify errors: lr is small enough that six losses stay together, but each step
changes the loss by a hundredth or more.
"""
import argparse
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from figures import (VARIANTS, Run, distance, fingerprints, largest, loss_distance, rounded, rounded_spread,
                     sampled_fingerprints, tolerances, whole_norm, write_json)
from networks import (GAINS, GPT_VOCABULARY, TORCHVISION, FashionMnist, Noise, Tokens, float_tensors, freeze, network_for,
                      parity_numbers, set_parity_weights)

FOLDER = Path(__file__).parent / "expected" / "networks"
TRAINED_STEPS = 50
LEAST = {"losses": 1e-5, "gradients": 1e-4, "zero_gradients": 1e-6, "buffers": 1e-5, "evaluation_loss": 1e-5}
CASES = {  # network, image (H, W, C) or (tokens, 1, 1), for each state: start, batch size, lr, first batch; and the frozen parts
    "mlp": ("mlp", (28, 28, 1), [("parity", 32, 0.05, 0), ("trained", 32, 0.05, 50)]),
    "keras-convnet": ("keras-convnet", (28, 28, 1), [("parity", 32, 0.05, 0), ("trained", 32, 0.05, 50)]),
    "resnet18": ("resnet18", (28, 28, 1), [("parity", 2, 1e-4, 290), ("open", 8, 1e-5, 0)]),
    "torchvision-resnet18-28": ("torchvision-resnet18", (28, 28, 1), [("parity", 8, 1e-4, 45)]),
    "torchvision-resnet50-64": ("torchvision-resnet50", (64, 64, 3), [("parity", 4, 1e-7, 77), ("open", 16, 1e-5, 0)]),
    "frozen-beginning": ("torchvision-resnet18", (32, 32, 3), [("frozen", 8, 1e-4, 26)],
                         ["conv1", "bn1", "layer1"]),
    "frozen-norms": ("resnet18", (28, 28, 1), [("frozen", 2, 1e-4, 119)],
                     ["1", "resnet_block1", "resnet_block2.0.bn1", "resnet_block2.0.bn2", "resnet_block2.0.conv3.weight",
                      "resnet_block3.0.bn2.bias", "resnet_block3.0.conv3", "resnet_block4.1.bn2", "fc.1.bias"]),
    "mobilenet_v3_small": ("mobilenet_v3_small", (64, 64, 3), [("parity", 4, 1e-2, 38)]),
    "efficientnet_b0": ("efficientnet_b0", (64, 64, 3), [("parity", 4, 1e-3, 0)]),
    "vgg16": ("vgg16", (32, 32, 3), [("parity", 4, 1e-3, 0)]),
    "densenet121": ("densenet121", (64, 64, 3), [("open", 8, 1e-5, 0)]),
    "convnext_tiny": ("convnext_tiny", (32, 32, 3), [("parity", 4, 1e-3, 0)]),
    "vit_b_16": ("vit_b_16", (48, 48, 3), [("parity", 4, 1e-3, 0)]),
    "vit-tiny": ("vit-tiny", (32, 32, 3), [("parity", 4, 1e-3, 0)]),
    "gpt": ("gpt.toml", (24, 1, 1), [("parity", 4, 0.1, 0)]),
}


def maker(case):
    network, image, _, *frozen = CASES[case]
    return lambda: freeze(network_for(network, image), *frozen) if frozen else network_for(network, image)


def data_of(case):
    network, image = CASES[case][:2]
    if network == "gpt.toml":
        return Tokens(image[0], GPT_VOCABULARY)
    return FashionMnist() if image == (28, 28, 1) else Noise(*image)


def sgd(lr):
    return lambda parameters: torch.optim.SGD(parameters.values(), lr=lr)


def six_steps(make_network, weights, data, batch, lr, first, variant):
    run = Run(make_network, weights, data, batch, sgd(lr), variant)
    loss, gradients = run.step(first)
    buffers = run.tensors(("running_mean", "running_var"))
    losses = [loss, *run.losses(range(first + 1, first + 6))]
    return {"losses": losses, "gradients": gradients, "buffers": buffers, "evaluation_loss": run.evaluate(first)}


def spread_of(got, reference):
    whole = whole_norm(reference["gradients"])
    zeros = [n for n, g in reference["gradients"].items() if g.norm() <= 1e-9 * whole]
    others = {n: g for n, g in reference["gradients"].items() if n not in zeros}
    return {"losses": loss_distance(got["losses"], reference["losses"]),
            "gradients": distance(got["gradients"], others, 1e-3 * whole),
            "zero_gradients": largest(got["gradients"][n].norm().item() / whole for n in zeros),
            "buffers": distance(got["buffers"], reference["buffers"]),
            "evaluation_loss": loss_distance([got["evaluation_loss"]], [reference["evaluation_loss"]])}


def expected_of_state(make_network, weights, data, batch, lr, first, frozen, sampled):
    reference = six_steps(make_network, weights, data, batch, lr, first, "float64")
    spread = {v: spread_of(six_steps(make_network, weights, data, batch, lr, first, v), reference) for v in VARIANTS}
    index = {name: t for t, name in enumerate(float_tensors(make_network()))}
    figures = sampled_fingerprints if sampled else lambda *of: fingerprints(*of, 8 if frozen else 64)
    if frozen:  # the others do not change
        trained = {n.rpartition(".")[0] for n, m in make_network().named_parameters() if m.requires_grad}
        reference["buffers"] = {n: b for n, b in reference["buffers"].items() if n.rpartition(".")[0] in trained}
    return {"losses": [rounded(x, 12) for x in reference["losses"]],
            "evaluation_loss": rounded(reference["evaluation_loss"], 12),
            **({"tensors": index} if frozen else {}),
            "gradient_norm": rounded(whole_norm(reference["gradients"]), 9),
            "spread": rounded_spread(spread), "tolerances": tolerances(spread, LEAST),
            "gradients": figures(reference["gradients"], index), "buffers": figures(reference["buffers"], index)}


def trained_weights(make_network, weights, data, batch, lr):
    run = Run(make_network, weights, data, batch, sgd(lr), "float32")
    run.losses(range(TRAINED_STEPS))
    return {n: t.bfloat16().float() if t.is_floating_point() else t for n, t in run.model.state_dict().items()}


def make(case):
    network, image, starts, *frozen = CASES[case]
    make_network, data, states = maker(case), data_of(case), []
    for start, batch, lr, first in starts:
        gain = GAINS.get(network, 1.0)
        state = {"start": start, "batch_size": batch, "lr": lr, "first_batch": first, **({"gain": gain} if gain != 1 else {})}
        shift, statistics = 8.0 if start == "open" else 0.0, start == "frozen"
        weights = set_parity_weights(make_network(), shift, statistics, gain).state_dict()
        if start == "trained":
            state["weights"] = f"{case}_{TRAINED_STEPS:03}.safetensors"
            if not (FOLDER / state["weights"]).exists():
                save_file(trained_weights(make_network, weights, data, batch, lr), FOLDER / state["weights"])
            weights = load_file(FOLDER / state["weights"])
        states.append(state | expected_of_state(make_network, weights, data, batch, lr, first, frozen,
                                                network in (*TORCHVISION, "gpt.toml")))
        if network in TORCHVISION and start == "open":  # nobody compares them
            states[-1]["buffers"] = {}
    write_json(FOLDER / f"{case}.json",
               {"torch": torch.__version__, "network": network, "image": list(image),
                **({"classes": GPT_VOCABULARY} if network == "gpt.toml" else {}), **({"freeze": frozen[0]} if frozen else {}),
                "states": states})
    return states


KINKS = {nn.ReLU: 0.0, nn.Hardswish: 3.0, nn.Hardsigmoid: 3.0}  # at plus and minus this


@torch.no_grad()
def margin(model, images):
    """The smallest distance of an activation's input from a kink, or of the two largest values in a max-pool window."""
    nearest = []

    def kink_margin(activation, inputs):
        distance = (inputs[0].abs() - KINKS[type(activation)]).abs()
        nearest.append(distance.min().item())

    def output_margin(_, inputs, output):  # densenet121 has a ReLU that is no module
        nearest.append(output.abs().min().item())

    def pool_margin(pool, inputs):
        padded = nn.functional.pad(inputs[0], [pool.padding] * 4, value=-1.0)
        windows = padded.unfold(2, pool.kernel_size, pool.stride).unfold(3, pool.kernel_size, pool.stride).flatten(4)
        largest = windows.topk(2).values
        gaps = largest[..., 0] - largest[..., 1]
        nearest.append(gaps[gaps > 0].min().item())

    hooks = [module.register_forward_pre_hook(pool_margin if isinstance(module, nn.MaxPool2d) else kink_margin)
             for module in model.modules() if isinstance(module, (*KINKS, nn.MaxPool2d))]
    if type(model).__name__ == "DenseNet":
        hooks.append(model.features.register_forward_hook(output_margin))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model(images)
    for hook in hooks:
        hook.remove()
    return min(nearest)


def print_margins(case, candidates):
    starts = CASES[case][2]
    model = set_parity_weights(maker(case)(), statistics=starts[0][0] == "frozen", gain=GAINS.get(CASES[case][0], 1.0))
    data = data_of(case)
    for batch in sorted({batch for start, batch, *_ in starts if start in ("parity", "frozen")}):
        margins = {k: margin(model, data.samples(parity_numbers(k, batch))[0]) for k in range(candidates)}
        best = sorted(margins, key=margins.get)[:-4:-1]
        print(f"{case}, batches of {batch}:", ", ".join(f"first_batch {k} {margins[k]:.1e}" for k in best), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--margins", type=int, metavar="N",
                        help="print which of N first batches keep ReLUs farthest from zero at the parity weights, and stop")
    args = parser.parse_args()
    if unknown := set(args.cases) - set(CASES):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; cases are {', '.join(CASES)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in args.cases or CASES:
        if args.margins:
            print_margins(case, args.margins)
            continue
        start = time.perf_counter()
        for state in make(case):
            print(case, state["start"], state["batch_size"], [f"{x:.4f}" for x in state["losses"]],
                  f"evaluation {state['evaluation_loss']:.4f}")
            for variant, spread in state["spread"].items():
                print(f"    {variant:15} {spread}")
        print(f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
