"""Rows that show where a step's time goes: each kernel and copy of some steps, which libgpu_timeline.so writes. The table
goes beside the results, the steps themselves to a file for chrome://tracing and Perfetto."""
import collections
import json
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

from step_rows import ONLY_STEPS, period_us
from machine import LIBRARY
from table import Failed, Row, Skipped

MARK = "read_clock"  # the kernel with which a step of one rank begins, and another of which ends it
STEPS, SHOWN = 20, 3  # in the table; in the file for the browser
LONGEST = 90          # characters of a name


@dataclass
class Activity:
    kind: str
    begin: int  # ns
    end: int
    stream: int
    bytes: int
    name: str


@dataclass
class Line:
    name: str
    calls: float    # in a step
    mean_us: float  # of a call
    gap_us: float   # before a call: no other activity ran
    share: float    # of the step


def activities(path):
    """Those of a file of libgpu_timeline.so, by their begin; and how many were lost."""
    first, *lines = path.read_text().splitlines()
    found = []
    for line in lines:
        kind, begin, end, stream, size, name = line.split("\t")
        found.append(Activity(kind, int(begin), int(end), int(stream), int(size), name))
    return sorted(found, key=lambda each: (each.begin, each.end)), int(first.split("\t")[1])


def short(activity):
    """The name without return type, namespaces of the project and parameters; a copy's with its size."""
    if activity.kind != "kernel":
        return f"{activity.name}, {activity.bytes} bytes"
    name = re.sub(r"^void |\(anonymous namespace\)::|ddp::", "", activity.name)
    depth = 0
    for place, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:place]
            break
    return name if len(name) <= LONGEST else name[:LONGEST - 3] + "..."


def last_steps(found, count):
    """The last whole steps, each a list of activities from its first mark to that of the next step; and their begins in
    ns, with that of the step behind them."""
    marks = [place for place, each in enumerate(found) if MARK in each.name]
    begins = marks[::-1][1::2][::-1]  # the last mark ends the last step
    if len(begins) <= count:
        raise Failed(f"{len(begins)} steps in the timeline, not more than {count}")
    begins = begins[-count - 1:]
    return [found[begin:end] for begin, end in zip(begins, begins[1:])], [found[begin].begin for begin in begins]


def table(steps, until):
    """(lines, longest time first; microseconds of a step; share of the time in which something ran). `until`: begin of
    the step behind the last one."""
    flat = [each for step in steps for each in step]
    time_of, gap_of, calls = (collections.Counter() for _ in range(3))
    busy, latest = 0, flat[0].begin
    for each in flat:
        key = short(each)
        calls[key] += 1
        time_of[key] += each.end - each.begin
        gap_of[key] += max(0, each.begin - latest)
        busy += max(0, min(each.end, until) - max(each.begin, latest))
        latest = max(latest, each.end)
    whole = until - flat[0].begin
    lines = [Line(key, calls[key] / len(steps), time_of[key] / calls[key] / 1e3, gap_of[key] / calls[key] / 1e3,
                  time_of[key] / whole) for key, _ in time_of.most_common()]
    return lines, whole / len(steps) / 1e3, busy / whole


def text_of(name, lines, step_us, busy):
    rows = [f"{name}: a step {step_us:.1f} us, in {100 * busy:.1f} % of it something ran",
            "  calls a step, us a call, us of gap before a call, % of the step, name"]
    rows += [f"  {line.calls:6.2f} {line.mean_us:9.2f} {line.gap_us:9.2f} {100 * line.share:6.1f}  {line.name}" for line in lines]
    return "\n".join(rows) + "\n"


def trace(steps):
    """The JSON of chrome://tracing: a row for each stream."""
    origin = steps[0][0].begin
    return {"displayTimeUnit": "ns", "traceEvents": [
        {"name": short(each), "cat": each.kind, "ph": "X", "pid": 0, "tid": each.stream, "ts": (each.begin - origin) / 1e3,
         "dur": (each.end - each.begin) / 1e3, "args": {"name": each.name}} for step in steps for each in step]}


def library(machine):
    """Raises Skipped if the library is missing, or cannot be loaded: it needs CUPTI."""
    if not machine.timeline.exists():
        raise Skipped(f"{LIBRARY} is missing: no CUPTI 13 on the machine that built it")
    done = subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", machine.timeline],
                          env=machine.env, capture_output=True, text=True)
    if done.returncode != 0:
        raise Skipped(done.stderr.strip().rpartition("\n")[2] or f"{LIBRARY} cannot be loaded")
    return machine.timeline


def row(name, model, precision, steps):
    def work(machine, clock):
        folder = machine.folder / "kernels"
        lines_of = machine.folder / f"{model}.lines"
        options = ["--model", model, "--precision", precision, "--lr", 0.02, "--max-steps", steps,
                   "--engine-file", machine.beside(f"engines-{precision}.json"), *ONLY_STEPS]
        written = lines_of.with_name(lines_of.name + ".0")
        written.unlink(missing_ok=True)
        output, _, _ = machine.train_alone(folder, options, clock, CUDA_INJECTION64_PATH=library(machine),
                                           GPU_TIMELINE=lines_of)
        if not written.exists():
            raise Failed("no timeline was written", output)
        found, lost = activities(written)
        chosen, begins = last_steps(found, STEPS)
        lines, step_us, busy = table(chosen, begins[-1])
        machine.keep("timeline", name, text_of(name, lines, step_us, busy))
        machine.beside(f"timeline.{model}-{precision}.json").write_text(json.dumps(trace(chosen[-SHOWN:])))
        median = statistics.median(after - before for before, after in zip(begins, begins[1:])) / 1e3
        clock_us = period_us(folder, steps // 2)[1]
        longest = ", ".join(f"{line.name} {line.calls * line.mean_us:.1f} us" for line in lines[:3])
        figures = (f"a step {step_us:.1f} us (median {median:.1f}, by the program's clock {clock_us:.1f}), in {100 * busy:.0f} % of it something "
                   f"ran, {sum(line.calls for line in lines):.1f} kernels and copies, {lost} lost; longest: {longest}")
        yield figures
        if lost or not 0.5 <= median / clock_us <= 2:
            raise Failed("activities were lost" if lost else "the marks are not the begins of the program's steps", output)
    return Row("kernels", f"kernels of {name}", 60, work)


def rows():
    return [row("LeNet, batch 256, tf32", "lenet", "tf32", 470), row("ResNet-18, batch 256, bf16", "resnet18", "bf16", 100)]
