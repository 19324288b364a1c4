"""A private Slurm (tests/system/cluster/slurm), its jobs, and their results."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from waiting import wait_until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = Path(os.environ.get("DDP_TRAIN", ROOT / "build/cpu/ddp_train"))
SKIP = 77
OF_A_JOB = (PROGRAM.name, "orted", "mpirun", "srun")


def skip_unless_possible():
    missing = [tool for tool in ("sbatch", "srun", "slurmctld", "slurmd", "munged", "ip", "nsenter", "unshare", "mpirun")
               if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if os.geteuid() != 0:
        missing.insert(0, "root")
    elif subprocess.run(["unshare", "--net", "--uts", "--ipc", "--mount", "true"], capture_output=True).returncode != 0:
        missing.insert(0, "the right to make namespaces")
    if missing:
        print(f"skipped: a private Slurm needs {', '.join(missing)} (launch/setup cluster installs the packages)")
        sys.exit(SKIP)


def losses_in(folder):
    """The losses of a run by step. Fails if a step is missing or occurs twice."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if line["event"] == "step"]
    assert steps == list(range(1, len(steps) + 1)), f"{folder}: steps {steps}"
    return [line["loss"] for line in lines if line["event"] == "step"]


def checkpoints_in(folder):
    return sorted(int(path.name[5:]) for path in folder.glob("checkpoints/step-*") if re.fullmatch(r"step-\d+", path.name))


class Cluster:
    """Nodes h1 and h2. Jobs start in the folder `work`, without GPUs unless their sbatch options request GPUs."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ddp-slurm-", dir="/tmp"))
        self.work = self.folder / "work"
        self.work.mkdir()
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLURM_", "SBATCH_", "OMPI_", "DDP_"))}
        # Ranks that wait for a slow rank yield their cores to other tests.
        self.environment = {**kept, "DDP_TRAIN": str(PROGRAM), "OMPI_MCA_mpi_yield_when_idle": "1"}
        try:
            self.command("slurm", "up")
        except BaseException:
            self.down()
            raise

    def down(self):
        self.command("slurm", "down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, script, verb, *words):
        subprocess.run([HERE / script, verb, self.folder, *words], check=True, cwd=self.work)

    def run(self, *command, check=True):
        return subprocess.run([HERE / "slurm", "on", self.folder, *map(str, command)], cwd=self.work, env=self.environment,
                              text=True, capture_output=True, check=check, timeout=120)

    def submit(self, script, sbatch, options, name="job"):
        script = ROOT / "launch/slurm" / script
        number = self.run("sbatch", "--parsable", "--gpus-per-node=0", f"--output={name}.out", *sbatch,
                          script, *options).stdout.strip()
        return Job(self, number, self.work / f"{name}.out")

    def alone(self, ranks, options, name):
        """Runs an undisturbed job with mpirun; returns its folder."""
        folder = self.work / name
        subprocess.run(["mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe", PROGRAM, *options,
                        "--output-dir", folder],
                       env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
                       check=True, stdout=subprocess.DEVNULL, timeout=120)
        return folder

    def wait_for_no_process(self):
        try:
            wait_until(lambda: not self.processes_of_jobs(), lambda: "the end of all processes of the job, on both sides")
        except AssertionError as error:
            raise AssertionError(f"{error}: still running: {self.processes_of_jobs()}") from None

    def processes_of_jobs(self):
        """Names of the ranks and launchers that run on both hosts."""
        networks = {os.readlink(f"/proc/{(self.folder / f'{host}.pid').read_text().strip()}/ns/net") for host in ("h1", "h2")}
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                name, state = re.match(r"\d+ \((.*)\) (\S)", (process / "stat").read_text()).groups()
                if name in OF_A_JOB and state not in "ZX" and os.readlink(process / "ns/net") in networks:
                    found.append(name)
            except OSError:
                pass
        return found


class Job:
    def __init__(self, cluster, number, log):
        self.cluster, self.number, self.log = cluster, number, log

    def fact(self, name):
        facts = self.cluster.run("scontrol", "show", "job", self.number).stdout
        return re.search(rf"\b{name}=(\S*)", facts).group(1)

    def output(self):
        return self.log.read_text() if self.log.exists() else ""

    def folder(self):
        return self.cluster.work / f"runs/slurm-{self.number}"

    def steps_done(self):
        metrics = self.folder() / "metrics.jsonl"
        return metrics.read_text().count('"event":"step"') if metrics.exists() else 0

    def wait_for_step(self, step):
        wait_until(lambda: self.steps_done() >= step, lambda: f"step {step} of job {self.number}:\n{self.output()}")

    def ended(self):
        return self.fact("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL")

    def wait(self, seconds=150):
        """Waits until the job and all its processes have ended; returns the exit code."""
        wait_until(self.ended, lambda: f"the end of job {self.number}:\n{self.output()}", seconds)
        return int(self.fact("ExitCode").split(":")[0])
