"""Copies and memsets: every kind, every sort of host buffer, addresses inside blocks."""

from array import array

import ml_dtypes
import numpy as np
import pytest

from ascend_sim import acl
from tests.support.acl.acl_calls import download, ok, refused, upload

pytestmark = pytest.mark.fast


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


def test_host_memory_of_an_async_copy_is_read_when_it_runs(stream):
    host = bytearray(b"old!")
    address = ok(acl.aclrtMalloc(4, 0))
    ok(acl.aclrtMemcpyAsync(address, 4, host, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream))
    host[:] = b"new!"
    ok(acl.aclrtSynchronizeStream(stream))
    assert download(address, 4, np.uint8).tobytes() == b"new!"


def test_an_array_of_objects_is_no_host_memory(stream):
    address = ok(acl.aclrtMalloc(8, acl.ACL_MEM_MALLOC_HUGE_FIRST))
    objects = np.array([None], object)
    refused(acl.aclrtMemcpy(address, 8, objects, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE), "argument", "src", "Python objects")


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
