"""cuBLAS: column-major matrices with leading dimensions; scalars on the host or, by pointer mode, on the device.

A triangle or a band counts as the whole stored matrix: read in full, written in part.
"""

from spec.language import Library, Spec, overwrite, read, read_write, write

spec = Spec(
    Library(
        name="cublas",
        typed_addresses=True,
        soname="libcublas.so.13",
        header="cublas_v2.h",
        missing="CUBLAS_STATUS_NOT_INITIALIZED",
        out_of_memory="CUBLAS_STATUS_ALLOC_FAILED",
        stream_of_handle="cublas_stream",
        before="add_cublas_workspace(call, handle);",
    )
)
hook, seen_below, passthrough = spec.hook, spec.seen_below, spec.passthrough


def each(pattern, letters="S D C Z"):
    """The types' letters in place of {}."""
    return " ".join(pattern.replace("{}", letter) for letter in letters.split())


def sized(names):
    """With 32- and 64-bit sizes."""
    return " ".join(f"{name} {name}_64" for name in names.split())


def blas(names, kind="blas", **meaning):
    spec.row(sized(names), kind=kind, stream="handle", **meaning)


def matrix(rows, columns, name, leading):
    return f"matrix({rows}, {columns}, {leading}, sizeof(*{name}))"


def stored(operation, rows, columns):
    """Rows and columns of op(X), rows × columns, as it is stored."""
    dimensions = f"{operation}, {rows}, {columns}"
    return f"stored_rows({dimensions})", f"stored_columns({dimensions})"


def batched(one, name, stride):
    return f"batched({one}, {stride}, batchCount, sizeof(*{name}))"


def vector(count, name, increment):
    return f"vector({count}, {increment}, sizeof(*{name}))"


def packed(name):
    return f"packed_triangle(n, sizeof(*{name}))"


IF_BETA = "*beta != 0"
SCALARS = ["alpha", "beta"]
x_n = read(vector("n", "x", "incx"))
y_n = read(vector("n", "y", "incy"))
changed_x_n = read_write(vector("n", "x", "incx"))
changed_y_n = read_write(vector("n", "y", "incy"))

# --- level 3: products
a_of_gemm = matrix(*stored("transa", "m", "k"), "A", "lda")
b_of_gemm = matrix(*stored("transb", "k", "n"), "B", "ldb")
c_of_gemm = matrix("m", "n", "C", "ldc")
blas(
    each("cublas{}gemm_v2") + " " + each("cublas{}gemm3m", "C Z"),
    kind="gemm",
    host=SCALARS,
    A=read(a_of_gemm),
    B=read(b_of_gemm),
    C=overwrite(c_of_gemm, read_if=IF_BETA),
)
blas(
    each("cublas{}gemmStridedBatched") + " cublasCgemm3mStridedBatched",
    kind="gemm",
    host=SCALARS,
    A=read(batched(a_of_gemm, "A", "strideA")),
    B=read(batched(b_of_gemm, "B", "strideB")),
    C=overwrite(batched(c_of_gemm, "C", "strideC"), read_if=IF_BETA),
)


def typed(rows, columns, name):
    return f"typed_matrix({rows}, {columns}, ld{name.lower()}, {name}type)"


def typed_batch(one, name):
    return f"typed_batched({one}, stride{name}, batchCount, {name}type)"


a_typed = typed(*stored("transa", "m", "k"), "A")
b_typed = typed(*stored("transb", "k", "n"), "B")
c_typed = typed("m", "n", "C")
scale = "scale_of(computeType, Ctype)"
blas(
    "cublasSgemmEx cublasCgemmEx cublasCgemm3mEx",
    kind="gemm",
    host=SCALARS,
    A=read(a_typed),
    B=read(b_typed),
    C=overwrite(c_typed, read_if=IF_BETA),
)
blas(
    "cublasGemmEx",
    kind="gemm",
    host={"alpha": scale, "beta": scale},
    A=read(a_typed),
    B=read(b_typed),
    C=overwrite(c_typed, read_if=IF_BETA),
)
blas(
    "cublasGemmStridedBatchedEx",
    kind="gemm",
    host={"alpha": scale, "beta": scale},
    A=read(typed_batch(a_typed, "A")),
    B=read(typed_batch(b_typed, "B")),
    C=overwrite(typed_batch(c_typed, "C"), read_if=IF_BETA),
)

# --- level 3: symmetric and triangular
one_side = "side == CUBLAS_SIDE_LEFT ? m : n"
a_of_side = read(matrix(one_side, one_side, "A", "lda"))
blas(
    each("cublas{}symm_v2") + " " + each("cublas{}hemm_v2", "C Z"),
    kind="gemm",
    host=SCALARS,
    A=a_of_side,
    B=read(matrix("m", "n", "B", "ldb")),
    C=overwrite(c_of_gemm, read_if=IF_BETA),
)
a_of_rank_k = read(matrix(*stored("trans", "n", "k"), "A", "lda"))
b_of_rank_k = read(matrix(*stored("trans", "n", "k"), "B", "ldb"))
c_triangle = write(matrix("n", "n", "C", "ldc"), read_if=IF_BETA)
blas(
    each("cublas{}syrk_v2") + " " + each("cublas{}herk_v2", "C Z"),
    kind="gemm",
    host=SCALARS,
    A=a_of_rank_k,
    C=c_triangle,
)
blas(
    "cublasCsyrkEx cublasCsyrk3mEx cublasCherkEx cublasCherk3mEx",
    kind="gemm",
    host=SCALARS,
    A=read(typed(*stored("trans", "n", "k"), "A")),
    C=write(typed("n", "n", "C"), read_if=IF_BETA),
)
blas(
    each("cublas{}syr2k_v2 cublas{}syrkx") + " " + each("cublas{}her2k_v2 cublas{}herkx", "C Z"),
    kind="gemm",
    host=SCALARS,
    A=a_of_rank_k,
    B=b_of_rank_k,
    C=c_triangle,
)
blas(
    each("cublas{}trmm_v2"),
    kind="gemm",
    host=["alpha"],
    hazard="in_place",
    A=a_of_side,
    B=read(matrix("m", "n", "B", "ldb")),
    C=overwrite(c_of_gemm),
)
blas(
    each("cublas{}trsm_v2"),
    host=["alpha"],
    hazard="in_place",
    A=a_of_side,
    B=read_write(matrix("m", "n", "B", "ldb")),
)
blas(
    each("cublas{}geam"),
    host=SCALARS,
    hazard="in_place",
    A=read(matrix(*stored("transa", "m", "n"), "A", "lda")),
    B=read(matrix(*stored("transb", "m", "n"), "B", "ldb")),
    C=overwrite(c_of_gemm),
)
blas(
    each("cublas{}dgmm"),
    hazard="in_place",
    A=read(matrix("m", "n", "A", "lda")),
    x=read(vector("mode == CUBLAS_SIDE_LEFT ? m : n", "x", "incx")),
    C=overwrite(c_of_gemm),
)
spec.row(
    each("cublas{}tpttr"),
    kind="blas",
    stream="handle",
    AP=read(packed("AP")),
    A=write(matrix("n", "n", "A", "lda")),
)
spec.row(
    each("cublas{}trttp"),
    kind="blas",
    stream="handle",
    A=read(matrix("n", "n", "A", "lda")),
    AP=overwrite(packed("AP")),
)

# --- level 2
x_of_gemv = vector("trans == CUBLAS_OP_N ? n : m", "x", "incx")
y_of_gemv = vector("trans == CUBLAS_OP_N ? m : n", "y", "incy")
a_square = matrix("n", "n", "A", "lda")
a_band = matrix("k + 1", "n", "A", "lda")
y_blended = overwrite(vector("n", "y", "incy"), read_if=IF_BETA)
blas(
    each("cublas{}gemv_v2"),
    kind="gemm",
    host=SCALARS,
    A=read(matrix("m", "n", "A", "lda")),
    x=read(x_of_gemv),
    y=overwrite(y_of_gemv, read_if=IF_BETA),
)
blas(
    each("cublas{}gemvStridedBatched"),
    kind="gemm",
    host=SCALARS,
    A=read(batched(matrix("m", "n", "A", "lda"), "A", "strideA")),
    x=read(batched(x_of_gemv, "x", "stridex")),
    y=overwrite(batched(y_of_gemv, "y", "stridey"), read_if=IF_BETA),
)
blas(
    each("cublas{}gbmv_v2"),
    host=SCALARS,
    A=read(matrix("kl + ku + 1", "n", "A", "lda")),
    x=read(x_of_gemv),
    y=overwrite(y_of_gemv, read_if=IF_BETA),
)
blas(
    each("cublas{}symv_v2") + " " + each("cublas{}hemv_v2", "C Z"),
    host=SCALARS,
    A=read(a_square),
    x=x_n,
    y=y_blended,
)
blas(
    each("cublas{}sbmv_v2", "S D") + " " + each("cublas{}hbmv_v2", "C Z"),
    host=SCALARS,
    A=read(a_band),
    x=x_n,
    y=y_blended,
)
blas(
    each("cublas{}spmv_v2", "S D") + " " + each("cublas{}hpmv_v2", "C Z"),
    host=SCALARS,
    AP=read(packed("AP")),
    x=x_n,
    y=y_blended,
)
blas(
    each("cublas{}ger_v2", "S D") + " " + each("cublas{}geru_v2 cublas{}gerc_v2", "C Z"),
    host=["alpha"],
    hazard="accumulates",
    x=read(vector("m", "x", "incx")),
    y=y_n,
    A=read_write(matrix("m", "n", "A", "lda")),
)
added = dict(host=["alpha"], hazard="accumulates")
blas(each("cublas{}syr_v2") + " " + each("cublas{}her_v2", "C Z"), **added, x=x_n, A=read_write(a_square))
blas(each("cublas{}syr2_v2") + " " + each("cublas{}her2_v2", "C Z"), **added, x=x_n, y=y_n, A=read_write(a_square))
blas(each("cublas{}spr_v2", "S D") + " " + each("cublas{}hpr_v2", "C Z"), **added, x=x_n, AP=read_write(packed("AP")))
blas(
    each("cublas{}spr2_v2", "S D") + " " + each("cublas{}hpr2_v2", "C Z"),
    **added,
    x=x_n,
    y=y_n,
    AP=read_write(packed("AP")),
)
blas(each("cublas{}trmv_v2 cublas{}trsv_v2"), hazard="in_place", A=read(a_square), x=changed_x_n)
blas(each("cublas{}tbmv_v2 cublas{}tbsv_v2"), hazard="in_place", A=read(a_band), x=changed_x_n)
blas(each("cublas{}tpmv_v2 cublas{}tpsv_v2"), hazard="in_place", AP=read(packed("AP")), x=changed_x_n)

# --- level 1. A result in host memory is no operand; its address is simply never managed.
x_typed = "typed_vector(n, incx, xType)"
y_typed = "typed_vector(n, incy, yType)"
returned = dict(blocks="!scalars_on_device")
blas(each("cublas{}axpy_v2"), **added, x=x_n, y=changed_y_n)
blas("cublasAxpyEx", host={"alpha": "typed(alphaType)"}, hazard="accumulates", x=read(x_typed), y=read_write(y_typed))
blas(each("cublas{}scal_v2") + " cublasCsscal_v2 cublasZdscal_v2", host=["alpha"], hazard="in_place", x=changed_x_n)
blas("cublasScalEx", host={"alpha": "typed(alphaType)"}, hazard="in_place", x=read_write(x_typed))
blas(each("cublas{}copy_v2"), x=x_n, y=overwrite(vector("n", "y", "incy")))
blas("cublasCopyEx", x=read(x_typed), y=overwrite(y_typed))
blas(each("cublas{}swap_v2"), hazard="in_place", x=changed_x_n, y=changed_y_n)
blas("cublasSwapEx", hazard="in_place", x=read_write(x_typed), y=read_write(y_typed))
blas(
    each("cublas{}dot_v2", "S D") + " " + each("cublas{}dotu_v2 cublas{}dotc_v2", "C Z"),
    **returned,
    x=x_n,
    y=y_n,
    result=overwrite("sizeof(*result)"),
)
blas("cublasDotEx cublasDotcEx", **returned, x=read(x_typed), y=read(y_typed), result=overwrite("typed(resultType)"))
blas(
    each("cublas{}nrm2_v2 cublas{}asum_v2", "S D Sc Dz") + " " + each("cublasI{}amax_v2 cublasI{}amin_v2", "s d c z"),
    **returned,
    x=x_n,
    result=overwrite("sizeof(*result)"),
)
blas("cublasNrm2Ex cublasAsumEx", **returned, x=read(x_typed), result=overwrite("typed(resultType)"))
blas("cublasIamaxEx cublasIaminEx", **returned, x=read(x_typed), result=overwrite("sizeof(*result)"))
blas(each("cublas{}rot_v2", "S D C Cs Z Zd"), host=["c", "s"], hazard="in_place", x=changed_x_n, y=changed_y_n)
blas(
    "cublasRotEx",
    host={"c": "typed(csType)", "s": "typed(csType)"},
    hazard="in_place",
    x=read_write(x_typed),
    y=read_write(y_typed),
)
blas(
    each("cublas{}rotm_v2", "S D"),
    host={"param": "5 * sizeof(*param)"},
    hazard="in_place",
    x=changed_x_n,
    y=changed_y_n,
)

# --- a workspace that the program gives is an operand of every later call of the handle
hook("cublasSetWorkspace_v2 cublasSetStream_v2 cublasDestroy_v2", where="cublas/facts.cpp")

# --- pointer arrays: the matrices' addresses lie in device memory, where nobody looks
pointers = read_write("anywhere()")
blas(
    each("cublas{}gemmBatched cublas{}gemvBatched") + " cublasCgemm3mBatched",
    host=SCALARS,
    hazard="accumulates",
    Aarray=pointers,
)
blas(
    """cublasHgemmBatched cublasHSHgemvBatched cublasHSSgemvBatched cublasTSSgemvBatched cublasTSTgemvBatched""",
    host={"alpha": "sizeof(*alpha)", "beta": "sizeof(*beta)"},
    hazard="accumulates",
    Aarray=pointers,
)
blas("cublasGemmBatchedEx", host={"alpha": scale, "beta": scale}, hazard="accumulates", Aarray=pointers)
blas(each("cublas{}trsmBatched"), host=["alpha"], hazard="in_place", A=pointers)
blas(
    each("cublas{}gemmGroupedBatched", "S D") + " cublasGemmGroupedBatchedEx",
    hazard="accumulates",
    Aarray=pointers,
)
spec.row(
    each("cublas{}gelsBatched cublas{}geqrfBatched cublas{}getrsBatched"),
    kind="blas",
    stream="handle",
    hazard="in_place",
    Aarray=pointers,
)
spec.row(
    each("cublas{}getrfBatched cublas{}getriBatched cublas{}matinvBatched"),
    kind="blas",
    stream="handle",
    hazard="in_place",
    A=pointers,
)
# --- not wrapped: seen as launches and copies
seen_below(
    sized(
        """cublasHgemm cublasHgemmStridedBatched cublasHSHgemvStridedBatched cublasHSSgemvStridedBatched
        cublasTSSgemvStridedBatched cublasTSTgemvStridedBatched"""
    ),
    "half precision; every address is a parameter of its kernels, which arrive as bare launches",
)
seen_below(
    each("cublas{}rotg_v2")
    + " "
    + each("cublas{}rotmg_v2", "S D")
    + " cublasRotgEx cublasRotmEx cublasRotmEx_64 cublasRotmgEx",
    "a few scalars, or ones of any type; with pointers to the device they are parameters of a bare launch",
)
seen_below(
    "cublasUint8gemmBias " + each("cublas{}bdmm"),
    "every address is a parameter of its kernels, which arrive as bare launches",
)
seen_below(
    sized(each("cublasSet{} cublasSet{}Async cublasGet{} cublasGet{}Async", "Vector Matrix")),
    "copies that arrive at the driver's cuMemcpy… rows, or kernels that arrive as bare launches",
)
seen_below(
    each(
        """cublasXt{}gemm cublasXt{}spmm cublasXt{}symm cublasXt{}syr2k cublasXt{}syrk cublasXt{}syrkx cublasXt{}trmm
        cublasXt{}trsm"""
    )
    + " "
    + each("cublasXt{}hemm cublasXt{}her2k cublasXt{}herk cublasXt{}herkx", "C Z"),
    "works in tiles in memory of its own, brought there and back by copies that arrive at the driver",
)
# The interface of CUDA 3: no handle, results returned.
seen_below(
    each(
        """cublas{}axpy cublas{}copy cublas{}gbmv cublas{}gemm cublas{}gemv cublas{}rot cublas{}rotg cublas{}scal
        cublas{}swap cublas{}symm cublas{}syr2k cublas{}syrk cublas{}tbmv cublas{}tbsv cublas{}tpmv cublas{}tpsv
        cublas{}trmm cublas{}trmv cublas{}trsm cublas{}trsv"""
    )
    + " "
    + each(
        """cublas{}dot cublas{}ger cublas{}rotm cublas{}rotmg cublas{}sbmv cublas{}spmv cublas{}spr cublas{}spr2
        cublas{}symv cublas{}syr cublas{}syr2""",
        "S D",
    )
    + " "
    + each(
        """cublas{}dotc cublas{}dotu cublas{}gerc cublas{}geru cublas{}hbmv cublas{}hemm cublas{}hemv cublas{}her
        cublas{}her2 cublas{}her2k cublas{}herk cublas{}hpmv cublas{}hpr cublas{}hpr2""",
        "C Z",
    )
    + " "
    + each("cublas{}asum cublas{}nrm2", "S D Sc Dz")
    + " "
    + each("cublasI{}amax cublasI{}amin", "s d c z")
    + " cublasCsrot cublasZdrot cublasCsscal cublasZdscal",
    "the interface without handles; every address is a parameter of its kernels, which arrive as bare launches",
)
seen_below("cublasAlloc cublasFree", "allocates and frees by the driver, as the library's own memory: never managed")

# --- not wrapped: nothing to see
passthrough(
    """cublasCreate_v2 cublasInit cublasShutdown cublasSetKernelStream cublasXtCreate cublasXtDestroy
    cublasXtDeviceSelect""",
    why="handles; their workspaces are the library's own and never managed",
)
passthrough(
    """cublasGetAtomicsMode cublasGetCudartVersion cublasGetEmulationSpecialValuesSupport cublasGetEmulationStrategy
    cublasGetEnvironmentMode cublasGetError cublasGetFixedPointEmulationMantissaBitCountPointer
    cublasGetFixedPointEmulationMantissaBitOffset cublasGetFixedPointEmulationMantissaControl
    cublasGetFixedPointEmulationMaxMantissaBitCount cublasGetLoggerCallback cublasGetMathMode cublasGetPointerMode_v2
    cublasGetProperty cublasGetSmCountTarget cublasGetStatusName cublasGetStatusString cublasGetStream_v2
    cublasGetVersion cublasGetVersion_v2 cublasXtGetBlockDim cublasXtGetNumBoards cublasXtGetPinningMemMode
    cublasXtMaxBoards cublasGetBackdoor""",
    why="query",
)
passthrough(
    """cublasLoggerConfigure cublasSetAtomicsMode cublasSetEmulationSpecialValuesSupport cublasSetEmulationStrategy
    cublasSetEnvironmentMode cublasSetFixedPointEmulationMantissaBitOffset cublasSetFixedPointEmulationMantissaControl
    cublasSetFixedPointEmulationMaxMantissaBitCount cublasSetLoggerCallback cublasSetMathMode cublasSetPointerMode_v2
    cublasSetSmCountTarget cublasXerbla cublasXtSetBlockDim cublasXtSetCpuRatio cublasXtSetCpuRoutine
    cublasXtSetPinningMemMode cublasSetBackdoor cublasSetBackdoorEx""",
    why="setting; the pointer mode is asked for at each call",
)
hook("cublasSetFixedPointEmulationMantissaBitCountPointer", where="driver/named_for_later.cpp")

# --- addresses that functions without operands are given
spec.addresses("result", "mantissaBitOffset maxMantissaBitCount mantissaBitCount smCountTarget value version")
spec.no_prototype(
    """cublasGetBackdoor cublasSetBackdoor cublasSetBackdoorEx cublasGetEnvironmentMode cublasSetEnvironmentMode
    cublasGetError cublasGetVersion cublasInit cublasShutdown cublasSetKernelStream cublasXt*""",
    "handles, settings and queries, of the interface of CUDA 3 and of cublasXt",
)
