"""This machine: paths of the programs, the command that starts ranks, the GPU and its libraries."""
import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from process import run
from table import Failed, Late

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PACK = "runtime.tar.xz"  # archive of `pack`
LIBRARY = "libgpu_timeline.so"  # tests/gpu/timeline.cpp
MULTIARCH = "usr/lib/x86_64-linux-gnu"


def wheel_libraries():
    """The folders of CUDA's libraries that are installed as Python wheels."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations) if spec and spec.submodule_search_locations else []
    return [str(folder) for place in places for folder in sorted(Path(place).glob("*/lib"))]


class Machine:
    """A context manager: its end removes all files that it unpacked or wrote."""

    def __init__(self, build, data, results, alone=False):
        self.alone = alone  # without peers
        self.kept = {}      # by file, by row: text
        self.results = Path(results)
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-check-")
        self.folder = Path(self._folder.name)
        self.env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4")}
        build = Path(build).resolve()
        packed = next((place for place in (build, build / "gpu-pack") if (place / PACK).exists()), None)
        built = (build / "ddp_train").exists()
        self.commit = self._commit_of_tree()
        if packed and not (built and shutil.which("mpirun")):
            self._unpack(packed / PACK)
        self.mpirun = shutil.which("mpirun", path=self.env["PATH"])
        programs = self.folder / "packed" / "bin"
        self.train = build / "ddp_train" if built else programs / "ddp_train"
        self.gpu_test, self.ranks_test = ((build / "tests" / "gpu" / name if built else programs / name)
                                          for name in ("gpu_test", "gpu_ranks_test"))
        self.timeline = build / "tests" / "gpu" / LIBRARY if built else programs / LIBRARY
        if not data and packed and (packed / "fashion-mnist").exists():
            data = packed / "fashion-mnist"
        self.data = Path(data).resolve() if data else None
        self._set_environment()
        self.gpus, self.description, self.why = 0, "", ""

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
        libraries = [self.env.get("LD_LIBRARY_PATH", ""), *wheel_libraries()]
        self.env["LD_LIBRARY_PATH"] = ":".join(part for part in libraries if part)
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
        code, output = run([self.gpu_test, "--machine"], self.env, 90)
        facts = dict(line[9:].split(" = ", 1) for line in output.splitlines() if line.startswith("machine: "))
        if code != 0 or "gpu" not in facts:
            self.why = "no GPU: " + (" ".join(output.split()[:60]) or "gpu_test says nothing")
            return False
        self.gpus = int(facts["gpus"])
        driver = self._driver()
        self.description = f"{self.gpus} x {facts['gpu']}, {driver}{facts['versions']}, commit {self.commit}"
        return True

    def _driver(self):
        if not shutil.which("nvidia-smi"):
            return ""
        code, output = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], self.env, 20)
        return f"driver {output.split()[0]}: " if code == 0 and output.split() else ""

    def ranks(self, count, *command):
        return [self.mpirun, "-np", count, *command]

    def training(self, folder, *options, device="cuda"):
        """The command that trains. Its results go to `folder`, which this recreates."""
        shutil.rmtree(folder, ignore_errors=True)
        data = ["--data-path", self.data] if self.data and "--data-path" not in options else []
        return [self.train, "--device", device, "--progress", "lines", *data, "--output-dir", folder, *options]

    def beside(self, ending):
        """The path of a file beside the table of results."""
        return self.results.with_suffix("." + ending)

    def keep(self, file, row, text):
        """Writes the texts of all rows to a file beside the table of results."""
        self.kept.setdefault(file, {})[row] = text
        self.beside(file + ".txt").write_text("".join(self.kept[file].values()))

    def run(self, command, clock, **variables):
        """Runs a command, which must succeed in time; returns its output."""
        code, output = run(command, {**self.env, **{name: str(value) for name, value in variables.items()}}, clock.left())
        if code is None:
            raise Late(f"not done within {clock.seconds:.0f} s", output)
        if code != 0:
            raise Failed(f"exit code {code}", output)
        return output

    def timed(self, command, clock):
        """run(), and the seconds that it took."""
        begin = time.monotonic()
        return self.run(command, clock), time.monotonic() - begin


def events(folder, kind):
    """The lines of metrics.jsonl of this kind."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def summary(folder):
    return json.loads((folder / "summary.json").read_text())
