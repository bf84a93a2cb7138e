"""Every misuse of the handles of streams and events: a code of the table and a message that names it."""

import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import ok, refused

pytestmark = pytest.mark.fast


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
