"""Rows that time steps at batch 256, with the data on the GPU: our program, and PyTorch beside it in alternation."""
import contextlib
import json
import os
import random
import select
import shutil
import statistics
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from first_rows import ONLY_STEPS, period_us
from machine import events
from table import Failed, Row

SCRIPT = Path(__file__).resolve().parent.parent / "pytorch_speed.py"
SIDE, FILES, LINKS = 224, 64, 40  # pixels of a picture; different pictures; names of each


@dataclass
class Task:
    name: str
    precision: str
    model: str
    steps: int
    pairs: int
    options: tuple = ()
    limit_us: float = 0    # of our step; 0: none
    over_eager: float = 1  # least ratio
    peers: tuple = ("eager", "graph")
    seconds: int = 115


TASKS = [Task("LeNet", "tf32", "lenet", 2350, 5, limit_us=100, over_eager=8),
         Task("ResNet-18", "bf16", "resnet18", 470, 5, limit_us=2400),
         Task("LeNet", "bf16", "lenet", 2350, 5, over_eager=8),
         Task("LeNet", "fp32", "lenet", 2350, 5, over_eager=8),
         Task("ResNet-18", "tf32", "resnet18", 235, 3),
         Task("torchvision's ResNet-18, 224 x 224", "bf16", "torchvision-resnet18", 60, 3),
         Task("torchvision's ResNet-18, 224 x 224", "tf32", "torchvision-resnet18", 60, 3),
         Task("ResNet-18", "fp32", "resnet18", 100, 2),
         Task("torchvision's ResNet-18, 224 x 224", "fp32", "torchvision-resnet18", 30, 2),
         Task("ResNet-18, compiled peer", "bf16", "resnet18", 470, 3, peers=("compiled",), seconds=240)]


def has_torch(python):
    code = "import sys; from importlib.util import find_spec; sys.exit(not (find_spec('torch') and find_spec('numpy')))"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def python_with_torch(machine):
    pythons = [sys.executable, shutil.which("python3", path=machine.env["PATH"])]
    return next((python for python in pythons if python and has_torch(python)), None)


class PyTorch:
    """The process of pytorch_speed.py: it measures once for each input line and answers with a line of JSON."""

    def __init__(self, python, machine, task):
        data = ["--data-path", str(machine.data)] if machine.data else []
        self.process = subprocess.Popen([python, SCRIPT, "--model", task.model, "--precision", task.precision,
                                         "--peers", ",".join(task.peers), *data], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def measure(self, clock):
        """{"torch": version, peer: microseconds a step}."""
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


def png(rng):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + rng.randbytes(3 * SIDE) for _ in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def pictures(folder):
    """A data set of pictures of one size, in ten classes. Returns its folder."""
    if not folder.exists():
        rng = random.Random(0)
        for file in range(FILES):
            place = folder / "train" / f"class{file % 10}"
            place.mkdir(parents=True, exist_ok=True)
            first = place / f"{file}-0.png"
            first.write_bytes(png(rng))
            for link in range(1, LINKS):
                os.link(first, place / f"{file}-{link}.png")
        shutil.copytree(folder / "train", folder / "val", copy_function=os.link)
    return folder


def ours(machine, clock, task):
    """Microseconds of a step, and what the device waits for data in it; medians of the second half."""
    folder = machine.folder / "speed"
    data = ["--data-path", pictures(machine.folder / "pictures")] if task.model.startswith("torchvision") else []
    machine.run(machine.ranks(1, *machine.training(
        folder, *data, "--model", task.model, "--precision", task.precision, "--lr", 0.02, "--max-steps", task.steps,
        "--epochs", task.steps, *task.options, *ONLY_STEPS)), clock)
    steps = events(folder, "step")
    if len(steps) != task.steps:
        raise Failed(f"{len(steps)} steps in place of {task.steps}")
    waits = statistics.median(step["data_ms"] for step in steps[task.steps // 2:])
    return period_us(folder, task.steps // 2), 1e3 * waits


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def figures_of(mine, waits, theirs, task):
    text = f"{len(mine)} runs: {spread(mine, 1)} us a step, of it {statistics.median(waits):.1f} us without data"
    for peer in task.peers:
        if theirs and theirs[0].get(peer):
            ratios = [their[peer] / my for their, my in zip(theirs, mine)]
            text += (f"; PyTorch {theirs[0]['torch']} {peer} {statistics.median(their[peer] for their in theirs):.1f} us, "
                     f"ratio {spread(ratios, 2)}")
        else:
            text += f"; no PyTorch {peer}"
    return text


def misses(mine, theirs, task):
    found = []
    for peer in task.peers:
        if theirs and theirs[0].get(peer):
            ratio = statistics.median(their[peer] / my for their, my in zip(theirs, mine))
            least = task.over_eager if peer == "eager" else 1
            if not ratio >= least:
                found.append(f"less than {least} x PyTorch {peer}")
    if task.limit_us and not statistics.median(mine) <= task.limit_us:
        found.append(f"over {task.limit_us} us")
    return ", ".join(found)


def row(task):
    def work(machine, clock):
        mine, waits, theirs = [], [], []

        def measure(pytorch):
            for _ in range(task.pairs):
                period, wait = ours(machine, clock, task)
                mine.append(period)
                waits.append(wait)
                if pytorch:
                    theirs.append(pytorch.measure(clock))
                yield figures_of(mine, waits, theirs, task)
        python = None if machine.alone else python_with_torch(machine)
        with PyTorch(python, machine, task) if python else contextlib.nullcontext() as pytorch:
            yield from measure(pytorch)
        if missed := misses(mine, theirs, task):
            raise Failed(missed)
    return Row("speed", f"{task.name}, batch 256, {task.precision}", task.seconds, work)


def rows():
    return [row(task) for task in TASKS]
