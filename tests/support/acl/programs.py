"""The example programs of the operator documents in Python, statement by statement, names as there.

The C++ macros CHECK_RET and CHECK_FREE_RET become an exception; unique_ptr becomes an ExitStack, which destroys and frees in
the same order at the end of the function.
"""
# ruff: noqa: F403, F405 - the programs say "using" by including a header

from contextlib import ExitStack
from math import prod

import numpy as np

from ascend_sim.acl import *


class CheckRetFailed(Exception):
    """A CHECK_RET that failed: what was called, and what it returned."""


def CHECK_RET(cond, what, ret=None):
    if not cond:
        raise CheckRetFailed(f"{what} failed. ERROR: {ret}; {aclGetRecentErrMsg()}")


def Init(deviceId):
    ret = aclInit(None)
    CHECK_RET(ret == ACL_SUCCESS, "aclInit", ret)
    ret = aclrtSetDevice(deviceId)
    CHECK_RET(ret == ACL_SUCCESS, "aclrtSetDevice", ret)
    ret, stream = aclrtCreateStream()
    CHECK_RET(ret == ACL_SUCCESS, "aclrtCreateStream", ret)
    return stream


def CreateAclTensor(hostData, shape, dataType, formatOf4, keep):
    size = prod(shape) * hostData.itemsize
    ret, deviceAddr = aclrtMalloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
    CHECK_RET(ret == ACL_SUCCESS, "aclrtMalloc", ret)
    keep.callback(aclrtFree, deviceAddr)
    ret = aclrtMemcpy(deviceAddr, size, hostData, size, ACL_MEMCPY_HOST_TO_DEVICE)
    CHECK_RET(ret == ACL_SUCCESS, "aclrtMemcpy", ret)
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = shape[i + 1] * strides[i + 1]
    format = formatOf4 if len(shape) == 4 else aclFormat.ACL_FORMAT_ND
    tensor = aclCreateTensor(shape, len(shape), dataType, strides, 0, format, shape, len(shape), deviceAddr)
    keep.callback(aclDestroyTensor, tensor)
    return tensor, deviceAddr


def Finalize(deviceId, stream):
    return [aclrtDestroyStream(stream), aclrtResetDevice(deviceId), aclFinalize()]


def IntArray(values, keep):
    array = aclCreateIntArray(values, len(values))
    CHECK_RET(array is not None, "aclCreateIntArray", ACL_ERROR_INTERNAL_ERROR)
    keep.callback(aclDestroyIntArray, array)
    return array


def Result(shape, deviceAddr):
    size = prod(shape)
    result = np.zeros(size, np.float32)
    ret = aclrtMemcpy(result, size * result.itemsize, deviceAddr, size * result.itemsize, ACL_MEMCPY_DEVICE_TO_HOST)
    CHECK_RET(ret == ACL_SUCCESS, "copy result from device to host", ret)
    return result


def Run(phaseTwo, workspaceSize, executor, stream, keep):
    workspaceAddr = None
    if workspaceSize > 0:
        ret, workspaceAddr = aclrtMalloc(workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST)
        CHECK_RET(ret == ACL_SUCCESS, "allocate workspace", ret)
        keep.callback(aclrtFree, workspaceAddr)
    ret = phaseTwo(workspaceAddr, workspaceSize, executor, stream)
    CHECK_RET(ret == ACL_SUCCESS, phaseTwo.__name__, ret)
    ret = aclrtSynchronizeStream(stream)
    CHECK_RET(ret == ACL_SUCCESS, "aclrtSynchronizeStream", ret)


def aclnnConvolutionBackwardTest(stream, formatOf4, keep):
    gradOutputShape = [2, 2, 7, 7]
    inputShape = [2, 2, 7, 7]
    weightShape = [2, 2, 1, 1]
    biasSize = [2]
    stride = [1, 1]
    padding = [0, 0]
    dilation = [1, 1]
    transposed = False
    outputPadding = [0, 0]
    groups = 1
    outputMask = [True, True, True]
    cubeMathType = 1
    gradInputShape = [2, 2, 7, 7]
    gradWeightShape = [2, 2, 1, 1]
    gradBiasShape = [2]

    def ones(shape):
        return np.ones(prod(shape), np.float32)

    def create(shape):
        return CreateAclTensor(ones(shape), shape, aclDataType.ACL_FLOAT, formatOf4, keep)

    gradOutput, _ = create(gradOutputShape)
    input, _ = create(inputShape)
    weight, _ = create(weightShape)
    gradInput, gradInputDeviceAddr = create(inputShape)
    gradWeight, gradWeightDeviceAddr = create(weightShape)
    gradBias, gradBiasDeviceAddr = create(biasSize)
    biasSizes = IntArray(biasSize, keep)
    strides = IntArray(stride, keep)
    pads = IntArray(padding, keep)
    dilations = IntArray(dilation, keep)
    outputPads = IntArray(outputPadding, keep)
    outMask = aclCreateBoolArray(outputMask, 3)
    CHECK_RET(outMask is not None, "aclCreateBoolArray", ACL_ERROR_INTERNAL_ERROR)
    keep.callback(aclDestroyBoolArray, outMask)

    ret, workspaceSize, executor = aclnnConvolutionBackwardGetWorkspaceSize(
        gradOutput,
        input,
        weight,
        biasSizes,
        strides,
        pads,
        dilations,
        transposed,
        outputPads,
        groups,
        outMask,
        cubeMathType,
        gradInput,
        gradWeight,
        gradBias,
    )
    CHECK_RET(ret == ACL_SUCCESS, "aclnnConvolutionBackwardGetWorkspaceSize", ret)
    Run(aclnnConvolutionBackward, workspaceSize, executor, stream, keep)
    return (
        Result(gradInputShape, gradInputDeviceAddr),
        Result(gradWeightShape, gradWeightDeviceAddr),
        Result(gradBiasShape, gradBiasDeviceAddr),
    )


def aclnnConvTbcBackwardTest(stream, formatOf4, keep):
    selfShape = [5, 1, 2]
    inputShape = [5, 1, 2]
    weightShape = [1, 2, 2]
    biasShape = [2]
    pad = 0
    cubeMathType = 1
    gradInputShape = [5, 1, 2]
    gradWeightShape = [1, 2, 2]
    gradBiasShape = [2]

    def create(shape):
        return CreateAclTensor(np.ones(prod(shape), np.float32), shape, aclDataType.ACL_FLOAT, formatOf4, keep)

    self, _ = create(selfShape)
    input, _ = create(inputShape)
    weight, _ = create(weightShape)
    bias, _ = create(biasShape)
    gradInput, gradInputDeviceAddr = create(inputShape)
    gradWeight, gradWeightDeviceAddr = create(weightShape)
    gradBias, gradBiasDeviceAddr = create(gradBiasShape)

    ret, workspaceSize, executor = aclnnConvTbcBackwardGetWorkspaceSize(
        self, input, weight, bias, pad, cubeMathType, gradInput, gradWeight, gradBias
    )
    CHECK_RET(ret == ACL_SUCCESS, "aclnnConvTbcBackwardGetWorkspaceSize", ret)
    Run(aclnnConvTbcBackward, workspaceSize, executor, stream, keep)
    return (
        Result(gradInputShape, gradInputDeviceAddr),
        Result(gradWeightShape, gradWeightDeviceAddr),
        Result(gradBiasShape, gradBiasDeviceAddr),
    )


def main(test, formatOf4):
    """The three results, and what the calls of Finalize returned."""
    deviceId = 0
    stream = Init(deviceId)
    with ExitStack() as keep:
        results = test(stream, formatOf4, keep)
    return results, Finalize(deviceId, stream)
