"""Training on simulated hosts with throttled links (hosts): what hosts_test and hosts_not_lost_test share. DDP_TRAIN is
the program."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from waiting import wait_until

HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parents[2] / "launch"
PROGRAM = os.environ.get("DDP_TRAIN", "")
LENET = ["--lr", "0.02", "--train-samples", "5000", "--threads", "1", "--print-freq", "20", "--batch-size", "250"]
ENDLESS = [*LENET, "--save-every", "never", "--epochs", "100000", "--eval-every", "0"]
LONG = [*ENDLESS, "--inject", "rank=all,step=20,kind=slow"]  # leaves the cores to other tests: a step takes 200 ms
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*command):
    return subprocess.run(command, text=True, capture_output=True)


def events_of(folder, kind):
    path = folder / "metrics.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []  # the last line may be incomplete
    return [entry for entry in map(json.loads, lines) if entry["event"] == kind]


def steps_of(folder):
    return events_of(folder, "step")


class SimulatedHosts(unittest.TestCase):
    def setUp(self):
        def too_long(*_):
            raise TimeoutError(self.id())
        signal.signal(signal.SIGALRM, too_long)
        signal.signal(signal.SIGTERM, too_long)
        signal.alarm(280)
        self.work = Path(tempfile.mkdtemp(prefix="ddp-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.started = []
        self.program = Path(PROGRAM)

    def begins_with(self, lines):
        """The program begins with these lines of a shell, which know $HOSTNAME."""
        self.program = self.work / "ddp_train"
        self.program.write_text(f'#!/bin/sh\n{lines}\nexec {PROGRAM} "$@"\n')
        self.program.chmod(0o755)

    def up(self, count, rate="2gbit", *clock):
        self.addCleanup(self.down)
        done = run(HERE / "hosts", "up", self.work / "h", str(count), rate, *clock)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.firsts = {f"h{k}": int((self.work / "h" / f"h{k}.pid").read_text()) for k in range(1, count + 1)}

    def down(self):
        run(HERE / "hosts", "down", self.work / "h")
        for job in self.started:
            job.wait()

    def link(self, verb, host):
        self.assertEqual(run(HERE / "hosts", verb, self.work / "h", host).returncode, 0)

    def processes(self, host):
        """{pid: name} of the processes on a host."""
        network = os.readlink(f"/proc/{self.firsts[host]}/ns/net")
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/net") == network and int(process.name) != self.firsts[host]:
                    found[int(process.name)] = (process / "comm").read_text().strip()
            except OSError:
                continue
        return found

    def begin(self, command, host="h1"):
        agent = {"OMPI_MCA_plm_rsh_agent": f"{HERE / 'hosts'} on {self.work / 'h'}", "DDP_TRAIN": str(self.program)}
        log = (self.work / "log").open("w")
        job = subprocess.Popen([HERE / "hosts", "on", self.work / "h", host, *map(str, command)], cwd=self.work, text=True,
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | ROOT | agent)
        log.close()
        self.started.append(job)
        return job

    def train(self, hosts, options, host="h1"):
        return self.begin([LAUNCH / "run", "--hosts", hosts, *options, "--output-dir", "run"], host)

    def ranks(self, host):
        """The pids of the ranks on a host."""
        return [pid for pid, name in self.processes(host).items() if name == "ddp_train"]

    def held_in_start_up(self):
        """Starts a job whose rank on h1 stops itself at its begin, so the rank on h2 waits in start-up. Returns the job and
        the ranks' pids."""
        self.up(2)
        self.begins_with('[ "$HOSTNAME" != h1 ] || kill -STOP $$')
        job = self.train("h1:1,h2:1", LONG)
        wait_until(lambda: self.ranks("h1") and self.ranks("h2"), self.output)
        return job, {host: self.ranks(host)[0] for host in ("h1", "h2")}

    def output(self):
        return (self.work / "log").read_text()

    def errors(self):
        return [line for line in self.output().splitlines() if "error:" in line]

    def steps(self):
        return len(steps_of(self.work / "run"))

    def wait_for_step(self, step, job):
        wait_until(lambda: self.steps() >= step or job.poll() is not None, self.output)
        self.assertIsNone(job.poll(), self.output())


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def main():
    """Runs the tests of the script. Exits with 77 if the machine cannot simulate hosts."""
    if os.getuid() != 0:
        skip("needs root, for simulated hosts")
    for tool in "unshare", "nsenter", "ip", "tc", "mpirun":
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            skip(f"needs {tool}")
    if run("unshare", "--net", "ip", "link", "add", "br0", "type", "bridge").returncode != 0:
        skip("needs network namespaces and bridges")
    assert PROGRAM, "DDP_TRAIN names no program"
    result = unittest.main(verbosity=1, exit=False).result
    if result.skipped and result.wasSuccessful():
        skip(result.skipped[0][1])
    sys.exit(not result.wasSuccessful())
