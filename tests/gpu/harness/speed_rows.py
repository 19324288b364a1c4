"""Rows that time steps at batch 256: our program, and PyTorch beside it in alternation. The data is on the GPU, but for
pictures, which our program decodes in each step: there the waits for data do not count."""
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

import expected
from machine import events
from step_rows import ONLY_STEPS, period_us
from table import Failed, Late, Row, Skipped

SCRIPT = Path(__file__).resolve().parent.parent / "pytorch_speed.py"
SIDE, FILES, LINKS = 224, 64, 40  # pixels of a picture; different pictures; names of each


@dataclass
class Task:
    name: str
    precision: str
    model: str
    steps: int
    pairs: int
    limit_us: float = 0    # of our step on an H200; 0: none
    over_eager: float = 1  # least ratio
    peers: tuple = ("eager", "graph")
    seconds: int = 115

    @property
    def decodes(self):
        return self.model.startswith("torchvision")


COMPILED = ("compiled",)
FIRST = [Task("LeNet", "tf32", "lenet", 2350, 3, limit_us=100, over_eager=8),
         Task("ResNet-18", "bf16", "resnet18", 470, 3, limit_us=2400),
         Task("torchvision's ResNet-50, 224 x 224", "bf16", "torchvision-resnet50", 30, 2),
         Task("LeNet, compiled peer", "tf32", "lenet", 2350, 1, peers=COMPILED),
         Task("ResNet-18, compiled peer", "bf16", "resnet18", 470, 1, peers=COMPILED, seconds=240),
         Task("torchvision's ResNet-50, 224 x 224, compiled peer", "bf16", "torchvision-resnet50", 30, 1, peers=COMPILED,
              seconds=240)]
OTHERS = [Task("LeNet", "bf16", "lenet", 2350, 5, over_eager=8),
          Task("LeNet", "fp32", "lenet", 2350, 5, over_eager=8),
          Task("ResNet-18", "tf32", "resnet18", 235, 3),
          Task("torchvision's ResNet-18, 224 x 224", "bf16", "torchvision-resnet18", 60, 3),
          Task("torchvision's ResNet-18, 224 x 224", "tf32", "torchvision-resnet18", 60, 3),
          Task("ResNet-18", "fp32", "resnet18", 100, 2),
          Task("torchvision's ResNet-18, 224 x 224", "fp32", "torchvision-resnet18", 30, 2)]


def python_with_torch(machine, task):
    modules = ["torch", "numpy", *(["torchvision"] if task.decodes else [])]
    code = f"import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, {modules})))"
    pythons = [sys.executable, shutil.which("python3", path=machine.env["PATH"])]
    return next((python for python in pythons if python and
                 subprocess.run([python, "-c", code], capture_output=True).returncode == 0), None)


class PyTorch:
    """The process of pytorch_speed.py: it says that it is ready, measures once for each input line and answers with a
    line of JSON."""

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

    def await_line(self, clock):
        if not select.select([self.process.stdout], [], [], clock.left())[0]:
            raise Late("pytorch_speed.py did not answer in time")
        line = self.process.stdout.readline()
        if not line:
            raise Failed("pytorch_speed.py failed")
        return line

    def measure(self, clock):
        """{"torch": version, peer: microseconds a step, or None}."""
        try:
            self.process.stdin.write("measure\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("pytorch_speed.py failed") from None
        return json.loads(self.await_line(clock))


def png(rng):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + rng.randbytes(3 * SIDE) for _ in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def pictures(folder):
    """A data set of pictures of one size, in ten classes. Returns its folder."""
    if not folder.exists():
        rng, part = random.Random(0), folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for file in range(FILES):
            place = part / "train" / f"class{file % 10}"
            place.mkdir(parents=True, exist_ok=True)
            first = place / f"{file}-0.png"
            first.write_bytes(png(rng))
            for link in range(1, LINKS):
                os.link(first, place / f"{file}-{link}.png")
        shutil.copytree(part / "train", part / "val", copy_function=os.link)
        part.rename(folder)
    return folder


def keep_engines(machine, name, folder):
    """Writes the times of all engines that the run has measured: for each pass of a convolution the fastest first."""
    passes = next(iter(events(folder, "run"))).get("algorithms", [])
    lines = [f"  {each['pass']}: " + ", ".join(f"{number} {us:.1f}" for number, us in each["number_and_us"]) + "\n"
             for each in passes]
    if lines:
        machine.keep("engines", name, f"{name}: engine and microseconds\n" + "".join(lines))


def ours(machine, clock, task):
    """Of the second half, in microseconds: a step, its median, and what the device waits for data in it."""
    folder = machine.folder / "speed"
    data = ["--data-path", pictures(machine.folder / "pictures")] if task.decodes else []
    machine.train_alone(folder, [
        *data, "--model", task.model, "--precision", task.precision, "--lr", 0.02, "--max-steps", task.steps,
        "--epochs", task.steps, "--engine-file", machine.beside(f"engines-{task.precision}.json"), *ONLY_STEPS], clock)
    keep_engines(machine, f"{task.name}, {task.precision}", folder)
    steps = events(folder, "step")
    if len(steps) != task.steps:
        raise Failed(f"{len(steps)} steps in place of {task.steps}")
    half = task.steps // 2
    wait = 1e3 * statistics.mean(step["data_ms"] for step in steps[half:])
    mean, median = period_us(folder, half)
    return mean - (wait if task.decodes else 0), median, wait


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def figures_of(mine, theirs, task):
    """`mine`: of each run, what ours() returns."""
    steps, medians, waits = zip(*mine)
    text = (f"{len(steps)} runs: {spread(steps, 1)} us a step{' without its wait' if task.decodes else ''} (median "
            f"{statistics.median(medians):.1f}), waits {statistics.median(waits):.1f} us for data")
    for peer in task.peers:
        if theirs and theirs[0].get(peer):
            text += (f"; PyTorch {theirs[0]['torch']} {peer} {statistics.median(their[peer] for their in theirs):.1f} us, "
                     f"ratio {spread(ratios(mine, theirs, peer), 2)}")
        else:
            text += f"; no PyTorch {peer}"
    return f"{text}; {expected.text(task.model, task.precision)}"


def ratios(mine, theirs, peer):
    return [their[peer] / step for their, (step, *_) in zip(theirs, mine)]


def misses(mine, theirs, task, gpu):
    """What the row misses; None: nothing judges it."""
    found = []
    peers = [peer for peer in task.peers if theirs and theirs[0].get(peer)]
    for peer in peers:
        least = task.over_eager if peer == "eager" else 1
        if not statistics.median(ratios(mine, theirs, peer)) >= least:
            found.append(f"less than {least} x PyTorch {peer}")
    limit = expected.limit(task.model, task.precision, task.limit_us, gpu)
    if limit and not statistics.median(step for step, *_ in mine) <= limit:
        found.append(f"over {limit:.0f} us")
    return ", ".join(found) if peers or limit else None


def row(stage, task):
    def work(machine, clock):
        mine, theirs = [], []
        python = None if machine.alone else python_with_torch(machine, task)
        with PyTorch(python, machine, task) if python else contextlib.nullcontext() as pytorch:
            if pytorch:
                pytorch.await_line(clock)
            for _ in range(machine.pairs or task.pairs):
                mine.append(ours(machine, clock, task))
                yield figures_of(mine, theirs, task)
                if pytorch:
                    theirs.append(pytorch.measure(clock))
                    yield figures_of(mine, theirs, task)
        missed = misses(mine, theirs, task, machine.gpu)
        if missed is None:
            raise Skipped("nothing to compare with: " + figures_of(mine, theirs, task))
        if missed:
            raise Failed(missed)
    return Row(stage, f"{task.name}, batch 256, {task.precision}", task.seconds, work)


def rows():
    return [row("speed", task) for task in FIRST]


def other_rows():
    return [row("peers", task) for task in OTHERS]
