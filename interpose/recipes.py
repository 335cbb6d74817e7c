"""How generated wrappers keep their calls: each parameter becomes an argument that lasts (replay_call.h)."""

from spec.language import SpecError

HANDLES = {"cudnnHandle_t", "cublasHandle_t", "cublasLtHandle_t"}
CLONED = {  # with a keep_descriptor in cudnn/replay.h or cublas/lt_replay.h
    "cudnnTensorDescriptor_t",
    "cudnnFilterDescriptor_t",
    "cudnnConvolutionDescriptor_t",
    "cudnnPoolingDescriptor_t",
    "cudnnActivationDescriptor_t",
    "cudnnOpTensorDescriptor_t",
    "cudnnReduceTensorDescriptor_t",
    "cudnnLRNDescriptor_t",
    "cublasLtMatmulDesc_t",
    "cublasLtMatrixLayout_t",
}
COPIES = {"CUDA_MEMCPY2D *", "CUDA_MEMCPY3D *"}
STREAMS = {"CUstream", "cudaStream_t"}


def bare(parameter):
    return parameter.type.replace("const ", "")


def kept_argument(row, parameter, function, factor_of):
    """A C++ expression. `factor_of`: the descriptor that tells a blending factor's type, None where none does."""
    name = parameter.name
    if name in dict(row.kept):
        return dict(row.kept)[name]
    if parameter.type in STREAMS:
        return "keep_stream()"
    operand = next((o for p, o in row.operands if p == name), None)
    if operand and operand.once:
        return "keep_nothing()"
    if operand:
        return f"keep_operand(keeping, {name})"
    if name in dict(row.host):
        return f"keep_scalar({', '.join(filter(None, ('keeping', name, dict(row.host)[name])))})"
    if factor_of and bare(parameter) == "void *" and name.startswith(("alpha", "beta")):
        return f"keep_scalar(keeping, {name}, {factor_of})"
    if bare(parameter) in HANDLES:
        return f"keep_handle(keeping, {name})"
    if bare(parameter) in CLONED:
        return f"keep_descriptor(keeping, {name})"
    if bare(parameter) in COPIES:
        return f"keep_copy(keeping, {name})"
    if parameter.scalar:
        return f"keep_value({name})"
    problem = f"no recipe keeps '{name}' ({parameter.type})"
    raise SpecError(f"{row.name}: {problem}: say how in kept, or why not in no_replay")


def again(row, functions):
    """The function that a replay calls."""
    function = functions[row.name]
    twin = functions.get(row.replay_as or row.name)
    if twin is None:
        raise SpecError(f"{row.name}: no function '{row.replay_as}' (in replay_as)")
    for parameter in twin.parameters:
        if parameter.type not in STREAMS and not function.parameter(parameter.name):
            raise SpecError(f"{row.name}: no parameter '{parameter.name}' for {twin.name}")
    if row.stream in ("legacy", "per_thread") and not any(p.type in STREAMS for p in twin.parameters):
        raise SpecError(f"{row.name}: a replay needs a stream: name the function that has one in replay_as")
    return twin


def check(row, functions, factor_of):
    if row.no_replay and not row.of_replayed_kind:
        raise SpecError(f"{row.name}: no_replay, but {row.unreplayed} anyway")
    for parameter, _ in row.kept:
        if not functions[row.name].parameter(parameter):
            raise SpecError(f"{row.name}: no parameter '{parameter}' (in kept)")
    if not row.unreplayed:
        for parameter in again(row, functions).parameters:
            kept_argument(row, parameter, functions[row.name], factor_of)


def keep_lines(row, functions, factor_of):
    """The part of a wrapper that offers a recipe; nothing where there is none."""
    if row.unreplayed:
        return
    twin = again(row, functions)
    arguments = [kept_argument(row, p, functions[row.name], factor_of) for p in twin.parameters]
    real = "real" if twin.name == row.name else f"real_{twin.name}.get(scope)"
    yield "const auto keep = [&]() -> std::unique_ptr<Replay> {"
    if row.kind.startswith("="):
        yield "  if (call.kind() != OpKind::copy_device) return nullptr;"
    if row.host:
        yield "  if (scalars_on_device) return nullptr;"
    yield "  const Keeping keeping(scope, call.accesses());"
    yield f'  return keep_call(keeping, "{twin.name}", {real}, {", ".join(arguments)});'
    yield "};"
    yield "call.keep(keep);"
