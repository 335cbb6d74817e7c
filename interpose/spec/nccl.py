"""NCCL. Its kernels take the buffers from lists of work that no launch need show, so collectives have rows; in a group
they start with its outermost end (interpose/nccl/collectives.h). Every function has a second name for profilers, with a p.

Its header is in no toolkit: softgpu/include/nccl.h declares what is used here.
"""

from spec.language import Library, Spec, overwrite, read

spec = Spec(
    Library(
        name="nccl",
        soname="libnccl.so.2",
        header="softgpu/include/nccl.h",
        missing="ncclSystemError",
        out_of_memory="ncclUnhandledCudaError",
        session="session_of_communicator(scope, comm)",
        submit="submit_collective(scope, call, comm, launch)",
        awaits_others=True,
    )
)
passthrough, unsupported = spec.passthrough, spec.unsupported


def both(names):
    return " ".join(f"{name} p{name}" for name in names.split())


def collective(name, **operands):
    spec.row(both(name), kind="collective", stream="stream", blocks="true", **operands)


def elements(count):
    return f"nccl_elements({count}, datatype)"


def of_all(count):
    """So many of every rank."""
    return f"nccl_elements_of_all(scope, comm, {count}, datatype)"


def at_root(extent):
    """Elsewhere the parameter has no meaning."""
    return f"nccl_at_root(scope, comm, root, {extent})"


# What a reduction multiplies by, where ncclRedOpCreatePreMulSum was told that the number lies on the device.
scalar = [read(elements(1), at="nccl_scalar(comm, op)")]

collective("ncclAllReduce", sendbuff=read(elements("count")), recvbuff=overwrite(elements("count")), also=scalar)
collective("ncclReduce", sendbuff=read(elements("count")), recvbuff=overwrite(at_root(elements("count"))), also=scalar)
collective(
    "ncclReduceScatter", sendbuff=read(of_all("recvcount")), recvbuff=overwrite(elements("recvcount")), also=scalar
)
collective("ncclBroadcast", sendbuff=read(at_root(elements("count"))), recvbuff=overwrite(elements("count")))
collective("ncclBcast", buff=read(at_root(elements("count"))), also=[overwrite(elements("count"), at="buff")])
collective("ncclAllGather", sendbuff=read(elements("sendcount")), recvbuff=overwrite(of_all("sendcount")))
collective("ncclAlltoAll", sendbuff=read(of_all("count")), recvbuff=overwrite(of_all("count")))
collective("ncclGather", sendbuff=read(elements("count")), recvbuff=overwrite(at_root(of_all("count"))))
collective("ncclScatter", sendbuff=read(at_root(of_all("count"))), recvbuff=overwrite(elements("count")))
collective("ncclSend", sendbuff=read(elements("count")))
collective("ncclRecv", recvbuff=overwrite(elements("count")))
spec.hook(both("ncclGroupStart ncclGroupEnd ncclGroupSimulateEnd"), where="nccl/collectives.cpp")
spec.hook(
    both(
        """ncclCommRegister ncclCommDeregister ncclCommWindowRegister ncclCommWindowDeregister ncclCommDestroy
        ncclCommAbort ncclRedOpCreatePreMulSum ncclRedOpDestroy"""
    ),
    where="nccl/registration.cpp",
)

unsupported(
    both("ncclDevCommCreate"),
    why="""communication by the program's own kernels: what they reach through a window stays on the device as long as
    that is registered, other addresses do not pass a hook""",
    silent="no header of a toolkit declares it",
)
passthrough(both("ncclDevCommDestroy"), why="undoes what is unsupported above; moves no data")
passthrough(
    both("ncclMemAlloc ncclMemFree"),
    why="""NCCL's own allocations: never managed, so that they stay where they are; what the library asks the driver for
    counts against the cap""",
)
passthrough(
    both(
        """ncclCommCount ncclCommCuDevice ncclCommFinalize ncclCommGetAsyncError ncclCommInitAll ncclCommInitRank
        ncclCommInitRankConfig ncclCommInitRankScalable ncclCommRevoke ncclCommShrink ncclCommSplit ncclCommUserRank"""
    ),
    why="communicators; their buffers are NCCL's own: never managed, counted against the cap",
)
passthrough(
    both(
        """ncclGetErrorString ncclGetLastError ncclGetUniqueId ncclGetVersion ncclResetDebugInit
        ncclGinBarrierCreateRequirement ncclLsaBarrierCreateRequirement ncclLLA2ACalcSlots ncclLLA2ACreateRequirement
        ncclTeamLsa ncclTeamRail ncclTeamRankToLsa ncclTeamRankToWorld ncclTeamWorld"""
    )
    + " ncclResetDebugInitInternal",
    why="queries and requirements; no device memory",
)

# --- addresses that functions without operands are given
spec.addresses("named", "ptr", of="ncclMemFree pncclMemFree")
spec.addresses("result", "ptr", of="ncclMemAlloc pncclMemAlloc")
spec.no_prototype(
    """*ncclCommInitRankScalable *ncclCommRevoke *ncclCommShrink *ncclCommSplit *ncclDevCommDestroy
    *nccl*CreateRequirement *ncclLLA2ACalcSlots *ncclResetDebugInit *ncclTeam* ncclResetDebugInitInternal""",
    "communicators, requirements and queries: no header of a toolkit declares them",
)
