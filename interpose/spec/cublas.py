"""cuBLAS: column-major matrices with leading dimensions; scalars on the host or, by pointer mode, on the device."""

from spec.language import Library, Spec, overwrite, read, read_write

spec = Spec(
    Library(
        name="cublas",
        header="cublas_v2.h",
        prefix=r"cublas[A-Z]",
        missing="CUBLAS_STATUS_NOT_INITIALIZED",
        out_of_memory="CUBLAS_STATUS_ALLOC_FAILED",
        stream_of_handle="cublas_stream",
        before="add_cublas_workspace(call, handle);",
    )
)
row, hook, passthrough = spec.row, spec.hook, spec.passthrough


def both(pattern):
    """Single and double precision, 32- and 64-bit sizes: `pattern` has {} for the type's letter."""
    plain = [pattern.format(letter) for letter in "SD"]
    return " ".join(plain + [name + "_64" for name in plain])


def matrix(rows, columns, name, leading):
    return f"matrix({rows}, {columns}, {leading}, sizeof(*{name}))"


def operand_matrix(operation, rows, columns, name, leading):
    """op(X), rows × columns, as it is stored."""
    dimensions = f"{operation}, {rows}, {columns}"
    return matrix(f"stored_rows({dimensions})", f"stored_columns({dimensions})", name, leading)


def batched(one, name, stride):
    return f"batched({one}, {stride}, batchCount, sizeof(*{name}))"


def vector(count, name, increment):
    return f"vector({count}, {increment}, sizeof(*{name}))"


# --- level 3
row(
    both("cublas{}gemm_v2"),
    kind="gemm",
    stream="handle",
    host=["alpha", "beta"],
    A=read(operand_matrix("transa", "m", "k", "A", "lda")),
    B=read(operand_matrix("transb", "k", "n", "B", "ldb")),
    C=overwrite(matrix("m", "n", "C", "ldc"), read_if="*beta != 0"),
)
row(
    both("cublas{}gemmStridedBatched"),
    kind="gemm",
    stream="handle",
    host=["alpha", "beta"],
    A=read(batched(operand_matrix("transa", "m", "k", "A", "lda"), "A", "strideA")),
    B=read(batched(operand_matrix("transb", "k", "n", "B", "ldb"), "B", "strideB")),
    C=overwrite(batched(matrix("m", "n", "C", "ldc"), "C", "strideC"), read_if="*beta != 0"),
)
row(
    both("cublas{}geam"),
    kind="blas",
    stream="handle",
    host=["alpha", "beta"],
    A=read(operand_matrix("transa", "m", "n", "A", "lda")),
    B=read(operand_matrix("transb", "m", "n", "B", "ldb")),
    C=overwrite(matrix("m", "n", "C", "ldc")),
)
row(
    both("cublas{}dgmm"),
    kind="blas",
    stream="handle",
    A=read(matrix("m", "n", "A", "lda")),
    x=read(vector("mode == CUBLAS_SIDE_LEFT ? m : n", "x", "incx")),
    C=overwrite(matrix("m", "n", "C", "ldc")),
)

# --- level 2
row(
    both("cublas{}gemv_v2"),
    kind="gemm",
    stream="handle",
    host=["alpha", "beta"],
    A=read(matrix("m", "n", "A", "lda")),
    x=read(vector("trans == CUBLAS_OP_N ? n : m", "x", "incx")),
    y=overwrite(vector("trans == CUBLAS_OP_N ? m : n", "y", "incy"), read_if="*beta != 0"),
)

# --- level 1. A result in host memory is no operand; its address is simply never managed.
row(
    both("cublas{}axpy_v2"),
    kind="blas",
    stream="handle",
    host=["alpha"],
    x=read(vector("n", "x", "incx")),
    y=read_write(vector("n", "y", "incy")),
)
row(both("cublas{}scal_v2"), kind="blas", stream="handle", host=["alpha"], x=read_write(vector("n", "x", "incx")))
row(
    both("cublas{}copy_v2"),
    kind="blas",
    stream="handle",
    x=read(vector("n", "x", "incx")),
    y=overwrite(vector("n", "y", "incy")),
)
row(
    both("cublas{}dot_v2"),
    kind="blas",
    stream="handle",
    x=read(vector("n", "x", "incx")),
    y=read(vector("n", "y", "incy")),
    result=overwrite("sizeof(*result)"),
    blocks="!scalars_on_device",
)
for norm in ("nrm2", "asum"):
    row(
        both("cublas{}" + norm + "_v2"),
        kind="blas",
        stream="handle",
        x=read(vector("n", "x", "incx")),
        result=overwrite("sizeof(*result)"),
        blocks="!scalars_on_device",
    )

# --- a workspace that the program gives is an operand of every later call of the handle
hook("cublasSetWorkspace_v2 cublasSetStream_v2 cublasDestroy_v2", where="cublas_facts.cpp")
