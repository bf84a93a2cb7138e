"""The memory of the process and its limit, and the threads of its BLAS."""

from __future__ import annotations

import mmap

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ascend_sim.errors import SimError
from ascend_sim.host import GIB, held_memory, machine_memory, memory_limit, one_thread

pytestmark = pytest.mark.fast


def test_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_SIM_MAX_MEMORY", raising=False)
    assert memory_limit() == machine_memory()
    monkeypatch.setenv("ASCEND_SIM_MAX_MEMORY", "1.5")
    assert memory_limit() == 3 * GIB // 2 and memory_limit("2") == 2 * GIB
    for text in ("x", "0", "-1", "nan", "inf", "1e30"):
        with pytest.raises(SimError, match="allowed is a number of GiB above 0"):
            memory_limit(text)


def test_held_memory_follows_what_is_held() -> None:
    before = held_memory()
    with mmap.mmap(-1, 64 << 20) as block:  # pages of its own, whatever the heap has free
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        assert held_memory() - before > 32 << 20


def test_products_take_one_thread_in_the_block_alone() -> None:
    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        with one_thread():
            assert threads() == {1}
        assert threads() == {2}
