"""Rows of the first minute on a GPU: the machine, and a few steps in each precision. Whatever fails later, these figures
are there."""
import re
import shutil
import statistics

from machine import events
from process import run
from table import Failed, Row

QUERY = ("clocks.sm", "clocks.max.sm", "clocks.mem", "clocks_throttle_reasons.active", "power.draw", "power.limit")
LENET = ["--max-steps", 20, "--train-samples", 5120, "--lr", 0.02, "--seed", 2]
RESNET = ["--model", "resnet18", "--max-steps", 5, "--train-samples", 1280, "--lr", 0.02]
ONLY_STEPS = ["--save-every", "never", "--eval-every", 0, "--print-freq", 0]


def describe(machine, clock):
    output = machine.run([machine.gpu_test, "--machine"], clock)
    facts = re.findall(r"^machine: (.+) = (.+)$", output, re.MULTILINE)
    if not facts:
        raise Failed("gpu_test says nothing", output)
    yield ", ".join(f"{name} {value}" for name, value in facts)
    state = "no nvidia-smi"
    if shutil.which("nvidia-smi"):
        code, output = run(["nvidia-smi", "--id=0", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"], machine.env,
                           clock.left())
        state = ", ".join(map(" ".join, zip(QUERY, output.strip().split(", ")))) if code == 0 else output.strip()
    yield ", ".join(f"{name} {value}" for name, value in facts) + "; " + state


def period_us(folder, skipped):
    """Microseconds between the begins of two steps, by the device's clock: the mean, and the median, which leaves out
    pauses."""
    begins = [event["begin_ns"] for event in events(folder, "step")[skipped:]]
    periods = [1e-3 * (after - before) for before, after in zip(begins, begins[1:])]
    return statistics.mean(periods), statistics.median(periods)


def start_up(folder):
    stages = next(iter(events(folder, "run")))["start_seconds"]
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())


def engines(folder):
    """A line for each pass of a convolution: cuDNN's engines and their microseconds, the fastest first."""
    passes = next(iter(events(folder, "run"))).get("engines", [])
    return [(each["pass"], each["number_and_us"]) for each in passes]


def keep_engines(machine, name, folder):
    """Writes all measured engines beside the table of results. Returns the sum of the fastest ones."""
    found = engines(folder)
    lines = [f"  {text}: " + ", ".join(f"{number} {us:.1f}" for number, us in each) + "\n" for text, each in found]
    machine.keep("engines", name, f"{name}: engine and microseconds\n" + "".join(lines))
    total = sum(each[0][1] for _, each in found)
    return f"; fastest engines of {len(found)} different passes {total:.0f} us, of {sum(len(each) for _, each in found)} measured"


def losses(folder):
    return [event["loss"] for event in events(folder, "step")]


def few_steps(name, task, precision, bound=None):
    """`bound`: largest relative difference of each loss from the CPU's; None: they are not compared."""
    options = [*task, *precision, *ONLY_STEPS]

    def work(machine, clock):
        folder = machine.folder / "first"
        with_gpu, whole = machine.timed(machine.ranks(1, *machine.training(folder, *options)), clock)
        found = losses(folder)
        if len(found) != task[task.index("--max-steps") + 1] or not all(abs(loss) < 1e3 for loss in found):
            raise Failed(f"losses {found}", with_gpu)
        mean, median = period_us(folder, len(found) // 2)
        figures = (f"{mean:.0f} us a step (median {median:.0f}), loss {found[0]:.5f} to {found[-1]:.5f}; whole run "
                   f"{whole:.1f} s, of its start: {start_up(folder)} s")
        figures += keep_engines(machine, name, folder)
        yield figures
        if bound is None:
            return
        beside = machine.folder / "beside"
        machine.run(machine.ranks(1, *machine.training(beside, *task, *ONLY_STEPS, device="cpu")), clock)
        differences = [abs(a - b) / abs(b) for a, b in zip(found, losses(beside))]
        figures += f"; losses within {max(differences):.1e} of the CPU's (permitted: {bound:.0e})"
        yield figures
        if len(differences) != len(found) or not all(difference <= bound for difference in differences):
            raise Failed("other losses than the CPU's", with_gpu)
    return Row("first", name, 20, work)


def rows():
    return [Row("first", "machine", 15, describe),
            few_steps("LeNet, 20 steps, fp32 without graphs", LENET, ["--precision", "fp32", "--no-graph"], 1e-4),
            few_steps("LeNet, 20 steps, fp32", LENET, ["--precision", "fp32"], 1e-4),
            few_steps("LeNet, 20 steps, tf32", LENET, ["--precision", "tf32"], 1e-2),
            few_steps("LeNet, 20 steps, bf16", LENET, ["--precision", "bf16"], 5e-2),
            few_steps("ResNet-18, 5 steps, bf16", RESNET, ["--precision", "bf16"])]
