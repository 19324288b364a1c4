"""Rows of the first seconds: the machine, and CUDA's libraries, which are read for the first time."""
import re
import shutil

import libraries
from process import run
from table import Failed, Row

QUERY = ("clocks.sm", "clocks.max.sm", "clocks.mem", "clocks_throttle_reasons.active", "power.draw", "power.limit")


def read_libraries(machine, clock):
    """Also the limits of all rows grow with the time of the disk."""
    files, _ = libraries.needed(machine.train, machine.env)
    size, seconds = libraries.read_all(files)
    machine.disk_seconds = seconds
    return (f"{len(files)} files, {size / 1e6:.0f} MB in {seconds:.1f} s; before: {machine.start()}; all limits times "
            f"{machine.patience():.1f}")


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


def rows():
    return [Row("first", "machine", 60, describe), Row("first", "libraries", 90, read_libraries)]
