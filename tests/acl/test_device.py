"""An open device runs its queue to idle, and says what of its work failed."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import download, ok, refused, upload

pytestmark = pytest.mark.fast


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
