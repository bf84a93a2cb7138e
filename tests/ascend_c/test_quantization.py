"""AscendDequant against numpy: by column and by one scale, rows with a rest, one row that is several, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import made, needs_compiler, refusal

pytestmark = needs_compiler
TEXT = """
template <class Out, class Scale> void go(GM_ADDR x, GM_ADDR scale, GM_ADDR y, DequantParams p, int way, int given, int made) {
    GlobalTensor<int32_t> xg; GlobalTensor<Scale> sg; GlobalTensor<Out> yg;
    xg.SetGlobalBuffer((__gm__ int32_t *)x); sg.SetGlobalBuffer((__gm__ Scale *)scale); yg.SetGlobalBuffer((__gm__ Out *)y);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 64 * 1024);
    auto a = buffer.GetWithOffset<int32_t>(given, 0);
    auto s = buffer.GetWithOffset<Scale>(256, 16384);
    auto d = buffer.GetWithOffset<Out>(made, 20480);
    auto t = buffer.GetWithOffset<uint8_t>(8192, 40960);
    DataCopy(a, xg, given);
    DataCopy(s, sg, 256);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    Duplicate(d, (Out)0, made);
    PipeBarrier<PIPE_V>();
    if (way == 0) AscendDequant(d, a, s, p);
    if (way == 1) AscendDequant<Out, Scale, DeQuantMode::DEQUANT_WITH_MULTI_ROW>(d, a, s, t, p);
    if (way == 2) AscendDequant<Out, Scale>(d, a, (Scale)0.75f, t, p);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(yg, d, made);
}
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR scale, GM_ADDR y, DequantParams p, int way, int kind, int given,
                                             int made) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    if (kind == 0) go<float, float>(x, scale, y, p, way, given, made);
    if (kind == 1) go<bfloat16_t, float>(x, scale, y, p, way, given, made);
    if (kind == 2) go<bfloat16_t, bfloat16_t>(x, scale, y, p, way, given, made);
}
"""
KINDS: list[tuple[Any, Any]] = [
    (np.float32, np.float32), (ml_dtypes.bfloat16, np.float32), (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
]  # fmt: skip
"""Types of the result and of the scales."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(tmp_path_factory.mktemp("dequant"), TEXT)


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize(("way", "shape", "rows"), [
    (0, (4, 24, 19), (4, 24, 19)), (2, (3, 40, 40), (3, 40, 40)), (0, (1, 96, 32), (3, 32, 32)), (1, (1, 96, 32), (1, 96, 32)),
])  # fmt: skip
def test_rows_of_integers_are_scaled(kernel: Any, kind: int, way: int, shape: tuple[int, ...], rows: tuple[int, ...]) -> None:
    """With one row, a whole number of calCount and the default mode, the row counts as several."""
    (made_of, scales), (m, n, count) = KINDS[kind], rows
    rng = np.random.default_rng(way)
    x, scale = rng.integers(-3000, 3000, m * n).astype(np.int32), rng.standard_normal(256).astype(scales)
    step = -(-n * np.dtype(made_of).itemsize // 32) * 32 // np.dtype(made_of).itemsize
    fields = {"p": dict(zip(("m", "n", "calCount"), shape, strict=True)), "way": way, "kind": kind, "given": m * n}
    tensors = x, scale, asim.empty((m, step), made_of)
    found = asim.launch(kernel, 1, *tensors, **fields, made=m * step).outputs["y"].astype(np.float32)
    factor = np.float32(0.75) if way == 2 else scale[:count].astype(np.float32)
    wanted = (x.reshape(m, n)[:, :count].astype(np.float32) * factor).astype(made_of)
    np.testing.assert_array_equal(found[:, :count], wanted.astype(np.float32))
    assert not found[:, count:].any(), "elements behind calCount stay"
    report = asim.check_kernel(kernel, 1, *tensors, **fields, made=m * step)
    assert {one.kind for one in report.findings} <= {"redundant barrier"}, "the kernel's own, where a call has one before it"


def test_rows_that_no_block_ends_are_refused(kernel: Any) -> None:
    tensors = np.zeros(24, np.int32), np.ones(256, np.float32), asim.empty(24, "float32")
    said = refusal(kernel, *tensors, p={"m": 2, "n": 12, "calCount": 13}, way=0, kind=0, given=24, made=24)
    assert "AscendDequant: m 2, n 12, calCount 13; calCount is from 1 to n, and n a multiple of 8" in said


def test_half_is_refused_by_the_compiler(tmp_path: Path) -> None:
    text = TEXT.replace("if (kind == 0) go<float, float>", "if (kind == 0) go<half, float>")
    with pytest.raises(asim.SimError, match="float and bfloat16_t are simulated; half, whose scales are uint64_t"):
        made(tmp_path, text)
