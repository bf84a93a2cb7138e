"""Every function of the C interface with every wrong handle, as a C program and as the same calls in Python.

Both go through the table of functions in one order, so that their lines can be laid beside each other: function, parameter,
misuse, code.
"""

import numpy as np

from ascend_sim import acl
from ascend_sim.acl.c.prototypes import FUNCTIONS
from tests.support.acl.acl_calls import AclConvolution, ok, upload

KINDS = ("aclTensor *", "aclIntArray *", "aclBoolArray *", "aclOpExecutor *", "aclrtStream", "aclrtEvent", "aclrtContext")
OF_ANY_KIND = ("destroyed", "foreign")
LAST = "null"  # as a stream it is the default one, so that such a call may succeed and use its executor up

NAMES = {
    "aclTensor *": "weight", "aclIntArray *": "stride", "aclBoolArray *": "outputMask", "aclOpExecutor *": "executor",
    "aclrtStream": "stream", "aclrtEvent": "event", "aclrtContext": "context",
}  # fmt: skip
"""An object of each kind, by the name that both programs give it."""


def cases():
    """(function, parameter, misuse); a misuse is one of the words above, or the kind of the object that is handed over."""
    for function in FUNCTIONS.values():
        for parameter in function.inputs:
            if parameter.kind == "handle":
                own = parameter.type.removeprefix("const ")
                for misuse in (*OF_ANY_KIND, *(kind for kind in KINDS if kind != own), LAST):
                    yield function, parameter, misuse


def spelled(function, parameter):
    """The name of the good value of a parameter; the two operators have tensors of other shapes, and an executor each."""
    tbc = function.name.startswith("aclnnConvTbc")
    if function.name.startswith("aclDestroy"):
        return NAMES[parameter.type.removeprefix("const ")]
    if parameter.name in ("startEvent", "endEvent"):
        return "event"
    return f"tbc_{parameter.name}" if tbc and parameter.kind == "handle" and parameter.name != "stream" else parameter.name


# -- in C -------------------------------------------------------------------------------------------------------------

SETUP = """
#include <stdio.h>
#include <stdlib.h>
#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { printf("%s: %s\\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

static aclTensor *tensor(int dims, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t shape[4] = {a, b, c, d};
    void *memory;
    MUST(aclrtMalloc(&memory, (size_t)(a * b * c * d) * 4, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(memory, (size_t)(a * b * c * d) * 4, 0, (size_t)(a * b * c * d) * 4));
    return aclCreateTensor(shape, dims, ACL_FLOAT, NULL, 0, dims == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND, shape, dims, memory);
}

static aclIntArray *ints(int count, int64_t a)
{
    const int64_t values[2] = {a, a};
    return aclCreateIntArray(values, count);
}

int main(void)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    aclrtStream stream, destroyed_stream;
    aclrtEvent event, destroyed_event;
    aclrtContext context, destroyed_context;
    MUST(aclrtGetCurrentContext(&context));
    MUST(aclrtCreateContext(&destroyed_context, 0));
    MUST(aclrtDestroyContext(destroyed_context));
    MUST(aclrtSetCurrentContext(context));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtCreateStream(&destroyed_stream));
    MUST(aclrtDestroyStream(destroyed_stream));
    MUST(aclrtCreateEvent(&event));
    MUST(aclrtRecordEvent(event, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtCreateEvent(&destroyed_event));
    MUST(aclrtDestroyEvent(destroyed_event));
    aclTensor *gradOutput = tensor(4, 2, 2, 7, 7), *input = tensor(4, 2, 2, 7, 7), *weight = tensor(4, 2, 2, 1, 1);
    aclTensor *gradInput = tensor(4, 2, 2, 7, 7), *gradWeight = tensor(4, 2, 2, 1, 1), *gradBias = tensor(1, 2, 1, 1, 1);
    aclTensor *tbc_self = tensor(3, 5, 1, 2, 1), *tbc_input = tensor(3, 5, 1, 2, 1), *tbc_weight = tensor(3, 1, 2, 2, 1);
    aclTensor *tbc_gradInput = tensor(3, 5, 1, 2, 1), *tbc_gradWeight = tensor(3, 1, 2, 2, 1);
    aclTensor *tbc_bias = tensor(1, 2, 1, 1, 1), *tbc_gradBias = tensor(1, 2, 1, 1, 1);
    aclTensor *destroyed_weight = tensor(4, 2, 2, 1, 1);
    aclIntArray *biasSizes = ints(1, 2), *stride = ints(2, 1), *padding = ints(2, 0), *dilation = ints(2, 1);
    aclIntArray *outputPadding = ints(2, 0), *destroyed_stride = ints(2, 1);
    const bool wanted[3] = {true, true, true};
    aclBoolArray *outputMask = aclCreateBoolArray(wanted, 3), *destroyed_outputMask = aclCreateBoolArray(wanted, 3);
    MUST(aclDestroyTensor(destroyed_weight));
    MUST(aclDestroyIntArray(destroyed_stride));
    MUST(aclDestroyBoolArray(destroyed_outputMask));
    const bool transposed = false;
    const int groups = 1, opt = 0, deviceId = 0;
    const aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST;
    const aclrtMemAttr attr = ACL_HBM_MEM;
    const int8_t cubeMathType = 1;
    const int64_t pad = 0, value = 1;
    uint64_t workspaceSize = 0;
    void *workspace, *devPtr, *dst;
    char host[64] = {0};
    const void *src = host;
    const size_t destMax = 64, maxCount = 64, count = 64;
    const aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;
    aclrtEventRecordedStatus status;
    float ms;
    aclOpExecutor *destroyed_executor, *executor, *tbc_executor;
    MUST(aclrtMalloc(&devPtr, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    dst = devPtr;
    MUST(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclnnConvolutionBackwardGetWorkspaceSize(gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed,
        outputPadding, groups, outputMask, cubeMathType, gradInput, gradWeight, gradBias, &workspaceSize, &destroyed_executor));
    MUST(aclnnConvolutionBackward(workspace, 1 << 20, destroyed_executor, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclnnConvolutionBackwardGetWorkspaceSize(gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed,
        outputPadding, groups, outputMask, cubeMathType, gradInput, gradWeight, gradBias, &workspaceSize, &executor));
    MUST(aclnnConvTbcBackwardGetWorkspaceSize(tbc_self, tbc_input, tbc_weight, tbc_bias, pad, cubeMathType, tbc_gradInput,
        tbc_gradWeight, tbc_gradBias, &workspaceSize, &tbc_executor));
    workspaceSize = 1 << 20;
    aclOpExecutor *made;
    uint64_t size;
"""


def c_program():
    """Prints a line for every case, and for every out-parameter that is null."""
    lines = []
    for function, wrong, misuse in cases():
        expression = {
            "foreign": "&host[8]",
            "destroyed": f"destroyed_{NAMES[wrong.type.removeprefix('const ')]}",
            "null": "NULL",
        }.get(misuse, NAMES.get(misuse))
        lines.append(_line(function, misuse, wrong.name, {wrong.name: f"(void *){expression}"}))
    for function in FUNCTIONS.values():
        for parameter in function.outputs:
            lines.append(_line(function, "no result", parameter.name, {parameter.name: "NULL"}))
    return SETUP + "".join(lines) + "    MUST(aclrtSynchronizeDevice());\n    MUST(aclFinalize());\n    return 0;\n}\n"


def _line(function, misuse, name, changed):
    outs = {"workspaceSize": "&size", "executor": "&made", "status": "&status", "ms": "&ms"}
    given = []
    for parameter in function.parameters:
        out = parameter.kind == "out"
        good = outs.get(parameter.name, f"(void *)host /* {parameter.name} */") if out else spelled(function, parameter)
        given.append(changed.get(parameter.name, good))
    call = f"{function.name}({', '.join(given)})"
    return f'    printf("{function.name} | {name} | {misuse} | %d\\n", (int){call});\n'


# -- in Python --------------------------------------------------------------------------------------------------------


def python_lines():
    """The lines of `c_program` that are about handles, from the same calls in Python."""
    objects = _objects()
    lines = []
    for function, wrong, misuse in cases():
        bad = {"foreign": object(), "destroyed": objects[f"destroyed_{NAMES[wrong.type.removeprefix('const ')]}"], "null": None}
        value = bad[misuse] if misuse in bad else objects[NAMES[misuse]]
        given = [value if p is wrong else objects[spelled(function, p)] for p in function.inputs]
        result = getattr(acl, function.name)(*given)
        code = result[0] if isinstance(result, tuple) else result
        lines.append(f"{function.name} | {wrong.name} | {misuse} | {int(code)}")
    ok(acl.aclrtSynchronizeDevice())
    ok(acl.aclFinalize())
    return lines


def _objects():
    ok(acl.aclInit(None))
    ok(acl.aclrtSetDevice(0))
    made = {"context": ok(acl.aclrtGetCurrentContext()), "destroyed_context": ok(acl.aclrtCreateContext(0))}
    ok(acl.aclrtDestroyContext(made["destroyed_context"]))
    ok(acl.aclrtSetCurrentContext(made["context"]))
    made |= {name: ok(acl.aclrtCreateStream()) for name in ("stream", "destroyed_stream")}
    ok(acl.aclrtDestroyStream(made["destroyed_stream"]))
    made |= {name: ok(acl.aclrtCreateEvent()) for name in ("event", "destroyed_event")}
    ok(acl.aclrtRecordEvent(made["event"], made["stream"]))
    ok(acl.aclrtSynchronizeStream(made["stream"]))
    ok(acl.aclrtDestroyEvent(made["destroyed_event"]))
    conv = AclConvolution()
    made |= conv.tensors
    shapes = {
        "tbc_self": [5, 1, 2], "tbc_input": [5, 1, 2], "tbc_weight": [1, 2, 2], "tbc_bias": [2],
        "tbc_gradInput": [5, 1, 2], "tbc_gradWeight": [1, 2, 2], "tbc_gradBias": [2], "destroyed_weight": [2],
    }  # fmt: skip
    for name, shape in shapes.items():
        address = upload(np.zeros(shape, np.float32))
        made[name] = acl.aclCreateTensor(
            shape, len(shape), acl.ACL_FLOAT, None, 0, acl.ACL_FORMAT_ND, shape, len(shape), address
        )
    ints = {"biasSizes": [2], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "outputPadding": [0, 0]}
    made |= {name: acl.aclCreateIntArray(values, len(values)) for name, values in ints.items()}
    made["destroyed_stride"] = acl.aclCreateIntArray([1, 1], 2)
    made |= {name: acl.aclCreateBoolArray([True] * 3, 3) for name in ("outputMask", "destroyed_outputMask")}
    ok(acl.aclDestroyTensor(made["destroyed_weight"]))
    ok(acl.aclDestroyIntArray(made["destroyed_stride"]))
    ok(acl.aclDestroyBoolArray(made["destroyed_outputMask"]))
    made |= {"transposed": False, "groups": 1, "cubeMathType": 1, "pad": 0, "value": 1, "opt": 0}
    made |= {"destMax": 64, "maxCount": 64, "count": 64, "kind": acl.ACL_MEMCPY_HOST_TO_DEVICE, "src": bytes(64)}
    made["devPtr"] = made["dst"] = ok(acl.aclrtMalloc(64, 0))
    made["workspace"], made["workspaceSize"] = ok(acl.aclrtMalloc(1 << 20, 0)), 1 << 20

    def phase_one(function):
        return ok(function(*(made[spelled(FUNCTIONS[function.__name__], p)] for p in FUNCTIONS[function.__name__].inputs)))[1]

    made["destroyed_executor"] = phase_one(acl.aclnnConvolutionBackwardGetWorkspaceSize)
    ok(acl.aclnnConvolutionBackward(made["workspace"], 1 << 20, made["destroyed_executor"], made["stream"]))
    ok(acl.aclrtSynchronizeStream(made["stream"]))
    made["executor"] = phase_one(acl.aclnnConvolutionBackwardGetWorkspaceSize)
    made["tbc_executor"] = phase_one(acl.aclnnConvTbcBackwardGetWorkspaceSize)
    return made
