"""What a mapping call costs, a + b · handles, from what was measured with few and with many handles."""
import math

SPREAD = 0.25    # the most that a measured cost may be off the line, as a share of itself
LEVEL = 0.05     # a cost that falls by less than that from few to many handles is level
FEWEST = 3       # numbers of handles
TYPICAL = 8      # handles, where one line is compared with another


class CannotFit(Exception):
    """With the reason, in a few words."""


def weighted(points, a, b):
    """Sums over the points, each weighted so that errors count as shares of what was measured."""
    return sum(a(n) * b(us) / us ** 2 for n, us in points)


def least_squares(points):
    one, handles, same = (lambda _: 1.0), float, float
    s, n, nn = weighted(points, one, one), weighted(points, handles, one), weighted(points, lambda x: x * x, one)
    y, ny = weighted(points, one, same), weighted(points, handles, same)
    slope = (s * ny - n * y) / (s * nn - n * n)
    base = (y - slope * n) / s
    if slope < 0:
        most, fewest = max(n for n, _ in points), min(n for n, _ in points)
        if -slope * (most - fewest) > LEVEL * (base + slope * fewest):
            raise CannotFit(f"the cost falls by {-slope:.3g} us with each handle")
        return y / s, 0.0
    return (base, slope) if base >= 0 else (0.0, ny / nn)


def line(points):
    """a, b and the largest share that a point is off. `points`: (handles, microseconds, where that was measured)."""
    counts = {handles for handles, _, _ in points}
    if len(counts) < FEWEST:
        raise CannotFit(f"measured at {len(counts)} numbers of handles, {FEWEST} are needed")
    for handles, us, where in points:
        if not (isinstance(us, (int, float)) and math.isfinite(us) and us > 0):
            raise CannotFit(f"{us} us for {handles} handles is no cost ({where})")
    a, b = least_squares([point[:2] for point in points])
    off, handles, us, where = max((abs(a + b * n - us) / us, n, us, where) for n, us, where in points)
    if off > SPREAD:
        raise CannotFit(f"{handles} handles took {us:.4g} us ({where}) where the line is at {a + b * handles:.4g}: more than "
                        f"{SPREAD:.0%} off")
    return a, b, off


def points_of(found, call):
    """From one section of the facts: every size together, so that the line holds for all of them."""
    return [(row["handles"], row.get(f"{call}_us"), size) for size, rows in found.items() if isinstance(rows, dict)
            for row in rows["by_handles"]]


def dearest(conditions, call):
    """The line of the condition under which the call costs most: name, a, b, spread. `conditions`: name and what was measured,
    None for nothing. All of them must have a line: what could not be fitted might be the dearest."""
    lines = []
    for name, found in conditions.items():
        if not found:
            raise CannotFit(f"{name}: nothing was measured")
        if any(waiting.startswith(f"{call} of ") for waiting in found.get("waited_for_other_work", [])):
            raise CannotFit(f"{name}: it waits for other work, and how long is no cost of its own")
        try:
            lines.append((name, *line(points_of(found, call))))
        except CannotFit as why:
            raise CannotFit(f"{name}: {why}") from None
    return max(lines, key=lambda fitted: fitted[1] + TYPICAL * fitted[2])
