"""The whole surface: what each library exports (symbols/*.txt) beside what spec/*.py says of it."""

import importlib
import pathlib
import textwrap

from spec.language import ADDRESSES, HAZARDS, Hook, Row, Unwrapped

SYMBOLS = pathlib.Path(__file__).resolve().parent.parent / "symbols"
LIBRARIES = {  # list in symbols/: module in spec/
    "cuda": "driver",
    "cudart": "cudart",
    "cudnn": "cudnn",
    "cublas": "cublas",
    "cublaslt": "cublaslt",
    "nccl": "nccl",
}
CLASSES = ("tracked", "seen below", "passed through", "unsupported")


def load(name):
    return importlib.import_module(f"spec.{LIBRARIES[name]}").spec


def listed(name):
    """(library and version, names) of one committed list."""
    first, *names = (SYMBOLS / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    return first.removeprefix("# "), [n for n in names if n]


def class_of(entry):
    return entry.how if isinstance(entry, Unwrapped) else "tracked"


def unclassified(spec, names):
    return [name for name in names if name not in spec.entries]


def not_listed(spec, names):
    """Classified, but not exported."""
    return sorted(set(spec.entries) - set(names))


# --- docs/coverage.md


def paragraph(names):
    return textwrap.fill(" ".join(sorted(names)), 118, break_long_words=False, break_on_hyphens=False)


def grouped(entries, key):
    """Names by key(entry), keys in order of first appearance."""
    groups = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry.name)
    return groups


def described_tracking(entry):
    if isinstance(entry, Hook):
        return f"by hand, in {entry.where}"
    parts = ["by a row"]
    if any(operand.extent == "anywhere()" for _, operand in entry.operands):
        parts.append(
            "operands' addresses lie in device memory, so all live memory counts as read and written, and where not "
            "all of it fits under the cap at once the call is refused as out of memory"
        )
    if entry.hazards:
        parts.append("hazards: " + ", ".join(entry.hazards))
    if entry.of_replayed_kind:
        parts.append(f"not made again: {entry.unreplayed}" if entry.unreplayed else "made again")
    return "; ".join(parts)


def described_reason(entry):
    why = " ".join(entry.why.split())
    return f"{why}. Silent: {entry.silent}" if entry.silent else why


def addresses_text(spec):
    """What becomes of addresses that are no operands, but for what lies on the host."""
    for what in ADDRESSES:
        if what in ("host", "result"):
            continue
        marks = [parameter for parameter, mark in spec.addresses_by_name.items() if mark == what]
        marks += [f"{function}({parameter})" for (function, parameter), mark in spec.addresses_of.items() if mark == what]
        if marks:
            yield f"**addresses**, {what}:\n\n```\n{paragraph(marks)}\n```"


def library_text(title, names, spec):
    entries = [spec.entries[n] for n in spec.entries if n in set(names)]
    yield f"## {title}"
    wrapped = [e for e in entries if isinstance(e, (Row, Hook))]
    for heading, names_of_group in grouped(wrapped, described_tracking).items():
        yield f"**tracked** {heading}\n\n```\n{paragraph(names_of_group)}\n```"
    for how in CLASSES[1:]:
        chosen = [e for e in entries if isinstance(e, Unwrapped) and e.how == how]
        for why, names_of_group in grouped(chosen, described_reason).items():
            yield f"**{how}**: {why}\n\n```\n{paragraph(names_of_group)}\n```"
    yield from addresses_text(spec)


def summary(libraries):
    yield f"| library | functions | {' | '.join(CLASSES)} | unclassified |"
    yield "| --- |" + " ---: |" * (len(CLASSES) + 2)
    totals = [0] * (len(CLASSES) + 2)
    for title, names, spec in libraries:
        classes = [class_of(spec.entries[n]) for n in names if n in spec.entries]
        counts = [len(names), *(classes.count(c) for c in CLASSES), len(unclassified(spec, names))]
        totals = [a + b for a, b in zip(totals, counts)]
        yield f"| {title} | {' | '.join(map(str, counts))} |"
    yield f"| all | {' | '.join(map(str, totals))} |"


INTRODUCTION = """\
# Coverage

Every function that the vendors' libraries export, and what becomes of a program's call of it. Generated from
`interpose/spec/` by `interpose/generate.py coverage docs/coverage.md`; a contract test holds it to the committed lists
of exported functions in `interpose/symbols/`.

- **tracked**: pooch sees the call with its operands before it happens. *Made again*: a plan may have it computed a
  second time instead of keeping its result; *not made again*: of a kind that plans replay, but for this reason not.
- **seen below**: the call itself is not looked at; what it does to device memory reaches pooch at the driver. A kernel
  then counts as reading and writing every allocation that one of its parameters points into.
- **passed through**: nothing in it concerns managed memory, for the reason given.
- **unsupported**: passes through too, and what happens then is said; the program's first call says so in one line, unless
  a reason is given why it is silent.

Every parameter that may be an address of device memory, by its type, is an operand of a row, or it is said what becomes
of it; `tests/contract/addresses.py` holds that against the prototypes. What is not named here is memory of the host:
"""


def coverage():
    """The text of docs/coverage.md."""
    libraries = [(*listed(name), load(name)) for name in LIBRARIES]
    hazards = "\n".join(f"- `{name}`: {what}" for name, what in HAZARDS.items())
    addresses = "\n".join(f"- `{what}`: {meaning}" for what, meaning in ADDRESSES.items() if what not in ("host", "result"))
    parts = [INTRODUCTION + "\n" + addresses + "\n\n" + "\n".join(summary(libraries))]
    cannot = "A hazard says why a call cannot simply be made a second time (recomputation); some have a cure:"
    parts.append(f"{cannot}\n\n{hazards}")
    for title, names, spec in libraries:
        parts += library_text(title, names, spec)
    return "\n\n".join(parts) + "\n"
