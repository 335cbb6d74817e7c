"""cuDNN, legacy API: operands by `const void*` are read, those by `void*` are written; beta decides the rest."""

from spec.language import Library, Spec, overwrite, read, read_write, scratch

spec = Spec(
    Library(
        name="cudnn",
        header="cudnn.h",
        prefix=r"cudnn[A-Z]",
        missing="CUDNN_STATUS_NOT_INITIALIZED",
        out_of_memory="CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        stream_of_handle="cudnn_stream",
    )
)
row, hook, seen_below, passthrough = spec.row, spec.hook, spec.seen_below, spec.passthrough


def blended(descriptor, beta="beta"):
    """result = alpha * new + beta * old; without a look at the old bytes where beta is zero."""
    return overwrite(descriptor, read_if=f"*{beta} != 0")


# --- convolution
row(
    "cudnnConvolutionForward",
    kind="conv_forward",
    stream="handle",
    x=read("xDesc"),
    w=read("wDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    y=blended("yDesc"),
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
)
row(
    "cudnnConvolutionBackwardFilter",
    kind="conv_backward_filter",
    stream="handle",
    x=read("xDesc"),
    dy=read("dyDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
    dw=blended("dwDesc"),
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
    kind="conv_forward",
    stream="handle",
    x=read("xDesc"),
    w=read("wDesc"),
    y=read_write("yDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
)
row(
    "cudnnFindConvolutionBackwardDataAlgorithmEx",
    blocks="true",
    kind="conv_backward_data",
    stream="handle",
    w=read("wDesc"),
    dy=read("dyDesc"),
    dx=read_write("dxDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
)
row(
    "cudnnFindConvolutionBackwardFilterAlgorithmEx",
    blocks="true",
    kind="conv_backward_filter",
    stream="handle",
    x=read("xDesc"),
    y=read("dyDesc"),
    dw=read_write("dwDesc"),
    workSpace=scratch("workSpaceSizeInBytes"),
)

# --- elementwise
row("cudnnAddTensor", kind="elementwise", stream="handle", A=read("aDesc"), C=blended("cDesc"))
row("cudnnOpTensor", kind="elementwise", stream="handle", A=read("aDesc"), B=read("bDesc"), C=blended("cDesc"))
row("cudnnScaleTensor", kind="elementwise", stream="handle", y=read_write("yDesc"))
row("cudnnSetTensor", kind="set", stream="handle", y=overwrite("yDesc"))
row("cudnnTransformTensor", kind="elementwise", stream="handle", x=read("xDesc"), y=blended("yDesc"))
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
row("cudnnActivationForward", kind="activation_forward", stream="handle", x=read("xDesc"), y=blended("yDesc"))
row(
    "cudnnActivationBackward",
    kind="activation_backward",
    stream="handle",
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
row("cudnnSoftmaxForward", kind="softmax_forward", stream="handle", x=read("xDesc"), y=blended("yDesc"))
row(
    "cudnnSoftmaxBackward",
    kind="softmax_backward",
    stream="handle",
    y=read("yDesc"),
    dy=read("dyDesc"),
    dx=blended("dxDesc"),
)

# --- batch normalisation. Running statistics are averaged into what is there; where the factor is 1 the old value
# counts for nothing, but is treated as read all the same.
row(
    "cudnnBatchNormalizationForwardTraining",
    kind="batch_norm_forward",
    stream="handle",
    x=read("xDesc"),
    y=blended("yDesc"),
    bnScale=read("bnScaleBiasMeanVarDesc"),
    bnBias=read("bnScaleBiasMeanVarDesc"),
    resultRunningMean=read_write("bnScaleBiasMeanVarDesc"),
    resultRunningVariance=read_write("bnScaleBiasMeanVarDesc"),
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

# --- not wrapped
seen_below(
    """cudnnBatchNormalizationForwardTrainingEx cudnnBatchNormalizationBackwardEx cudnnNormalizationForwardTraining
    cudnnNormalizationForwardInference cudnnNormalizationBackward cudnnDropoutForward cudnnDropoutBackward
    cudnnSetDropoutDescriptor cudnnLRNCrossChannelForward cudnnLRNCrossChannelBackward
    cudnnDivisiveNormalizationForward cudnnDivisiveNormalizationBackward cudnnSpatialTfGridGeneratorForward
    cudnnSpatialTfGridGeneratorBackward cudnnSpatialTfSamplerForward cudnnSpatialTfSamplerBackward
    cudnnTransformTensorEx cudnnTransformFilter cudnnIm2Col cudnnReorderFilterAndBias
    cudnnFindConvolutionForwardAlgorithm cudnnFindConvolutionBackwardDataAlgorithm
    cudnnFindConvolutionBackwardFilterAlgorithm cudnnRNNForward cudnnRNNBackwardData_v8 cudnnRNNBackwardWeights_v8
    cudnnMultiHeadAttnForward cudnnMultiHeadAttnBackwardData cudnnMultiHeadAttnBackwardWeights cudnnCTCLoss
    cudnnCTCLoss_v8 cudnnBackendExecute""",
    "its kernels arrive as bare launches",
)
