"""Rows of twenty steps of each network, whose losses are compared with those of the same steps on the CPU. cuDNN's
engines are not measured: the rows start in seconds."""
import statistics
import sys
from pathlib import Path

from machine import ROOT, events
from table import Again, Failed, Late, Row

sys.path.append(str(ROOT / "tests" / "parity"))
from tokens import write_tokens  # noqa: E402

STEPS = 20
ONLY_STEPS = ["--save-every", "never", "--eval-every", 0, "--print-freq", 0]
LENET = ["--model", "lenet", "--max-steps", STEPS, "--train-samples", 5120, "--lr", 0.02, "--seed", 2]
KERAS = ["--model", "keras-convnet", "--max-steps", STEPS, "--train-samples", 640, "--batch-size", 32, "--lr", 0.001]
RESNET = ["--model", "resnet18", "--max-steps", STEPS, "--train-samples", 640, "--batch-size", 32, "--lr", 0.001]
VIT = ["--model", "vit-tiny", "--max-steps", STEPS, "--train-samples", 320, "--batch-size", 16, "--lr", 0.01]
GPT = ["--model", "gpt-tiny", "--max-steps", STEPS, "--sequence-length", 64, "--vocab-size", 256, "--batch-size", 8, "--lr", 0.01]
LAYER_BY_LAYER = ("lenet", "keras-convnet", "resnet18")  # tests/gpu/layers_test.cpp


def period_us(folder, skipped):
    """Microseconds between the begins of two steps, by the device's clock: the mean, and the median, which leaves out
    pauses."""
    begins = [event["begin_ns"] for event in events(folder, "step")[skipped:]]
    periods = [1e-3 * (after - before) for before, after in zip(begins, begins[1:])]
    return statistics.mean(periods), statistics.median(periods)


def start_up(folder):
    stages = next(iter(events(folder, "run")))["start_seconds"]
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())


def with_tokens(machine, task):
    """The task, with tokens for a language model: the bytes of this file, many times."""
    if "--sequence-length" not in task:
        return task
    folder = machine.folder / "tokens"
    folder.mkdir(exist_ok=True)
    for name, copies in (("train", 40), ("val", 4)):
        write_tokens(folder / f"{name}.bin", copies * Path(__file__).read_bytes())
    return [*task, "--data-path", folder]


def losses(folder):
    return [event["loss"] for event in events(folder, "step")]


def losses_on_cpu(machine, clock, task):
    """Once for each task."""
    key = " ".join(map(str, task))
    if key not in machine.cpu_losses:
        folder = machine.folder / "beside"
        command = machine.training(folder, *with_tokens(machine, task), *ONLY_STEPS, device="cpu")
        machine.run(machine.ranks(1, *command), clock)
        machine.cpu_losses[key] = losses(folder)
    return machine.cpu_losses[key]


def few_steps(name, task, precision, bound, *options):
    """`bound`: largest relative difference of each loss from the CPU's."""
    def on_gpu(machine):
        return [*with_tokens(machine, task), "--precision", precision, "--engine-seconds", 0, *options, *ONLY_STEPS]

    def work(machine, clock):
        folder = machine.folder / "steps"
        try:
            output, whole, note = machine.train_alone(folder, on_gpu(machine), clock)
        except Late:  # the steps that there are
            if found := losses(folder):
                yield f"{len(found)} steps, losses {found[0]:.5f} to {found[-1]:.5f}"
            raise
        found = losses(folder)
        if len(found) != STEPS or not all(abs(loss) < 1e3 for loss in found):
            raise Failed(f"losses {found}", output)
        mean, median = period_us(folder, STEPS // 2)
        figures = (f"{note}{mean:.0f} us a step (median {median:.0f}), loss {found[0]:.5f} to {found[-1]:.5f}; whole run "
                   f"{whole:.1f} s, of its start: {start_up(folder)} s")
        yield figures
        expected = losses_on_cpu(machine, clock, task)
        differences = [abs(a - b) / abs(b) for a, b in zip(found, expected)]
        figures += f"; losses within {max(differences):.1e} of the CPU's (permitted: {bound:.0e})"
        yield figures
        if len(differences) != len(found) or not all(difference <= bound for difference in differences):
            raise Failed("other losses than the CPU's", output)

    def again(machine, prefix, more):
        return machine.ranks(1, *prefix, *machine.training(machine.folder / "again", *on_gpu(machine), *more))
    model = task[task.index("--model") + 1]
    layers = f"gpu_{precision}_{model.replace('-', '_')}" if model in LAYER_BY_LAYER else ""
    return Row("steps", name, 60, work, Again(again, True, layers))


def rows():
    return [few_steps("LeNet, 20 steps, fp32 without graphs", LENET, "fp32", 1e-4, "--no-graph"),
            few_steps("LeNet, 20 steps, fp32", LENET, "fp32", 1e-4),
            few_steps("LeNet, 20 steps, tf32", LENET, "tf32", 1e-2),
            few_steps("LeNet, 20 steps, bf16", LENET, "bf16", 5e-2),
            few_steps("keras-convnet, 20 steps, fp32", KERAS, "fp32", 1e-3),
            few_steps("keras-convnet, 20 steps, bf16", KERAS, "bf16", 1e-1),
            few_steps("ResNet-18, 20 steps, fp32", RESNET, "fp32", 1e-3),
            few_steps("ResNet-18, 20 steps, bf16", RESNET, "bf16", 1e-1),
            few_steps("vit-tiny, 20 steps, fp32", VIT, "fp32", 1e-4),
            few_steps("vit-tiny, 20 steps, bf16", VIT, "bf16", 2e-2),
            few_steps("gpt-tiny, 20 steps, fp32 without graphs", GPT, "fp32", 1e-4, "--no-graph"),
            few_steps("gpt-tiny, 20 steps, fp32", GPT, "fp32", 1e-4),
            few_steps("gpt-tiny, 20 steps, bf16", GPT, "bf16", 2e-2)]
