"""Limits that are missed: docs/measurements.md names each, with the figure and its command."""
import pathlib
import re

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/measurements.md"
HEADING = "## Limits that are missed"


def figure(what, limit):
    """What the document says was measured where `what` should keep `limit`. AssertionError: it names no such miss."""
    section = DOCUMENT.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    for name, wanted, measured, *_ in rows:
        if name == what:
            assert float(wanted) == limit, f"{DOCUMENT.name}: {what}: the limit is {limit}, not {wanted}"
            return float(re.match(r"[\d.]+", measured)[0])
    raise AssertionError(f"{what}: {limit} is missed, and no row of '{HEADING}' in {DOCUMENT.name} says so")
