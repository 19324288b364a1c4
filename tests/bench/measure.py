"""The bench scripts share this: trainings under mpirun and of PyTorch, samples per second, memory, images of noise, ratios
of neighbouring runs, others' load, simulated hosts."""
import ctypes
import gzip
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent.parent
HOSTS = ROOT / "tests/system/cluster/hosts"
MPIRUN = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun"]
# Starts a rank, and adds its largest resident memory in MiB to a file.
RANK = """#!%s
import resource, subprocess, sys
code = subprocess.run(["%s", *sys.argv[1:]]).returncode
with open("%s", "a") as file:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=file)
sys.exit(code)
"""


class Contention:
    """Cores that processes other than this benchmark's kept busy while it existed: above 0.05 no ratio is worth quoting."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        ticks = list(map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
        # All but idle, waiting for disks, and interrupts, which serve the benchmark's own messages too.
        busy = (sum(ticks) - sum(ticks[3:7])) / os.sysconf("SC_CLK_TCK")
        own = sum(os.times()[:4])
        return busy - own, time.monotonic()

    def cores(self):
        (busy, at), (busy_before, before) = self.now(), self.start
        return max(0.0, busy - busy_before) / (at - before)

    def text(self):
        others = self.cores()
        return f"Other processes used {others:.2f} cores meanwhile." + (
            " **These ratios are not valid: run again on an idle machine.**" if others > 0.05 else "")


def bench_python(*packages):
    """$BENCH_PYTHON, or the python of build/bench-venv with the newest of these packages from PyPI."""
    if "BENCH_PYTHON" in os.environ:
        return os.environ["BENCH_PYTHON"]
    venv = ROOT / "build" / "bench-venv"
    python, installed = venv / "bin" / "python", venv / "installed"
    there = set(installed.read_text().split()) if installed.exists() else set()
    if not set(packages) <= there:
        print(f"installing {' '.join(packages)} into {venv}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", *packages], check=True)
        installed.write_text(" ".join(there | set(packages)))
    return python


def outputs_of(commands, **environment):
    """Runs the commands at the same time. Returns what each prints. Ends this program if one fails."""
    commands = [list(map(str, command)) for command in commands]
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **environment}) for command in commands]
    done = [one.communicate() for one in running]
    failed = [f"failed: {' '.join(command)}\n{out}{err}" for one, command, (out, err) in zip(running, commands, done)
              if one.returncode]
    if failed:
        sys.exit("\n".join(failed))
    return [out for out, _ in done]


def output_of(command, **environment):
    return outputs_of([command], **environment)[0]


def core_of(rank):
    """Ranks share cores if there are more ranks."""
    return rank % os.cpu_count()


def gloo_rank(rank, ranks, cores, command, address="127.0.0.1", port=29_611, interface="lo"):
    """The command of one rank of a script that calls init_process_group("gloo")."""
    return ["env", f"RANK={rank}", f"WORLD_SIZE={ranks}", f"MASTER_ADDR={address}", f"MASTER_PORT={port}",
            f"GLOO_SOCKET_IFNAME={interface}", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore",
            "taskset", "-c", cores, *command]


def training(program, folder, ranks, threads, options, binding=("--bind-to", "none")):
    """The command that runs ddp_train's `program` under mpirun; its results lie in `folder`, which must be new."""
    return ["env", f"OMP_NUM_THREADS={threads}", *MPIRUN, "-np", ranks, *binding, program, "--threads", threads, "--print-freq", 0,
            "--output-dir", folder, *options]


def train(*args):
    """Runs that command. Ends this program on failure."""
    output_of(training(*args))


def steps_of(folder):
    """The events of a run's steps, each with the time of the whole step as `ms`."""
    events = map(json.loads, Path(f"{folder}/metrics.jsonl").read_text().splitlines())
    return [{**e, "ms": e["data_ms"] + e["compute_ms"] + e["exposed_comm_ms"]} for e in events if e["event"] == "step"]


def samples_per_second(program, folder, model, batch, steps, ranks, threads, options=()):
    """Of a training with each rank on its own cores. Short runs, all but those of LeNet, leave out the first two steps."""
    train(program, folder, ranks, threads,
          ["--model", model, "--batch-size", batch, "--max-steps", steps, "--lr", "0.02", "--eval-every", 0, *options],
          ["--bind-to", "core", "--map-by", f"slot:PE={threads}"])
    if model == "lenet":
        return json.loads(Path(f"{folder}/summary.json").read_text())["samples_per_second"]
    steady = steps_of(folder)[2:]
    return sum(step["samples"] for step in steady) / sum(step["ms"] for step in steady) * 1e3


def rate_and_memory(program, model, batch, steps, ranks, threads, options=()):
    """samples_per_second of `program`, and the largest memory of a rank in MiB."""
    with tempfile.TemporaryDirectory(prefix="ddp-bench-") as folder:
        start, memory = Path(folder) / "rank", Path(folder) / "memory"
        start.write_text(RANK % (sys.executable, program, memory))
        start.chmod(0o755)
        rate = samples_per_second(start, f"{folder}/run", model, batch, steps, ranks, threads, options)
        return rate, max(map(int, memory.read_text().split()))


def pytorch_ddp(args, model, batch, forms, *options):
    """The result of pytorch_ddp.py in the fastest of `forms`; no forms stand for all. `args` has python, ranks and threads."""
    lines = output_of([args.python, Path(__file__).with_name("pytorch_ddp.py"), "--model", model, "--ranks", args.ranks,
                       "--threads", args.threads, "--batch-size", batch, *(["--forms", *forms] if forms else []), *options],
                      PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore").splitlines()
    return json.loads(lines[-1])


def write_idx(folder, split, count, size):
    """Grey images of noise, in the format of MNIST."""
    noise = random.Random(split)
    images = (0x803).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in (count, size, size))
    labels = (0x801).to_bytes(4, "big") + count.to_bytes(4, "big") + bytes(i % 10 for i in range(count))
    for kind, content in ("images-idx3", images + noise.randbytes(count * size * size)), ("labels-idx1", labels):
        (Path(folder) / f"{split}-{kind}-ubyte.gz").write_bytes(gzip.compress(content, 1))


def adopt_orphans():
    """Makes this process the parent of its orphans: mpirun leaves the ranks of the other host behind, and Contention must
    count their time as ours."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def wait_for_orphans():
    time.sleep(0.5)
    while os.waitpid(-1, os.WNOHANG)[0]:  # the first processes of the hosts stay
        pass


def on_host(folder, host, command):
    """The command on a simulated host: 0 is h1."""
    return [HOSTS, "on", folder, f"h{1 + host}", shlex.join(map(str, command))]


def ratio_text(us, them, digits=2):
    ratios = [a / b for a, b in zip(us, them, strict=True)]
    return f"{statistics.median(ratios):.{digits}f} | {min(ratios):.{digits}f} - {max(ratios):.{digits}f}"
