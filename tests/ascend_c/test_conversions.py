"""Conversions of scalar code to half and bfloat16_t, with the processor's instructions and without them, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
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


EVERY = """
#ifdef __AVX__
#error "compiled for one processor"
#endif
template <class To, class From> To bits(From v) { To t; memcpy(&t, &v, sizeof t); return t; }
template <class T> void all(GM_ADDR wide, GM_ADDR narrow) {
    GlobalTensor<uint32_t> wg; GlobalTensor<int64_t> ng;
    wg.SetGlobalBuffer((__gm__ uint32_t *)wide); ng.SetGlobalBuffer((__gm__ int64_t *)narrow);
    for (uint32_t i = 0; i < 65536; i++) {
        T t = bits<T>((uint16_t)i);
        float f = (float)t, above = bits<float>((i << 16) + 0x8001u);
        T found[4] = {(T)f, (T)above, (T)((double)f * 1.00390625), (T)(t + t)};
        wg.SetValue(i, bits<uint32_t>(f));
        int64_t together;
        memcpy(&together, found, sizeof together);
        ng.SetValue(i, together);
    }
}
extern "C" __global__ __aicore__ void every(GM_ADDR wide, GM_ADDR narrow, int brain) {
    if (brain) all<bfloat16_t>(wide, narrow); else all<half>(wide, narrow);
}
"""


@pytest.fixture(scope="module", autouse=True, params=("-O0", "-O1"))
def compiled_fast(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile without optimisation, where a conversion must not call itself, and as for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "FLAGS", tuple(request.param if one == "-O1" else one for one in compiler.FLAGS))
        yield


def test_every_number_of_16_bits_is_converted_as_numpy_does(tmp_path: Path) -> None:
    """Subnormals included: to float and back, just above a tie of bfloat16_t, from double, and doubled."""
    kernel, number = made(tmp_path, EVERY), np.arange(65536, dtype=np.uint32)
    for brain, dtype in enumerate((np.float16, ml_dtypes.bfloat16)):
        made_of = asim.empty(65536, "uint32"), asim.empty(65536, "int64")
        run = asim.launch(kernel, 1, *made_of, brain=brain, mode="functional")
        values, above = number.astype(np.uint16).view(dtype), ((number << 16) + 0x8001).view(np.float32)
        with np.errstate(all="ignore"):
            wide, wider = values.astype(np.float32), values.astype(np.float64)
            right = [values, above.astype(dtype), (wider * 1.00390625).astype(dtype), (wider * 2).astype(dtype)]
        found = run.outputs["narrow"].view(dtype).reshape(-1, 4).astype(np.float32)
        np.testing.assert_array_equal(run.outputs["wide"].view(np.float32), wide)
        np.testing.assert_array_equal(found, np.stack(right, 1).astype(np.float32))


@pytest.mark.parametrize("flags", [(), ("-mf16c",)])
def test_scalar_code_rounds_to_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]) -> None:
    if flags and (not (info := Path("/proc/cpuinfo")).exists() or " f16c" not in info.read_text()):
        pytest.skip("an instruction of some x86-64")
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
