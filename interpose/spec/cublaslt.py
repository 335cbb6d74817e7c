"""cuBLASLt. No wrapper yet: cuBLAS and cuDNN call it as well, each by its own way."""

from spec.language import Library, Spec

spec = Spec(Library(name="cublaslt", soname="libcublasLt.so.13"))
seen_below, passthrough = spec.seen_below, spec.passthrough

TYPES = "ACC BII BSB BSS CCC DDD HHH HSH HSS KCC KCK SSS TSS TST VCC VCV ZZZ"


def each(pattern, types=TYPES):
    """The types of scalars, computation and matrices in place of {}."""
    return " ".join(pattern.replace("{}", letters) for letters in types.split())


seen_below(
    "cublasLtMatmul cublasLtMatrixTransform",
    """matrices, bias, auxiliary output and scales of the descriptor are parameters of its kernels, which arrive as bare
    launches; a kernel that reaches a matrix only through a tensor map is the exception: see cuTensorMapEncodeTiled of
    the driver""",
)
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
    cublasLtEmulationDescInit_internal cublasLtEmulationDescSetAttribute cublasLtMatmulDescCreate
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
