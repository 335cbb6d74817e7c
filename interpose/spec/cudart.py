"""The runtime. It reaches the driver through dlsym and cuGetProcAddress, where the hooks are, whether it is shared or
linked statically; so none of its functions needs a wrapper."""

from spec.language import Library, Spec

spec = Spec(Library(name="cudart", soname="libcudart.so.13"))
seen_below, passthrough, unsupported = spec.seen_below, spec.passthrough, spec.unsupported


def with_per_thread(names, suffix="_ptsz"):
    return " ".join(f"{name} {name}{suffix}" for name in names.split())


# --- memory
seen_below(
    """cudaMalloc cudaMallocPitch cudaMalloc3D cudaFree cudaMemGetInfo cudaPointerGetAttributes cudaIpcGetMemHandle """
    + with_per_thread("cudaMallocAsync cudaMallocFromPoolAsync cudaFreeAsync"),
    "allocations, frees and queries arrive at the driver's hooks",
)
seen_below(
    """cudaMemcpyPeer cudaMemcpyPeerAsync """
    + with_per_thread(
        """cudaMemcpy cudaMemcpy2D cudaMemcpy3D cudaMemcpy3DPeer cudaMemset cudaMemset2D cudaMemset3D
        cudaMemcpyFromSymbol cudaMemcpyToSymbol cudaMemcpyFromArray cudaMemcpyToArray cudaMemcpy2DFromArray
        cudaMemcpy2DToArray""",
        "_ptds",
    )
    + " "
    + with_per_thread(
        """cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpy3DAsync cudaMemcpy3DPeerAsync cudaMemsetAsync
        cudaMemset2DAsync cudaMemset3DAsync cudaMemcpyFromSymbolAsync cudaMemcpyToSymbolAsync cudaMemcpyBatchAsync
        cudaMemcpyFromArrayAsync cudaMemcpyToArrayAsync cudaMemcpy2DFromArrayAsync cudaMemcpy2DToArrayAsync"""
    ),
    "copies and sets arrive at the driver's cuMemcpy… and cuMemset… rows",
)
unsupported(
    with_per_thread("cudaMemcpy3DBatchAsync"),
    why="""arrives at cuMemcpy3DBatchAsync, whose operands are not looked at: one that is away makes it fail, and what
    it writes can be lost at the next eviction""",
)
passthrough(
    with_per_thread("cudaMemcpyArrayToArray cudaMemcpy2DArrayToArray", "_ptds")
    + """ cudaArrayGetInfo cudaArrayGetMemoryRequirements cudaArrayGetPlane cudaArrayGetSparseProperties
    cudaMallocArray cudaMalloc3DArray cudaMallocMipmappedArray cudaFreeArray cudaFreeMipmappedArray
    cudaGetMipmappedArrayLevel cudaMipmappedArrayGetMemoryRequirements cudaMipmappedArrayGetSparseProperties
    cudaGetChannelDesc cudaCreateChannelDesc""",
    why="array memory is never managed",
)
passthrough(
    """cudaMallocHost cudaHostAlloc cudaFreeHost cudaHostRegister cudaHostUnregister cudaHostGetDevicePointer
    cudaHostGetFlags""",
    why="host memory",
)
passthrough(
    """cudaMallocManaged cudaMemAdvise cudaMemRangeGetAttribute cudaMemRangeGetAttributes """
    + with_per_thread(
        """cudaMemPrefetchAsync cudaMemPrefetchBatchAsync cudaMemDiscardBatchAsync cudaMemDiscardAndPrefetchBatchAsync
        cudaStreamAttachMemAsync"""
    ),
    why="memory that migrates by itself; not counted against the cap",
)
passthrough(
    """cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolGetAccess cudaMemPoolGetAttribute cudaMemPoolSetAccess
    cudaMemPoolSetAttribute cudaMemPoolTrimTo cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle
    cudaMemPoolImportPointer cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaDeviceSetMemPool
    cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemSetMemPool""",
    why="allocations from pools are hooked at the driver; a pool's own figures do not count what is managed",
)
unsupported(
    "cudaMemPoolExportPointer",
    why="a managed address is no memory of the pool: the call fails with cudaErrorInvalidValue",
)
passthrough("cudaIpcOpenMemHandle cudaIpcCloseMemHandle", why="another process's memory")

# --- launches and streams
seen_below(
    with_per_thread("cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel"),
    "arrives at cuLaunchKernel, cuLaunchKernelEx or cuLaunchCooperativeKernel as a bare launch",
)
seen_below(
    "cudaStreamDestroy " + with_per_thread("cudaLaunchHostFunc cudaStreamAddCallback"),
    "arrives at the driver's hook of the same purpose",
)
passthrough(
    """cudaDeviceSynchronize cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy cudaEventElapsedTime
    cudaEventQuery cudaEventSynchronize cudaIpcGetEventHandle cudaIpcOpenEventHandle cudaStreamCreate
    cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaDeviceFlushGPUDirectRDMAWrites """
    + with_per_thread(
        """cudaEventRecord cudaEventRecordWithFlags cudaStreamWaitEvent cudaStreamQuery cudaStreamSynchronize
        cudaStreamGetAttribute cudaStreamSetAttribute cudaStreamCopyAttributes cudaStreamGetDevice cudaStreamGetFlags
        cudaStreamGetId cudaStreamGetPriority cudaStreamIsCapturing"""
    ),
    why="orders work, touches no memory",
)

# --- code
passthrough(
    """__cudaGetKernel __cudaInitModule __cudaPopCallConfiguration __cudaPushCallConfiguration __cudaRegisterFatBinary
    __cudaRegisterFatBinaryEnd __cudaRegisterFunction __cudaRegisterHostVar __cudaRegisterManagedVar
    __cudaRegisterUnifiedTable __cudaRegisterVar __cudaUnregisterFatBinary cudaGetKernel cudaGetFuncBySymbol
    cudaFuncGetAttributes cudaFuncGetName cudaFuncGetParamInfo cudaFuncSetAttribute cudaFuncSetCacheConfig
    cudaFuncSetSharedMemConfig cudaKernelSetAttributeForDevice cudaGetSymbolAddress cudaGetSymbolSize
    cudaLibraryEnumerateKernels cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount
    cudaLibraryGetManaged cudaLibraryGetUnifiedFunction cudaLibraryLoadData cudaLibraryLoadFromFile
    cudaLibraryUnload""",
    why="code, and variables of modules, which are never managed; unloading is seen at the driver",
)
passthrough(
    """__cudaGetProcAddress cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion cudaGetDriverEntryPoint_ptsz
    cudaGetDriverEntryPointByVersion_ptsz cudaGetExportTable""",
    why="look-ups; those of the driver's functions go through the hooked cuGetProcAddress",
)

# --- queries and settings
passthrough(
    """cudaChooseDevice cudaDeviceCanAccessPeer cudaDeviceDisablePeerAccess cudaDeviceEnablePeerAccess
    cudaDeviceGetAttribute cudaDeviceGetByPCIBusId cudaDeviceGetCacheConfig cudaDeviceGetHostAtomicCapabilities
    cudaDeviceGetLimit cudaDeviceGetNvSciSyncAttributes cudaDeviceGetP2PAtomicCapabilities cudaDeviceGetP2PAttribute
    cudaDeviceGetPCIBusId cudaDeviceGetSharedMemConfig cudaDeviceGetStreamPriorityRange
    cudaDeviceGetTexture1DLinearMaxWidth cudaDeviceRegisterAsyncNotification cudaDeviceSetCacheConfig
    cudaDeviceSetLimit cudaDeviceSetSharedMemConfig cudaDeviceUnregisterAsyncNotification
    cudaCtxResetPersistingL2Cache cudaDriverGetVersion cudaGetDevice cudaGetDeviceCount cudaGetDeviceFlags
    cudaGetDeviceProperties cudaGetErrorName cudaGetErrorString cudaGetLastError cudaPeekAtLastError cudaInitDevice
    cudaRuntimeGetVersion cudaSetDevice cudaSetDeviceFlags cudaSetValidDevices""",
    why="devices, errors and settings; total memory is answered at the driver's cuDeviceTotalMem_v2",
)
passthrough(
    """cudaLogsCurrent cudaLogsDumpToFile cudaLogsDumpToMemory cudaLogsRegisterCallback cudaLogsUnregisterCallback
    cudaProfilerStart cudaProfilerStop cudaOccupancyAvailableDynamicSMemPerBlock
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
    cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize""",
    why="advice, profiling and diagnosis",
)
unsupported(
    "cudaDeviceReset",
    why="""the driver gives up the context's memory and the session does not notice: calls that touch managed memory
    afterwards fail with the driver's error. At the end of a program nothing is lost""",
)

# --- textures, other APIs
unsupported(
    "cudaCreateTextureObject",
    why="""a launch does not show the linear memory behind a texture: where that is away the kernel fails with
    cudaErrorIllegalAddress; over arrays nothing happens""",
)
passthrough(
    """cudaCreateSurfaceObject cudaDestroySurfaceObject cudaDestroyTextureObject cudaGetSurfaceObjectResourceDesc
    cudaGetTextureObjectResourceDesc cudaGetTextureObjectResourceViewDesc cudaGetTextureObjectTextureDesc""",
    why="queries, and surfaces over arrays, which are never managed",
)
passthrough(
    """cudaImportExternalMemory cudaDestroyExternalMemory cudaExternalMemoryGetMappedBuffer
    cudaExternalMemoryGetMappedMipmappedArray cudaImportExternalSemaphore cudaDestroyExternalSemaphore
    cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerConnect cudaEGLStreamConsumerConnectWithFlags
    cudaEGLStreamConsumerDisconnect cudaEGLStreamConsumerReleaseFrame cudaEGLStreamProducerConnect
    cudaEGLStreamProducerDisconnect cudaEGLStreamProducerPresentFrame cudaEGLStreamProducerReturnFrame
    cudaEventCreateFromEGLSync cudaGLGetDevices cudaGLMapBufferObject cudaGLMapBufferObjectAsync
    cudaGLRegisterBufferObject cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice cudaGLUnmapBufferObject
    cudaGLUnmapBufferObjectAsync cudaGLUnregisterBufferObject cudaGraphicsEGLRegisterImage cudaGraphicsGLRegisterBuffer
    cudaGraphicsGLRegisterImage cudaGraphicsMapResources cudaGraphicsResourceGetMappedEglFrame
    cudaGraphicsResourceGetMappedMipmappedArray cudaGraphicsResourceGetMappedPointer cudaGraphicsResourceSetMapFlags
    cudaGraphicsSubResourceGetMappedArray cudaGraphicsUnmapResources cudaGraphicsUnregisterResource
    cudaGraphicsVDPAURegisterOutputSurface cudaGraphicsVDPAURegisterVideoSurface cudaVDPAUGetDevice
    cudaVDPAUSetVDPAUDevice """
    + with_per_thread("cudaSignalExternalSemaphoresAsync cudaWaitExternalSemaphoresAsync"),
    why="memory and semaphores of another API: never managed, not counted against the cap",
)

# --- graphs
seen_below(
    with_per_thread(
        """cudaStreamBeginCapture cudaStreamBeginCaptureToGraph cudaStreamEndCapture cudaGraphInstantiateWithParams
        cudaGraphLaunch"""
    )
    + """ cudaGraphAddChildGraphNode cudaGraphClone cudaGraphDestroy cudaGraphExecChildGraphNodeSetParams
    cudaGraphExecDestroy cudaGraphExecUpdate cudaGraphInstantiate cudaGraphInstantiateWithFlags""",
    "arrives at the driver's hook: what a capture touched stays on the device as long as a graph names it",
)
unsupported(
    """cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemcpyNodeFromSymbol
    cudaGraphAddMemcpyNodeToSymbol cudaGraphAddMemsetNode cudaGraphAddNode cudaGraphExecKernelNodeSetParams
    cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemcpyNodeSetParamsFromSymbol
    cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecMemsetNodeSetParams cudaGraphExecNodeSetParams
    cudaGraphKernelNodeSetParams cudaGraphKernelNodeCopyAttributes cudaGraphMemcpyNodeSetParams
    cudaGraphMemcpyNodeSetParams1D cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemcpyNodeSetParamsToSymbol
    cudaGraphMemsetNodeSetParams cudaGraphNodeSetParams""",
    why="""a node's operands are not followed: they may be away when the graph runs, and the graph then fails; what it
    writes can be lost at the next eviction. The launch warns once""",
)
passthrough(
    """cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode cudaGraphMemAllocNodeGetParams cudaGraphMemFreeNodeGetParams
    cudaDeviceGetGraphMemAttribute cudaDeviceSetGraphMemAttribute cudaDeviceGraphMemTrim""",
    why="memory of graphs: not managed, not counted against the cap",
)
passthrough(
    """cudaGraphAddDependencies cudaGraphAddEmptyNode cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode
    cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode cudaGraphAddHostNode
    cudaGraphChildGraphNodeGetGraph cudaGraphConditionalHandleCreate cudaGraphCreate cudaGraphDebugDotPrint
    cudaGraphDestroyNode cudaGraphEventRecordNodeGetEvent cudaGraphEventRecordNodeSetEvent
    cudaGraphEventWaitNodeGetEvent cudaGraphEventWaitNodeSetEvent cudaGraphExecEventRecordNodeSetEvent
    cudaGraphExecEventWaitNodeSetEvent cudaGraphExecExternalSemaphoresSignalNodeSetParams
    cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphExecGetFlags cudaGraphExecHostNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeGetParams cudaGraphExternalSemaphoresSignalNodeSetParams
    cudaGraphExternalSemaphoresWaitNodeGetParams cudaGraphExternalSemaphoresWaitNodeSetParams cudaGraphGetEdges
    cudaGraphGetNodes cudaGraphGetRootNodes cudaGraphHostNodeGetParams cudaGraphHostNodeSetParams
    cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetAttribute
    cudaGraphMemcpyNodeGetParams cudaGraphMemsetNodeGetParams cudaGraphNodeFindInClone cudaGraphNodeGetDependencies
    cudaGraphNodeGetDependentNodes cudaGraphNodeGetEnabled cudaGraphNodeGetType cudaGraphNodeSetEnabled
    cudaGraphReleaseUserObject cudaGraphRemoveDependencies cudaGraphRetainUserObject
    cudaThreadExchangeStreamCaptureMode cudaUserObjectCreate cudaUserObjectRelease cudaUserObjectRetain """
    + with_per_thread(
        "cudaGraphUpload cudaStreamGetCaptureInfo cudaStreamUpdateCaptureDependencies"
    ),
    why="the build of a graph: names no device memory by itself",
)
