"""Whatever a caller passes to whatever function: a code of the vendor's list, never an exception."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ascend_sim import acl, use
from ascend_sim.acl.enums import CODE_NAMES
from tests.support.acl.acl_calls import AclConvolution, int_array, ok, open_device
from tests.support.sampling import sampled

FUNCTIONS = sorted(name for name in acl.__all__ if inspect.isfunction(getattr(acl, name)) and name.startswith("acl"))
POINTERS = {"aclCreateTensor", "aclCreateIntArray", "aclCreateBoolArray"}
NOT_A_STATUS = {*POINTERS, "aclGetRecentErrMsg"}
CODES = {acl.ACL_SUCCESS, *CODE_NAMES}
THINGS = []


def make_things():
    """A device with handles and pointers, good and gone, to be mixed with anything else."""
    acl.aclFinalize()
    use(mode="functional")
    stream = open_device()
    gone = ok(acl.aclrtCreateStream())
    ok(acl.aclrtDestroyStream(gone))
    conv = AclConvolution().prepare()
    event = ok(acl.aclrtCreateEvent())
    freed = ok(acl.aclrtMalloc(64, 0))
    ok(acl.aclrtFree(freed))
    context = ok(acl.aclrtGetCurrentContext())
    mask = acl.aclCreateBoolArray([True] * 3, 3)
    return [
        stream,
        gone,
        event,
        freed,
        context,
        mask,
        int_array(1, 1),
        conv.executor,
        conv.workspace,
        *conv.tensors.values(),
        *conv.addresses.values(),
        np.zeros(4),
        bytearray(8),
        b"x",
        [1, 2],
        (3,),
        object(),
        1 << 70,
        -1,
    ]


@dataclass(frozen=True)
class Thing:
    """The place of one of these in their list."""

    index: int


ANYTHING = st.one_of(
    st.integers(0, 40).map(Thing),
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.integers(-2, 9), max_size=5),
)


@sampled(100, 800, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_call_ends_in_a_code(data):
    if acl.aclrtGetDevice()[0] != 0:  # the last example closed it
        THINGS[:] = make_things()
    function = getattr(acl, data.draw(st.sampled_from(FUNCTIONS)))
    drawn = [data.draw(ANYTHING) for _ in inspect.signature(function).parameters]
    result = function(*(THINGS[value.index % len(THINGS)] if isinstance(value, Thing) else value for value in drawn))
    if function.__name__ in NOT_A_STATUS:
        return
    code = result[0] if isinstance(result, tuple) else result
    assert code in CODES
    defects = (acl.ACL_ERROR_INTERNAL_ERROR, acl.ACLNN_ERR_INNER)
    assert code not in defects or "freed before it ran" in acl.aclGetRecentErrMsg(), acl.aclGetRecentErrMsg()


def test_the_list_of_functions_is_the_interface():
    """All that programs around the operators call, by the vendor's names."""
    assert set(FUNCTIONS) >= {
        "aclInit",
        "aclFinalize",
        "aclrtSetDevice",
        "aclrtResetDevice",
        "aclrtGetDevice",
        "aclrtCreateStream",
        "aclrtDestroyStream",
        "aclrtSynchronizeStream",
        "aclrtSynchronizeDevice",
        "aclrtMalloc",
        "aclrtFree",
        "aclrtMemcpy",
        "aclrtMemcpyAsync",
        "aclrtMemset",
        "aclrtMemsetAsync",
        "aclrtGetMemInfo",
        "aclrtCreateEvent",
        "aclrtDestroyEvent",
        "aclrtRecordEvent",
        "aclrtStreamWaitEvent",
        "aclrtSynchronizeEvent",
        "aclrtEventElapsedTime",
        "aclrtCreateContext",
        "aclrtDestroyContext",
        "aclrtSetCurrentContext",
        "aclrtGetCurrentContext",
        "aclrtSetSysParamOpt",
        "aclrtGetSysParamOpt",
        "aclrtCtxSetSysParamOpt",
        "aclrtCtxGetSysParamOpt",
        "aclCreateTensor",
        "aclDestroyTensor",
        "aclCreateIntArray",
        "aclDestroyIntArray",
        "aclCreateBoolArray",
        "aclDestroyBoolArray",
        "aclGetRecentErrMsg",
        "aclnnConvolutionBackwardGetWorkspaceSize",
        "aclnnConvolutionBackward",
        "aclnnConvTbcBackwardGetWorkspaceSize",
        "aclnnConvTbcBackward",
    }
