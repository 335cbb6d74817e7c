"""NCCL. Not followed yet: nothing here has a wrapper. Every function has a second name for profilers, with a p."""

from spec.language import Library, Spec

spec = Spec(Library(name="nccl", soname="libnccl.so.2"))
passthrough, unsupported = spec.passthrough, spec.unsupported


def both(names):
    return " ".join(f"{name} p{name}" for name in names.split())


unsupported(
    both(
        """ncclAllGather ncclAllReduce ncclAlltoAll ncclBcast ncclBroadcast ncclGather ncclReduce ncclReduceScatter
        ncclScatter ncclSend ncclRecv"""
    ),
    why="""the buffers travel in NCCL's own lists of work, which no launch need show: a collective on a buffer that is
    away fails with an illegal address, and what it receives can be lost at the next eviction""",
)
unsupported(
    both("ncclCommRegister ncclCommWindowRegister"),
    why="registered memory must not move: after an eviction transfers use what is no longer there, and fail",
)
unsupported(
    both("ncclDevCommCreate ncclRedOpCreatePreMulSum"),
    why="""device-side communication and scalars in device memory: their addresses do not pass a hook, and a kernel
    fails where their memory is away""",
)
unsupported(
    both("ncclGroupStart ncclGroupEnd"),
    why="the group's transfers start in ncclGroupEnd, with operands that are not followed",
)
passthrough(both("ncclMemAlloc ncclMemFree"), why="NCCL's own allocations are never managed")
passthrough(
    both("ncclCommDeregister ncclCommWindowDeregister ncclDevCommDestroy ncclRedOpDestroy"),
    why="undoes what is unsupported above; moves no data",
)
passthrough(
    both(
        """ncclCommAbort ncclCommCount ncclCommCuDevice ncclCommDestroy ncclCommFinalize ncclCommGetAsyncError
        ncclCommInitAll ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable ncclCommRevoke ncclCommShrink
        ncclCommSplit ncclCommUserRank"""
    ),
    why="communicators; their buffers are NCCL's own and never managed",
)
passthrough(
    both(
        """ncclGetErrorString ncclGetLastError ncclGetUniqueId ncclGetVersion ncclResetDebugInit ncclGroupSimulateEnd
        ncclGinBarrierCreateRequirement ncclLsaBarrierCreateRequirement ncclLLA2ACalcSlots ncclLLA2ACreateRequirement
        ncclTeamLsa ncclTeamRail ncclTeamRankToLsa ncclTeamRankToWorld ncclTeamWorld"""
    )
    + " ncclResetDebugInitInternal",
    why="queries and requirements; no device memory",
)
