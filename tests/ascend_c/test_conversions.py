"""Conversions of scalar code to half and bfloat16_t, with the processor's instructions and without them, against numpy."""

from __future__ import annotations

import platform
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c import compiler
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler
TEXT = """
extern "C" __global__ __aicore__ void narrow(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR w, double scale, float factor, int n) {
    GlobalTensor<float> xg, wg; GlobalTensor<half> yg; GlobalTensor<bfloat16_t> zg;
    xg.SetGlobalBuffer((__gm__ float *)x); wg.SetGlobalBuffer((__gm__ float *)w);
    yg.SetGlobalBuffer((__gm__ half *)y); zg.SetGlobalBuffer((__gm__ bfloat16_t *)z);
    for (int i = 0; i < n; i++) {
        float v = xg.GetValue(i);
        yg.SetValue(i, (half)(v * scale)); yg.SetValue(n + i, (half)(v * factor));
        zg.SetValue(i, (bfloat16_t)(v * scale)); zg.SetValue(n + i, (bfloat16_t)(v * factor));
        wg.SetValue(i, (float)yg.GetValue(i));
    }
}
"""
EDGES = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, -65520, 2**-24, 2**-25, 2**-25 * 1.0001, 2**-14]
EDGES += [2**-14 - 2**-26, 1 + 2**-11, 1 + 2**-11 + 2**-20, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 3.39e38, 1e-37]


@pytest.mark.parametrize("flags", [(), ("-mno-f16c",)])
def test_scalar_code_rounds_to_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]) -> None:
    if flags and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("a flag of x86-64")
    monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, *flags))
    rng = np.random.default_rng(0)
    x = np.concatenate((EDGES, rng.standard_normal(200) * 10.0 ** rng.integers(-9, 6, 200))).astype(np.float32)
    n, results = len(x), [asim.empty(2 * len(x), dtype) for dtype in ("float16", "bfloat16")]
    kernel = made(tmp_path, TEXT)
    run = asim.launch(kernel, 1, x, *results, asim.empty(n, "float32"), scale=1.0, factor=1.0, n=n, mode="functional")
    with np.errstate(over="ignore"):
        half, brain = (x.astype(dtype).astype(np.float32) for dtype in (np.float16, ml_dtypes.bfloat16))
    np.testing.assert_array_equal(run.outputs["y"].astype(np.float32), np.tile(half, 2))
    np.testing.assert_array_equal(run.outputs["z"].astype(np.float32), np.tile(brain, 2))
    np.testing.assert_array_equal(run.outputs["w"], half)
