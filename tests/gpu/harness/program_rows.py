"""Rows that run ddp_train as a user does: its accuracy, its losses with two ranks, and its timeline."""
import json
import statistics

from process import cause
from step_rows import ONLY_STEPS, period_us
from machine import ROOT, events, summary
from table import Failed, Late, Row, Skipped

# In this run no ReLU input is so close to zero that rounding decides its sign.
SHORT = ["--max-steps", 100, "--lr", 0.02, "--seed", 2, "--train-samples", 5000, "--precision", "fp32",
         "--deterministic", *ONLY_STEPS]


def expected_accuracy():
    """PyTorch's accuracy on a CPU from the same weights: the best of epochs 8 to 10, averaged over its runs."""
    runs = json.loads((ROOT / "tests" / "parity" / "expected" / "accuracy.json").read_text())
    return statistics.mean(run["best_of_last_three"] for run in runs if run["init"] == "default_seed0.safetensors")


def accuracy(precision):
    def work(machine, clock):
        folder = machine.folder / "accuracy"
        output, _, note = machine.train_alone(folder, ["--precision", precision, "--epochs", 10], clock)
        last = summary(folder)
        best = max(event["accuracy"] for event in events(folder, "eval") if event["epoch"] >= 8)
        expected = expected_accuracy()
        figures = (f"{note}best of epochs 8 to 10 {best:.4f} (expected {expected:.4f} within 0.01), "
                   f"epoch 10 {last['test_accuracy']:.4f}, {last['sec_per_epoch']:.3f} s an epoch")
        if not abs(best - expected) <= 0.01:
            raise Failed(figures, output)
        return figures
    return Row("epochs", f"ddp_train, 10 epochs, {precision}", 60, work)


def losses(machine, clock, ranks, *options, **variables):
    folder = machine.folder / "losses"
    output = machine.run(machine.ranks(ranks, *machine.training(folder, *SHORT, *options)), clock, **variables)
    return [event["loss"] for event in events(folder, "step")], output


def one_rank(machine, clock):
    """NCCL alone, and its losses beside those over MPI."""
    over_mpi, _ = losses(machine, clock, 1, "--transport", "mpi")
    found, output = losses(machine, clock, 1, "--transport", "nccl")
    if len(found) != 100 or found != over_mpi:
        raise Failed(f"{len(found)} losses, not those over MPI", output)
    return "100 losses with the same bits as over MPI"


def together(machine, clock, transport):
    """Losses, output, and a note. NCCL that fails on memory from cuMem is tried once without it."""
    options = ["--share-gpu", "--transport", transport]
    try:
        return *losses(machine, clock, 2, *options), ""
    except Failed as error:
        if transport != "nccl" or isinstance(error, Late):
            raise
        why = cause(error.log)
        machine.keep_log("two ranks over NCCL", error.log)
        if "Duplicate GPU" in error.log:
            raise Skipped(f"NCCL refuses two ranks on a GPU: {why}") from None
    return *losses(machine, clock, 2, *options, NCCL_CUMEM_ENABLE=0), f" with NCCL_CUMEM_ENABLE=0 ({why})"


def two_ranks(transport):
    def work(machine, clock):
        alone, _ = losses(machine, clock, 1, "--transport", "mpi")
        both, output, note = together(machine, clock, transport)
        if len(alone) != 100 or len(both) != 100:
            raise Failed(f"{len(alone)} and {len(both)} losses in place of 100", output)
        differences = [abs(a - b) / abs(a) for a, b in zip(alone, both)]
        if not all(difference <= 1e-5 for difference in differences):  # false for a NaN, which max() could lose
            raise Failed(f"100 losses differ by up to {max(differences):.1e}", output)
        return f"100 losses within {max(differences):.1e}{note}"
    return Row("nccl", f"ddp_train, 2 ranks against 1, over {transport}", 60, work)


def programmatic_launches(machine, clock):
    """LeNet, whose step has only short kernels: the losses have the same bits, and the time of a step is shown."""
    options = ["--max-steps", 400, "--epochs", 9, "--lr", 0.02, "--precision", "tf32", "--deterministic", *ONLY_STEPS]
    found = {}
    for on in (False, True, False, True):
        folder = machine.folder / "programmatic"
        machine.train_alone(folder, [*options, *(["--programmatic-launch"] if on else [])], clock)
        steps = events(folder, "step")
        found.setdefault(on, []).append(([step["loss"] for step in steps], period_us(folder, 200)[1]))
    (losses_off, _), (losses_on, _) = found[False][0], found[True][0]
    times = {on: min(us for _, us in runs) for on, runs in found.items()}
    figures = f"medians: {times[True]:.1f} us a step with them, {times[False]:.1f} us without"
    yield figures
    if len(losses_on) != 400 or losses_on != losses_off:
        raise Failed("other losses with --programmatic-launch")


def timeline(machine, clock):
    if machine.gpus < 2:
        raise Skipped(f"needs 2 GPUs; this machine has {machine.gpus}")
    folder = machine.folder / "timeline"
    options = ["--max-steps", 2000, "--eval-every", 0, "--print-freq", 0]
    machine.run(machine.ranks(2, *machine.training(folder, *options)), clock)
    steps = events(folder, "step")[200:]
    compute, exposed = (statistics.median(step[name] for step in steps) for name in ("compute_ms", "exposed_comm_ms"))
    return f"2 ranks, a step: compute {compute:.3f} ms, exposed communication {exposed:.3f} ms (medians)"


def graphs_rows():
    return [Row("graphs", "ddp_train, 400 losses with and without --programmatic-launch", 60, programmatic_launches)]


def epochs_rows():
    return [accuracy(precision) for precision in ("tf32", "fp32", "bf16")]


def nccl_rows():
    return [Row("nccl", "ddp_train, 1 rank over NCCL", 60, one_rank), two_ranks("nccl"), two_ranks("mpi")]


def timeline_rows():
    return [Row("peers", "timeline of a step on 2 GPUs", 60, timeline)]
