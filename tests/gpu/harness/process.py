"""Runs programs so that none outlives its row. Each has its own process session; leftover processes of the session are
ended."""
import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
LIBC = ctypes.CDLL(None)
CAUSES = (r"first difference: .*", r"Invalid __\w+__ .*", r"=+ *(?:Program hit|ERROR SUMMARY: [1-9]).*", r".*\berror: .*",
          r".*: Failure", r".*[Ee]rror.*")


def end_with_parent():
    """In a new process: it gets SIGTERM when its parent ends in any way. mpirun then ends its ranks."""
    LIBC.prctl(SET_DEATH_SIGNAL, signal.SIGTERM)


class Clock:
    """A time limit."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())


class Process:
    """A program with its child processes. Its output goes to a file, so a surviving child cannot block a reader."""

    def __init__(self, command, env):
        self.command = [str(part) for part in command]
        self.log = tempfile.TemporaryFile()
        self.started = time.monotonic()
        try:
            self.popen = subprocess.Popen(self.command, env=env, stdin=subprocess.DEVNULL,
                                          stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
                                          preexec_fn=end_with_parent)
        except OSError as error:
            raise RuntimeError(f"cannot start {self.command[0]}: {error.strerror}") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.log.close()

    def output(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode(errors="replace")

    def seconds(self):
        return time.monotonic() - self.started

    def wait(self, limit):
        """The exit code as in a shell, or None if the program still runs after `limit` seconds."""
        try:
            code = self.popen.wait(max(0.0, limit))
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code

    def members(self):
        """(pid, parent, command) of the session's processes, without zombies. Ranks have their own process groups, but
        not their own sessions."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            except (OSError, ValueError):
                continue  # the process has ended
            if int(session) == self.popen.pid and state not in "ZX":
                found.append((int(entry.name), int(parent), command))
        return found

    def end(self):
        """Ends the remaining processes; returns how many it had to kill."""
        if self.popen.poll() is None:
            self.popen.terminate()  # mpirun ends its ranks
            self.wait(5)
        killed = 0
        for _ in range(10):
            left = self.members()
            if not left:
                break
            killed = max(killed, len(left))
            for pid, _, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.2)
        self.wait(5)
        return killed


def run(command, env, limit):
    """(exit code or None after the limit, output)."""
    with Process(command, env) as process:
        code = process.wait(limit)
        process.end()
        return code, process.output()


def cause(output):
    """The line that says most about a failure."""
    found = next((found for pattern in CAUSES if (found := re.search(pattern, output))), None)
    lines = output.strip().splitlines()
    text = found.group(0) if found else lines[-1] if lines else ""
    return text.strip()[:300]
