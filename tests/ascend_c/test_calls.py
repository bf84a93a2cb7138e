"""Calls of the API against numpy: both forms of vector calls, casts, reductions, selections, copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import IN, OUT, floats, made, needs_compiler, vector_kernel

pytestmark = needs_compiler


VECTOR = {
    "Add(d, a, b, 64)": lambda x, y: x + y,
    "Sub(d, a, b, 64)": lambda x, y: x - y,
    "Mul(d, a, b, 64)": lambda x, y: x * y,
    "Div(d, a, b, 64)": lambda x, y: x / y,
    "Max(d, a, b, 64)": np.maximum,
    "Min(d, a, b, (uint64_t)64, 1, {1, 1, 1, 8, 8, 8})": np.minimum,
    "Muls(d, a, 3.0f, 64)": lambda x, y: x * np.float32(3),
    "Adds(d, a, -1.5f, 64)": lambda x, y: x - np.float32(1.5),
    "Maxs(d, a, 0.25f, 64)": lambda x, y: np.maximum(x, np.float32(0.25)),
    "LeakyRelu(d, a, 0.5f, 64)": lambda x, y: np.where(x > 0, x, x * np.float32(0.5)),
    "Abs(d, a, 64)": lambda x, y: np.abs(x),
    "Relu(d, a, 64)": lambda x, y: np.maximum(x, 0),
    "Exp(d, a, 64)": lambda x, y: np.exp(x.astype(np.float64)).astype(np.float32),
    "Duplicate(d, 2.5f, 64)": lambda x, y: np.full(64, 2.5, np.float32),
    "Copy(d, b, (uint64_t)64, 1, {1, 1, 8, 8})": lambda x, y: y,
    "Add(d, a, b, (uint64_t)8, 8, {1, 1, 1, 1, 1, 1})": lambda x, y: x + y,
    "Add(d, a, b, (uint64_t)8, 8, {1, 1, 1, 1, 1, 0})": lambda x, y: x + np.tile(y[:8], 8),
    "uint64_t even[2] = {0x5555555555555555, 0}; Duplicate(d, 0.0f, 64); Add(d, a, b, even, 1, {1, 1, 1, 8, 8, 8})": (
        lambda x, y: np.where(np.arange(64) % 2, 0, x + y)
    ),
    "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(64); Add<float, false>(d, a, b, MASK_PLACEHOLDER, 1, {}); "
    "SetMaskNorm(); ResetMask()": lambda x, y: x + y,
}
"""Calls that fill 64 elements of d, and what numpy says of them."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel that makes one of the calls, by its number."""
    cases = "\n".join(f"if (which == {number}) {{ {call}; }}" for number, call in enumerate(VECTOR))
    body = f"DataCopy(b, yg, 64); {IN} {cases} {OUT}"
    return made(tmp_path_factory.mktemp("calls"), vector_kernel(body, numbers="int32_t which"))


@pytest.mark.parametrize("number", range(len(VECTOR)))
def test_a_call_computes_what_numpy_does(calls: Any, number: int) -> None:
    x, y = floats(64), floats(64, 1)
    run = asim.launch(calls, 1, x, y, asim.empty(64, "float32"), which=number)
    np.testing.assert_array_equal(run.outputs["z"], [*VECTOR.values()][number](x, y))
    assert not run.findings


def test_casts_compares_and_reductions(tmp_path: Path) -> None:
    body = f"""{IN}
    LocalTensor<half> h = b.ReinterpretCast<half>(); Cast(h, a, RoundMode::CAST_RINT, 64); PipeBarrier<PIPE_V>();
    Cast(d, h, RoundMode::CAST_NONE, 64); PipeBarrier<PIPE_V>();
    WholeReduceMax(d[64], a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
    BlockReduceSum(d[72], a, 1, 64, 1, 1, 8);
    LocalTensor<uint8_t> bits = d[80].ReinterpretCast<uint8_t>(); CompareScalar(bits, a, 0.0f, CMPMODE::GT, 64);
    {OUT} DataCopy(zg[64], d[64], 24);"""
    run = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, floats(64), asim.empty(88, "float32"))
    x, z = floats(64), run.outputs["z"]
    np.testing.assert_array_equal(z[:64], x.astype(np.float16).astype(np.float32))
    assert z[64] == x.max()
    np.testing.assert_allclose(z[72:80], x.reshape(8, 8).sum(1), rtol=1e-6)
    assert (np.unpackbits(z[80:82].view(np.uint8), bitorder="little") == (x > 0)).all()


def test_selections_and_broadcasts(tmp_path: Path) -> None:
    body = f"""DataCopy(b, yg, 64); {IN}
    LocalTensor<uint8_t> bits = d[512].ReinterpretCast<uint8_t>();
    Compares(bits, a, 0.5f, CMPMODE::LE, 64); PipeBarrier<PIPE_V>();
    Select(d, bits, a, b, SELMODE::VSEL_CMPMASK_SPR, 64);
    Select(d[64], bits, a, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
    Select(d[128], bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, (uint64_t)64, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
    Brcb(d[192], a, 2, BrcbRepeatParams(1, 8));
    RepeatReduceSum(d[320], a, 1, 64, 0, 1, 1, 8);
    {OUT.replace("64", "328")}"""
    kernel = made(tmp_path, vector_kernel(body))
    x, y = floats(64), floats(64, 1)
    run = asim.launch(kernel, 1, x, y, asim.empty(328, "float32"))
    z = run.outputs["z"]
    np.testing.assert_array_equal(z[:64], np.where(x <= 0.5, x, y))
    np.testing.assert_array_equal(z[64:128], np.where(x <= 0.5, x, np.float32(7)))
    np.testing.assert_array_equal(z[128:192], np.where(x <= 0.5, x, y))
    np.testing.assert_array_equal(z[192:320], np.repeat(x[:16], 8))
    np.testing.assert_allclose(z[320], x.sum(), rtol=1e-5)


def test_atomic_add_and_copies_with_gaps(tmp_path: Path) -> None:
    body = f"""{IN} Muls(d, a, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    SetAtomicAdd<float>(); DataCopy(zg, d, 64); SetAtomicNone();
    DataCopyPad(zg[64], d, DataCopyExtParams(2, 20, 1, 12, 0)); DataCopy(zg[96], d, DataCopyParams(2, 1, 3, 1));"""
    x = floats(64)
    start = np.ones(128, np.float32)
    z = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, x, start).outputs["z"]
    np.testing.assert_array_equal(z[:64], x + 1)
    np.testing.assert_array_equal(z[64:69], x[:5])
    np.testing.assert_array_equal(z[72:77], x[16:21])
    np.testing.assert_array_equal(z[69:72], 1)
    np.testing.assert_array_equal(z[96:104], x[:8])
    np.testing.assert_array_equal(z[112:120], x[32:40])
