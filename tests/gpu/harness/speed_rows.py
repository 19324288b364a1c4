"""Rows that time LeNet at batch 256 with the data on the GPU, our program and PyTorch in alternation."""
import json
import select
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from machine import summary
from table import Failed, Row, Skipped

SCRIPT = Path(__file__).resolve().parent.parent / "pytorch_speed.py"
PAIRS = 5
STEPS_PER_EPOCH = 235
FLOOR_US = {"fp32": 57, "tf32": 57, "bf16": 10}  # estimated time of the arithmetic alone on an H200
LIMIT_US, OVER_EAGER = 120, 8


def has_torch(python):
    code = "import sys; from importlib.util import find_spec; sys.exit(not (find_spec('torch') and find_spec('numpy')))"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


class PyTorch:
    """The process of pytorch_speed.py: it measures once for each input line and answers with a line of JSON."""

    def __init__(self, machine, precision):
        pythons = [python for python in (sys.executable, shutil.which("python3")) if python and has_torch(python)]
        if not pythons:
            raise Skipped("no Python here has PyTorch and NumPy")
        data = ["--data-path", machine.data] if machine.data else []
        self.process = subprocess.Popen([pythons[0], SCRIPT, "--precision", precision, *map(str, data)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def measure(self, clock):
        """{"eager_us", "graph_us", "torch"}."""
        try:
            self.process.stdin.write("measure\n")
            self.process.stdin.flush()
            answered = select.select([self.process.stdout], [], [], clock.left())[0]
            line = self.process.stdout.readline() if answered else ""
        except BrokenPipeError:
            line = ""
        if not line:
            late = self.process.poll() is None
            raise Failed("pytorch_speed.py did not answer in time" if late else "pytorch_speed.py failed")
        return json.loads(line)


def ours_us(machine, clock, precision):
    """Microseconds per step: the difference of a long and a short run, so one-time costs do not count."""
    seconds = {}
    for epochs in (2, 42):
        folder = machine.folder / "speed"
        machine.run(machine.ranks(1, *machine.training(
            folder, "--precision", precision, "--lr", 0.02, "--max-steps", epochs * STEPS_PER_EPOCH, "--epochs", epochs,
            "--print-freq", 0, "--eval-every", 0)), clock)
        result = summary(folder)
        if result["steps"] != epochs * STEPS_PER_EPOCH:
            raise Failed(f"{result['steps']} steps in place of {epochs * STEPS_PER_EPOCH}")
        seconds[epochs] = result["sec_per_epoch"] * epochs
    return 1e6 * (seconds[42] - seconds[2]) / (40 * STEPS_PER_EPOCH)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def row(precision):
    def work(machine, clock):
        ours, eager, graph = [], [], []
        with PyTorch(machine, precision) as pytorch:
            for _ in range(PAIRS):
                ours.append(ours_us(machine, clock, precision))
                theirs = pytorch.measure(clock)
                eager.append(theirs["eager_us"])
                graph.append(theirs["graph_us"])
        over_eager = [a / b for a, b in zip(eager, ours)]
        over_graph = [a / b for a, b in zip(graph, ours)]
        us, floor = statistics.median(ours), FLOOR_US[precision]
        figures = (f"{spread(ours, 1)} us a step, {us * STEPS_PER_EPOCH / 1e3:.1f} ms an epoch; PyTorch "
                   f"{theirs['torch']} eager DDP {statistics.median(eager):.0f} us, ratio {spread(over_eager, 2)}; "
                   f"PyTorch in one CUDA graph {statistics.median(graph):.1f} us, ratio {spread(over_graph, 2)}; "
                   f"floor {floor} us (estimate), {100 * floor / us:.0f} % of our step")
        misses = [text for met, text in (
            (statistics.median(over_eager) >= OVER_EAGER, f"less than {OVER_EAGER} x eager"),
            (statistics.median(over_graph) > 1, "behind PyTorch's graph"),
            (us <= LIMIT_US, f"over {LIMIT_US} us")) if not met]
        if misses:
            raise Failed(f"{', '.join(misses)}: {figures}")
        return figures
    return Row("speed", f"LeNet, batch 256, {precision}", 115, work)


def rows():
    return [row(precision) for precision in FLOOR_US]
