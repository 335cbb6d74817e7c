"""Numbers and tables as they stand in the document."""

NO_FIT = "does not fit"


def table(head, rows):
    if any(len(row) != len(head) for row in rows):
        raise ValueError(f"rows of another width than {head}")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(fraction):
    """Of extra time: +12.3 %."""
    if fraction is None:
        return NO_FIT
    digits = 0 if abs(fraction) >= 0.995 else 1
    shown = f"{100 * fraction:+.{digits}f}"
    return ("+" + shown[1:] if float(shown) == 0 else shown).replace("-", "−") + " %"


def lost(fraction):
    """A fraction of throughput that is lost, from extra time."""
    return f"−{100 * (1 - 1 / (1 + fraction)):.0f} %"


def times(factor):
    return "–" if factor is None else f"{factor:.2f}×"


def gib(count):
    return f"{count / (1 << 30):.1f} GiB"


def gb(count):
    return f"{count / 1e9:.1f} GB"


def rate(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def code(words):
    return "`" + " ".join(words) + "`"


def table_cells(line):
    """A table's line read again."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
