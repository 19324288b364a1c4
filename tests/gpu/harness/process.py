"""Runs programs so that none outlives its row: each in a session of its own, which is searched for what is left."""
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path


class Clock:
    """What is left of a time limit."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())


class Process:
    """A program and all that it starts. Its output goes to a file, so that a child that lives on blocks nobody."""

    def __init__(self, command, env):
        self.command = [str(part) for part in command]
        self.log = tempfile.TemporaryFile()
        self.started = time.monotonic()
        try:
            self.popen = subprocess.Popen(self.command, env=env, stdin=subprocess.DEVNULL,
                                          stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
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
        """The exit code as a shell gives it, or None where it still runs after `limit` seconds."""
        try:
            code = self.popen.wait(max(0.0, limit))
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code

    def members(self):
        """(pid, parent, command) of what runs in this session; zombies do not. Ranks have process groups of their own,
        but not sessions."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            except (OSError, ValueError):
                continue  # it has ended meanwhile
            if int(session) == self.popen.pid and state not in "ZX":
                found.append((int(entry.name), int(parent), command))
        return found

    def end(self):
        """Ends what is left; the number of processes that had to be killed."""
        if self.popen.poll() is None:
            self.popen.terminate()  # mpirun takes its ranks along
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
    """(exit code or None where it ran past the limit, output)."""
    with Process(command, env) as process:
        code = process.wait(limit)
        process.end()
        return code, process.output()
