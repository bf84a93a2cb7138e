"""Device memory: addresses that are never given out twice, and the code of every misuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import acl
from ascend_sim.acl import state
from tests.support.acl.acl_calls import download, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


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
    refused(acl.aclrtFree(address + 32), "foreign pointer", "32 bytes inside")
    ok(acl.aclrtFree(address))


def test_null_pointers(stream):
    address = ok(acl.aclrtMalloc(64, 0))
    refused(acl.aclrtFree(None), "null pointer", "devPtr")
    refused(acl.aclrtMemset(None, 4, 0, 4), "null pointer", "devPtr")
    refused(acl.aclrtMemcpy(None, 4, address, 4, acl.ACL_MEMCPY_DEVICE_TO_HOST), "null pointer", "dst")
    refused(acl.aclrtMemcpy(address, 4, None, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE), "null pointer", "src")


@pytest.mark.parametrize("size", [0, -1, 1.5, None, "64"])
def test_sizes_that_malloc_refuses(stream, size):
    refused(acl.aclrtMalloc(size, 0), "argument", "size")


def test_more_memory_than_there_is(stream):
    free, total = ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM))
    assert free == total == 68719476736  # CANN 8.1.RC1 platform_config/Ascend910B3.ini memory_size
    refused(acl.aclrtMalloc(total + 1, 0), "out of memory", f"{total + 1:,} bytes", f"{total:,} of 64 GiB")
    refused(acl.aclrtMalloc(total, 0), "out of memory")  # with its slack of 32 bytes it does not fit
    large = ok(acl.aclrtMalloc(total - 1024, 0))  # takes none of the host's memory before it is written
    assert ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM)) == (512, total)
    refused(acl.aclrtMalloc(481, 0), "out of memory")
    ok(acl.aclrtFree(large))
    assert ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM)) == (total, total)
    refused(acl.aclrtGetMemInfo(acl.ACL_DDR_MEM), "argument", "HBM")


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
