"""The driver. Functions are named by exact ABI: a suffix _v2 is another function, not a newer spelling.

Copies and sets without a stream use the legacy stream, or the per-thread one in their _ptds forms; a zero stream means
the same in the _ptsz forms.
"""

from spec.language import Library, Spec, overwrite, read

spec = Spec(
    Library(
        name="cuda",
        header="cuda.h",
        prefix=r"cu[A-Z]",
        missing="CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        out_of_memory="CUDA_ERROR_OUT_OF_MEMORY",
        session="session_for_driver_call",
    )
)
hook, seen_below, passthrough, unsupported = spec.hook, spec.seen_below, spec.passthrough, spec.unsupported


def synchronous(name, **meaning):
    spec.row(name, stream="legacy", **meaning)
    spec.row(name + "_ptds", stream="per_thread", **meaning)


def asynchronous(name, **meaning):
    """In stream hStream."""
    spec.row(name + " " + name + "_ptsz", stream="hStream", **meaning)


# --- linear copies. An asynchronous copy from or to pageable host memory may wait as well.
copy_in = dict(kind="copy_in", blocks="true", dstDevice=overwrite("ByteCount"))
copy_out = dict(kind="copy_out", blocks="true", srcDevice=read("ByteCount"))
copy_device = dict(kind="copy_device", dstDevice=overwrite("ByteCount"), srcDevice=read("ByteCount"))
synchronous("cuMemcpyHtoD_v2", **copy_in)
asynchronous("cuMemcpyHtoDAsync_v2", **copy_in)
synchronous("cuMemcpyDtoH_v2", **copy_out)
asynchronous("cuMemcpyDtoHAsync_v2", **copy_out)
synchronous("cuMemcpyDtoD_v2", **copy_device)
asynchronous("cuMemcpyDtoDAsync_v2", **copy_device)
synchronous("cuMemcpyPeer", **copy_device)
asynchronous("cuMemcpyPeerAsync", **copy_device)
# Array memory is never managed, so a copy from or to one has a single operand.
synchronous("cuMemcpyAtoD_v2", kind="copy_device", dstDevice=overwrite("ByteCount"))
synchronous("cuMemcpyDtoA_v2", kind="copy_device", srcDevice=read("ByteCount"))
# Either side may be host memory.
either = dict(
    kind="=kind_of_copy(*session, dst, src)",
    blocks="true",
    dst=overwrite("ByteCount"),
    src=read("ByteCount"),
)
synchronous("cuMemcpy", **either)
asynchronous("cuMemcpyAsync", **either)

# --- pitched copies
box = dict(
    kind="=kind_of_copy(*session, destination_of(*pCopy), source_of(*pCopy))",
    blocks="true",
    also=[overwrite(at="destination_of(*pCopy)"), read(at="source_of(*pCopy)")],
)
synchronous("cuMemcpy2D_v2", **box)
synchronous("cuMemcpy2DUnaligned_v2", **box)
asynchronous("cuMemcpy2DAsync_v2", **box)
synchronous("cuMemcpy3D_v2", **box)
asynchronous("cuMemcpy3DAsync_v2", **box)
synchronous("cuMemcpy3DPeer", **box)
asynchronous("cuMemcpy3DPeerAsync", **box)

# --- batches
batch = dict(
    kind="copy_device",
    blocks="true",
    also=[
        overwrite("sizes[i]", at="dsts[i]", each="count"),
        read("sizes[i]", at="srcs[i]", each="count"),
    ],
)
asynchronous("cuMemcpyBatchAsync", **batch)
asynchronous("cuMemcpyBatchAsync_v2", **batch)

# --- sets
for bits, bytes_each in (("8", 1), ("16", 2), ("32", 4)):
    flat = dict(kind="set", dstDevice=overwrite(f"N * {bytes_each}"))
    synchronous(f"cuMemsetD{bits}_v2", **flat)
    asynchronous(f"cuMemsetD{bits}Async", **flat)
    pitched = dict(kind="set", dstDevice=overwrite(f"pitched(dstPitch, Width * {bytes_each}, Height)"))
    synchronous(f"cuMemsetD2D{bits}_v2", **pitched)
    asynchronous(f"cuMemsetD2D{bits}Async", **pitched)


def with_per_thread(names):
    return " ".join(f"{name} {name}_ptsz" for name in names.split())


# --- hand-written
hook("cuInit", where="driver_init.cpp")
hook("cuGetProcAddress cuGetProcAddress_v2", where="lookup.cpp")
hook("cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2", where="driver_memory.cpp")
hook(with_per_thread("cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync"), where="driver_memory.cpp")
hook("cuMemGetInfo_v2 cuDeviceTotalMem_v2 cuMemGetAddressRange_v2", where="driver_query.cpp")
hook("cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute", where="driver_query.cpp")
hook("cuIpcGetMemHandle cuMemRetainAllocationHandle cuMemGetHandleForAddressRange", where="driver_query.cpp")
hook("cuStreamDestroy_v2", where="driver_stream.cpp")
hook(
    with_per_thread(
        """cuLaunchHostFunc cuStreamAddCallback cuStreamWaitValue32_v2 cuStreamWaitValue64_v2 cuStreamBatchMemOp_v2
        cuStreamBeginCapture_v2 cuGraphLaunch"""
    ),
    where="driver_stream.cpp",
)
hook(with_per_thread("cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel"), where="driver_launch.cpp")
hook("cuModuleUnload cuLibraryUnload", where="driver_launch.cpp")

# --- not wrapped
passthrough("cuGetExportTable", why="the runtime checks the integrity of what it finds there")
passthrough("cuMemAllocManaged", why="migrates by itself; not counted against the cap")
passthrough(
    """cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess
    cuMemGetAccess cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle
    cuMemExportToShareableHandle cuMemImportFromShareableHandle""",
    why="the program's own virtual memory management; not counted against the cap yet",
)
passthrough(
    """cuMemHostAlloc cuMemAllocHost_v2 cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister
    cuMemHostGetDevicePointer_v2 cuMemHostGetFlags""",
    why="host memory",
)
passthrough(
    """cuEventCreate cuEventDestroy_v2 cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2
    cuStreamCreate cuStreamCreateWithPriority cuStreamGetPriority cuStreamGetFlags cuStreamGetId cuStreamQuery
    cuStreamSynchronize cuStreamWaitEvent cuStreamIsCapturing cuEventRecord cuEventRecordWithFlags""",
    why="orders work, touches no memory",
)
passthrough(
    """cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid_v2 cuDeviceGetLuid
    cuDeviceGetAttribute cuDeviceGetByPCIBusId cuDeviceGetPCIBusId cuDeviceCanAccessPeer cuDeviceGetP2PAttribute
    cuGetErrorString cuGetErrorName""",
    why="pure query; programs rely on the true answer",
)
passthrough(
    """cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState
    cuDevicePrimaryCtxSetFlags_v2 cuCtxCreate_v4 cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2
    cuCtxPopCurrent_v2 cuCtxGetDevice cuCtxGetFlags cuCtxSynchronize cuCtxGetLimit cuCtxSetLimit
    cuCtxGetApiVersion cuCtxGetStreamPriorityRange cuCtxEnablePeerAccess cuCtxDisablePeerAccess""",
    why="contexts; the session looks at the current one by itself",
)
passthrough(
    """cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleGetFunction
    cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuLibraryLoadData cuLibraryLoadFromFile
    cuLibraryGetKernel cuLibraryGetModule cuLibraryGetGlobal cuLibraryGetManaged cuKernelGetFunction
    cuKernelGetLibrary cuKernelGetAttribute cuKernelSetAttribute cuKernelGetName cuKernelGetParamInfo
    cuFuncGetParamInfo cuFuncGetAttribute cuFuncSetAttribute cuFuncGetModule cuFuncGetName cuFuncLoad
    cuFuncIsLoaded""",
    why="code; a module's own data is never managed",
)
unsupported(
    "cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchCooperativeKernelMultiDevice",
    why="obsolete launches, not seen: a managed operand may be away, and the kernel then fails",
)
unsupported(
    "cuStreamBeginCapture cuStreamBeginCaptureToGraph",
    why="capture is not followed yet: a graph's operands may be away when it runs, and the graph then fails",
)
