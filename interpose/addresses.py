"""Which parameters may be addresses of device memory, by the types that the vendors' headers give them."""

import dataclasses
import re

import clang.cindex as cindex

KINDS = cindex.TypeKind
NUMBERS = range(KINDS.BOOL.value, KINDS.LONGDOUBLE.value + 1)


@dataclasses.dataclass(frozen=True)
class Suspect:
    parameter: str
    type: str


def bare(clang_type):
    return clang_type.spelling.replace("const ", "").strip()


def is_device_pointer(clang_type):
    return bare(clang_type) in ("CUdeviceptr", "CUdeviceptr_v1", "CUdeviceptr_v2")


def pointee(clang_type):
    canonical = clang_type.get_canonical()
    if canonical.kind in (KINDS.INCOMPLETEARRAY, KINDS.CONSTANTARRAY):
        return clang_type.element_type if clang_type.kind == canonical.kind else canonical.element_type
    if canonical.kind == KINDS.POINTER:
        return clang_type.get_pointee() if clang_type.kind == KINDS.POINTER else canonical.get_pointee()
    return None


def may_point_to_device(to, typed):
    """`to`: what a pointer points to."""
    kind = to.get_canonical().kind
    if kind == KINDS.VOID:
        return True
    name = to.get_canonical().spelling.replace("const ", "")
    return typed and (
        kind.value in NUMBERS and kind not in (KINDS.CHAR_S, KINDS.SCHAR) or re.search(r"half|bfloat|float2|double2", name)
    )


def holds_address(clang_type, seen=()):
    """A struct or union of which a field may be an address."""
    canonical = clang_type.get_canonical()
    if canonical.kind != KINDS.RECORD or canonical.spelling in seen:
        return False
    for field in canonical.get_fields():
        to = pointee(field.type)
        if is_device_pointer(field.type) or (to is not None and to.get_canonical().kind == KINDS.VOID):
            return True
        if holds_address(field.type, seen + (canonical.spelling,)):
            return True
        if to is not None and holds_address(to, seen + (canonical.spelling,)):
            return True
    return False


def is_suspect(clang_type, typed):
    """An address, addresses one behind the other, or what has one inside."""
    if is_device_pointer(clang_type) or holds_address(clang_type):
        return True
    to = pointee(clang_type)
    if to is None:
        return False
    if is_device_pointer(to) or holds_address(to) or may_point_to_device(to, typed):
        return True
    below = pointee(to)
    return below is not None and may_point_to_device(below, typed)


def declared(cursor):
    """The function declarations under a cursor, by name."""
    return {c.spelling: c for c in cursor.get_children() if c.kind == cindex.CursorKind.FUNCTION_DECL}


def prototype_of(functions, name):
    """Variants of the per-thread default stream, and NCCL's second names, have their function's prototype."""
    for known in (name, re.sub(r"_(ptsz|ptds)$", "", name), re.sub(r"^p(?=nccl)", "", name)):
        if known in functions:
            return functions[known]
    return None


def suspects(cursor, typed):
    return [Suspect(p.spelling, p.type.spelling) for p in cursor.get_arguments() if is_suspect(p.type, typed)]
