"""The start of the packed programs on a machine whose page cache has nothing of them: how many seconds each part takes
before the first CUDA call. The machine has CUDA's libraries, and no GPU."""
import argparse
import datetime
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import libraries
import loopback
import page_cache
from machine import PACK, ROOT, Machine
from process import Clock, Process, run
from table import Failed

NO_DRIVER = "no NVIDIA driver"
INSIDE = "--inside-namespace"
READING = "reading CUDA's libraries"
LIMIT = 300  # seconds of each part
TEXT = """# A cold start

Written by `tests/gpu/check cold-start`: the start of the packed programs up to the first CUDA call, on a machine with CUDA's
libraries and without a GPU. Cold: the files were removed from the page cache before. Warm: the same again.

{when}, commit {commit}, {cores} cores{place}, `{command}`

| part | files | MB | still cached, MB | cold, s | warm, s |
| --- | --- | --- | --- | --- | --- |
{rows}

A first call needs {cold:.1f} s cold, {warm:.1f} s warm, before its first row: it unpacks, reads CUDA's libraries, and starts `gpu_test` and
`ddp_train`. The disk gives {rate:.0f} MB/s. {cache}
"""


class Part:
    def __init__(self, name, files, work):
        self.name, self.work = name, work
        self.files = len(files)
        self.bytes, self.kept = page_cache.evict(files)
        self.cold, self.warm = self.seconds(), self.seconds()

    def seconds(self):
        begin = time.monotonic()
        end = self.work()
        return (end or time.monotonic()) - begin

    def line(self):
        return (f"| {self.name} | {self.files} | {self.bytes / 1e6:.0f} | {self.kept / 1e6:.0f} | {self.cold:.2f} | "
                f"{self.warm:.2f} |")


def files_below(folder):
    return [file for file in folder.rglob("*") if file.is_file()]


def ends_well(machine, command):
    def work():
        code, output = run(command, machine.env, LIMIT)
        if code != 0:
            why = f"not done in {LIMIT} s" if code is None else f"exit code {code}"
            raise Failed(f"{shlex.join(map(str, command))}: {why}", output)
    return work


def finds_no_driver(machine, command):
    """Returns the time of the program's message: mpirun waits two seconds more."""
    def work():
        with Process(command, machine.env) as process:
            clock = Clock(LIMIT)
            while NO_DRIVER not in process.output() and process.wait(0.005) is None and clock.left() > 0:
                pass
            end, output = time.monotonic(), process.output()
            process.wait(clock.left())
        if NO_DRIVER not in output:
            raise Failed(f"{shlex.join(map(str, command))}: no message about a missing driver: is there a GPU?", output)
        return end
    return work


def unpack(archive):
    """In a machine of its own."""
    def work():
        with Machine(archive.parent, None, "RESULTS.md"):
            pass
    return work


def read(files):
    def work():
        libraries.read_all(files)
    return work


def parts(archive, machine):
    """Each part begins with the files of the parts before it in the cache, as in a first call."""
    yield Part("unpacking", [archive], unpack(archive))
    cuda, missing = libraries.needed(machine.train, machine.env)
    if missing:
        raise Failed(f"{', '.join(missing)} not found: install it, or add its folder to LD_LIBRARY_PATH", "")
    page_cache.evict([*cuda, *files_below(machine.folder)])
    yield Part(READING, cuda, read(cuda))
    of_mpi = files_below(machine.folder / "packed" / "usr")
    yield Part("`mpirun -np 1 true`", of_mpi, ends_well(machine, machine.ranks(1, "true")))
    programs = files_below(machine.folder / "packed" / "bin")
    describing = finds_no_driver(machine, [machine.gpu_test, "--machine"])
    yield Part("`gpu_test --machine`, to the first CUDA call", programs, describing)
    yield Part("`ddp_train --version`", [machine.train], ends_well(machine, [machine.train, "--version"]))
    training = machine.training(machine.folder / "run", "--train-samples", "2000", "--max-steps", "1")
    data = files_below(machine.part_of_data) if machine.part_of_data else []
    yield Part("`mpirun -np 1 ddp_train --device cuda`, to the first CUDA call", [machine.train, *data],
               finds_no_driver(machine, machine.ranks(1, *training)))


def measure(args):
    build = Path(args.build).resolve()
    archive = next((place / PACK for place in (build, build / "gpu-pack") if (place / PACK).exists()), None)
    if not archive:
        sys.exit(f"tests/gpu/check: {build} has no {PACK}: tests/gpu/pack makes it")
    if why := loopback.bring_up():
        sys.exit(f"tests/gpu/check: {why}")
    with Machine(archive.parent, args.data, "RESULTS.md") as machine:
        done = []
        try:
            for part in parts(archive, machine):
                print(part.line(), flush=True)
                done.append(part)
        except (Failed, RuntimeError) as error:
            print(f"{getattr(error, 'log', '').rstrip()}\ntests/gpu/check: {error}", file=sys.stderr)
            return 1
        write(args, machine, done)
    return 0


def write(args, machine, done):
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    counted = [part for part in done if "true" not in part.name and "--version" not in part.name]
    kept = sum(part.kept for part in done)
    reading = next(part for part in done if part.name == READING)
    text = TEXT.format(
        when=when, commit=machine.commit, cores=len(os.sched_getaffinity(0)), command="tests/gpu/check cold-start",
        place=", in a namespace without a network, as root, with a read-only home" if args.inside else "",
        rows="\n".join(part.line() for part in done), cold=sum(part.cold for part in counted),
        warm=sum(part.warm for part in counted),
        rate=reading.bytes / 1e6 / reading.cold,
        cache="The kernel kept files that it should forget: the cold figures are too small." if kept else
        "The kernel forgot all files that it should.")
    Path(args.output).write_text(text)
    print(text[text.rindex("A first call"):].rstrip())


def main(arguments):
    parser = argparse.ArgumentParser(prog="tests/gpu/check cold-start", description=__doc__)
    parser.add_argument("--build", default=ROOT / "build" / "cuda", help="the output folder of tests/gpu/pack, or the one above it")
    parser.add_argument("--data", help="folder with Fashion-MNIST's four files; default: the pack's")
    parser.add_argument("--output", default=ROOT / "tests" / "gpu" / "COLD_START.md", help="the file of the table")
    parser.add_argument(INSIDE, dest="inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    namespace = ["unshare", "-rn"]
    alone = shutil.which("unshare") and subprocess.run([*namespace, "true"], capture_output=True).returncode == 0
    if args.inside or not alone:
        if not args.inside:
            print("no user namespaces here, so with the network and the home of this machine", file=sys.stderr)
        return measure(args)
    check = ROOT / "tests" / "gpu" / "check"
    command = [*namespace, "env", "HOME=/proc/1", sys.executable, check, "cold-start", INSIDE, *arguments]
    return subprocess.run(command).returncode
