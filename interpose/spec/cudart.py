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
        cudaMemset2DAsync cudaMemset3DAsync cudaMemcpyFromSymbolAsync cudaMemcpyToSymbolAsync cudaMemcpyBatchAsync cudaMemcpy3DBatchAsync
        cudaMemcpyFromArrayAsync cudaMemcpyToArrayAsync cudaMemcpy2DFromArrayAsync cudaMemcpy2DToArrayAsync"""
    ),
    "copies and sets arrive at the driver's cuMemcpy… and cuMemset… rows",
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
seen_below(
    """cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolGetAttribute cudaMemPoolSetAttribute cudaMemPoolTrimTo
    cudaDeviceSetMemPool cudaMemSetMemPool""",
    "arrives at the driver's hook of the same purpose; a pool's figures count what is managed",
)
passthrough(
    """cudaMemPoolGetAccess cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle
    cudaMemPoolImportPointer cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaMemGetDefaultMemPool
    cudaMemGetMemPool""",
    why="which pool is meant, and pools of other processes; allocations from pools are hooked at the driver",
)
seen_below(
    "cudaMemPoolSetAccess cudaDeviceEnablePeerAccess",
    "arrives at the driver's hook: another device that is let in reaches managed memory as well",
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
    """cudaChooseDevice cudaDeviceCanAccessPeer cudaDeviceDisablePeerAccess
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
seen_below(
    "cudaCreateTextureObject",
    "arrives at cuTexObjectCreate: the linear memory behind a texture stays on the device",
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
seen_below(
    """cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemcpyNodeFromSymbol
    cudaGraphAddMemcpyNodeToSymbol cudaGraphAddMemsetNode cudaGraphAddNode cudaGraphExecKernelNodeSetParams
    cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemcpyNodeSetParamsFromSymbol
    cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecMemsetNodeSetParams cudaGraphExecNodeSetParams
    cudaGraphKernelNodeSetParams cudaGraphMemcpyNodeSetParams cudaGraphMemcpyNodeSetParams1D
    cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemcpyNodeSetParamsToSymbol cudaGraphMemsetNodeSetParams
    cudaGraphNodeSetParams""",
    "arrives at the driver's hook: what a node touches stays on the device as long as a graph names it",
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
    cudaGraphKernelNodeCopyAttributes cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetAttribute
    cudaGraphMemcpyNodeGetParams cudaGraphMemsetNodeGetParams cudaGraphNodeFindInClone cudaGraphNodeGetDependencies
    cudaGraphNodeGetDependentNodes cudaGraphNodeGetEnabled cudaGraphNodeGetType cudaGraphNodeSetEnabled
    cudaGraphReleaseUserObject cudaGraphRemoveDependencies cudaGraphRetainUserObject
    cudaThreadExchangeStreamCaptureMode cudaUserObjectCreate cudaUserObjectRelease cudaUserObjectRetain """
    + with_per_thread(
        "cudaGraphUpload cudaStreamGetCaptureInfo cudaStreamUpdateCaptureDependencies"
    ),
    why="the build of a graph: names no device memory by itself",
)

# --- addresses that functions without operands are given
spec.addresses(
    "host",
    """code entryFuncAddr func jitOptionsValues libraryOptionValues memHandleDesc nvSciSyncAttrList pHost paramsArray
    semHandleDesc shareableHandle symbol symbolPtr userData value launchConfig""",
)
spec.addresses(
    "host",
    "ptr",
    of="cudaFreeHost cudaHostRegister cudaHostUnregister cudaMallocHost cudaUserObjectCreate",
)
spec.addresses(
    "host",
    "pNodeParams",
    of="cudaGraphAddHostNode cudaGraphExecHostNodeSetParams cudaGraphHostNodeSetParams",
)
spec.addresses(
    "host",
    "nodeParams",
    of="""cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode
    cudaGraphExecExternalSemaphoresSignalNodeSetParams cudaGraphExecExternalSemaphoresWaitNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeSetParams cudaGraphExternalSemaphoresWaitNodeSetParams""",
)
spec.addresses("host", "poolProps")
spec.addresses(
    "result", "dptr_out fptr funcPtr nodeParams pDevice pNodeParams params_out ppExportTable value_out"
)
spec.addresses("result", "data", of="cudaMemRangeGetAttribute cudaMemRangeGetAttributes")
spec.addresses(
    "result",
    "devPtr",
    of="""cudaExternalMemoryGetMappedBuffer cudaGetSymbolAddress cudaGraphicsResourceGetMappedPointer cudaIpcOpenMemHandle
    cudaMallocManaged""",
)
spec.addresses("result", "dptr", of="cudaLibraryGetGlobal cudaLibraryGetManaged")
spec.addresses(
    "result", "pResDesc", of="cudaGetSurfaceObjectResourceDesc cudaGetTextureObjectResourceDesc"
)
spec.addresses("result", "ptr", of="cudaMemPoolImportPointer")
spec.addresses("result", "value", of="cudaStreamGetAttribute")
# A window of caching is a hint; a surface is over an array.
spec.addresses("named", "config devPtr dptr dptrs param pResDesc ptr")
spec.addresses("named", "value", of="cudaGraphKernelNodeSetAttribute cudaStreamSetAttribute_ptsz")
spec.no_prototype(
    """__cudaGetKernel __cudaGetProcAddress __cudaInitModule __cudaPopCallConfiguration __cudaPushCallConfiguration
    __cudaRegister* __cudaUnregisterFatBinary cudaProfilerStart cudaProfilerStop""",
    "calls that a compiler writes, and profiling: code and its variables",
)
spec.no_prototype(
    "cudaEGL* cudaEventCreateFromEGLSync cudaGL* cudaGraphicsEGL* cudaGraphicsGL* cudaGraphicsVDPAU* cudaVDPAU*"
    " cudaGraphicsResourceGetMappedEglFrame",
    "headers of other APIs: their memory",
)
