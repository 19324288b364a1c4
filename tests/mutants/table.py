"""The planted faults of mutants.toml, and where their lines are in src/. The table holds no paths."""
import re
import tomllib
from collections import defaultdict
from pathlib import Path

FIELDS = {"name": str, "line": str, "replacement": str, "tests": str, "why": str, "survives": bool}
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".in")
REQUIRED = ("name", "line", "replacement", "tests")


def load(table):
    return tomllib.loads(Path(table).read_text())["mutant"]


def places_of_lines(src):
    """The places (file, index) of each line in src, by the line without its indentation."""
    places = defaultdict(list)
    for file in sorted(path for path in Path(src).rglob("*") if path.suffix in SOURCES):
        for index, line in enumerate(file.read_text().splitlines()):
            places[line.strip()].append((file, index))
    return places


def problems(mutants, src):
    found, names, places = [], set(), places_of_lines(src)
    for mutant in mutants:
        name = mutant.get("name", "a fault without a name")
        for field in REQUIRED:
            if field not in mutant:
                found.append(f"{name}: {field} is missing")
        for field, value in mutant.items():
            if not isinstance(value, FIELDS.get(field, ())):
                found.append(f"{name}: {field} is no field, or has the wrong type")
        if not all(field in mutant for field in REQUIRED):
            continue
        if name in names:
            found.append(f"{name} is there twice")
        names.add(name)
        where = places[mutant["line"]]
        if len(where) != 1:
            found.append(f"{name}: its line occurs {len(where)} times in src: {mutant['line']}")
        if mutant["replacement"].strip() == mutant["line"]:
            found.append(f"{name}: its replacement is its line")
        try:
            re.compile(mutant["tests"])
        except re.error as error:
            found.append(f"{name}: its tests are no regular expression: {error}")
    return found
