"""Grouped bar charts as SVG: readable on white and on black, no script, no font of their own."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#8a929c", "#d9822b", "#2f7fd6", "#2ea36b", "#9b62c9", "#c8546a"]
LEFT, TOP, BOTTOM, BAR, GAP = 56, 66, 46, 26, 26
HEIGHT = 200  # of the plot

STYLE = """text{font:12px sans-serif;fill:#3b424a}.t{font-weight:bold;font-size:14px}.v{font-size:10px}
.g{stroke:#8a929c;stroke-opacity:.35}.a{stroke:#8a929c}.p{stroke:#3b424a;stroke-width:2;fill:none}
@media(prefers-color-scheme:dark){text{fill:#ccd3db}.p{stroke:#ccd3db}}"""


def nice_top(most):
    """The least 1, 2, 2.5 or 5 times a power of ten, times at most ten, that is not below."""
    if most <= 0:
        return 1.0, 0.25
    step = 10 ** math.floor(math.log10(most / 4))
    for factor in (1, 2, 2.5, 5, 10):
        if factor * step * 5 >= most:
            step *= factor
            break
    return step * math.ceil(most / step - 1e-9), step


def number(value):
    if abs(value) >= 10000:
        return f"{value / 1000:.1f}k"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def text(x, y, words, anchor="middle", kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


class Chart:
    """`series`: name → values by group; None: does not fit. `marks`: (group, series) → published value."""

    def __init__(self, title, unit, groups, series, marks=None):
        if any(len(values) != len(groups) for values in series.values()):
            raise ValueError(f"{title}: a series has not one value per group")
        self.title, self.unit, self.groups, self.series, self.marks = title, unit, groups, series, marks or {}
        known = [v for values in series.values() for v in values if v is not None] + list(self.marks.values())
        self.top, self.step = nice_top(max(known, default=0))
        self.group_width = len(series) * BAR + GAP
        # Long labels need room.
        self.group_width = max(self.group_width, 7 * max(map(len, groups)) + 10)
        self.width = max(LEFT + self.group_width * len(groups) + 16, 90 + sum(len(name) * 7 + 34 for name in series))
        self.width = max(self.width, 8 * len(title) + 20)

    def y(self, value):
        return TOP + HEIGHT * (1 - max(0.0, value) / self.top)

    def axes(self):
        parts = [text(10, 18, self.title, "start", "t"), text(10, TOP - 12, self.unit, "start", "v")]
        for i in range(round(self.top / self.step) + 1):
            value = i * self.step
            parts.append(f'<line class="g" x1="{LEFT}" x2="{self.width - 8}" y1="{self.y(value):.1f}" '
                         f'y2="{self.y(value):.1f}"/>')
            parts.append(text(LEFT - 6, self.y(value) + 4, number(value), "end"))
        parts.append(f'<line class="a" x1="{LEFT}" x2="{self.width - 8}" y1="{TOP + HEIGHT}" y2="{TOP + HEIGHT}"/>')
        return parts

    def legend(self):
        parts, x = [], LEFT
        for i, name in enumerate(self.series):
            parts.append(f'<rect x="{x}" y="30" width="11" height="11" fill="{COLOURS[i % len(COLOURS)]}"/>')
            parts.append(text(x + 15, 40, name, "start"))
            x += len(name) * 7 + 30
        if self.marks:
            parts.append(f'<path class="p" d="M{x} 36h14"/>')
            parts.append(text(x + 18, 40, "published", "start"))
            self.width = max(self.width, x + 90)
        return parts

    def bars(self):
        parts = []
        for g, group in enumerate(self.groups):
            middle = LEFT + self.group_width * (g + 0.5)
            left = middle - len(self.series) * BAR / 2
            for s, (name, values) in enumerate(self.series.items()):
                x, value = left + s * BAR, values[g]
                if value is None:
                    parts.append(text(x + BAR / 2, TOP + HEIGHT - 3, "✕", kind="v"))
                else:
                    parts.append(f'<rect x="{x + 1:.1f}" y="{self.y(value):.1f}" width="{BAR - 2}" '
                                 f'height="{TOP + HEIGHT - self.y(value):.1f}" fill="{COLOURS[s % len(COLOURS)]}">'
                                 f"<title>{escape(f'{name}, {group}: {number(value)}')}</title></rect>")
                    parts.append(text(x + BAR / 2, self.y(value) - 3, number(value), kind="v"))
                if (group, name) in self.marks:
                    parts.append(f'<path class="p" d="M{x - 1:.1f} {self.y(self.marks[group, name]):.1f}h{BAR + 2}"/>')
            parts.append(text(middle, TOP + HEIGHT + 16, group))
        return parts

    def svg(self):
        legend = self.legend()
        body = [*self.axes(), *legend, *self.bars()]
        if any(v is None for values in self.series.values() for v in values):
            body.append(text(LEFT, TOP + HEIGHT + 36, "✕ does not fit", "start", "v"))
        size = f"{self.width:.0f}", f"{TOP + HEIGHT + BOTTOM}"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
                f'viewBox="0 0 {size[0]} {size[1]}" role="img">\n<title>{escape(self.title)}</title>\n'
                f"<style>{STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n")
