"""Asynchronous work in simulated time: nothing before a synchronise, overlap of streams, order by events, elapsed time."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

from ascend_sim import acl, use
from tests.support.acl.acl_calls import AclConvolution, download, ok, open_device, refused, upload


@pytest.fixture(autouse=True)
def races_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def spans(op_types):
    """(stream, begin, finish) of the last run's kernels of these types."""
    tasks = acl.last_run().timeline.tasks
    return [(run.task.stream, run.begin, run.finish) for run in tasks if run.task.op_type in op_types]


CUBE = ("Conv2DBackpropInput", "Conv2DBackpropFilter")


def test_results_are_there_only_after_a_synchronise(stream):
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    with pytest.warns(RuntimeWarning, match="aclrtMemcpy touches .* without a wait for aclnnConvolutionBackward"):
        early = conv.result("gradInput")
    assert (early == -1).all()
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(conv.result("gradInput"), conv.expected("gradInput"))


def test_a_copy_waits_for_the_default_stream():
    open_device()
    conv = AclConvolution().prepare()
    ok(conv.launch(None))
    np.testing.assert_array_equal(conv.result("gradInput"), conv.expected("gradInput"))


def test_synchronise_device_and_event_and_destroying_the_stream_do_it_too(stream):
    for synchronise in (
        lambda event: ok(acl.aclrtSynchronizeDevice()),
        lambda event: ok(acl.aclrtSynchronizeEvent(event)),
        lambda event: ok(acl.aclrtDestroyStream(stream)),
    ):
        conv = AclConvolution().prepare()
        event = ok(acl.aclrtCreateEvent())
        ok(conv.launch(stream))
        ok(acl.aclrtRecordEvent(event, stream))
        assert ok(acl.aclrtQueryEventStatus(event)) == acl.ACL_EVENT_RECORDED_STATUS_NOT_READY
        synchronise(event)
        assert ok(acl.aclrtQueryEventStatus(event)) == acl.ACL_EVENT_RECORDED_STATUS_COMPLETE
        np.testing.assert_array_equal(conv.result("gradBias"), conv.expected("gradBias"))


def test_two_streams_overlap_when_cores_are_free(stream):
    """Two equal small calls run after each other on one stream, at the same time on two."""
    other = ok(acl.aclrtCreateStream())

    def cycles(streams):
        calls = [AclConvolution().prepare() for _ in streams]
        for conv, where in zip(calls, streams, strict=True):
            ok(conv.launch(where))
        ok(acl.aclrtSynchronizeDevice())
        for conv in calls:
            np.testing.assert_array_equal(conv.result("gradWeight"), conv.expected("gradWeight"))
        timeline = acl.last_run().timeline
        return timeline.finish - min(run.launch for run in timeline.tasks)

    one_after_the_other = cycles([stream, stream])
    begins = spans(CUBE)
    assert all(end <= begin for (_, _, end), (_, begin, _) in pairwise(begins))
    together = cycles([stream, other])
    assert one_after_the_other / 2 <= together < 0.6 * one_after_the_other
    first, second = ([s for s in spans(CUBE) if s[0] == number] for number in {s[0] for s in spans(CUBE)})
    assert any(a[1] < b[2] and b[1] < a[2] for a in first for b in second)


def test_events_order_streams(stream):
    """A copy on another stream that waits for the event has the result; its run begins when the call has ended."""
    other = ok(acl.aclrtCreateStream())
    conv = AclConvolution().prepare()
    event = ok(acl.aclrtCreateEvent())
    host = np.zeros((2, 2, 7, 7), np.float32)
    ok(conv.launch(stream))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtStreamWaitEvent(other, event))
    source = conv.addresses["gradInput"]
    ok(acl.aclrtMemcpyAsync(host, host.nbytes, source, host.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST, other))
    assert not host.any()
    ok(acl.aclrtSynchronizeStream(other))
    np.testing.assert_array_equal(host, conv.expected("gradInput"))
    tasks = acl.last_run().timeline.tasks
    (copy,) = [run for run in tasks if run.task.op_type == "Memcpy"]
    assert copy.launch == max(run.finish for run in tasks if run.task.op_type != "Memcpy")


def test_without_the_event_the_same_program_is_a_race(stream):
    other = ok(acl.aclrtCreateStream())
    conv = AclConvolution().prepare()
    host = np.zeros((2, 2, 7, 7), np.float32)
    ok(conv.launch(stream))
    source = conv.addresses["gradInput"]
    ok(acl.aclrtMemcpyAsync(host, host.nbytes, source, host.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST, other))
    with pytest.warns(RuntimeWarning, match="race: .*aclnnConvolutionBackward"):
        ok(acl.aclrtSynchronizeDevice())
    assert (host == -1).all()  # the copy ended long before the kernels


def test_an_event_recorded_again_moves(stream):
    """Who waits gets the record of the time at which he began to wait."""
    other = ok(acl.aclrtCreateStream())
    event, late = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
    address, elsewhere = upload(np.zeros(1 << 20, np.uint8)), upload(np.zeros(64, np.uint8))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtStreamWaitEvent(other, event))
    ok(acl.aclrtMemsetAsync(address, 1 << 20, 1, 1 << 20, stream))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtMemsetAsync(elsewhere, 64, 1, 64, other))
    ok(acl.aclrtRecordEvent(late, other))
    ok(acl.aclrtSynchronizeDevice())
    assert ok(acl.aclrtEventElapsedTime(event, late)) < 0  # other did not wait for the long memset


def test_an_event_of_an_earlier_run_holds_nobody(stream):
    event = ok(acl.aclrtCreateEvent())
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    address = upload(np.zeros(4, np.uint8))
    ok(acl.aclrtStreamWaitEvent(stream, event))
    ok(acl.aclrtMemsetAsync(address, 4, 5, 4, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert download(address, 4, np.uint8).tolist() == [5] * 4


def test_elapsed_time_is_the_simulated_time_between(stream):
    start, middle, end = (ok(acl.aclrtCreateEvent()) for _ in range(3))
    conv, second = AclConvolution().prepare(), AclConvolution().prepare()
    ok(acl.aclrtRecordEvent(start, stream))
    ok(conv.launch(stream))
    ok(acl.aclrtRecordEvent(middle, stream))
    ok(second.launch(stream))
    ok(acl.aclrtRecordEvent(end, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    timeline = acl.last_run().timeline
    cycles = timeline.finish - timeline.tasks[0].launch
    assert ok(acl.aclrtEventElapsedTime(start, end)) == pytest.approx(cycles / 1800e3)  # ascend910b3: 1800 MHz
    parts = ok(acl.aclrtEventElapsedTime(start, middle)), ok(acl.aclrtEventElapsedTime(middle, end))
    assert min(parts) > 0.01
    assert sum(parts) == pytest.approx(ok(acl.aclrtEventElapsedTime(start, end)))


def test_time_goes_on_from_run_to_run(stream):
    start, end = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
    address = upload(np.zeros(4, np.uint8))
    ok(acl.aclrtRecordEvent(start, stream))
    for _ in range(3):
        ok(acl.aclrtMemsetAsync(address, 4, 5, 4, stream))
        ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtRecordEvent(end, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    launch_us = 3.2  # chip file dav-2201, launch.task_overhead_us of an AIC task
    assert ok(acl.aclrtEventElapsedTime(start, end)) == pytest.approx(3 * launch_us / 1e3, rel=1e-3)


def test_a_longer_copy_takes_longer_by_its_bytes(stream):
    def milliseconds(size, kind, source):
        start, end = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
        target = ok(acl.aclrtMalloc(size, 0))
        ok(acl.aclrtRecordEvent(start, stream))
        ok(acl.aclrtMemcpyAsync(target, size, source, size, kind, stream))
        ok(acl.aclrtRecordEvent(end, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        return ok(acl.aclrtEventElapsedTime(start, end))

    host = np.zeros(8 << 20, np.uint8)
    device = upload(host)
    per_byte = 1 / (1750e9 * 0.83) * 1e3  # chip files: hbm_gb_per_s x hbm_efficiency
    up = [milliseconds(size, acl.ACL_MEMCPY_HOST_TO_DEVICE, host) for size in (1 << 20, 8 << 20)]
    across = [milliseconds(size, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, device) for size in (1 << 20, 8 << 20)]
    assert up[1] - up[0] == pytest.approx((7 << 20) * per_byte, rel=1e-3)
    assert across[1] - across[0] == pytest.approx(2 * (7 << 20) * per_byte, rel=1e-3)


def test_copies_and_kernels_of_one_stream_keep_their_order(stream):
    """Upload, convolve, download, all on one stream, twice through the same memory."""
    results = []
    conv = AclConvolution().prepare()
    for factor in (1, 3):
        if conv.executor.used:
            conv.workspace_size, conv.executor = ok(conv.size_call())
        ones = np.full((2, 2, 7, 7), factor, np.float32)
        host = np.zeros((2, 2, 7, 7), np.float32)
        to_device, to_host = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
        ok(acl.aclrtMemcpyAsync(conv.addresses["gradOutput"], ones.nbytes, ones, ones.nbytes, to_device, stream))
        ok(conv.launch(stream))
        ok(acl.aclrtMemcpyAsync(host, host.nbytes, conv.addresses["gradInput"], host.nbytes, to_host, stream))
        results.append((host, factor * conv.expected("gradInput")))
    ok(acl.aclrtSynchronizeStream(stream))
    for host, expected in results:
        np.testing.assert_array_equal(host, expected)


def test_full_and_functional_give_the_same_bits():
    images = np.random.default_rng(0).standard_normal((2, 2, 7, 7)).astype(np.float32)
    results = []
    for mode in ("full", "functional"):
        use(mode=mode)
        stream = open_device()
        ok(acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
        conv = AclConvolution()
        ok(acl.aclrtMemcpy(conv.addresses["input"], images.nbytes, images, images.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE))
        ok(conv.prepare().launch(stream))
        ok(acl.aclrtSynchronizeStream(stream))
        results.append(conv.result("gradWeight"))
        ok(acl.aclFinalize())
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0][0, :, 0, 0], images.sum((0, 2, 3)), rtol=0.01)  # hf32


def test_functional_mode_has_no_time():
    use(mode="functional")
    stream = open_device()
    start, end = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
    ok(acl.aclrtRecordEvent(start, stream))
    ok(acl.aclrtRecordEvent(end, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert ok(acl.aclrtQueryEventStatus(end)) == acl.ACL_EVENT_RECORDED_STATUS_COMPLETE
    refused(acl.aclrtEventElapsedTime(start, end), "no time", "mode='full'")


def test_work_that_another_wait_ran_is_still_not_waited_for(stream):
    other = ok(acl.aclrtCreateStream())
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    for wait in (lambda: acl.aclrtSynchronizeStream(other), lambda: acl.aclrtSynchronizeStream(None)):
        ok(wait())
        with pytest.warns(RuntimeWarning, match="without a wait for aclnnConvolutionBackward"):
            conv.result("gradInput")
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(conv.result("gradInput"), conv.expected("gradInput"))


def test_a_wait_covers_what_its_events_waited_for_and_no_later_work(stream):
    other = ok(acl.aclrtCreateStream())
    first, second = AclConvolution().prepare(), AclConvolution().prepare()
    event = ok(acl.aclrtCreateEvent())
    ok(first.launch(stream))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(second.launch(stream))
    ok(acl.aclrtStreamWaitEvent(other, event))
    ok(acl.aclrtSynchronizeStream(other))
    np.testing.assert_array_equal(first.result("gradInput"), first.expected("gradInput"))
    with pytest.warns(RuntimeWarning, match="without a wait for aclnnConvolutionBackward"):
        second.result("gradInput")


def test_an_event_seen_complete_is_a_wait(stream):
    conv = AclConvolution().prepare()
    event = ok(acl.aclrtCreateEvent())
    ok(conv.launch(stream))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(None))
    assert ok(acl.aclrtQueryEventStatus(event)) == acl.ACL_EVENT_RECORDED_STATUS_COMPLETE
    np.testing.assert_array_equal(conv.result("gradInput"), conv.expected("gradInput"))
