"""Tensors of rising numbers of any length and type, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import OUT, made, needs_compiler, vector_kernel

pytestmark = needs_compiler
LENGTHS = (1, 7, 8, 9, 63, 64, 65, 200, 256)


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Any:
    body = f"""Duplicate(d, -1.0f, 256); PipeBarrier<PIPE_ALL>();
    if (whole) CreateVecIndex(d.ReinterpretCast<int32_t>(), (int32_t)first, (uint32_t)count);
    else ArithProgression(d, (float)first, 0.25f, count);
    {OUT.replace("64", "256")}"""
    return made(
        tmp_path_factory.mktemp("rising"),
        vector_kernel(body, tensors="z", numbers="int32_t whole, int32_t first, int32_t count"),
    )


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("whole", [0, 1])
def test_numbers_rise_and_nothing_behind_them_changes(rising: Any, whole: int, count: int) -> None:
    run = asim.launch(rising, 1, asim.empty(256, "float32"), whole=whole, first=5, count=count)
    z = run.outputs["z"]
    index = np.arange(count)
    got = z.view(np.int32) if whole else z
    np.testing.assert_array_equal(got[:count], 5 + index if whole else (5 + index / 4).astype(np.float32))
    assert (z[count:] == -1).all() and not run.findings


@pytest.mark.parametrize("kind", ["int16_t", "half", "int32_t", "float"])
def test_numbers_rise_over_repeats_under_a_mask(tmp_path: Path, kind: str) -> None:
    """A count of elements, then bits; blocks two apart, and repeats 17 blocks."""
    two_bytes = kind in ("int16_t", "half")
    bits = (0xF0F0F0F0F0F0F0F0, 0x0F0F0F0F0F0F0F0F) if two_bytes else (0xFF00FF0FF0F0F0F3, 0)
    body = f"""Duplicate(d, -1.0f, 512); auto n = d.ReinterpretCast<{kind}>();
    uint64_t bits[2] = {{{bits[0]}ull, {bits[1]}ull}};
    PipeBarrier<PIPE_ALL>();
    CreateVecIndex(n, ({kind})5, (uint64_t)20, 1, 1, 8); PipeBarrier<PIPE_V>();
    CreateVecIndex(n[{512 if two_bytes else 256}], ({kind})7, bits, 2, 2, 17);
    {OUT.replace("64", "512")}"""
    kernel = made(tmp_path, vector_kernel(body, tensors="z"))
    run = asim.launch(kernel, 1, asim.empty(512, "float32"))
    dtype = {"half": "float16", "float": "float32"}.get(kind, kind.removesuffix("_t"))
    lanes, each = 256 // np.dtype(dtype).itemsize, 32 // np.dtype(dtype).itemsize
    wanted = np.full(512, -1, np.float32).view(dtype)
    wanted[:20] = 5 + np.arange(20)
    for lane in range(2 * lanes):
        repeat, place = divmod(lane, lanes)
        if bits[place // 64] >> place % 64 & 1:
            wanted[1024 // wanted.itemsize + (repeat * 17 + place // each * 2) * each + place % each] = 7 + lane
    np.testing.assert_array_equal(run.outputs["z"].view(dtype), wanted)
    assert not asim.check_kernel(kernel, 1, asim.empty(512, "float32")).findings


def test_half_rises_by_the_vector_units_own_sums(tmp_path: Path) -> None:
    body = f"""auto h = d.ReinterpretCast<half>(); CreateVecIndex(h, (half)0, 128u); {OUT}"""
    run = asim.launch(made(tmp_path, vector_kernel(body, tensors="z")), 1, asim.empty(64, "float32"))
    np.testing.assert_array_equal(run.outputs["z"].view(np.float16), np.arange(128))
