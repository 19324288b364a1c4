"""Rows, and the file with their results."""
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

COLUMNS = "| stage | row | result | figures | seconds |\n| --- | --- | --- | --- | --- |"
NEVER = "never"


class Failed(Exception):
    """The row failed; `log` is the output to look at."""

    def __init__(self, text, log=""):
        super().__init__(text)
        self.log = log


class Late(Failed):
    """The row's clock ended it."""


class Skipped(Exception):
    """The row cannot run on this machine, or nothing here judges it; the text is the reason."""


@dataclass
class Again:
    """How diagnosis.py runs the smallest program of a row again."""
    # command(machine, prefix, options): `prefix` stands before the program; `options` are those of ddp_train.
    command: Callable
    trains: bool   # whether the program is ddp_train
    layers: str    # precision and network of LayersOnDevice; empty: the row has no network


@dataclass(eq=False)
class Row:
    stage: str
    name: str
    limit: float  # seconds
    # work(machine, clock) returns the figures, or yields them as they become more: the last ones stay if it raises
    # Failed. Skipped: the machine cannot run the row. See process.Clock.
    work: Callable
    again: "Again | None" = None  # how to find the cause of a failure
    pattern: str = ""              # of the tests that it runs, if it runs GoogleTest
    result: str = "not run"
    figures: str = ""
    seconds: str = ""

    def line(self):
        cells = [self.stage, self.name, self.result, self.figures, self.seconds]
        return "| " + " | ".join(" ".join(c.replace("|", "/").split()) for c in cells) + " |"


class Results:
    """The rows of all stages, with the results of the file until they run again."""

    def __init__(self, path, rows):
        self.path = Path(path)
        self.rows = rows
        self.runs = {row.stage: NEVER for row in rows}

    def read(self):
        if not self.path.exists():
            return
        by_name = {(row.stage, row.name): row for row in self.rows}
        for line in self.path.read_text().splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if len(cells) == 2 and cells[0] in self.runs:
                self.runs[cells[0]] = cells[1]
            elif len(cells) == 5 and (row := by_name.get((cells[0], cells[1]))):
                row.result, row.figures, row.seconds = cells[2:]

    def table(self, rows=None):
        return "\n".join([COLUMNS, *(row.line() for row in self.rows if rows is None or row in rows)])

    def write(self):
        ran = any(run != NEVER for run in self.runs.values())
        text = ["# Results on a GPU", "",
                "Written by `tests/gpu/check`, stage by stage; the script describes the rows. `skipped` gives the reason why "
                "the machine cannot run a row; `not run` means not reached." if ran else
                "Written by `tests/gpu/check`. No GPU has run it yet.", "",
                "| stage | last run |", "| --- | --- |",
                *(f"| {stage} | {run} |" for stage, run in self.runs.items()), "", self.table(), ""]
        temporary = self.path.with_name(self.path.name + ".new")
        temporary.write_text("\n".join(text))
        temporary.replace(self.path)
