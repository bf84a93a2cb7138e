"""Kernels in the style of the vendor's samples against numpy: on the 910B3, some on a 910_93 too, all without findings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import made, needs_compiler
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
PIECES = 4
"""Pieces that a block works off, one behind the other."""


class OneSample(NamedTuple):
    """Work of a kernel on each piece: C++ between `a` (and `b`) and `c`, and the same in numpy; buffers beside them."""

    body: str
    expected: Callable[..., Any]
    inputs: int = 1
    out: str = "float"
    scratch: int = 1
    tolerance: float = 1e-6


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


BARRIER = "PipeBarrier<PIPE_V>();"
SAMPLES = {
    "add": OneSample("Add(c, a, b, size);", lambda x, y: x + y, 2),
    "sub_scaled": OneSample(f"Sub(c, a, b, size); {BARRIER} Muls(c, c, 0.25f, size);", lambda x, y: (x - y) / 4, 2),
    "mul_add": OneSample(f"Mul(w, a, b, size); {BARRIER} Add(c, w, a, size);", lambda x, y: x * y + x, 2),
    "div": OneSample(f"Abs(w, b, size); {BARRIER} Adds(w, w, 1.0f, size); {BARRIER} Div(c, a, w, size);",
                  lambda x, y: x / (np.abs(y) + 1), 2),
    "maximum": OneSample("Max(c, a, b, size);", np.maximum, 2),
    "relu": OneSample("Relu(c, a, size);", lambda x: np.maximum(x, 0)),
    "leaky_relu": OneSample("LeakyRelu(c, a, 0.125f, size);", lambda x: np.where(x > 0, x, x / 8)),
    "sigmoid": OneSample(
        f"Muls(c, a, -1.0f, size); {BARRIER} Exp(c, c, size); {BARRIER} Adds(c, c, 1.0f, size); {BARRIER} "
        "Reciprocal(c, c, size);", _sigmoid),
    "silu": OneSample(
        f"Muls(c, a, -1.0f, size); {BARRIER} Exp(c, c, size); {BARRIER} Adds(c, c, 1.0f, size); {BARRIER} Div(c, a, c, size);",
        lambda x: x * _sigmoid(x)),
    "tanh": OneSample(
        f"Muls(c, a, 2.0f, size); {BARRIER} Exp(c, c, size); {BARRIER} Adds(w, c, 1.0f, size); {BARRIER} "
        f"Adds(c, c, -1.0f, size); {BARRIER} Div(c, c, w, size);", lambda x: np.tanh(x.astype(np.float64)), tolerance=1e-4),
    "softplus": OneSample(f"Exp(c, a, size); {BARRIER} Adds(c, c, 1.0f, size); {BARRIER} Ln(c, c, size);",
                       lambda x: np.log1p(np.exp(x.astype(np.float64))), tolerance=1e-5),
    "rsqrt": OneSample(f"Mul(w, a, a, size); {BARRIER} Adds(w, w, 1.0f, size); {BARRIER} Rsqrt(c, w, size);",
                    lambda x: 1 / np.sqrt(x.astype(np.float64) ** 2 + 1)),
    "clamp": OneSample(f"Maxs(w, a, -0.5f, size); {BARRIER} Mins(c, w, 0.5f, size);", lambda x: np.clip(x, -0.5, 0.5)),
    "axpy": OneSample(f"Adds(c, b, 0.0f, size); {BARRIER} Axpy(c, a, 3.0f, size);", lambda x, y: y + 3 * x, 2),
    "cast_half": OneSample("Cast(c, a, RoundMode::CAST_RINT, size);", lambda x: x.astype(np.float16), out="half", tolerance=0),
    "cast_floor": OneSample("Cast(c, a, RoundMode::CAST_FLOOR, size);", np.floor, out="int32_t", tolerance=0),
    "keep_positive": OneSample(
        "LocalTensor<uint8_t> bits = w.ReinterpretCast<uint8_t>(); CompareScalar(bits, a, 0.0f, CMPMODE::GE, size); "
        f"{BARRIER} Select(c, bits, a, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, size);",
        lambda x: np.where(x >= 0, x, 0)),
    "larger_of_two": OneSample(
        "LocalTensor<uint8_t> bits = w.ReinterpretCast<uint8_t>(); Compare(bits, a, b, CMPMODE::GT, size); "
        f"{BARRIER} Select(c, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, size);", np.maximum, 2),
    "minus_the_mean": OneSample(
        "ReduceSum(w, a, w, size); Adds(c, a, -w.GetValue(0) / size, size);",
        lambda x: x - x.mean(1, keepdims=True), tolerance=1e-5),
    "over_the_largest": OneSample(
        f"Abs(c, a, size); {BARRIER} ReduceMax(w, c, w, size); Muls(c, a, 1 / w.GetValue(0), size);",
        lambda x: x / np.abs(x).max(1, keepdims=True)),
    "first_element": OneSample(
        "SetFlag<HardEvent::MTE2_S>(7); WaitFlag<HardEvent::MTE2_S>(7); Duplicate(c, a.GetValue(0), size);",
        lambda x: np.repeat(x[:, :1], x.shape[1], 1)),
    "marked": OneSample(
        "Adds(c, a, 0.0f, size); SetFlag<HardEvent::V_S>(6); WaitFlag<HardEvent::V_S>(6); c.SetValue(1, 42.0f); "
        "SetFlag<HardEvent::S_MTE3>(6); WaitFlag<HardEvent::S_MTE3>(6);",
        lambda x: np.concatenate((x[:, :1], np.full((len(x), 1), 42, np.float32), x[:, 2:]), 1)),
}  # fmt: skip
"""By name of the entry."""
BOTH = ("add", "sigmoid", "cast_half", "larger_of_two", "minus_the_mean", "over_the_largest")
DTYPES = {"float": "float32", "half": "float16", "int32_t": "int32"}


def text(name: str, sample: OneSample) -> str:
    """Return the kernel: pieces of `size` elements in queues of two buffers."""
    second = sample.inputs == 2
    parameters = "GM_ADDR x, GM_ADDR y, GM_ADDR z" if second else "GM_ADDR x, GM_ADDR z"
    load = "DataCopy(a, xg[first], size); aq.EnQue(a); a = aq.DeQue<float>();"
    if second:
        load += " auto b = bq.AllocTensor<float>(); DataCopy(b, yg[first], size); bq.EnQue(b); b = bq.DeQue<float>();"
    views = "GlobalTensor<float> xg; xg.SetGlobalBuffer((__gm__ float *)x);"
    if second:
        views += " GlobalTensor<float> yg; yg.SetGlobalBuffer((__gm__ float *)y);"
    return f"""
extern "C" __global__ __aicore__ void {name}_custom({parameters}, uint32_t size)
{{
    {views}
    GlobalTensor<{sample.out}> zg; zg.SetGlobalBuffer((__gm__ {sample.out} *)z);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> aq{", bq" if second else ""}; TQue<QuePosition::VECOUT, 1> cq; TBuf<QuePosition::VECCALC> wq;
    pipe.InitBuffer(aq, 2, size * sizeof(float)); {"pipe.InitBuffer(bq, 2, size * sizeof(float));" if second else ""}
    pipe.InitBuffer(cq, 2, size * sizeof({sample.out})); pipe.InitBuffer(wq, size * sizeof(float) + 64);
    LocalTensor<float> w = wq.Get<float>();
    for (uint32_t piece = 0; piece < {PIECES}; piece++) {{
        uint64_t first = (GetBlockIdx() * {PIECES} + piece) * size;
        auto a = aq.AllocTensor<float>(); {load}
        auto c = cq.AllocTensor<{sample.out}>();
        {sample.body}
        cq.EnQue(c); aq.FreeTensor(a); {"bq.FreeTensor(b);" if second else ""}
        c = cq.DeQue<{sample.out}>(); DataCopy(zg[first], c, size); cq.FreeTensor(c);
    }}
}}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return the kernel of a name, in a file of its own, compiled when it is first asked for."""
    return cache(lambda name: made(tmp_path_factory.mktemp(name), text(name, SAMPLES[name])))


def tensors(sample: OneSample, blocks: int, size: int) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(len(sample.body))
    shape = blocks * PIECES, size
    given = [rng.standard_normal(shape).astype(np.float32) for _ in range(sample.inputs)]
    return given, asim.empty(shape, DTYPES[sample.out])


@part_of_cases(2)
@pytest.mark.parametrize(
    ("name", "chip"), [(name, "ascend910b3") for name in SAMPLES] + [(name, "ascend910_9391") for name in BOTH]
)
def test_a_sample_is_right_and_without_findings(kernel: Callable[[str], Any], name: str, chip: str) -> None:
    sample = SAMPLES[name]
    given, out = tensors(sample, 2, 256)
    run = asim.launch(kernel(name), 2, *given, out, size=256, chip=chip)
    wanted = np.asarray(sample.expected(*given), np.float64)
    found = run.outputs["z"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=sample.tolerance, atol=sample.tolerance)
    assert not run.findings
    report = asim.check_kernel(kernel(name), 2, *given, out, size=256, chip=chip)
    assert not [one for one in report.findings if one.kind != "redundant flag"], report.render()


def test_there_are_thirty_with_the_examples_of_the_page() -> None:
    assert len(SAMPLES) + 8 >= 30 and set(BOTH) <= set(SAMPLES)
