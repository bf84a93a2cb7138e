"""Copies and memsets: every kind, every sort of host buffer, addresses inside blocks."""

from array import array

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import acl
from ascend_sim.acl import state
from tests.support.acl.acl_calls import download, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


@pytest.fixture
def stream():
    return open_device()


@pytest.mark.parametrize(
    "host",
    [
        b"0123456789abcdef",
        bytearray(range(16)),
        memoryview(bytes(16)),
        array("i", [1, 2, 3, 4]),
        np.arange(4, dtype=np.float32),
        np.arange(8).astype(ml_dtypes.bfloat16).reshape(2, 4),
        np.float32(3) * np.ones((), np.float32),
    ],
    ids=lambda host: type(host).__name__,
)
def test_there_and_back(stream, host):
    raw = host.tobytes() if hasattr(host, "tobytes") else bytes(host)
    size = len(raw)
    address = ok(acl.aclrtMalloc(size, 0))
    ok(acl.aclrtMemcpy(address, size, host, size, acl.ACL_MEMCPY_HOST_TO_DEVICE))
    back = bytearray(size)
    ok(acl.aclrtMemcpy(back, size, address, size, acl.ACL_MEMCPY_DEVICE_TO_HOST))
    assert bytes(back) == raw


def test_into_arrays_of_any_dtype(stream):
    values = np.array([1.5, -2, 0.25], ml_dtypes.bfloat16)
    assert download(upload(values), 3, ml_dtypes.bfloat16).tolist() == values.tolist()
    array16 = np.zeros((3, 1), np.float16)
    ok(acl.aclrtMemcpy(array16, 6, upload(np.ones(3, np.float16)), 6, acl.ACL_MEMCPY_DEFAULT))
    assert array16.tolist() == [[1], [1], [1]]


def test_the_default_kind_reads_the_pointers(stream):
    address, other = upload(np.arange(4, dtype=np.uint8)), ok(acl.aclrtMalloc(4, 0))
    ok(acl.aclrtMemcpy(other, 4, address, 4, acl.ACL_MEMCPY_DEFAULT))
    target = bytearray(4)
    ok(acl.aclrtMemcpy(target, 4, other, 4, acl.ACL_MEMCPY_DEFAULT))
    twice = bytearray(4)
    ok(acl.aclrtMemcpy(twice, 4, target, 4, acl.ACL_MEMCPY_HOST_TO_HOST))
    assert list(twice) == [0, 1, 2, 3]


def test_overlapping_copy_inside_a_block(stream):
    address = upload(np.arange(8, dtype=np.uint8))
    ok(acl.aclrtMemcpy(address + 2, 6, address, 6, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
    assert download(address, 8, np.uint8).tolist() == [0, 1, 0, 1, 2, 3, 4, 5]


def test_memset_takes_the_low_byte(stream):
    address = upload(np.zeros(8, np.uint8))
    ok(acl.aclrtMemset(address + 2, 6, 0x1FE, 3))
    ok(acl.aclrtMemset(address + 6, 2, -1, 1))
    assert download(address, 8, np.uint8).tolist() == [0, 0, 254, 254, 254, 0, 255, 0]


def test_fresh_memory_is_poisoned_not_zero(stream):
    assert download(ok(acl.aclrtMalloc(64, 0)), 64, np.uint8).all()


def test_addresses_are_aligned_and_apart(stream):
    addresses = [ok(acl.aclrtMalloc(size, policy)) for size, policy in ((1, 0), (513, 1), (7, 2))]
    assert all(address % 512 == 0 for address in addresses)
    assert all(isinstance(address, int) for address in addresses)
    assert len(set(addresses)) == 3


@pytest.mark.parametrize("size", [0, -1, -(2**70), True, False, 64.0, "64", None, np.int64(-32), np.bool_(True)])
def test_what_is_no_size_is_refused(stream, size):
    """100000 where the size is below 1 or no integer; C's -1 is the largest size_t, which no memory has."""
    assert acl.aclrtMalloc(size, 0) == (acl.ACL_ERROR_INVALID_PARAM, None)
    assert "size" in acl.aclGetRecentErrMsg()
    assert acl.aclrtMalloc((1 << 64) - 1, 0)[0] != 0


def test_host_memory_of_an_async_copy_is_read_when_it_runs(stream):
    host = bytearray(b"old!")
    address = ok(acl.aclrtMalloc(4, 0))
    ok(acl.aclrtMemcpyAsync(address, 4, host, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream))
    host[:] = b"new!"
    ok(acl.aclrtSynchronizeStream(stream))
    assert download(address, 4, np.uint8).tobytes() == b"new!"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_device_memory_behaves_like_bytearrays(data):
    """Random mallocs, frees, copies and memsets against a dictionary of bytearrays."""
    state.PROCESS.__init__()
    open_device()
    model: dict[int, bytearray] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["malloc", "free", "memset", "copy", "check"]))
        if action == "malloc" or not model:
            size = data.draw(st.integers(1, 1500))
            address = ok(acl.aclrtMalloc(size, 0))
            assert all(address >= base + len(b) or address + size <= base for base, b in model.items())
            ok(acl.aclrtMemset(address, size, 0, size))
            model[address] = bytearray(size)
            continue
        base = data.draw(st.sampled_from(sorted(model)))
        block = model[base]
        offset = data.draw(st.integers(0, len(block) - 1))
        count = data.draw(st.integers(0, 40))
        fits = offset + count <= len(block)
        if action == "free":
            ok(acl.aclrtFree(base))
            del model[base]
        elif action == "memset":
            code = acl.aclrtMemset(base + offset, count, 7, count)
            assert (code == 0) == fits
            if fits:
                block[offset : offset + count] = bytes([7]) * count
        elif action == "copy":
            source = bytes(range(count))
            code = acl.aclrtMemcpy(base + offset, count, source, count, acl.ACL_MEMCPY_HOST_TO_DEVICE)
            assert (code == 0) == fits
            if fits:
                block[offset : offset + count] = source
        else:
            assert download(base, len(block), np.uint8).tobytes() == bytes(block)
    for base, block in model.items():
        assert download(base, len(block), np.uint8).tobytes() == bytes(block)


def test_an_array_of_objects_is_no_host_memory(stream):
    address = ok(acl.aclrtMalloc(8, acl.ACL_MEM_MALLOC_HUGE_FIRST))
    objects = np.array([None], object)
    refused(acl.aclrtMemcpy(address, 8, objects, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE), "argument", "src", "Python objects")


def test_memory_that_was_freed_is_forgotten_in_the_end():
    """A program that allocates for ever does not fill the host; the last addresses are still told apart."""
    open_device()
    kept, first = (ok(acl.aclrtMalloc(64, 0)) for _ in range(2))
    ok(acl.aclrtFree(first))
    for _ in range(2000):
        last = ok(acl.aclrtMalloc(64, 0))
        ok(acl.aclrtFree(last))
    refused(acl.aclrtFree(last), "freed pointer", "was freed (64 bytes")
    refused(acl.aclrtFree(first), "foreign pointer", "freed long ago")
    assert len(state.PROCESS.device.memory._blocks) < 2000
    upload(np.arange(4.0))
    ok(acl.aclrtFree(kept))
