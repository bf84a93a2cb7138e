"""Host threads: the current context and the last message are each thread's own, the device is everybody's."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import AclConvolution, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


@pytest.fixture
def other():
    """Runs a function in another thread, the same one each time."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def test_the_message_is_that_of_the_threads_own_call(other):
    open_device()
    assert other(acl.aclrtFree, 7) == acl.ASSUMED_CODES["no device"].code
    refused(acl.aclrtFree(None), "null pointer", "aclrtFree")
    assert "this thread has no context" in other(acl.aclGetRecentErrMsg)


def test_threads_with_a_context_and_a_stream_each():
    """All start together; every one sees its own results, and the device's time is one."""
    open_device()
    together = Barrier(4)

    def work(number):
        ok(acl.aclrtSetDevice(0))
        ok(acl.aclrtCreateContext(0))
        stream = ok(acl.aclrtCreateStream())
        start, end = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
        conv = AclConvolution(channels=1 + number).prepare()
        scratch = upload(np.zeros(16, np.uint8))
        together.wait()
        for _ in range(20):
            ok(acl.aclrtMemsetAsync(scratch, 16, number, 16, stream))
        ok(acl.aclrtRecordEvent(start, stream))
        ok(conv.launch(stream))
        ok(acl.aclrtRecordEvent(end, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        for name in ("gradInput", "gradWeight", "gradBias"):
            np.testing.assert_array_equal(conv.result(name), conv.expected(name))
        return ok(acl.aclrtEventElapsedTime(start, end))

    with ThreadPoolExecutor(4) as pool:
        times = list(pool.map(work, range(4)))
    assert min(times) > 0.01
