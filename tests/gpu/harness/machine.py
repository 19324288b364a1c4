"""This machine: paths of the programs, the command that starts ranks, the GPU and its libraries."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import libraries
import loopback
from process import cause, run
from table import Failed, Late

ROOT = libraries.ROOT
PACK = "runtime.tar.xz"  # archive of `pack`
LIBRARY = "libgpu_timeline.so"  # tests/gpu/timeline.cpp
MULTIARCH = "usr/lib/x86_64-linux-gnu"
USUAL_SECONDS = 10  # to read CUDA's libraries


class Machine:
    """A context manager: its end removes all files that it unpacked or wrote."""

    def __init__(self, build, data, results, alone=False, pairs=None):
        self.alone = alone      # without peers
        self.pairs = pairs      # of speed rows; None: their own number
        self.kept = {}          # by file, by row: text
        self.parts = {}         # by part of the start: seconds
        self.disk_seconds = 0   # to read CUDA's libraries
        self.cpu_losses = {}    # by task
        self.over_mpi = ""      # why one rank does not use NCCL; empty: it does
        self.prefix = []        # before each program that may use the GPU
        self.results = Path(results)
        self.kept_folder = self.results.with_suffix(".files")
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-check-")
        self.folder = Path(self._folder.name)
        self.env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4")}
        build = Path(build).resolve()
        packed = next((place for place in (build, build / "gpu-pack") if (place / PACK).exists()), None)
        built = (build / "ddp_train").exists()
        self.commit = self._commit_of_tree()
        if packed and not (built and shutil.which("mpirun")):
            with self.part("unpacking"):
                self._unpack(packed / PACK)
        self.mpirun = shutil.which("mpirun", path=self.env["PATH"])
        programs = self.folder / "packed" / "bin"
        beside = build / "tests" / "gpu" / "ddp_train"  # its kernels are a library
        self.train = programs / "ddp_train" if not built else beside if beside.exists() else build / "ddp_train"
        self.gpu_test, self.ranks_test = ((build / "tests" / "gpu" / name if built else programs / name)
                                          for name in ("gpu_test", "gpu_ranks_test"))
        self.timeline = build / "tests" / "gpu" / LIBRARY if built else programs / LIBRARY
        own = packed if packed and not data and (packed / "fashion-mnist").exists() else None
        self.data = own / "fashion-mnist" if own else Path(data).resolve() if data else None
        self.part_of_data = own / "fashion-mnist-part" if own else self.data  # for rows with few samples
        self._set_environment()
        self.gpus, self.gpu, self.description, self.why = 0, "", "", ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def _unpack(self, archive):
        target = self.folder / "packed"
        target.mkdir()
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(target)
        except tarfile.TarError:  # Python without lzma
            subprocess.run(["tar", "-C", target, "-xf", archive], check=True)
        self.commit = (target / "commit").read_text().strip()
        self.env.update(OPAL_PREFIX=str(target / "usr"), PMIX_INSTALL_PREFIX=str(target / MULTIARCH / "pmix2"),
                        PMIX_MCA_pcompress_base_silence_warning="1", OMPI_MCA_plm="isolated",
                        PATH=f"{target / 'usr/bin'}:{self.env.get('PATH', '')}",
                        LD_LIBRARY_PATH=f"{target / MULTIARCH}:{self.env.get('LD_LIBRARY_PATH', '')}".rstrip(":"))

    def _set_environment(self):
        folders = [self.env.get("LD_LIBRARY_PATH", ""), *libraries.search_path()]
        self.env["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
        self.env["PATH"] = f"{self.train.parent}:{self.gpu_test.parent}:{self.env.get('PATH', '')}"
        self.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                        OMPI_MCA_btl_vader_single_copy_mechanism="none")
        for name, value in (("NCCL_DEBUG", "WARN"), ("CUDNN_LOGLEVEL_DBG", "1"), ("CUBLASLT_LOG_LEVEL", "1")):
            self.env.setdefault(name, value)  # prints errors only
        if self.data:
            self.env["DDP_DATA"] = str(self.data)

    @staticmethod
    def _commit_of_tree():
        if not shutil.which("git"):
            return "unknown"
        done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=10"],
                              capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    def look(self):
        """True if the machine has the programs and a GPU. If not, `why` names what is missing."""
        for program in (self.train, self.gpu_test, self.ranks_test):
            if not program.exists():
                self.why = f"{program} is missing: build the preset cuda, or point --build at what tests/gpu/pack wrote"
                return False
        if not self.mpirun:
            self.why = "no mpirun here, and no gpu-pack/ in the build folder (tests/gpu/pack makes it)"
            return False
        self.why = loopback.bring_up()
        if self.why:
            return False
        missing = libraries.needed(self.train, self.env)[1]
        if missing:
            self.why = f"{', '.join(missing)} not found: install it, or add its folder to LD_LIBRARY_PATH"
            return False
        with self.part("gpu_test --machine"):
            code, output = run([self.gpu_test, "--machine"], self.env, 90)
        facts = dict(line[9:].split(" = ", 1) for line in output.splitlines() if line.startswith("machine: "))
        if code != 0 or "gpu" not in facts:
            self.why = "no GPU: " + (" ".join(output.split()[:60]) or "gpu_test says nothing")
            return False
        self.gpu = facts["gpu"]
        self.gpus = int(facts["gpus"])
        driver = self._driver()
        self.description = f"{self.gpus} x {facts['gpu']}, {driver}{facts['versions']}, commit {self.commit}"
        return True

    def _driver(self):
        if not shutil.which("nvidia-smi"):
            return ""
        code, output = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], self.env, 20)
        return f"driver {output.split()[0]}: " if code == 0 and output.split() else ""

    @contextlib.contextmanager
    def part(self, name):
        begin = time.monotonic()
        yield
        self.parts[name] = time.monotonic() - begin

    def start(self):
        return ", ".join(f"{part} {seconds:.1f} s" for part, seconds in self.parts.items())

    def patience(self):
        """The factor of all limits: more on a machine with a slow disk."""
        return max(1.0, self.disk_seconds / USUAL_SECONDS)

    def ranks(self, count, *command):
        return [self.mpirun, "-np", count, *command]

    def training(self, folder, *options, device="cuda"):
        """The command that trains. Its results go to `folder`, which this recreates."""
        shutil.rmtree(folder, ignore_errors=True)
        data = self.part_of_data if "--train-samples" in options else self.data
        data = ["--data-path", data] if data and "--data-path" not in options else []
        return [*self.prefix, self.train, "--device", device, "--progress", "lines", *data, "--output-dir", folder, *options]

    def beside(self, name):
        """The path of a file in the folder beside the table of results."""
        self.kept_folder.mkdir(exist_ok=True)
        return self.kept_folder / name

    def keep(self, file, row, text):
        """Writes the texts of all rows to a file."""
        self.kept.setdefault(file, {})[row] = text
        self.beside(file + ".txt").write_text("".join(self.kept[file].values()))

    def keep_log(self, row, log):
        """Appends the output of a failed row to a file."""
        with open(self.beside("log.txt"), "a") as file:
            file.write(f"--- {row}\n{log.rstrip()}\n")

    def pack_files(self):
        """One file, because few come back from some machines."""
        if self.kept_folder.exists():
            with tarfile.open(f"{self.kept_folder}.tar.gz", "w:gz") as tar:
                tar.add(self.kept_folder, self.kept_folder.name)

    def take_files(self):
        """Those of an earlier call, such as the measured engines."""
        packed = Path(f"{self.kept_folder}.tar.gz")
        if packed.exists() and not self.kept_folder.exists():
            with tarfile.open(packed) as tar:
                tar.extractall(self.results.parent)

    def run(self, command, clock, **variables):
        """Runs a command, which must succeed in time; returns its output."""
        code, output = run(command, {**self.env, **{name: str(value) for name, value in variables.items()}}, clock.left())
        if code is None:
            raise Late(f"not done within {clock.seconds:.0f} s", output)
        if code != 0:
            raise Failed(f"exit code {code}" + (f": {why}" if (why := cause(output)) else ""), output)
        return output

    def train_alone(self, folder, options, clock, **variables):
        """Trains with one rank; returns the output, the seconds, and a note for the figures. The first time that NCCL
        fails, the run and all later ones use MPI."""
        def train(*more):
            start = time.monotonic()
            output = self.run(self.ranks(1, *self.training(folder, *options, *more)), clock, **variables)
            return output, time.monotonic() - start
        try:
            if not self.over_mpi:
                return *train(), ""
        except Failed as error:
            found = re.search(r"\bNCCL: .*", error.log)
            if isinstance(error, Late) or not found:
                raise
            self.over_mpi = found.group(0)[:150]
            self.keep_log("NCCL with one rank", error.log)
        return *train("--transport", "mpi"), f"over MPI, because NCCL failed with one rank ({self.over_mpi}); "


def events(folder, kind):
    """The lines of metrics.jsonl of this kind. A program that was ended may have written a part of a line."""
    file = folder / "metrics.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def summary(folder):
    return json.loads((folder / "summary.json").read_text())
