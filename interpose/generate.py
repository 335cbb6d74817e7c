#!/usr/bin/python3
"""Writes what follows from the rows in spec/.

    generate.py wrappers LIBRARY OUTPUT.cpp [COMPILER ARGUMENT...]     one library's wrappers
    generate.py exports OUTPUT.map [COMPILER ARGUMENT...]              the preload's version script
    generate.py prototypes OUTPUT.txt [COMPILER ARGUMENT...]           fingerprints: interpose/symbols/prototypes.txt
    generate.py coverage OUTPUT.md                                     docs/coverage.md

Meaning comes from spec/*.py, prototypes from the vendor headers through libclang; nothing repeats either. A row that
does not fit its prototype is an error that names the row.
"""

import dataclasses
import importlib
import os
import re
import subprocess
import sys

import clang.cindex as cindex

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import recipes  # noqa: E402
from spec import surface  # noqa: E402
from spec.language import HAZARDS, OP_KINDS, Hook, Row, SpecError, condition_scalar  # noqa: E402

LIBRARIES = ["cuda", "cudnn", "cublas", "cublaslt", "nccl"]  # those with wrappers


# --- the vendor headers


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    type: str  # as it is declared by itself
    scalar: bool = False  # a number or enumerator, and no address


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple

    def parameter(self, name):
        return next((p for p in self.parameters if p.name == name), None)


@dataclasses.dataclass
class Headers:
    functions: dict  # by name
    versions: dict  # (base name, "", "_ptds" or "_ptsz"): the driver versions that brought an ABI, ascending


def parameter_type(clang_type):
    if clang_type.kind in (cindex.TypeKind.INCOMPLETEARRAY, cindex.TypeKind.CONSTANTARRAY):
        return clang_type.element_type.spelling + " *"
    return clang_type.spelling


def is_scalar(clang_type):
    kind = clang_type.get_canonical().kind
    arithmetic = cindex.TypeKind.BOOL.value <= kind.value <= cindex.TypeKind.LONGDOUBLE.value
    return (arithmetic or kind == cindex.TypeKind.ENUM) and clang_type.spelling != "CUdeviceptr"


def parse(text, language, arguments):
    """The cursor over a source text."""
    index = cindex.Index.create()
    builtin = subprocess.run(["cc", "-print-file-name=include"], capture_output=True, text=True, check=False)
    system = ["-isystem", builtin.stdout.strip()] if builtin.returncode == 0 else []
    unit = index.parse("rows", args=["-x", language, "-w", *arguments, *system], unsaved_files=[("rows", text)])
    broken = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if broken:
        raise SpecError(f"the vendor headers do not parse: {broken[0].spelling} ({broken[0].location})")
    return unit.cursor


def declared_function(cursor):
    parameters = tuple(
        Parameter(p.spelling, parameter_type(p.type), is_scalar(p.type)) for p in cursor.get_arguments()
    )
    return Function(cursor.spelling, cursor.result_type.spelling, parameters)


def parse_cxx_headers(text, arguments):
    """The functions of C linkage that `text`, a C++ source, declares in blocks of that linkage, by name."""
    found = {}
    for block in parse(text, "c++", arguments).get_children():
        for cursor in block.get_children() if block.kind.is_declaration() else ():
            if cursor.kind == cindex.CursorKind.FUNCTION_DECL and cursor.mangled_name == cursor.spelling:
                found.setdefault(cursor.spelling, declared_function(cursor))
    return found


def parse_headers(text, arguments):
    """The functions and the cudaTypedefs.h versions that `text`, a C source, declares."""
    headers = Headers({}, {})
    for cursor in parse(text, "c", arguments).get_children():
        if cursor.kind == cindex.CursorKind.FUNCTION_DECL:
            headers.functions.setdefault(cursor.spelling, declared_function(cursor))
        elif cursor.kind == cindex.CursorKind.TYPEDEF_DECL:
            match = re.match(r"PFN_(cu[A-Z]\w*?)_v(\d+)(_pt[ds][sz])?$", cursor.spelling)
            if match:
                key = (match.group(1), match.group(3) or "")
                headers.versions.setdefault(key, []).append(int(match.group(2)))
    for versions in headers.versions.values():
        versions.sort()
    return headers


HEADER_TEXT = """#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cudnn.h>
#include "ROOT/softgpu/include/nccl.h"
""".replace("ROOT", os.path.dirname(HERE))
CXX_HEADER_TEXT = "#include <cublas_v2.h>\n"  # where some functions are declared for C++ only


def vendor_headers(arguments):
    headers = parse_headers(HEADER_TEXT, arguments)
    headers.functions = parse_cxx_headers(CXX_HEADER_TEXT, arguments) | headers.functions
    return headers


INCLUDES = {  # beside those that all wrappers have
    "cuda": ['"interpose/driver/replay.h"'],
    "cudnn": ['"interpose/cudnn/batch_norm.h"', '"interpose/cudnn/replay.h"', '"interpose/cudnn/trials.h"'],
    "cublas": ['"interpose/cublas/replay.h"'],
    "cublaslt": ["<cublasLt.h>", '"interpose/cublas/lt_facts.h"', '"interpose/cublas/lt_replay.h"'],
    "nccl": ['"interpose/nccl/collectives.h"', '"interpose/nccl/facts.h"'],
}


# --- checks

HELPERS = set(
    """matrix batched vector pitched packed_triangle typed_matrix typed_vector typed_batched typed scale_of
    stored_rows stored_columns unknown_extent anywhere dropout_states rnn_dropout rnn_data_extent source_of destination_of
    kind_of_copy sizeof scope session lt_matrix lt_result lt_blended lt_alpha lt_beta lt_pointer lt_read_by_epilogue
    lt_written_by_epilogue nccl_elements nccl_elements_of_all nccl_at_root nccl_scalar""".split()
)
EFFECTS = {"read", "write", "overwrite", "read_write", "scratch"}


def check_expression(row, function, expression, extra=()):
    text = re.sub(r"(\.|->)\s*\w+", "", expression)
    for word in re.findall(r"[A-Za-z_]\w*", text):
        known = function.parameter(word) or word in HELPERS or word in extra
        if not known and not re.match(r"(CU|CUDNN|CUBLAS|CUBLASLT)_[A-Z0-9_]+$", word):
            raise SpecError(f"{row.name}: no parameter '{word}' (in '{expression}')")


def check_row(row, function, kinds):
    if row.kind.startswith("="):
        check_expression(row, function, row.kind[1:])
    elif row.kind not in kinds:
        raise SpecError(f"{row.name}: no OpKind '{row.kind}'")
    stream = "handle" if row.stream == "handle" else row.stream
    if stream not in ("legacy", "per_thread") and not function.parameter(stream):
        raise SpecError(f"{row.name}: no parameter '{stream}' (its stream)")
    if row.blocks:
        check_expression(row, function, row.blocks, ("true", "scalars_on_device"))
    for expression in (*row.carries, *row.convolution, *filter(None, [row.clip]), *row.batch_norm):
        check_expression(row, function, expression, ("i",) if row.carries_each else ())
    for scalar, extent in row.host:
        if not function.parameter(scalar):
            raise SpecError(f"{row.name}: no parameter '{scalar}' (in host)")
        check_expression(row, function, extent)
    for hazard in row.hazard:
        if hazard not in HAZARDS:
            raise SpecError(f"{row.name}: no hazard '{hazard}'")
    for parameter, operand in row.operands:
        if operand.effect not in EFFECTS:
            raise SpecError(f"{row.name}: no effect '{operand.effect}'")
        if parameter is None and operand.at is None:
            raise SpecError(f"{row.name}: an operand in `also` needs `at`")
        if parameter is not None and not function.parameter(parameter):
            raise SpecError(f"{row.name}: no parameter '{parameter}'")
        loop = ("i",) if operand.each else ()
        for expression in filter(None, (operand.extent, operand.at, operand.each)):
            check_expression(row, function, expression, loop)
        if operand.read_if and not function.parameter(condition_scalar(row.name, operand.read_if)):
            raise SpecError(f"{row.name}: no parameter in '{operand.read_if}'")


def wrapped(spec):
    """The rows and hooks, and what says once that it is not supported: functions that have wrappers."""
    return [e for e in spec.entries.values() if isinstance(e, (Row, Hook)) or e.warns]


def check(spec, headers):
    kinds = OP_KINDS
    for entry in wrapped(spec):
        function = headers.functions.get(entry.name)
        if function is None:
            raise SpecError(f"{entry.name}: not declared in {spec.library.header}")
        if isinstance(entry, Row):
            check_row(entry, function, kinds)
            recipes.check(entry, headers.functions, factor_descriptor(function))


# --- wrappers


def declared(parameter):
    return f"{parameter.type}{'' if parameter.type.endswith('*') else ' '}{parameter.name}"


def type_of(function):
    """By itself, because in C++ some names of cuBLAS are overloaded."""
    return f"{function.result}({', '.join(parameter.type for parameter in function.parameters)})"


def descriptor_helper(function, expression):
    """"tensor" or "filter" where the expression is just a descriptor."""
    parameter = function.parameter(expression)
    bare = parameter.type.replace("const ", "") if parameter else ""
    return {"cudnnTensorDescriptor_t": "tensor", "cudnnFilterDescriptor_t": "filter"}.get(bare)


def factor_descriptor(function):
    """The first descriptor of elements: it tells the type of the blending factors."""
    return next((p.name for p in function.parameters if descriptor_helper(function, p.name)), None)


def stream_expression(row, library):
    if row.stream in ("legacy", "per_thread"):
        return f"StreamHandle::{row.stream}"
    if row.stream == "handle":
        return f"{library.stream_of_handle}(scope, handle)"
    zero = "per_thread" if row.name.endswith("_ptsz") else "legacy"
    return f"stream_of({row.stream}, StreamHandle::{zero})"


def kind_expression(row):
    return row.kind[1:] if row.kind.startswith("=") else f"OpKind::{row.kind}"


def effect_expression(row, function, operand):
    if not operand.read_if:
        return f"Effect::{operand.effect}"
    scalar = condition_scalar(row.name, operand.read_if)
    if row.host:
        extent = dict(row.host).get(scalar)
        judged = f"{scalar}, {extent}" if extent else scalar
        condition = f"scalars_on_device || host_scalar_not_zero({judged})"
    else:
        if not descriptor_helper(function, operand.extent):
            raise SpecError(f"{row.name}: read_if needs a descriptor as the extent, not '{operand.extent}'")
        condition = f"scalar_not_zero(scope, {scalar}, {operand.extent})"
    return f"{condition} ? Effect::read_write : Effect::{operand.effect}"


def operand_lines(row, function, parameter, operand):
    effect = effect_expression(row, function, operand)
    arguments = [operand.at or parameter]
    if operand.extent:
        helper = descriptor_helper(function, operand.extent)
        arguments.append(f"{helper}_extent(scope, {operand.extent})" if helper else operand.extent)
    line = f"call.add({', '.join(arguments + [effect])});"
    if operand.each:
        return [f"for (size_t i = 0; i < {operand.each}; ++i) {line}"]
    return [line]


DESCRIBED = {  # those with an add_traits in interpose/cudnn/facts.h
    "cudnnConvolutionDescriptor_t",
    "cudnnPoolingDescriptor_t",
    "cudnnActivationDescriptor_t",
    "cudnnOpTensorDescriptor_t",
    "cudnnReduceTensorDescriptor_t",
    "cudnnLRNDescriptor_t",
}


def trait_lines(row, function):
    """What tells this call apart from another with the same operands. Pointers, handles and streams do not."""
    described = factor_descriptor(function)
    scalars = dict(row.host)
    for parameter in function.parameters:
        bare = parameter.type.replace("const ", "")
        if parameter.name in scalars:
            arguments = ", ".join(filter(None, (parameter.name, scalars[parameter.name])))
            yield f"if (!scalars_on_device) call.trait(scalar_of({arguments}));"
        elif bare in DESCRIBED:
            yield f"add_traits(scope, call, {parameter.name});"
        elif re.match(r"(alpha|beta)\w*$", parameter.name) and bare == "void *" and described:
            yield f"call.trait(scalar_of(scope, {parameter.name}, {described}));"
        elif parameter.scalar:
            yield f"call.trait({parameter.name});"
    if "trial" in row.hazard:
        yield "call.trial();"


def wrapper_lines(row, functions, library):
    function = functions[row.name]
    signature = ", ".join(declared(p) for p in function.parameters)
    arguments = ", ".join(p.name for p in function.parameters)
    yield f"POOCH_EXPORT {function.result} {row.name}({signature}) {{"
    yield "  const Scope scope;"
    yield f"  auto* const real = real_{row.name}.get(scope);"
    yield f"  if (real == nullptr) return {library.missing};"
    made = f"with_memory(scope, [&] {{ return real({arguments}); }})" if library.name == "cuda" else f"real({arguments})"
    yield f"  const auto launch = [&] {{ return {made}; }};"
    passes = "  if (const Unwatched passes(scope); passes) return launch();"
    early = not row.carries and not library.awaits_others
    if early:
        yield passes
    yield f"  runtime::Session* const session = scope.outermost() ? {library.session} : nullptr;"
    yield "  if (session == nullptr) return launch();"
    if row.carries:
        loop = f"for (size_t i = 0; i < {row.carries_each}; ++i) " if row.carries_each else ""
        yield f"  {loop}note_carried(scope, *session, {', '.join(row.carries)});"
    if library.awaits_others:
        yield "  session->watch();"
    elif not early:
        yield passes
    yield (
        f'  CallBuilder call(scope, *session, "{row.name}", {kind_expression(row)}, '
        f"{stream_expression(row, library)});"
    )
    if row.host or "scalars_on_device" in row.blocks:
        yield "  const bool scalars_on_device = cublas_scalars_on_device(scope, handle);"
    for scalar, extent in row.host:
        yield f"  if (scalars_on_device) call.add({scalar}, {extent or f'sizeof(*{scalar})'}, Effect::read);"
    for parameter, operand in row.operands:
        for line in operand_lines(row, function, parameter, operand):
            yield "  " + line
    for line in trait_lines(row, function):
        yield "  " + line
    if row.blocks:
        yield f"  call.blocks({row.blocks});"
    if library.before:
        yield "  " + library.before
    for line in recipes.keep_lines(row, functions, factor_descriptor(function)):
        yield "  " + line
    if row.clip:
        yield f"  call.clip(clip_of(scope, {row.clip}));"
    if row.batch_norm:
        yield "  const auto again = [&]() -> std::optional<Substitute> {"
        members = ", ".join(row.batch_norm)
        yield f"    return batch_norm_again(scope, call.accesses(), {{{members}}});"
        yield "  };"
        yield "  call.substitute(again);"
    submit = library.submit or f"call.submit({library.out_of_memory}, launch)"
    if row.convolution and "trial" in row.hazard:
        yield f"  const {function.result} status = {submit};"
        results = f"{{{', '.join(row.convolution)}}}, *returnedAlgoCount, perfResults"
        yield f"  if (status == CUDNN_STATUS_SUCCESS) note_trials(scope, {results});"
        submit = "status"
    elif row.convolution:
        yield f"  if (session->wants_details()) call.tried(tried(scope, {{{', '.join(row.convolution)}}}, algo));"
    yield f"  return {submit};"
    yield "}"


def warning_lines(entry, function, library):
    """A call that passes through; the first one says what it means."""
    signature = ", ".join(declared(p) for p in function.parameters)
    why = " ".join(entry.why.split()).replace('"', '\\"')
    yield f"POOCH_EXPORT {function.result} {entry.name}({signature}) {{"
    yield "  const Scope scope;"
    yield f"  auto* const real = real_{entry.name}.get(scope);"
    yield f"  if (real == nullptr) return {library.missing};"
    yield "  static constinit std::atomic<bool> warned{false};"
    yield f'  warn_unsupported(scope, warned, "{entry.name}", "{why}");'
    yield f"  return real({', '.join(p.name for p in function.parameters)});"
    yield "}"


def split_name(name):
    """cuMemcpyHtoD_v2_ptds: ("cuMemcpyHtoD", 2, "_ptds")."""
    base, number, thread = re.match(r"(\w+?)(?:_v(\d+))?(_ptds|_ptsz)?$", name).groups()
    return base, int(number or 1), thread or ""


def version_range(name, headers):
    """The cudaVersions [from, to) for which cuGetProcAddress means this ABI; (0, 0) where the headers do not say."""
    base, number, thread = split_name(name)
    siblings = sorted(
        n for b, n, t in map(split_name, headers.functions) if b == base and t == thread
    )
    versions = headers.versions.get((base, thread), [])
    if len(siblings) != len(versions):
        return (0, 0)
    place = siblings.index(number)
    after = versions[place + 1] if place + 1 < len(versions) else 1 << 30
    return (versions[place], after)


def table_lines(spec, headers):
    names = sorted(entry.name for entry in wrapped(spec))
    yield f"constinit const Wrapper {spec.library.name}_wrapper_table[] = {{"
    for name in names:
        base, _, thread = split_name(name)
        begin, end = version_range(name, headers) if spec.library.name == "cuda" else (0, 0)
        per_thread = "true" if thread else "false"
        yield (
            f'    {{"{name}", Library::{spec.library.name}, '
            f'&address_of<static_cast<std::add_pointer_t<{type_of(headers.functions[name])}>>(&::{name})>, '
            f'"{base}", {begin}, {end}, {per_thread}}},'
        )
    yield "};"
    yield f"extern constinit const std::span<const Wrapper> {spec.library.name}_wrappers;"
    yield f"constinit const std::span<const Wrapper> {spec.library.name}_wrappers{{{spec.library.name}_wrapper_table}};"


def wrappers(spec, headers):
    """The text of one library's .cpp."""
    rows = [e for e in spec.entries.values() if isinstance(e, Row)]
    hooks = [e for e in spec.entries.values() if isinstance(e, Hook)]
    warning = [e for e in wrapped(spec) if not isinstance(e, (Row, Hook))]
    lines = ["// Generated by interpose/generate.py: change the rows in interpose/spec/ instead."]
    lines += ["#include <atomic>", "#include <type_traits>", ""]
    lines += [f"#include {path}" for path in ('"interpose/spec/wrapper_support.h"', '"interpose/hooks/wrapper_table.h"')]
    lines += [f"#include {path}" for path in INCLUDES.get(spec.library.name, [])]
    lines += ["", "using namespace pooch;", "using namespace pooch::interpose;", "", "namespace {"]
    for row in rows + warning:
        function_type = type_of(headers.functions[row.name])
        lines.append(f'constinit Real<{function_type}> real_{row.name}{{Library::{spec.library.name}, "{row.name}"}};')
    lines += ["}  // namespace", ""]
    for row in rows:
        lines += [*wrapper_lines(row, headers.functions, spec.library), ""]
    for entry in warning:
        lines += [*warning_lines(entry, headers.functions[entry.name], spec.library), ""]
    lines += ["// Written by hand."]
    for hook in hooks:
        function = headers.functions[hook.name]
        signature = ", ".join(declared(p) for p in function.parameters)
        lines.append(f"POOCH_EXPORT {function.result} {hook.name}({signature});")
    lines += ["", "namespace pooch::interpose {", *table_lines(spec, headers), "}  // namespace pooch::interpose", ""]
    return "\n".join(lines)


# --- lists


def exports(specs):
    """An anonymous version script: a named node would keep versioned references from being served."""
    names = sorted(entry.name for spec in specs for entry in wrapped(spec))
    return "{\n  global:\n" + "".join(f"    {name};\n" for name in ["dlsym", *names]) + "  local:\n    *;\n};\n"


def prototypes(specs, headers):
    """One line for every function with a wrapper, so that a change in the vendor's headers is seen."""
    lines = ["# Generated by interpose/generate.py prototypes: what the rows and hooks were written for."]
    for spec in specs:
        for name in sorted(entry.name for entry in wrapped(spec)):
            function = headers.functions[name]
            lines.append(f"{function.result} {name}({', '.join(declared(p) for p in function.parameters)})")
    return "\n".join(lines) + "\n"


# --- command line


def text_of(what, library, compiler):
    if what == "coverage":
        return surface.coverage()
    specs = [surface.load(name) for name in ([library] if library else LIBRARIES)]
    headers = vendor_headers(compiler)
    for spec in specs:
        check(spec, headers)
    if what == "wrappers":
        return wrappers(specs[0], headers)
    return exports(specs) if what == "exports" else prototypes(specs, headers)


def main(arguments):
    what, *rest = arguments
    if what not in ("wrappers", "exports", "prototypes", "coverage"):
        sys.exit(__doc__)
    library = rest.pop(0) if what == "wrappers" else None
    output, *compiler = rest
    try:
        text = text_of(what, library, compiler)
    except SpecError as error:
        sys.exit(f"generate.py: {error}")
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
