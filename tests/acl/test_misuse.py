"""Every misuse of memory, streams, events, contexts and initialisation: a code of the table and a message that names it."""

import numpy as np
import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import download, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


@pytest.fixture
def stream():
    return open_device()


# -- initialising -----------------------------------------------------------------------------------------------------


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


# -- memory -----------------------------------------------------------------------------------------------------------


def test_double_free(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    ok(acl.aclrtFree(address))
    refused(acl.aclrtFree(address), "freed pointer", f"{address:#x}", "freed")


def test_use_after_free_also_when_the_place_was_given_away(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    ok(acl.aclrtFree(address))
    other = ok(acl.aclrtMalloc(64, 0))
    assert other != address
    refused(acl.aclrtMemset(address, 64, 0, 64), "freed pointer", f"{address:#x}")
    refused(acl.aclrtMemcpy(bytearray(4), 4, address, 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "freed pointer", "src")


@pytest.mark.parametrize("address", [0, 512, 1 << 60, -5])
def test_foreign_pointers(stream, address):
    refused(acl.aclrtFree(address), "foreign pointer", f"{address:#x}")
    refused(acl.aclrtMemset(address, 4, 0, 4), "foreign pointer", f"{address:#x}")


def test_freeing_the_middle_of_a_block(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    refused(acl.aclrtFree(address + 32), "foreign pointer", "32 bytes into")
    ok(acl.aclrtFree(address))


def test_null_pointers(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    refused(acl.aclrtFree(None), "null pointer", "devPtr")
    refused(acl.aclrtMemset(None, 4, 0, 4), "null pointer", "devPtr")
    refused(acl.aclrtMemcpy(None, 4, address, 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "null pointer", "dst")
    refused(acl.aclrtMemcpy(address, 4, None, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE), "null pointer", "src")


def test_copies_beyond_an_allocation(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    to_device, to_host = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
    refused(acl.aclrtMemcpy(address, 100, bytearray(100), 65, to_device), "beyond", "64 bytes left")
    refused(acl.aclrtMemcpy(address + 32, 64, bytearray(100), 33, to_device), "beyond", "32 bytes left")
    refused(acl.aclrtMemcpy(bytearray(8), 64, address, 64, to_host), "beyond", "host buffer of 8 bytes")
    refused(acl.aclrtMemcpy(address, 64, b"1234", 5, to_device), "beyond", "host buffer of 4 bytes")
    refused(acl.aclrtMemcpy(address, 8, bytearray(64), 9, to_device), "beyond", "destMax = 8")
    refused(acl.aclrtMemset(address, 65, 0, 65), "beyond", "64 bytes left")
    refused(acl.aclrtMemset(address, 8, 0, 9), "beyond", "maxCount = 8")
    refused(acl.aclrtMemcpyAsync(address, 65, bytearray(65), 65, to_device, stream), "beyond")


def test_copies_whose_pointers_do_not_fit_their_kind(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    refused(acl.aclrtMemcpy(address, 4, bytearray(4), 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "argument", "DEVICE_TO_HOST")
    refused(acl.aclrtMemcpy(bytearray(4), 4, address, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE), "argument")
    refused(acl.aclrtMemcpy(address, 4, bytearray(4), 4, 9), "argument", "kind = 9")
    refused(acl.aclrtMemcpy(b"1234", 4, address, 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "argument", "read-only")
    refused(acl.aclrtMemcpy(address, 4, "text", 4, acl.ACL_MEMCPY_HOST_TO_DEVICE), "argument", "src")
    strided = np.zeros((4, 4), np.float32)[:, ::2]
    refused(acl.aclrtMemcpy(strided, 4, address, 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "argument", "contiguous")


@pytest.mark.parametrize("size", [0, -1, 1.5, None, "64"])
def test_sizes_that_malloc_refuses(stream, size):
    refused(acl.aclrtMalloc(size, 0), "argument", "size")


def test_more_memory_than_there_is(stream):
    free, total = ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM))
    assert free == total == 68719476736  # CANN 8.1.RC1 platform_config/Ascend910B3.ini memory_size
    refused(acl.aclrtMalloc(total + 1, 0), "out of memory", f"{total + 1:,} bytes", f"{total:,} of 64 GiB")
    large = ok(acl.aclrtMalloc(total - 512, 0))  # takes none of the host's memory before it is written
    assert ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM)) == (512, total)
    refused(acl.aclrtMalloc(513, 0), "out of memory")
    ok(acl.aclrtFree(large))
    assert ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM)) == (total, total)
    refused(acl.aclrtGetMemInfo(acl.ACL_DDR_MEM), "argument", "HBM")


# -- streams, events, contexts ----------------------------------------------------------------------------------------


def test_a_stream_that_is_gone(stream):
    ok(acl.aclrtDestroyStream(stream))
    event = ok(acl.aclrtCreateEvent())
    address = ok(acl.aclrtMalloc(4, 0))
    refused(acl.aclrtSynchronizeStream(stream), "handle gone", "stream")
    refused(acl.aclrtDestroyStream(stream), "handle gone")
    refused(acl.aclrtRecordEvent(event, stream), "handle gone")
    refused(acl.aclrtMemsetAsync(address, 4, 0, 4, stream), "handle gone")


@pytest.mark.parametrize("handle", [7, "stream", object()])
def test_handles_that_nobody_made(stream, handle):
    refused(acl.aclrtSynchronizeStream(handle), "foreign handle", type(handle).__name__)
    refused(acl.aclrtDestroyEvent(handle), "foreign handle")
    refused(acl.aclrtSetCurrentContext(handle), "foreign handle")


def test_an_event_is_no_stream(stream):
    event = ok(acl.aclrtCreateEvent())
    refused(acl.aclrtSynchronizeStream(event), "foreign handle", "Event")
    refused(acl.aclrtRecordEvent(stream, stream), "foreign handle", "Stream")


def test_null_handles(stream):
    refused(acl.aclrtDestroyStream(None), "null pointer", "default stream")
    refused(acl.aclrtDestroyEvent(None), "null pointer", "event")
    refused(acl.aclrtDestroyContext(None), "null pointer", "context")


def test_events_that_were_not_recorded_or_are_gone(stream):
    start, end = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
    refused(acl.aclrtStreamWaitEvent(stream, start), "event not recorded", "never recorded")
    refused(acl.aclrtSynchronizeEvent(start), "event not recorded")
    ok(acl.aclrtRecordEvent(start, stream))
    refused(acl.aclrtEventElapsedTime(start, end), "event not recorded", "endEvent")
    ok(acl.aclrtRecordEvent(end, stream))
    refused(acl.aclrtEventElapsedTime(start, end), "event not recorded", "not complete")
    ok(acl.aclrtSynchronizeEvent(end))
    assert ok(acl.aclrtEventElapsedTime(start, end)) == 0.0
    ok(acl.aclrtDestroyEvent(end))
    refused(acl.aclrtDestroyEvent(end), "handle gone", "event")
    refused(acl.aclrtEventElapsedTime(start, end), "handle gone", "endEvent")


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


def test_memory_freed_before_the_work_that_needs_it(stream):
    """The call that synchronises says so; the stream's later work and who waits for it are dropped, the rest runs."""
    waiting, other = ok(acl.aclrtCreateStream()), ok(acl.aclrtCreateStream())
    doomed, target, third = (upload(np.zeros(4, np.float32)) for _ in range(3))
    event = ok(acl.aclrtCreateEvent())
    ok(acl.aclrtMemsetAsync(doomed, 16, 1, 16, stream))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtStreamWaitEvent(waiting, event))
    ok(acl.aclrtMemsetAsync(target, 16, 1, 16, waiting))
    ok(acl.aclrtMemsetAsync(third, 16, 1, 16, other))
    ok(acl.aclrtFree(doomed))
    ok(acl.aclrtSynchronizeStream(other))
    refused(acl.aclrtSynchronizeStream(stream), "work failed", "freed", f"{doomed:#x}")
    refused(acl.aclrtSynchronizeStream(waiting), "work failed", "event")
    refused(acl.aclrtQueryEventStatus(event), "work failed")
    ok(acl.aclrtSynchronizeDevice())  # told once
    assert not download(target, 16, np.uint8).any()
    assert (download(third, 16, np.uint8) == 1).all()


def test_work_that_failed_is_told_when_the_device_closes(stream):
    address = ok(acl.aclrtMalloc(4, 0))
    ok(acl.aclrtMemsetAsync(address, 4, 0, 4, stream))
    ok(acl.aclrtFree(address))
    refused(acl.aclFinalize(), "work failed", "aclrtMemsetAsync")
    refused(acl.aclFinalize(), "finalised twice")


def test_the_message_stays_until_the_next_failure(stream):
    assert acl.aclGetRecentErrMsg() is None
    acl.aclrtFree(None)
    message = acl.aclGetRecentErrMsg()
    assert message.startswith("aclrtFree: 100000 ACL_ERROR_INVALID_PARAM: ")
    ok(acl.aclrtSynchronizeDevice())
    assert acl.aclGetRecentErrMsg() == message
