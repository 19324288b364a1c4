"""Rows that kill or stop one of two ranks. The job must end in time, with a message, and leave no process."""
import os
import re
import signal
import time
from pathlib import Path

from process import Process
from table import Failed, Row

DEADLINE = 10  # seconds, --step-timeout
GRACE = 15
OURS = re.compile(r"ddp_train: .*\brank (\d+).*\bstep (\d+).*")
MPIRUNS = re.compile(r"mpirun noticed that process rank (\d+).*exited on signal.*")


def rank_of(pid):
    """None: the process has ended, or has not started its program yet."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environment)
    return int(found[1]) if found else None


def wait_for_steps(job, limit):
    while not re.search(r"epoch 1/\d+ step \d+", job.output()):
        code = job.wait(0.2)
        if code is not None:
            raise Failed(f"ended with exit code {code} before a step was printed", job.output())
        if job.seconds() > limit:
            raise Failed(f"no step was printed in {limit:.0f} s", job.output())


def ranks_of(job):
    """{rank: pid} of the job's mpirun, when both ranks run, or after two seconds."""
    for _ in range(20):
        ranks = {rank_of(pid): pid for pid, parent, _ in job.members() if parent == job.popen.pid}
        ranks.pop(None, None)
        if sorted(ranks) == [0, 1]:
            break
        time.sleep(0.1)
    return ranks


def remaining(job):
    """The processes of the job that are left after six seconds."""
    for _ in range(60):
        left = job.members()
        if not left:
            break
        time.sleep(0.1)
    return left


def fault(name, signal_number, victim, messages):
    def work(machine, clock):
        command = machine.ranks(2, *machine.training(
            machine.folder / "fault", "--share-gpu", "--precision", "fp32", "--step-timeout", DEADLINE,
            "--epochs", 10000, "--print-freq", 5))
        with Process(command, machine.env) as job:
            wait_for_steps(job, clock.left() - DEADLINE - GRACE)
            ranks = ranks_of(job)
            if sorted(ranks) != [0, 1]:
                raise Failed(f"mpirun's children are {ranks}", job.output())
            os.kill(ranks[victim], signal_number)
            signalled = time.monotonic()
            code = job.wait(DEADLINE + GRACE)
            seconds = time.monotonic() - signalled
            if code is None:
                raise Failed(f"still runs {seconds:.0f} s after the signal to rank {victim}", job.output())
            left = remaining(job)
            output = job.output()
        if left:
            raise Failed(f"{len(left)} processes left: {left}", output)
        if code == 0:
            raise Failed("exit code 0", output)
        spoke = next((found.group(0) for message in messages if (found := message.search(output))), None)
        if spoke is None:
            raise Failed("no message names the rank and the step", output)
        return f"ended after {seconds:.1f} s with exit code {code}: \"{spoke[:200]}\""
    return Row("faults", name, 120, work)


def rows():
    # mpirun may kill the other ranks before they can report a killed rank; then mpirun itself names the rank.
    return [fault("kill -9 of rank 1", signal.SIGKILL, 1, [OURS, MPIRUNS]),
            fault("kill -9 of rank 0", signal.SIGKILL, 0, [OURS, MPIRUNS]),
            fault("SIGSTOP of rank 1", signal.SIGSTOP, 1, [OURS]),
            fault("SIGSTOP of rank 0", signal.SIGSTOP, 0, [OURS])]
