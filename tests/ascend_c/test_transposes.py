"""Transpose of [N, C, H, W] to [N, H, W, C] and back, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import made, needs_compiler, refusal

pytestmark = needs_compiler

TURN = """extern "C" __global__ __aicore__ void turn(GM_ADDR x, GM_ADDR y, uint16_t n, uint16_t c, uint16_t h, uint16_t w,
                                                         int32_t type) {
    GlobalTensor<TYPE> xg, yg; xg.SetGlobalBuffer((__gm__ TYPE *)x); yg.SetGlobalBuffer((__gm__ TYPE *)y);
    const uint32_t count = n * c * h * w, room = TYPES(c) * 512 * (sizeof(TYPE) == 1 ? 2 : 1);
    TPipe pipe; TBuf<> from, to, own; pipe.InitBuffer(from, count * sizeof(TYPE)), pipe.InitBuffer(to, count * sizeof(TYPE));
    pipe.InitBuffer(own, room);
    LocalTensor<TYPE> a = from.Get<TYPE>(), b = to.Get<TYPE>();
    DataCopy(a, xg, count);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    Transpose(b, a, own.Get<uint8_t>(), TransposeParamsExt(n, c, h, w, (TransposeType)type));
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(yg, b, count);
}
"""
LAST, FIRST = 11, 12
"""Numbers of TRANSPOSE_NCHW2NHWC and TRANSPOSE_NHWC2NCHW."""


def kernel(folder: Path, kind: str, channels_last: bool) -> asim.CppKernel:
    """Return a kernel whose temporary buffer has its documented size, of (C + 2) or (2C + 1) squares."""
    room = "" if channels_last else "2 * "
    text = TURN.replace("TYPES(c)", f"({room}c + {2 if channels_last else 1})").replace("TYPE", kind)
    return made(folder, text)


@pytest.mark.parametrize("kind", ["int8_t", "half", "uint16_t", "float"])
def test_channels_become_last(tmp_path: Path, kind: str) -> None:
    turned, dtype = (
        kernel(tmp_path, kind, channels_last=True),
        np.dtype({"half": "float16", "float": "float32"}.get(kind, kind[:-2])),
    )
    for n, c, h, w in ((2, 3, 4, 16), (1, 20, 2, 16), (1, 1, 4, 8), (2, 7, 8, 4)):
        x = np.random.default_rng(c).integers(-100, 100, (n, c, h, w)).astype(dtype)
        given: Any = x, asim.empty(x.size, x.dtype)
        sizes = {"n": n, "c": c, "h": h, "w": w, "type": LAST}
        for engine in ("simpy", "compiled"):
            run = asim.launch(turned, 1, *given, engine=engine, **sizes)
            np.testing.assert_array_equal(run.outputs["y"], x.transpose(0, 2, 3, 1).reshape(-1))
        assert not asim.check_kernel(turned, 1, *given, **sizes).findings


@pytest.mark.parametrize("kind", ["int8_t", "half"])
def test_channels_become_first(tmp_path: Path, kind: str) -> None:
    turned, dtype = kernel(tmp_path, kind, channels_last=False), np.dtype("float16" if kind == "half" else "int8")
    for n, c, h, w in ((2, 3, 4, 16), (1, 20, 2, 16), (1, 2, 4, 8)):
        x = np.random.default_rng(c).integers(-100, 100, (n, h, w, c)).astype(dtype)
        given: Any = x, asim.empty(x.size, x.dtype)
        sizes = {"n": n, "c": c, "h": h, "w": w, "type": FIRST}
        run = asim.launch(turned, 1, *given, **sizes)
        np.testing.assert_array_equal(run.outputs["y"], x.transpose(0, 3, 1, 2).reshape(-1))
        assert not asim.check_kernel(turned, 1, *given, **sizes).findings


def test_a_square_is_turned_and_other_types_are_refused(tmp_path: Path) -> None:
    turned, x = kernel(tmp_path, "uint16_t", channels_last=True), np.arange(256, dtype=np.uint16).reshape(16, 16)
    sizes = {"n": 1, "c": 1, "h": 16, "w": 16}
    run = asim.launch(turned, 1, x, asim.empty(256, "uint16"), **sizes, type=10)
    np.testing.assert_array_equal(run.outputs["y"], x.T.reshape(-1))
    y = np.zeros(256, np.uint16)
    assert "transposeType 3 is not simulated" in refusal(turned, x, y, **sizes, type=3)
    assert "hSize * wSize = 40 elements" in refusal(turned, x, y, n=1, c=4, h=4, w=10, type=LAST)
    single = kernel(tmp_path, "float", channels_last=False)
    assert "NHWC2NCHW of elements of 4 bytes" in refusal(
        single, *[np.zeros(64, np.float32)] * 2, n=1, c=2, h=4, w=8, type=FIRST
    )
