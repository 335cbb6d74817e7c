"""cuDNN, legacy API: operands by `const void*` are read, those by `void*` are written; beta decides the rest."""

from spec import cudnn_host
from spec.language import Library, Spec, overwrite, read, read_write, running, scratch, write

spec = Spec(
    Library(
        name="cudnn",
        soname="libcudnn.so.9",
        header="cudnn.h",
        missing="CUDNN_STATUS_NOT_INITIALIZED",
        out_of_memory="CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        stream_of_handle="cudnn_stream",
    )
)
row, seen_below, passthrough = spec.row, spec.seen_below, spec.passthrough
hook = spec.hook


# Reasons for no_replay.
UNKNOWN_RESULT = "no query gives the size of its result, so what was there counts as read too"
BACKWARD = "a backward call: its result is a gradient, used at once"
RESERVE_SPACE = "its reserve space is changed by the backward calls, so it can only be copied"
LOSS = "its gradients are used at once, and one of its algorithms is left to chance"


def blended(descriptor, beta="beta"):
    """result = alpha * new + beta * old; without a look at the old bytes where beta is zero."""
    return overwrite(descriptor, read_if=f"*{beta} != 0")


# --- convolution. Of the forward algorithms none is left to chance, unlike some of the backward ones.
row(
    "cudnnConvolutionForward",
    kind="conv_forward",
    stream="handle",
    x=read("xDesc"),
    w=read("wDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    y=blended("yDesc"),
    convolution="xDesc wDesc convDesc yDesc",
)
row(
    "cudnnConvolutionBiasActivationForward",
    kind="conv_forward",
    stream="handle",
    x=read("xDesc"),
    w=read("wDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    z=read("zDesc"),
    bias=read("biasDesc"),
    y=overwrite("yDesc"),
)
row(
    "cudnnConvolutionBackwardData",
    kind="conv_backward_data",
    stream="handle",
    w=read("wDesc"),
    dy=read("dyDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    dx=blended("dxDesc"),
    convolution="dxDesc wDesc convDesc dyDesc",
)
row(
    "cudnnConvolutionBackwardFilter",
    kind="conv_backward_filter",
    stream="handle",
    x=read("xDesc"),
    dy=read("dyDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    dw=blended("dwDesc"),
    convolution="xDesc dwDesc convDesc dyDesc",
)
row(
    "cudnnConvolutionBackwardBias",
    kind="conv_backward_bias",
    stream="handle",
    dy=read("dyDesc"),
    db=blended("dbDesc"),
)
# Trials: they execute on the program's buffers and leave any result.
row(
    "cudnnFindConvolutionForwardAlgorithmEx",
    blocks="true",
    hazard="trial",
    kind="conv_forward",
    stream="handle",
    x=read("xDesc"),
    w=read("wDesc"),
    y=read_write("yDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    convolution="xDesc wDesc convDesc yDesc",
)
row(
    "cudnnFindConvolutionBackwardDataAlgorithmEx",
    blocks="true",
    hazard="trial",
    kind="conv_backward_data",
    stream="handle",
    w=read("wDesc"),
    dy=read("dyDesc"),
    dx=read_write("dxDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    convolution="dxDesc wDesc convDesc dyDesc",
)
row(
    "cudnnFindConvolutionBackwardFilterAlgorithmEx",
    blocks="true",
    hazard="trial",
    kind="conv_backward_filter",
    stream="handle",
    x=read("xDesc"),
    y=read("dyDesc"),
    dw=read_write("dwDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    convolution="xDesc dwDesc convDesc dyDesc",
)

# --- elementwise
row("cudnnAddTensor", kind="elementwise", stream="handle", hazard="in_place", A=read("aDesc"), C=blended("cDesc"))
row(
    "cudnnOpTensor",
    kind="elementwise",
    stream="handle",
    hazard="in_place",
    A=read("aDesc"),
    B=read("bDesc"),
    C=blended("cDesc"),
)
row("cudnnScaleTensor", kind="elementwise", stream="handle", hazard="in_place", y=read_write("yDesc"))
row(
    "cudnnSetTensor",
    kind="set",
    stream="handle",
    y=overwrite("yDesc"),
    kept={"valuePtr": "keep_element(keeping, valuePtr, yDesc)"},
)
row("cudnnTransformTensor", kind="elementwise", stream="handle", x=read("xDesc"), y=blended("yDesc"))
row(
    "cudnnTransformTensorEx cudnnTransformFilter",
    kind="elementwise",
    stream="handle",
    srcData=read("srcDesc"),
    destData=blended("destDesc"),
    kept={"transDesc": "keep_transform(keeping, transDesc, srcDesc)"},
)
row(
    "cudnnReorderFilterAndBias",
    kind="elementwise",
    stream="handle",
    filterData=read("filterDesc"),
    reorderedFilterData=write("filterDesc"),
    biasData=read("unknown_extent()"),
    reorderedBiasData=write("unknown_extent()"),
    no_replay=UNKNOWN_RESULT,
)
row(
    "cudnnIm2Col",
    kind="elementwise",
    stream="handle",
    x=read("xDesc"),
    colBuffer=write("unknown_extent()"),
    no_replay=UNKNOWN_RESULT,
)
row(
    "cudnnReduceTensor",
    kind="elementwise",
    stream="handle",
    indices=read_write("indicesSizeInBytes"),
    workspace=scratch("workspaceSizeInBytes"),
    A=read("aDesc"),
    C=blended("cDesc"),
)

# --- activation, pooling, softmax
row(
    "cudnnActivationForward",
    kind="activation_forward",
    stream="handle",
    hazard="in_place",
    clip="activationDesc, alpha, beta, xDesc, yDesc",
    x=read("xDesc"),
    y=blended("yDesc"),
)
row(
    "cudnnActivationBackward",
    kind="activation_backward",
    stream="handle",
    hazard="in_place",
    y=read("yDesc"),
    dy=read("dyDesc"),
    x=read("xDesc"),
    dx=blended("dxDesc"),
)
row("cudnnPoolingForward", kind="pooling_forward", stream="handle", x=read("xDesc"), y=blended("yDesc"))
row(
    "cudnnPoolingBackward",
    kind="pooling_backward",
    stream="handle",
    y=read("yDesc"),
    dy=read("dyDesc"),
    x=read("xDesc"),
    dx=blended("dxDesc"),
)
row(
    "cudnnSoftmaxForward",
    kind="softmax_forward",
    stream="handle",
    hazard="in_place",
    x=read("xDesc"),
    y=blended("yDesc"),
)
row(
    "cudnnSoftmaxBackward",
    kind="softmax_backward",
    stream="handle",
    hazard="in_place",
    y=read("yDesc"),
    dy=read("dyDesc"),
    dx=blended("dxDesc"),
)

# --- batch normalisation. Running statistics are averaged into what is there; where the factor is 1 the old value
# counts for nothing, but is treated as read all the same. Both may be null together: then there are none.
row(
    "cudnnBatchNormalizationForwardTraining",
    kind="batch_norm_forward",
    stream="handle",
    hazard="running_statistics saved_statistics",
    batch_norm=(
        "mode",
        "CUDNN_BATCHNORM_OPS_BN",
        "alpha",
        "beta",
        "xDesc",
        "yDesc",
        "{x, y, bnScale, bnBias, resultSaveMean, resultSaveInvVariance}",
    ),
    x=read("xDesc"),
    y=blended("yDesc"),
    bnScale=read("bnScaleBiasMeanVarDesc"),
    bnBias=read("bnScaleBiasMeanVarDesc"),
    resultRunningMean=running("bnScaleBiasMeanVarDesc"),
    resultRunningVariance=running("bnScaleBiasMeanVarDesc"),
    resultSaveMean=overwrite("bnScaleBiasMeanVarDesc"),
    resultSaveInvVariance=overwrite("bnScaleBiasMeanVarDesc"),
)
row(
    "cudnnBatchNormalizationForwardInference",
    kind="batch_norm_forward",
    stream="handle",
    x=read("xDesc"),
    y=blended("yDesc"),
    bnScale=read("bnScaleBiasMeanVarDesc"),
    bnBias=read("bnScaleBiasMeanVarDesc"),
    estimatedMean=read("bnScaleBiasMeanVarDesc"),
    estimatedVariance=read("bnScaleBiasMeanVarDesc"),
)
row(
    "cudnnBatchNormalizationBackward",
    kind="batch_norm_backward",
    stream="handle",
    x=read("xDesc"),
    dy=read("dyDesc"),
    dx=blended("dxDesc", "betaDataDiff"),
    bnScale=read("dBnScaleBiasDesc"),
    dBnScaleResult=blended("dBnScaleBiasDesc", "betaParamDiff"),
    dBnBiasResult=blended("dBnScaleBiasDesc", "betaParamDiff"),
    savedMean=read("dBnScaleBiasDesc"),
    savedInvVariance=read("dBnScaleBiasDesc"),
)

# The Ex forms: fused with an addition and an activation; a reserve space goes from forward to backward. How much of it
# is used is cuDNN's own business, so it is written in part and read as a whole.
row(
    "cudnnBatchNormalizationForwardTrainingEx",
    kind="batch_norm_forward",
    stream="handle",
    hazard="running_statistics saved_statistics reserve_space",
    batch_norm=(
        "mode",
        "bnOps",
        "alpha",
        "beta",
        "xDesc",
        "yDesc",
        "{xData, yData, bnScale, bnBias, resultSaveMean, resultSaveInvVariance}",
    ),
    xData=read("xDesc"),
    zData=read("zDesc"),
    yData=blended("yDesc"),
    bnScale=read("bnScaleBiasMeanVarDesc"),
    bnBias=read("bnScaleBiasMeanVarDesc"),
    resultRunningMean=running("bnScaleBiasMeanVarDesc"),
    resultRunningVariance=running("bnScaleBiasMeanVarDesc"),
    resultSaveMean=overwrite("bnScaleBiasMeanVarDesc"),
    resultSaveInvVariance=overwrite("bnScaleBiasMeanVarDesc"),
    workspace=scratch("workSpaceSizeInBytes"),
    reserveSpace=write("reserveSpaceSizeInBytes"),
)
row(
    "cudnnBatchNormalizationBackwardEx",
    kind="batch_norm_backward",
    stream="handle",
    xData=read("xDesc"),
    yData=read("yDesc"),
    dyData=read("dyDesc"),
    dzData=write("dzDesc"),
    dxData=blended("dxDesc", "betaDataDiff"),
    bnScaleData=read("dBnScaleBiasDesc"),
    bnBiasData=read("dBnScaleBiasDesc"),
    dBnScaleData=blended("dBnScaleBiasDesc", "betaParamDiff"),
    dBnBiasData=blended("dBnScaleBiasDesc", "betaParamDiff"),
    savedMean=read("dBnScaleBiasDesc"),
    savedInvVariance=read("dBnScaleBiasDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    reserveSpace=read_write("reserveSpaceSizeInBytes"),
)
row(
    "cudnnNormalizationForwardTraining",
    kind="batch_norm_forward",
    stream="handle",
    hazard="running_statistics saved_statistics reserve_space",
    xData=read("xDesc"),
    normScale=read("normScaleBiasDesc"),
    normBias=read("normScaleBiasDesc"),
    resultRunningMean=running("normMeanVarDesc"),
    resultRunningVariance=running("normMeanVarDesc"),
    resultSaveMean=overwrite("normMeanVarDesc"),
    resultSaveInvVariance=overwrite("normMeanVarDesc"),
    zData=read("zDesc"),
    yData=blended("yDesc"),
    workspace=scratch("workSpaceSizeInBytes"),
    reserveSpace=write("reserveSpaceSizeInBytes"),
)
row(
    "cudnnNormalizationForwardInference",
    kind="batch_norm_forward",
    stream="handle",
    x=read("xDesc"),
    normScale=read("normScaleBiasDesc"),
    normBias=read("normScaleBiasDesc"),
    estimatedMean=read("normMeanVarDesc"),
    estimatedVariance=read("normMeanVarDesc"),
    z=read("zDesc"),
    y=blended("yDesc"),
)
row(
    "cudnnNormalizationBackward",
    kind="batch_norm_backward",
    stream="handle",
    xData=read("xDesc"),
    yData=read("yDesc"),
    dyData=read("dyDesc"),
    dzData=write("dzDesc"),
    dxData=blended("dxDesc", "betaDataDiff"),
    normScaleData=read("dNormScaleBiasDesc"),
    normBiasData=read("dNormScaleBiasDesc"),
    dNormScaleData=blended("dNormScaleBiasDesc", "betaParamDiff"),
    dNormBiasData=blended("dNormScaleBiasDesc", "betaParamDiff"),
    savedMean=read("normMeanVarDesc"),
    savedInvVariance=read("normMeanVarDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    reserveSpace=read_write("reserveSpaceSizeInBytes"),
)

# --- other normalisations
row(
    "cudnnLRNCrossChannelForward",
    kind="response_norm_forward",
    stream="handle",
    x=read("xDesc"),
    y=blended("yDesc"),
)
row(
    "cudnnLRNCrossChannelBackward",
    kind="response_norm_backward",
    stream="handle",
    y=read("yDesc"),
    dy=read("dyDesc"),
    x=read("xDesc"),
    dx=blended("dxDesc"),
)
row(
    "cudnnDivisiveNormalizationForward",
    kind="elementwise",
    stream="handle",
    x=read("xDesc"),
    means=read("xDesc"),
    temp=scratch("xDesc"),
    temp2=scratch("xDesc"),
    y=blended("yDesc"),
)
row(
    "cudnnDivisiveNormalizationBackward",
    kind="elementwise",
    stream="handle",
    x=read("xDesc"),
    means=read("xDesc"),
    dy=read("xDesc"),
    temp=scratch("xDesc"),
    temp2=scratch("xDesc"),
    dx=blended("dXdMeansDesc"),
    dMeans=blended("dXdMeansDesc"),
    no_replay=BACKWARD,
)

# --- dropout: the descriptor holds the address of the states
row(
    "cudnnSetDropoutDescriptor",
    kind="set",
    stream="handle",
    hazard="dropout_states",
    states=write("stateSizeInBytes"),
)
row(
    "cudnnDropoutForward",
    kind="dropout_forward",
    stream="handle",
    hazard="dropout_states reserve_space in_place",
    x=read("xdesc"),
    y=overwrite("ydesc"),
    reserveSpace=write("reserveSpaceSizeInBytes"),
    also=[read_write("unknown_extent()", at="dropout_states(scope, handle, dropoutDesc)")],
)
row(
    "cudnnDropoutBackward",
    kind="dropout_backward",
    stream="handle",
    hazard="in_place",
    dy=read("dydesc"),
    dx=overwrite("dxdesc"),
    reserveSpace=read("reserveSpaceSizeInBytes"),
)

# --- recurrent networks. A batch's shape comes from its data descriptor; the lengths on the device from nowhere.
rnn_weights = dict(weightSpace=read("weightSpaceSize"))
rnn_spaces = dict(workSpace=scratch("workSpaceSize"), reserveSpace=read_write("reserveSpaceSize"))
rnn_states = [read_write("unknown_extent()", at="dropout_states(scope, handle, rnn_dropout(scope, rnnDesc))")]
rnn_x, rnn_y = "rnn_data_extent(scope, xDesc)", "rnn_data_extent(scope, yDesc)"
row(
    "cudnnRNNForward",
    kind="gemm",
    stream="handle",
    hazard="reserve_space dropout_states",
    devSeqLengths=read("unknown_extent()"),
    x=read(rnn_x),
    y=overwrite(rnn_y),
    hx=read("hDesc"),
    hy=write("hDesc"),
    cx=read("cDesc"),
    cy=write("cDesc"),
    **rnn_weights,
    **rnn_spaces,
    also=rnn_states,
    no_replay=RESERVE_SPACE,
)
row(
    "cudnnRNNBackwardData_v8",
    kind="gemm",
    stream="handle",
    hazard="reserve_space",
    devSeqLengths=read("unknown_extent()"),
    y=read(rnn_y),
    dy=read(rnn_y),
    dx=overwrite(rnn_x),
    hx=read("hDesc"),
    dhy=read("hDesc"),
    dhx=write("hDesc"),
    cx=read("cDesc"),
    dcy=read("cDesc"),
    dcx=write("cDesc"),
    **rnn_weights,
    **rnn_spaces,
    also=rnn_states,
    no_replay=BACKWARD,
)
row(
    "cudnnRNNBackwardWeights_v8",
    kind="gemm",
    stream="handle",
    hazard="accumulates reserve_space",
    devSeqLengths=read("unknown_extent()"),
    x=read(rnn_x),
    hx=read("hDesc"),
    y=read(rnn_y),
    dweightSpace=read_write("weightSpaceSize"),
    **rnn_spaces,
    also=rnn_states,
    no_replay=BACKWARD,
)
row(
    "cudnnCTCLoss",
    kind="elementwise",
    stream="handle",
    probs=read("probsDesc"),
    costs=write("unknown_extent()"),
    gradients=write("gradientsDesc"),
    workspace=scratch("workSpaceSizeInBytes"),
    no_replay=LOSS,
)
row(
    "cudnnCTCLoss_v8",
    kind="elementwise",
    stream="handle",
    probs=read("probsDesc"),
    labels=read("unknown_extent()"),
    labelLengths=read("unknown_extent()"),
    inputLengths=read("unknown_extent()"),
    costs=write("unknown_extent()"),
    gradients=write("gradientsDesc"),
    workspace=scratch("workSpaceSizeInBytes"),
    no_replay=LOSS,
)

# --- graphs: what is set is noted, so that an execution has its operands
hook(cudnn_host.GRAPH_DESCRIPTORS, where="cudnn/backend_api.cpp")
hook("cudnnBackendExecute", where="cudnn/backend_api.cpp")

# --- trials in memory that cuDNN allocates for them, which is never managed: their results are noted
hook(
    """cudnnFindConvolutionForwardAlgorithm cudnnFindConvolutionBackwardDataAlgorithm
    cudnnFindConvolutionBackwardFilterAlgorithm""",
    where="cudnn/trials.cpp",
)

# --- not wrapped: seen as launches
seen_below(
    """cudnnSpatialTfGridGeneratorForward cudnnSpatialTfGridGeneratorBackward cudnnSpatialTfSamplerForward
    cudnnSpatialTfSamplerBackward""",
    """no query gives the size of a grid; every address is a parameter of its kernels, which arrive as bare launches""",
)
seen_below(
    "cudnnMultiHeadAttnForward cudnnMultiHeadAttnBackwardData cudnnMultiHeadAttnBackwardWeights",
    """extents follow from lengths on the device and random states lie inside of the descriptor; every address is a
    parameter of its kernels, which arrive as bare launches""",
)
seen_below(
    "cudnnFusedOpsExecute",
    "the addresses of the variant pack are parameters of its kernels, which arrive as bare launches",
)
seen_below(
    "cudnnGetRNNWeightParams cudnnBuildRNNDynamic cudnnInitTransformDest cudnnGetMultiHeadAttnWeights",
    "computes addresses or descriptors; what it may launch or copy arrives at the driver",
)
seen_below(
    "cudnnBackendPopulateCudaGraph cudnnBackendUpdateCudaGraph",
    "makes or changes nodes of a graph, by calls that arrive at the driver's hooks",
)

# --- not wrapped: nothing to see
passthrough(
    cudnn_host.SETTINGS,
    why="handles and settings; the stream is asked for at each call, workspaces of a handle are never managed",
)
passthrough(
    cudnn_host.DESCRIPTORS,
    why="descriptors, in host memory; they are asked at each call that uses them",
)
passthrough(cudnn_host.QUERIES, why="query")

# --- addresses that functions without operands are given
spec.addresses("host", "alpha alpha1 alpha2 alphaDataDiff alphaParamDiff paddingFill param udata valuePtr")
spec.addresses("asked", "states", of="cudnnRestoreDropoutDescriptor")
spec.addresses("result", "states", of="cudnnGetDropoutDescriptor")
spec.addresses("asked", "ptr", of="cudnnSetFusedOpsVariantParamPackAttribute")
spec.addresses("result", "ptr", of="cudnnGetFusedOpsVariantParamPackAttribute")
spec.no_prototype("cudnnGetBackdoor cudnnSetBackdoor cudnnSetBackdoorEx", "settings of the vendor's own tests")
spec.no_prototype("cudnnGetRNNDropoutLocationsInternal", "a query")
