"""cuBLASLt: matrices by layout descriptors; the rest of a product, its epilogue's operands too, is in a descriptor.

cuBLAS and cuDNN call it as well, inside of calls that have rows or are seen below.
"""

from spec.language import Library, Spec, overwrite, read, read_write, scratch

spec = Spec(
    Library(
        name="cublaslt",
        soname="libcublasLt.so.13",
        header="cublasLt.h",
        missing="CUBLAS_STATUS_NOT_INITIALIZED",
        out_of_memory="CUBLAS_STATUS_ALLOC_FAILED",
    )
)
hook, seen_below, passthrough = spec.hook, spec.seen_below, spec.passthrough

TYPES = "ACC BII BSB BSS CCC DDD HHH HSH HSS KCC KCK SSS TSS TST VCC VCV ZZZ"


def each(pattern, types=TYPES):
    """The types of scalars, computation and matrices in place of {}."""
    return " ".join(pattern.replace("{}", letters) for letters in types.split())


def matrix(layout):
    return f"lt_matrix(scope, {layout})"


def held(attribute, how="lt_pointer"):
    """An address in the product's descriptor; null where it is not used so."""
    return f"{how}(scope, computeDesc, CUBLASLT_MATMUL_DESC_{attribute}_POINTER)"


def epilogue(attribute):
    """Bias and auxiliary matrix go in or come out, as the epilogue says."""
    return [
        read("unknown_extent()", at=held(attribute, "lt_read_by_epilogue")),
        read_write("unknown_extent()", at=held(attribute, "lt_written_by_epilogue")),
    ]


spec.row(
    "cublasLtMatmul",
    kind="gemm",
    stream="stream",
    alpha=read("lt_alpha(scope, computeDesc)"),
    A=read(matrix("Adesc")),
    B=read(matrix("Bdesc")),
    beta=read("lt_beta(scope, computeDesc)"),
    C=read("lt_blended(scope, computeDesc, beta, Cdesc)"),
    D=overwrite("lt_result(scope, computeDesc, Ddesc)"),
    workspace=scratch("workspaceSizeInBytes"),
    also=[
        *epilogue("BIAS"),
        *epilogue("EPILOGUE_AUX"),
        *(read("unknown_extent()", at=held(f"{name}_SCALE")) for name in "A B C D EPILOGUE_AUX".split()),
        *(read_write("unknown_extent()", at=held(name)) for name in "AMAX_D EPILOGUE_AUX_AMAX D_OUT_SCALE".split()),
    ],
    hazard="accumulates in_place",
    kept={
        "alpha": "keep_factor(keeping, alpha, computeDesc)",
        "beta": "keep_factor(keeping, beta, computeDesc)",
        "algo": "keep_algorithm(algo)",
    },
)
spec.row(
    "cublasLtMatrixTransform",
    kind="blas",
    stream="stream",
    alpha=read("lt_alpha(scope, transformDesc)"),
    A=read(matrix("Adesc")),
    beta=read("lt_beta(scope, transformDesc)"),
    B=read("lt_blended(scope, transformDesc, beta, Bdesc)"),
    C=overwrite(matrix("Cdesc")),
    hazard="in_place",
)
hook("cublasLtEmulationDescSetAttribute", where="driver/named_for_later.cpp")
seen_below(
    each("cublasLt{}Matmul")
    + " "
    + each("cublasLtLegacyGemm{}", "ACC BII BSS CCC DDD HHH HSH HSS SSS TSS TST ZZZ")
    + " "
    + each("cublasLt_for_cublas_{}", "BII BSS DDD HHH HSH HSS SSS TSS TST"),
    "undeclared; cuBLAS calls them inside of its own calls, whose rows name the operands",
)
passthrough(
    each(
        """cublasLt{}MatmulAlgoCapGetAttribute cublasLt{}MatmulAlgoCheck cublasLt{}MatmulAlgoGetHeuristic
        cublasLt{}MatmulAlgoGetIds cublasLt{}MatmulAlgoInit"""
    )
    + """ cublasLtMatmulAlgoCapGetAttribute cublasLtMatmulAlgoCheck cublasLtMatmulAlgoConfigGetAttribute
    cublasLtMatmulAlgoConfigGetAttributeRange cublasLtMatmulAlgoConfigSetAttribute cublasLtMatmulAlgoGetHeuristic
    cublasLtMatmulAlgoGetIds cublasLtMatmulAlgoInit cublasLtAlgoCharacteristicGetAttribute cublasLtClearNvjetCache
    cublasLtHeuristicLutSerializeEntry cublasLtHeuristicsCacheCreate cublasLtHeuristicsCacheDestroy
    cublasLtHeuristicsCacheGet cublasLtHeuristicsCacheGetCapacity cublasLtHeuristicsCachePut
    cublasLtHeuristicsCacheSetCapacity""",
    why="the choice of an algorithm, in host memory",
)
passthrough(
    """cublasLtEmulationDescCreate cublasLtEmulationDescDestroy cublasLtEmulationDescGetAttribute
    cublasLtEmulationDescInit_internal cublasLtMatmulDescCreate
    cublasLtMatmulDescDestroy cublasLtMatmulDescGetAttribute cublasLtMatmulDescInit_internal
    cublasLtMatmulDescSetAttribute cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceDestroy
    cublasLtMatmulPreferenceGetAttribute cublasLtMatmulPreferenceInit_internal cublasLtMatmulPreferenceSetAttribute
    cublasLtMatrixLayoutCreate cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutGetAttribute
    cublasLtMatrixLayoutInit_internal cublasLtMatrixLayoutSetAttribute cublasLtMatrixTransformDescCreate
    cublasLtMatrixTransformDescDestroy cublasLtMatrixTransformDescGetAttribute
    cublasLtMatrixTransformDescInit_internal cublasLtMatrixTransformDescSetAttribute""",
    why="descriptors, in host memory",
)
passthrough(
    """cublasLtCreate cublasLtDestroy cublasLtCtxInit cublasLtShutdownCtx cublasLtGetCudartVersion
    cublasLtGetEnvironmentMode cublasLtSetEnvironmentMode cublasLtGetProperty cublasLtGetStatusName
    cublasLtGetStatusString cublasLtGetVersion cublasLtLoggerForceDisable cublasLtLoggerOpenFile
    cublasLtLoggerSetCallback cublasLtLoggerSetFile cublasLtLoggerSetLevel cublasLtLoggerSetMask""",
    why="handles, queries and logging",
)

# --- addresses that functions without operands are given
spec.addresses("asked", "buf", of="cublasLtMatmulDescSetAttribute")
spec.addresses("host", "buf file")
spec.no_prototype(
    """cublasLt???MatmulAlgo* cublasLtAlgoCharacteristicGetAttribute cublasLtClearNvjetCache cublasLtCtxInit
    cublasLt[GS]etEnvironmentMode cublasLtHeuristicLut* cublasLtHeuristicsCache[CD]* cublasLtHeuristicsCacheGet cublasLtHeuristicsCachePut
    cublasLtMatmulAlgoConfigGetAttributeRange cublasLtShutdownCtx""",
    "the choice of an algorithm, and settings",
)
