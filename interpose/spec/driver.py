"""The driver. Functions are named by exact ABI: a suffix _v2 is another function, not a newer spelling.

Copies and sets without a stream use the legacy stream, or the per-thread one in their _ptds forms; a zero stream means
the same in the _ptsz forms.
"""

from spec.language import Library, Spec, overwrite, read, write

spec = Spec(
    Library(
        name="cuda",
        soname="libcuda.so.1",
        header="cuda.h",
        missing="CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        out_of_memory="CUDA_ERROR_OUT_OF_MEMORY",
        session="session_for_driver_call(scope)",
    )
)
hook, passthrough, unsupported = spec.hook, spec.passthrough, spec.unsupported


def synchronous(name, **meaning):
    """`replay_as`: the form with a stream, whose other parameters have the same names."""
    spec.row(name, stream="legacy", **meaning)
    spec.row(name + "_ptds", stream="per_thread", **meaning)


def asynchronous(name, **meaning):
    """In stream hStream."""
    spec.row(name + " " + name + "_ptsz", stream="hStream", **meaning)


# --- linear copies. An asynchronous copy from or to pageable host memory may wait as well.
copy_in = dict(
    kind="copy_in",
    blocks="true",
    carries=("dstDevice", "srcHost", "ByteCount"),
    dstDevice=overwrite("ByteCount"),
)
copy_out = dict(kind="copy_out", blocks="true", srcDevice=read("ByteCount"))
copy_device = dict(kind="copy_device", dstDevice=overwrite("ByteCount"), srcDevice=read("ByteCount"))
synchronous("cuMemcpyHtoD_v2", **copy_in)
asynchronous("cuMemcpyHtoDAsync_v2", **copy_in)
synchronous("cuMemcpyDtoH_v2", **copy_out)
asynchronous("cuMemcpyDtoHAsync_v2", **copy_out)
synchronous("cuMemcpyDtoD_v2", replay_as="cuMemcpyDtoDAsync_v2", **copy_device)
asynchronous("cuMemcpyDtoDAsync_v2", **copy_device)
peer = dict(no_replay="between contexts")
synchronous("cuMemcpyPeer", **copy_device, **peer)
asynchronous("cuMemcpyPeerAsync", **copy_device, **peer)
# Array memory is never managed, so a copy from or to one has a single operand.
array = dict(kind="copy_device", no_replay="nobody follows what an array holds")
synchronous("cuMemcpyAtoD_v2", **array, dstDevice=overwrite("ByteCount"))
synchronous("cuMemcpyDtoA_v2", **array, srcDevice=read("ByteCount"))
# Either side may be host memory.
either = dict(
    kind="=kind_of_copy(*session, dst, src)",
    blocks="true",
    carries=("dst", "src", "ByteCount"),
    dst=overwrite("ByteCount"),
    src=read("ByteCount"),
)
synchronous("cuMemcpy", replay_as="cuMemcpyAsync", **either)
asynchronous("cuMemcpyAsync", **either)

# --- pitched copies
box = dict(
    kind="=kind_of_copy(*session, destination_of(*pCopy), source_of(*pCopy))",
    blocks="true",
    carries=("*pCopy",),
    also=[overwrite(at="destination_of(*pCopy)"), read(at="source_of(*pCopy)")],
)
synchronous("cuMemcpy2D_v2", replay_as="cuMemcpy2DAsync_v2", **box)
synchronous("cuMemcpy2DUnaligned_v2", no_replay="has no form with a stream", **box)
asynchronous("cuMemcpy2DAsync_v2", **box)
synchronous("cuMemcpy3D_v2", replay_as="cuMemcpy3DAsync_v2", **box)
asynchronous("cuMemcpy3DAsync_v2", **box)
synchronous("cuMemcpy3DPeer", **box, **peer)
asynchronous("cuMemcpy3DPeerAsync", **box, **peer)

# --- batches
batch = dict(
    kind="copy_device",
    blocks="true",
    carries=("dsts[i]", "srcs[i]", "sizes[i]"),
    carries_each="count",
    also=[
        overwrite("sizes[i]", at="dsts[i]", each="count"),
        read("sizes[i]", at="srcs[i]", each="count"),
    ],
    no_replay="may copy from host memory too, which the program has changed since",
)
asynchronous("cuMemcpyBatchAsync", **batch)
asynchronous("cuMemcpyBatchAsync_v2", **batch)

boxes = dict(
    kind="copy_device",
    blocks="true",
    carries=("opList[i]",),
    carries_each="numOps",
    also=[
        overwrite(at="destination_of(opList[i])", each="numOps"),
        read(at="source_of(opList[i])", each="numOps"),
    ],
    no_replay=batch["no_replay"],
)
asynchronous("cuMemcpy3DBatchAsync", **boxes)
asynchronous("cuMemcpy3DBatchAsync_v2", **boxes)

# How much comes out is known afterwards alone.
spec.row(
    "cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz",
    kind="copy_device",
    stream="stream",
    also=[
        read("paramsArray[i].srcNumBytes", at="paramsArray[i].src", each="count"),
        write("unknown_extent()", at="paramsArray[i].dst", each="count"),
        overwrite("sizeof(*paramsArray[i].dstActBytes)", at="paramsArray[i].dstActBytes", each="count"),
    ],
    no_replay="the array that describes it is the program's",
)

# --- sets
for bits, bytes_each in (("8", 1), ("16", 2), ("32", 4)):
    flat = dict(kind="set", dstDevice=overwrite(f"N * {bytes_each}"))
    synchronous(f"cuMemsetD{bits}_v2", replay_as=f"cuMemsetD{bits}Async", **flat)
    asynchronous(f"cuMemsetD{bits}Async", **flat)
    pitched = dict(kind="set", dstDevice=overwrite(f"pitched(dstPitch, Width * {bytes_each}, Height)"))
    synchronous(f"cuMemsetD2D{bits}_v2", replay_as=f"cuMemsetD2D{bits}Async", **pitched)
    asynchronous(f"cuMemsetD2D{bits}Async", **pitched)


# --- words that a stream writes
for bits in ("32", "64"):
    for form in ("", "_v2"):
        name = f"cuStreamWriteValue{bits}{form}"
        spec.row(
            name + " " + name + "_ptsz",
            kind="set",
            stream="stream",
            addr=overwrite("sizeof(value)"),
            no_replay="a signal: somebody may wait for the word",
        )


def with_per_thread(names):
    return " ".join(f"{name} {name}_ptsz" for name in names.split())


# --- hand-written
hook("cuInit", where="process/init.cpp")
hook("cuGetProcAddress cuGetProcAddress_v2", where="hooks/lookup.cpp")
hook("cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2", where="driver/memory.cpp")
hook(with_per_thread("cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync"), where="driver/memory.cpp")
hook(
    """cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolSetAccess
    cuDeviceSetMemPool cuMemSetMemPool""",
    where="driver/pool.cpp",
)
hook("cuMemGetInfo_v2 cuDeviceTotalMem_v2 cuMemGetAddressRange_v2", where="driver/query.cpp")
hook("cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute", where="driver/query.cpp")
hook(
    "cuIpcGetMemHandle cuMemRetainAllocationHandle cuMemGetHandleForAddressRange cuMulticastBindAddr",
    where="driver/query.cpp",
)
hook(
    """cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress
    cuTexObjectCreate cuTexRefSetAddress_v2 cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3""",
    where="driver/named_for_later.cpp",
)
hook("cuStreamDestroy cuStreamDestroy_v2", where="driver/stream.cpp")
hook(
    with_per_thread(
        """cuLaunchHostFunc cuStreamAddCallback cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64
        cuStreamWaitValue64_v2 cuStreamBatchMemOp cuStreamBatchMemOp_v2"""
    ),
    where="driver/stream.cpp",
)
hook(
    with_per_thread(
        """cuStreamBeginCapture cuStreamBeginCapture_v2 cuStreamBeginCaptureToGraph cuStreamEndCapture cuGraphLaunch
        cuGraphInstantiateWithParams"""
    )
    + """ cuGraphCreate cuGraphClone cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags cuGraphExecUpdate
    cuGraphExecUpdate_v2 cuGraphAddChildGraphNode cuGraphExecChildGraphNodeSetParams cuGraphDestroy cuGraphExecDestroy""",
    where="driver/graph.cpp",
)
hook(with_per_thread("cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel"), where="driver/launch.cpp")
hook("cuModuleUnload cuLibraryUnload", where="driver/launch.cpp")
hook(
    """cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxFromGreenCtx cuCtxSetCurrent cuCtxPushCurrent
    cuCtxPushCurrent_v2 cuCtxPopCurrent cuCtxPopCurrent_v2""",
    where="driver/context.cpp",
)
hook("cuMemCreate cuMemRelease cuMemMap cuMemUnmap", where="driver/vmm.cpp")
# Passed through and counted: memory that migrates by itself, that has no address, that others share.
hook(
    """cuMemAllocManaged cuArrayCreate_v2 cuArray3DCreate_v2 cuMipmappedArrayCreate cuIpcOpenMemHandle
    cuIpcOpenMemHandle_v2 cuCtxEnablePeerAccess""",
    where="driver/outside.cpp: passed through and counted",
)

# --- not wrapped: memory
passthrough("cuGetExportTable", why="the runtime checks the integrity of what it finds there")
passthrough(
    """cuMemAdvise cuMemAdvise_v2 cuMemRangeGetAttribute cuMemRangeGetAttributes"""
    + " "
    + with_per_thread(
        """cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemPrefetchBatchAsync cuMemDiscardBatchAsync
        cuMemDiscardAndPrefetchBatchAsync cuStreamAttachMemAsync"""
    ),
    why="for memory that migrates by itself; the driver refuses it for other addresses, with and without pooch",
)
passthrough(
    """cuMemAddressReserve cuMemAddressFree cuMemSetAccess cuMemGetAccess cuMemGetAllocationGranularity
    cuMemGetAllocationPropertiesFromHandle cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemMapArrayAsync cuMemMapArrayAsync_ptsz
    cuMulticastAddDevice cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity
    cuMulticastUnbind""",
    why="the program's own virtual memory management; what cuMemCreate makes counts against the cap",
)
passthrough(
    """cuMemHostAlloc cuMemAllocHost_v2 cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister
    cuMemHostGetDevicePointer_v2 cuMemHostGetFlags cuMemAllocHost cuMemHostRegister""",
    why="host memory",
)
passthrough(
    """cuMemAlloc cuMemAllocPitch cuMemFree cuMemGetInfo cuMemGetAddressRange cuMemHostGetDevicePointer
    cuDeviceTotalMem cuModuleGetGlobal cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyDtoD
    cuMemcpyDtoDAsync cuMemcpyAtoD cuMemcpyDtoA cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D
    cuMemcpy3DAsync cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32 cuTexRefSetAddress
    cuTexRefSetAddress2D cuTexRefGetAddress cuGraphicsResourceGetMappedPointer""",
    why="32-bit addresses and sizes of CUDA 3.1: a managed address does not fit in them",
)
passthrough(
    """cuMemPoolGetAccess cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle
    cuMemPoolImportPointer cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuMemGetDefaultMemPool cuMemGetMemPool""",
    why="concerns what the driver's own pools hold, or which one is meant; allocations from pools are hooked",
)
unsupported(
    "cuMemPoolExportPointer",
    why="a managed address is no memory of the pool: the call fails with CUDA_ERROR_INVALID_VALUE",
)
passthrough("cuIpcCloseMemHandle", why="another process's memory")
passthrough(
    """cuArrayCreate cuArray3DCreate cuArrayDestroy cuArrayGetDescriptor
    cuArrayGetDescriptor_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuArrayGetMemoryRequirements
    cuArrayGetPlane cuArrayGetSparseProperties cuMipmappedArrayDestroy
    cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties""",
    why="array memory is never managed; not counted against the cap",
)
passthrough(
    """cuMemcpyAtoA cuMemcpyAtoA_v2 cuMemcpyAtoA_v2_ptds cuMemcpyAtoH cuMemcpyAtoH_v2 cuMemcpyAtoH_v2_ptds
    cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync_v2_ptsz cuMemcpyHtoA cuMemcpyHtoA_v2
    cuMemcpyHtoA_v2_ptds cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync_v2_ptsz""",
    why="copies between arrays and host memory: neither is managed",
)
# --- textures and tensor maps: addresses that a launch does not show
passthrough(
    """cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc
    cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray
    cuModuleGetSurfRef cuModuleGetTexRef cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode
    cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags
    cuTexRefGetFormat cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
    cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray cuTexRefSetAddressMode cuTexRefSetArray
    cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
    cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray
    cuDeviceGetTexture1DLinearMaxWidth""",
    why="queries, sampling modes, and textures and surfaces over arrays: array memory is never managed",
)
# --- order, contexts, code
passthrough(
    """cuEventCreate cuEventDestroy_v2 cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2
    cuEventDestroy cuIpcGetEventHandle cuIpcOpenEventHandle
    cuStreamGetGreenCtx cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent
    cuGreenCtxStreamCreate cuFlushGPUDirectRDMAWrites"""
    + " "
    + with_per_thread(
        """cuStreamGetPriority cuStreamGetFlags cuStreamGetId cuStreamQuery cuStreamSynchronize cuStreamWaitEvent
        cuStreamIsCapturing cuEventRecord cuEventRecordWithFlags cuStreamGetCtx cuStreamGetCtx_v2 cuStreamGetDevice
        cuStreamGetAttribute cuStreamSetAttribute cuStreamCopyAttributes"""
    ),
    why="orders work, touches no memory",
)
passthrough(
    """cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid_v2 cuDeviceGetLuid
    cuDeviceGetAttribute cuDeviceGetByPCIBusId cuDeviceGetPCIBusId cuDeviceCanAccessPeer cuDeviceGetP2PAttribute
    cuGetErrorString cuGetErrorName cuDeviceGetUuid cuDeviceComputeCapability cuDeviceGetProperties
    cuDeviceGetExecAffinitySupport cuDeviceGetHostAtomicCapabilities cuDeviceGetP2PAtomicCapabilities
    cuDeviceGetNvSciSyncAttributes cuDeviceGetDevResource""",
    why="pure query; programs rely on the true answer",
)
passthrough(
    """cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState cuDevicePrimaryCtxSetFlags_v2
    cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxSynchronize cuCtxGetLimit cuCtxGetApiVersion
    cuCtxGetStreamPriorityRange cuCtxDisablePeerAccess cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxSetFlags cuCtxAttach cuCtxGetCacheConfig cuCtxGetDevResource cuCtxGetDevice_v2
    cuCtxGetExecAffinity cuCtxGetId cuCtxGetSharedMemConfig cuCtxResetPersistingL2Cache cuCtxSetCacheConfig
    cuCtxSetFlags cuCtxSetSharedMemConfig cuCtxSynchronize_v2 cuDevResourceGenerateDesc cuDevSmResourceSplitByCount
    cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxGetId""",
    why="contexts; the session looks at the current one by itself",
)
unsupported(
    """cuCtxDestroy cuCtxDestroy_v2 cuCtxDetach cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2""",
    why="""the driver gives up the context's memory and the session does not notice: calls that touch managed memory
    afterwards fail with the driver's error. At the end of a program nothing is lost""",
    silent="as a rule the last call of a program",
)
passthrough(
    """cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuModuleEnumerateFunctions cuModuleGetFunctionCount
    cuLibraryGetGlobal cuLibraryGetManaged
    cuLibraryEnumerateKernels cuLibraryGetKernelCount cuLibraryGetUnifiedFunction
    cuKernelGetLibrary cuKernelGetAttribute cuKernelSetCacheConfig cuKernelGetName
    cuKernelGetParamInfo cuFuncGetParamInfo cuFuncGetAttribute cuFuncGetModule cuFuncGetName
    cuFuncIsLoaded cuFuncSetBlockShape cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuFuncSetSharedSize
    cuLinkAddData cuLinkAddData_v2 cuLinkAddFile cuLinkAddFile_v2 cuLinkComplete cuLinkCreate cuLinkCreate_v2
    cuLinkDestroy""",
    why="code; a module's own data is never managed",
)
passthrough(
    """cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyMaxPotentialClusterSize
    cuProfilerInitialize cuProfilerStart cuProfilerStop cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory
    cuLogsRegisterCallback cuLogsUnregisterCallback cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
    cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuDeviceRegisterAsyncNotification
    cuDeviceUnregisterAsyncNotification cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState""",
    why="advice, profiling and diagnosis",
)
unsupported(
    "cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchCooperativeKernelMultiDevice",
    why="obsolete launches, not seen: a managed operand may be away, and the kernel then fails",
)
unsupported(
    "cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv",
    why="parameters of the obsolete launches, which are not seen",
    silent="the launch says it",
)
unsupported(
    """cuCheckpointProcessCheckpoint cuCheckpointProcessLock cuCheckpointProcessRestore
    cuCheckpointProcessUnlock""",
    why="passes through untried: pooch's handles and page-locked memory are part of what the driver would save",
)

hook(
    """cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleGetFunction cuLibraryLoadData
    cuLibraryLoadFromFile cuLibraryGetKernel cuLibraryGetModule cuKernelGetFunction cuFuncLoad cuFuncSetAttribute
    cuKernelSetAttribute cuStreamCreate cuStreamCreateWithPriority cuCtxSetLimit cuGraphUpload cuGraphUpload_ptsz""",
    where="driver/code.cpp",
)

# --- other APIs' memory
passthrough(
    """cuImportExternalMemory cuDestroyExternalMemory cuExternalMemoryGetMappedBuffer
    cuExternalMemoryGetMappedMipmappedArray cuImportExternalSemaphore cuDestroyExternalSemaphore
    cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnregisterResource"""
    + " "
    + with_per_thread(
        """cuGraphicsMapResources cuGraphicsUnmapResources cuSignalExternalSemaphoresAsync
        cuWaitExternalSemaphoresAsync"""
    ),
    why="memory and semaphores of another API: never managed, not counted against the cap",
)

# --- graphs
hook(
    """cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode
    cuGraphAddNode_v2 cuGraphAddBatchMemOpNode cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
    cuGraphMemcpyNodeSetParams cuGraphMemsetNodeSetParams cuGraphBatchMemOpNodeSetParams cuGraphNodeSetParams
    cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams
    cuGraphExecMemsetNodeSetParams cuGraphExecBatchMemOpNodeSetParams cuGraphExecNodeSetParams cuGraphGetNodes
    cuGraphNodeFindInClone""",
    where="driver/node.cpp",
)
passthrough(
    """cuGraphAddMemAllocNode cuGraphAddMemFreeNode cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
    cuDeviceGetGraphMemAttribute cuDeviceSetGraphMemAttribute cuDeviceGraphMemTrim""",
    why="memory of graphs: not managed, not counted against the cap",
)
passthrough(
    """cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphAddEmptyNode cuGraphAddEventRecordNode
    cuGraphAddEventWaitNode cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
    cuGraphAddHostNode cuGraphBatchMemOpNodeGetParams cuGraphChildGraphNodeGetGraph cuGraphConditionalHandleCreate
    cuGraphDebugDotPrint cuGraphDestroyNode cuGraphEventRecordNodeGetEvent
    cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
    cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
    cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
    cuGraphExecGetFlags cuGraphExecHostNodeSetParams cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetEdges_v2
    cuGraphGetRootNodes cuGraphHostNodeGetParams cuGraphHostNodeSetParams cuGraphKernelNodeGetAttribute
    cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute
    cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams cuGraphKernelNodeCopyAttributes cuGraphNodeGetDependencies
    cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled
    cuGraphNodeGetType cuGraphNodeSetEnabled cuGraphReleaseUserObject cuGraphRemoveDependencies
    cuGraphRemoveDependencies_v2 cuGraphRetainUserObject cuUserObjectCreate
    cuUserObjectRelease cuUserObjectRetain cuThreadExchangeStreamCaptureMode"""
    + " "
    + with_per_thread(
        """cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
        cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2"""
    ),
    why="the build of a graph: names no device memory by itself",
)

# --- addresses that functions without operands are given
spec.addresses(
    "host",
    """code cubinOut dstHost fatCubin image jitOptionsValues libraryOptionValues memHandleDesc nvSciSyncAttrList
    optionValues osHandle p pp prop semHandleDesc shareableHandle srcHost userData handle handle_out paramsArray""",
)
spec.addresses("host", "data", of="cuLinkAddData cuLinkAddData_v2")
spec.addresses("host", "ptr", of="cuParamSetv cuUserObjectCreate")
spec.addresses(
    "host",
    "value",
    of="""cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal
    cuDeviceGetGraphMemAttribute cuDeviceSetGraphMemAttribute""",
)
spec.addresses(
    "host",
    "nodeParams",
    of="""cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddHostNode
    cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
    cuGraphExecHostNodeSetParams cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphHostNodeSetParams""",
)
spec.addresses(
    "result", "dptr_out fptr nodeParams nodeParams_out pDevPtr params_out pdptr ppExportTable ptr_out value_out"
)
spec.addresses("result", "data", of="cuMemRangeGetAttribute cuMemRangeGetAttributes")
spec.addresses("result", "devPtr", of="cuExternalMemoryGetMappedBuffer")
spec.addresses("result", "dptr", of="cuLibraryGetGlobal cuLibraryGetManaged cuModuleGetGlobal_v2")
spec.addresses("result", "pResDesc", of="cuSurfObjectGetResourceDesc cuTexObjectGetResourceDesc")
spec.addresses("result", "ptr", of="cuMemAddressReserve")
spec.addresses("result", "value", of="cuStreamGetAttribute")
# A window of caching is a hint; a surface is over an array.
spec.addresses("named", "addr config devPtr dptr dptrs param pResDesc ptr value")
spec.addresses("never", "dstDevice pCopy pbase srcDevice")
spec.addresses("never", "dptr", of="cuMemAlloc cuMemAllocPitch cuMemFree cuMemGetAddressRange cuModuleGetGlobal")
spec.addresses("never", "dptr", of="cuTexRefSetAddress cuTexRefSetAddress2D")
spec.no_prototype("cuProfilerInitialize cuProfilerStart cuProfilerStop", "cudaProfiler.h: no address")
