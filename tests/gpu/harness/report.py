"""The last lines of the output: what a reader of its last 12,000 characters must know, the worst first."""

MOST, LINE = 11_000, 300  # characters
ORDER = ("FAIL", "not run", "skipped", "pass")


def counts(rows):
    return {result: sum(row.result == result for row in rows) for result in ORDER}


def passed(rows):
    count = counts(rows)
    return count["pass"] > 0 and count["FAIL"] == count["not run"] == 0


def text(description, rows, findings):
    lines = [description]
    for result in ORDER:
        lines += [row.line()[:LINE] for row in rows if row.result == result]
        if result == "FAIL":
            lines += findings
    kept = 0
    while kept < len(lines) and sum(map(len, lines[:kept + 1])) + kept < MOST:
        kept += 1
    if kept < len(lines):
        lines[kept:] = [f"{len(lines) - kept} more lines: see RESULTS.md"]
    last = ", ".join(f"{number} {result}" for result, number in counts(rows).items())
    return "\n".join(["", *lines, "", last])
