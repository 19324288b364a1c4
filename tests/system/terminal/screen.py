"""A program on a pseudo-terminal, and what a person sees there."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Screen:
    """A terminal of unlimited height that breaks long lines again when its width changes, as most do. `lines` are its
    rows; a row that goes on in the next one is in `broken`."""

    def __init__(self, columns):
        self.columns, self.lines, self.broken, self.row, self.column, self.rest = columns, [""], set(), 0, 0, ""

    def write(self, text):
        text = self.rest + text
        self.rest = ""
        while text:
            escape = re.match(r"\033\[([0-9;]*)([A-Za-z])", text)
            if escape:
                self.control(*escape.groups())
                text = text[escape.end():]
            elif text[0] == "\033":
                if len(text) > 20:
                    raise ValueError(f"unknown escape: {text[:20]!r}")
                self.rest = text
                return
            else:
                self.put(text[0])
                text = text[1:]

    def control(self, count, kind):
        if kind == "J" and count in ("", "0"):
            self.lines[self.row:] = [self.lines[self.row][:self.column]]
            self.broken = {row for row in self.broken if row < self.row}
        elif kind == "K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif kind == "A":
            self.row = max(0, self.row - int(count or 1))
        elif kind != "m":
            raise ValueError(f"unknown escape: {count}{kind}")

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.next_row()
        elif character < " ":
            raise ValueError(f"control character {character!r}")
        else:
            if self.column == self.columns:
                self.broken.add(self.row)
                self.next_row()
                self.column = 0
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[:self.column] + character + line[self.column + 1:]
            self.column += 1

    def next_row(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def resize(self, columns):
        """Joins what was broken, breaks it again, and keeps the cursor at its character."""
        rows, broken, cursor, start = [], set(), None, 0
        while start < len(self.lines):
            end = start
            while end in self.broken:
                end += 1
            whole = "".join(self.lines[start:end + 1])
            if start <= self.row <= end:
                at = sum(len(line) for line in self.lines[start:self.row]) + self.column
                cursor = (len(rows) + at // columns, at % columns)
            parts = [whole[i:i + columns] for i in range(0, len(whole), columns)] or [""]
            broken |= set(range(len(rows), len(rows) + len(parts) - 1))
            rows += parts
            start = end + 1
        self.columns, self.lines, self.broken = columns, rows, broken
        self.row, self.column = cursor
        while self.row >= len(self.lines):
            self.lines.append("")

    def text(self):
        """What stands on the screen, with broken lines joined."""
        return "".join(line + ("" if row in self.broken else "\n") for row, line in enumerate(self.lines))


class OnTerminal:
    """A command on a pseudo-terminal with this many columns. 0: without a size."""

    def __init__(self, command, columns, environment, cwd=None):
        self.screen, self.bytes = Screen(columns or 80), b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            if cwd:
                os.chdir(cwd)
            os.execvpe(command[0], command, environment)
        self.code, self.ended = None, False

    def read(self, seconds, until=None):
        """Reads for so long, or until `until` stands in what came since the start."""
        end = time.monotonic() + seconds
        while not self.ended and time.monotonic() < end and not (until and until in self.bytes):
            if not select.select([self.terminal], [], [], 0.02)[0]:
                continue
            try:
                part = os.read(self.terminal, 65536)
            except OSError:
                part = b""
            self.ended = not part
            self.bytes += part
            self.screen.write(part.decode())
        return self

    def resize(self, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen.resize(columns)

    def type(self, text):
        os.write(self.terminal, text)

    def end(self, seconds=300):
        self.read(seconds)
        if not self.ended:
            os.kill(self.process, 9)
        _, status = os.waitpid(self.process, 0)
        os.close(self.terminal)
        self.code = os.waitstatus_to_exitcode(status) if self.ended else 124
        return self
