"""Every function of the C interface as C declares it, by header: what headers and library are made from.

`ascend_sim.acl` has the same functions with the same names, its inputs in the same order and its outputs behind the status;
a test compares the two. Sources: the operator documents, and CANN 8.1.RC1's acl/acl.h, acl/acl_base.h, acl/acl_rt.h and
aclnn/acl_meta.h. How a parameter is passed on follows from its type, and for an array from `COUNTS`.
"""

from __future__ import annotations

import re

from ascend_sim.frozen import frozen

STATUSES = ("aclError", "aclnnStatus")
"""Result types that are a status code."""

HANDLES = (
    "aclTensor *", "aclIntArray *", "aclBoolArray *", "aclOpExecutor *", "aclrtStream", "aclrtEvent", "aclrtContext",
)  # fmt: skip
"""C types whose values are handles of simulator objects."""

COUNTS = {"viewDims": "viewDimsNum", "stride": "viewDimsNum", "storageDims": "storageDimsNum", "value": "size"}
"""Array parameter -> the parameter that holds its number of elements."""

_HOST_OR_DEVICE = ("dst", "src")
"""Pointer parameters that are host or device memory depending on the call's parameter `kind`."""


@frozen
class CParameter:
    """One parameter of a C function: its C type and its name."""

    type: str
    name: str

    @property
    def kind(self) -> str:
        """Return how C passes the parameter to Python.

        It is "handle", "array", "text", "address" (device memory), "memory" (host or device), "number" or "out".
        """
        bare = self.type.removeprefix("const ")
        if bare in HANDLES:
            return "handle"
        if bare == "void *":
            return "memory" if self.name in _HOST_OR_DEVICE else "address"
        if not self.type.endswith("*"):
            return "number"
        if self.type != bare:
            return "text" if bare == "char *" else "array"
        return "out"

    @property
    def target(self) -> str:
        """Return the C type that an out-parameter points to: `type` without its last `*`."""
        return self.type.removesuffix("*").rstrip()

    def __str__(self) -> str:
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"


@frozen
class Function:
    """One C function: the header that declares it, its result type, its name and its parameters."""

    header: str
    returns: str
    name: str
    parameters: tuple[CParameter, ...]

    @property
    def inputs(self) -> tuple[CParameter, ...]:
        """Return the parameters that are not out-parameters, in order; they are the parameters of the Python function."""
        return tuple(parameter for parameter in self.parameters if parameter.kind != "out")

    @property
    def outputs(self) -> tuple[CParameter, ...]:
        """Return the out-parameters, in the order in which the Python function returns them behind the status."""
        return tuple(parameter for parameter in self.parameters if parameter.kind == "out")

    def __str__(self) -> str:
        space = "" if self.returns.endswith("*") else " "
        return f"{self.returns}{space}{self.name}({', '.join(map(str, self.parameters)) or 'void'});"


_DECLARED = {
    "acl/acl.h": """
        aclError aclInit(const char *configPath);
        aclError aclFinalize(void);
        const char *aclGetRecentErrMsg(void);
    """,
    "acl/acl_rt.h": """
        aclError aclrtSetDevice(int32_t deviceId);
        aclError aclrtResetDevice(int32_t deviceId);
        aclError aclrtGetDevice(int32_t *deviceId);
        aclError aclrtGetDeviceCount(uint32_t *count);
        aclError aclrtSynchronizeDevice(void);

        aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);
        aclError aclrtDestroyContext(aclrtContext context);
        aclError aclrtSetCurrentContext(aclrtContext context);
        aclError aclrtGetCurrentContext(aclrtContext *context);

        aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
        aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
        aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
        aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

        aclError aclrtCreateStream(aclrtStream *stream);
        aclError aclrtDestroyStream(aclrtStream stream);
        aclError aclrtSynchronizeStream(aclrtStream stream);

        aclError aclrtCreateEvent(aclrtEvent *event);
        aclError aclrtDestroyEvent(aclrtEvent event);
        aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
        aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
        aclError aclrtSynchronizeEvent(aclrtEvent event);
        aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
        aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

        aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
        aclError aclrtFree(void *devPtr);
        aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);
        aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);
        aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
            aclrtStream stream);
        aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
        aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);
    """,
    "aclnn/acl_meta.h": """
        aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
            const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
            uint64_t storageDimsNum, void *tensorData);
        aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);
        aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);
        aclnnStatus aclDestroyTensor(const aclTensor *tensor);
        aclnnStatus aclDestroyIntArray(const aclIntArray *array);
        aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);
    """,
    "aclnnop/aclnn_convolution_backward.h": """
        aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *input,
            const aclTensor *weight, const aclIntArray *biasSizes, const aclIntArray *stride,
            const aclIntArray *padding, const aclIntArray *dilation, bool transposed,
            const aclIntArray *outputPadding, int groups, const aclBoolArray *outputMask, int8_t cubeMathType,
            aclTensor *gradInput, aclTensor *gradWeight, aclTensor *gradBias, uint64_t *workspaceSize,
            aclOpExecutor **executor);
        aclnnStatus aclnnConvolutionBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
            const aclrtStream stream);
        aclnnStatus aclnnConvTbcBackwardGetWorkspaceSize(const aclTensor *self, const aclTensor *input,
            const aclTensor *weight, const aclTensor *bias, int64_t pad, int8_t cubeMathType, aclTensor *gradInput,
            aclTensor *gradWeight, aclTensor *gradBias, uint64_t *workspaceSize, aclOpExecutor **executor);
        aclnnStatus aclnnConvTbcBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
            aclrtStream stream);
    """,
}

_DECLARATION = re.compile(r"([\w ]+?[ *]+)(\w+)\((.*?)\);")


def _functions(header: str, text: str) -> list[Function]:
    found = []
    for returns, name, inside in _DECLARATION.findall(" ".join(text.split())):
        parts = [part.strip() for part in inside.split(",") if part.strip() != "void"]
        parameters = tuple(_parameter(part) for part in parts)
        found.append(Function(header, returns.strip(), name, parameters))
    return found


def _parameter(text: str) -> CParameter:
    type_, name = re.fullmatch(r"(.*?[ *]+)(\w+)", text).groups()  # type: ignore[union-attr]
    return CParameter(type_.strip(), name)


FUNCTIONS = {function.name: function for header, text in _DECLARED.items() for function in _functions(header, text)}
"""Every C function by its name, in the order of the headers."""
