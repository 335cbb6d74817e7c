"""The words in which a row says what an API function means.

A row has no prototype: that comes from the vendor's header. Text in a row is a C++ expression of the function's
parameters and of the helpers in interpose/calls/extent.h and interpose/cudnn/facts.h; an expression that is just a tensor
or filter descriptor stands for the bytes it describes.
"""

import dataclasses
import pathlib
import re
from typing import Optional


class SpecError(Exception):
    """A row that cannot be right. The message begins with the row's name."""


@dataclasses.dataclass(frozen=True)
class Operand:
    effect: str  # an enumerator of pooch::Effect
    extent: str  # bytes or an Extent; empty where `at` gives a Side
    at: Optional[str] = None  # the address, where it is not simply the parameter
    read_if: Optional[str] = None  # "*beta != 0": then the old bytes are read too
    each: Optional[str] = None  # repeated for i in [0, each)
    once: bool = False  # a replay gives null instead


def read(extent="", **more):
    return Operand("read", extent, **more)


def write(extent="", **more):
    """Changes some of the bytes."""
    return Operand("write", extent, **more)


def overwrite(extent="", **more):
    """Gives every byte a new value."""
    return Operand("overwrite", extent, **more)


def read_write(extent="", **more):
    return Operand("read_write", extent, **more)


def scratch(extent="", **more):
    """Overwrites; the bytes are dead afterwards."""
    return Operand("scratch", extent, **more)


def running(extent="", **more):
    """Moved along by every call; a replay leaves it alone by giving null, which the API must allow."""
    return Operand("read_write", extent, once=True, **more)


# What becomes of an address that a function without operands is given: of each parameter that may be one, by its type
# (interpose/addresses.py). Where nothing is said of one, a function that is "seen below" reads or writes there by work
# that reaches us at the driver; of all others tests/contract/addresses.py wants to know.
ADDRESSES = {
    "host": "the host's memory, or code: no device memory",
    "result": "in the host's memory, where the call puts its answer",
    "named": "means an allocation, or a range of addresses; nothing there is read or written, now or later",
    "never": "read or written, now or later, but memory that is never managed, for the reason given",
    "asked": "is kept; who reads or writes there has a row that asks for it again, or launches kernels that are given it",
    "unseen": "read or written, now or later, and nobody knows",
}

# Why a call cannot simply be made a second time.
HAZARDS = {
    "accumulates": "blends its result with the old one where beta is not zero, or always",
    "in_place": "may be called with its output on top of an input",
    "running_statistics": "averages into running statistics",
    "saved_statistics": "leaves statistics that the backward call needs",
    "reserve_space": "leaves a reserve space that the backward call needs",
    "dropout_states": "advances the random states of a dropout descriptor",
    "trial": "tries algorithms on the operands; its result is any of theirs",
}

# Those that a replay cannot cure.
NEVER_REPLAYED = ("dropout_states", "trial")

# Of core/op_kind.cpp: by enumerator of OpKind, its traits. Rows of kinds that plans replay have a recipe or a reason.
OP_KINDS = {
    kind: frozenset(traits.split(" | "))
    for kind, traits in re.findall(
        r'^ *\{OpKind::(\w+), "\w+", Direction::\w+, ([\w |]+),',
        (pathlib.Path(__file__).resolve().parents[2] / "core/op_kind.cpp").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
REPLAYED_KINDS = frozenset(kind for kind, traits in OP_KINDS.items() if "replayed" in traits)


@dataclasses.dataclass(frozen=True)
class Row:
    """A tracked function: the session sees each call with its operands."""

    name: str
    kind: str  # an enumerator of pooch::OpKind, or "=" and an expression
    stream: str  # "handle", a parameter, "legacy" or "per_thread"
    operands: tuple  # of (parameter or None, Operand), in order of the header's parameters where they have one
    host: tuple  # of (scalar, extent): they may lie in host or device memory; "": as large as the parameter's type
    blocks: str  # a condition: the host waits for the device inside of the call; empty: never
    hazard: tuple  # of keys of HAZARDS, beside what the operands tell
    no_replay: str = ""  # why the call has no recipe, although its kind is one of REPLAYED_KINDS
    replay_as: str = ""  # the function that a replay calls: the same in a stream
    kept: tuple = ()  # of (parameter, expression of a kept argument: interpose/calls/replay_call.h)
    convolution: tuple = ()  # its descriptors of x, w, the convolution and y, where it runs or tries algorithms
    clip: str = ""  # arguments of clip_of (batch_norm.h): what it may come to
    batch_norm: tuple = ()  # the members of a BatchNormCall (batch_norm.h) that it is
    carries: tuple = ()  # arguments of note_carried (call_builder.h): what the call may copy from host memory
    carries_each: str = ""  # repeated for i in [0, carries_each)

    @property
    def of_replayed_kind(self):
        """Kinds that are expressions may turn out to be one."""
        return self.kind in REPLAYED_KINDS or self.kind.startswith("=")

    @property
    def unreplayed(self):
        """Why there is no recipe; empty where there is one."""
        if not self.of_replayed_kind:
            return f"no op of kind {self.kind} is replayed"
        return next((HAZARDS[h] for h in NEVER_REPLAYED if h in self.hazard), " ".join(self.no_replay.split()))

    @property
    def hazards(self):
        """All hazards, in the order of HAZARDS: an operand with `read_if` accumulates."""
        blends = any(operand.read_if for _, operand in self.operands)
        return tuple(h for h in HAZARDS if h in self.hazard or (h == "accumulates" and blends))


@dataclasses.dataclass(frozen=True)
class Hook:
    """A function with a hand-written wrapper."""

    name: str
    where: str  # the file in interpose/


@dataclasses.dataclass(frozen=True)
class Unwrapped:
    """A function whose operands are not looked at; `how` is "seen below", "passed through" or "unsupported"."""

    name: str
    how: str
    why: str
    silent: str = ""  # of an unsupported one: why its first call says nothing

    @property
    def warns(self):
        """Has a wrapper that says so once."""
        return self.how == "unsupported" and not self.silent


@dataclasses.dataclass(frozen=True)
class Library:
    """What follows `soname` is for libraries with wrappers."""

    name: str  # its list in symbols/; with wrappers also an enumerator of pooch::interpose::Library
    soname: str
    header: str = ""
    missing: str = ""  # status when the library or the function is not there
    out_of_memory: str = ""
    stream_of_handle: str = ""  # helper that gives a handle's stream
    session: str = "session_for_library_call(scope)"  # an expression
    before: str = ""  # a statement for every row, after its operands
    submit: str = ""  # what the call is made by, where it is not by the session at once
    typed_addresses: bool = False  # pointers to numbers may be device memory; else void pointers and CUdeviceptr alone
    awaits_others: bool = False  # its work on the device may wait for other processes: none passes unwatched


class Spec:
    """All rows of one library."""

    def __init__(self, library):
        self.library = library
        self.entries = {}  # by function name
        self.addresses_by_name = {}  # what ADDRESSES has, by a parameter's name
        self.addresses_of = {}  # ... by (function, parameter)
        self.undeclared = {}  # why nothing is to be said of functions that no header declares, by patterns of names

    def _add(self, entry):
        if entry.name in self.entries:
            raise SpecError(f"{entry.name}: two rows for one function")
        self.entries[entry.name] = entry

    def row(
        self,
        names,
        *,
        kind,
        stream,
        host=(),
        also=(),
        blocks="",
        hazard="",
        no_replay="",
        replay_as="",
        kept=None,
        carries=(),
        carries_each="",
        convolution="",
        clip="",
        batch_norm=(),
        **operands,
    ):
        """One or several functions (`names`, separated by blanks) with the same parameters by name.

        `operands`: parameter=effect(...). `also`: operands whose address is an expression. `host`: names of scalars, or
        a dictionary of their extents where the parameter's type does not tell. `hazard`: keys of HAZARDS. `no_replay`,
        `replay_as`, `kept`, `carries`, `carries_each`, `convolution`, `clip`, `batch_norm`: see Row; what a recipe keeps follows from the parameters' types where `kept` has no word.
        """
        listed = tuple(operands.items()) + tuple((None, operand) for operand in also)
        scalars = tuple(host.items()) if isinstance(host, dict) else tuple((name, "") for name in host)
        for name in names.split():
            recipe = (no_replay, replay_as, tuple((kept or {}).items()), tuple(convolution.split()))
            recipe += (clip, tuple(batch_norm), tuple(carries), carries_each)
            self._add(Row(name, kind, stream, listed, scalars, blocks, tuple(hazard.split()), *recipe))

    def hook(self, names, *, where):
        for name in names.split():
            self._add(Hook(name, where))

    def _unwrapped(self, names, how, why, silent=""):
        for name in names.split():
            self._add(Unwrapped(name, how, why, silent))

    def addresses(self, what, parameters, of=""):
        """What becomes of addresses in these parameters: of the functions named in `of`, else of all."""
        if what not in ADDRESSES:
            raise SpecError(f"addresses: no word '{what}'")
        for parameter in parameters.split():
            for function in of.split():
                self.addresses_of[function, parameter] = what
            if not of:
                self.addresses_by_name[parameter] = what

    def address(self, function, parameter):
        """One word of ADDRESSES, or nothing."""
        return self.addresses_of.get((function, parameter)) or self.addresses_by_name.get(parameter)

    def no_prototype(self, names, why):
        """Functions that pass through and that no header declares, by patterns; `why` no address matters there."""
        for pattern in names.split():
            self.undeclared[pattern] = why

    def seen_below(self, names, why):
        """Its work reaches us at the driver."""
        self._unwrapped(names, "seen below", why)

    def passthrough(self, names, *, why):
        self._unwrapped(names, "passed through", why)

    def unsupported(self, names, *, why, silent=""):
        """`why` says what happens then; the first call does so in a line, if it is not `silent` for a reason."""
        self._unwrapped(names, "unsupported", why, silent)


_CONDITION = re.compile(r"^\*(\w+) != 0$")


def condition_scalar(name, condition):
    """The parameter in a `read_if`."""
    match = _CONDITION.match(condition)
    if not match:
        raise SpecError(f"{name}: read_if is '*PARAMETER != 0', not '{condition}'")
    return match.group(1)
