"""Initialising, devices, contexts and system parameters: what they do, and the code of every misuse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import AclConvolution, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


def filter_kernel():
    """The op type of the gradWeight kernel: deterministic calls go to another one on the 910B."""
    executor = ok(AclConvolution(cube_math_type=0).size_call())[1]
    return next(step.op_type for step in executor.plan.steps if step.name == "grad_weight")


def test_the_parameter_of_the_process_reaches_the_operators():
    open_device()
    assert filter_kernel() == "Conv2DBackpropFilter"
    ok(acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
    assert ok(acl.aclrtGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC)) == 1
    assert ok(acl.aclrtCtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC)) == 1
    assert filter_kernel().startswith("Conv3DBackpropFilter")
    ok(acl.aclFinalize())
    open_device()
    assert ok(acl.aclrtGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC)) == 0


def test_the_parameter_of_the_context_goes_before_it_and_stays_in_the_context():
    open_device()
    first = ok(acl.aclrtGetCurrentContext())
    ok(acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
    ok(acl.aclrtCtxSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 0))
    assert ok(acl.aclrtCtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC)) == 0
    assert filter_kernel() == "Conv2DBackpropFilter"
    ok(acl.aclrtCreateContext(0))
    assert filter_kernel().startswith("Conv3DBackpropFilter")
    ok(acl.aclrtSetCurrentContext(first))
    assert filter_kernel() == "Conv2DBackpropFilter"


@pytest.mark.parametrize(
    ("option", "value", "word"), [(2, 1, "opt = 2"), (0, 2, "value = 2"), ("0", 1, "opt"), (0, None, "value")]
)
def test_parameters_that_there_are_not(option, value, word):
    open_device()
    refused(acl.aclrtSetSysParamOpt(option, value), "argument", word)
    refused(acl.aclrtCtxSetSysParamOpt(option, value), "argument", word)


@pytest.mark.parametrize(
    "call",
    [
        lambda: acl.aclrtSetDevice(0),
        lambda: acl.aclrtCreateStream(),
        lambda: acl.aclrtMalloc(32, 0),
        lambda: acl.aclrtFree(512),
        lambda: acl.aclrtMemcpy(512, 4, bytearray(4), 4, acl.ACL_MEMCPY_HOST_TO_DEVICE),
        lambda: acl.aclrtSynchronizeDevice(),
        lambda: acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1),
        lambda: acl.aclFinalize(),
    ],
)
def test_a_call_before_init(call):
    refused(call(), "not initialised", "aclInit was not called")


def test_an_operator_call_before_init():
    arguments = [None] * 15
    refused(acl.aclnnConvolutionBackwardGetWorkspaceSize(*arguments), "aclnn runtime", "aclInit")
    refused(acl.aclnnConvolutionBackward(None, 0, None, None), "aclnn runtime", "aclInit")


def test_a_second_init_and_a_second_finalize():
    ok(acl.aclInit(None))
    refused(acl.aclInit(None), "initialised twice", "aclInit")
    ok(acl.aclFinalize())
    refused(acl.aclFinalize(), "finalised twice", "aclFinalize")
    refused(acl.aclrtSetDevice(0), "not initialised")
    ok(acl.aclInit(None))


def test_the_config_file_must_be_json(tmp_path):
    file = tmp_path / "acl.json"
    refused(acl.aclInit(str(file)), "config file", "acl.json")
    file.write_text("{")
    refused(acl.aclInit(str(file)), "config file")
    file.write_text("{}")
    ok(acl.aclInit(str(file)))


@pytest.mark.parametrize("number", [1, -1, 99])
def test_a_device_that_there_is_not(number):
    ok(acl.aclInit(None))
    refused(acl.aclrtSetDevice(number), "no device", str(number))


def test_calls_that_need_a_device():
    ok(acl.aclInit(None))
    refused(acl.aclrtCreateStream(), "no device", "aclrtSetDevice")
    refused(acl.aclrtMalloc(32, 0), "no device")
    refused(acl.aclrtGetDevice(), "no device")
    refused(acl.aclrtResetDevice(0), "no device")


def test_a_chip_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_CHIP", "ascend000")
    ok(acl.aclInit(None))
    refused(acl.aclrtSetDevice(0), "no device", "ascend000")


def test_set_and_reset_are_counted(stream):
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtResetDevice(0))
    refused(acl.aclrtSynchronizeStream(stream), "no device")


def test_a_context_that_is_gone_takes_its_streams_along(stream):
    default = ok(acl.aclrtGetCurrentContext())
    context = ok(acl.aclrtCreateContext(0))
    other = ok(acl.aclrtCreateStream())
    ok(acl.aclrtDestroyContext(context))
    refused(acl.aclrtSynchronizeStream(other), "handle gone", "context")
    refused(acl.aclrtCreateStream(), "handle gone", "context")
    refused(acl.aclrtSetCurrentContext(context), "handle gone")
    ok(acl.aclrtSetCurrentContext(default))
    ok(acl.aclrtSynchronizeStream(stream))
    refused(acl.aclrtDestroyContext(default), "argument", "aclrtResetDevice")


def test_a_device_that_was_reset_takes_everything_along(stream):
    address = upload(np.arange(4.0))
    event = ok(acl.aclrtCreateEvent())
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    refused(acl.aclrtSynchronizeStream(stream), "handle gone", "reset")
    refused(acl.aclrtDestroyEvent(event), "handle gone")
    refused(acl.aclrtFree(address), "foreign pointer")
    assert upload(np.arange(4.0)) != address


@pytest.fixture
def other():
    """Runs a function in another thread, the same one each time."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def deterministic():
    return ok(acl.aclrtCtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC))


def test_another_threads_context_does_not_switch_this_ones_options(other):
    open_device()
    ok(acl.aclrtCtxSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
    mine = ok(acl.aclrtGetCurrentContext())
    theirs = ok(other(acl.aclrtCreateContext, 0))
    assert other(deterministic) == 0
    assert deterministic() == 1
    assert ok(acl.aclrtGetCurrentContext()) is mine
    assert ok(other(acl.aclrtGetCurrentContext)) is theirs
    ok(acl.aclrtSetCurrentContext(theirs))  # a context may be shared, and then so are its options
    ok(acl.aclrtCtxSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
    assert other(deterministic) == 1


def test_set_device_makes_the_shared_default_context_current(other):
    open_device()
    mine = ok(acl.aclrtGetCurrentContext())
    ok(other(acl.aclrtSetDevice, 0))
    assert ok(other(acl.aclrtGetCurrentContext)) is mine
    ok(acl.aclrtCreateContext(0))
    ok(acl.aclrtSetDevice(0))
    assert ok(acl.aclrtGetCurrentContext()) is mine


def test_a_thread_without_a_context_is_told_so(other):
    stream = open_device()
    asked = ((acl.aclrtMalloc, 64, 0), (acl.aclrtCreateStream,), (acl.aclrtSynchronizeStream, stream), (acl.aclrtGetDevice,))
    for function, *arguments in asked:
        result = other(function, *arguments)
        assert (result[0] if isinstance(result, tuple) else result) == acl.ASSUMED_CODES["no device"].code
        assert "this thread has no context" in other(acl.aclGetRecentErrMsg)
    ok(other(acl.aclrtSetCurrentContext, ok(acl.aclrtGetCurrentContext())))
    ok(other(acl.aclrtSynchronizeStream, stream))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    assert other(acl.aclrtCreateEvent)[0] == acl.ASSUMED_CODES["no device"].code  # its context went with the device


def test_a_context_destroyed_by_another_thread(other):
    open_device()
    context = ok(other(acl.aclrtCreateContext, 0))
    ok(acl.aclrtDestroyContext(context))
    assert other(acl.aclrtCreateStream)[0] == acl.ASSUMED_CODES["handle gone"].code
    ok(acl.aclrtCreateStream())
