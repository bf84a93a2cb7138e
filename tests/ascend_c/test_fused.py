"""Calls between two formats, and those that take a number from a register, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler

BODY = """extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t which) {
KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
GlobalTensor<uint8_t> xg, yg, zg;
xg.SetGlobalBuffer((__gm__ uint8_t *)x); yg.SetGlobalBuffer((__gm__ uint8_t *)y); zg.SetGlobalBuffer((__gm__ uint8_t *)z);
LocalTensor<uint8_t> a(TPosition::VECCALC, 0, 2048), b(TPosition::VECCALC, 2048, 2048), d(TPosition::VECCALC, 4096, 2048);
uint64_t even[2] = {0x5555555555555555ull, 0};
DataCopy(a, xg, 1024); DataCopy(b, yg, 1024); DataCopy(d, zg, 1024); PipeBarrier<PIPE_ALL>();
#define A(T) a.ReinterpretCast<T>()
#define B(T) b.ReinterpretCast<T>()
#define D(T) d.ReinterpretCast<T>()
"""
TYPES = {"half": np.float16, "float": np.float32} | {
    f"{one}_t": np.dtype(one) for one in ("int8", "uint8", "int16", "int32", "uint32")
}
TYPES |= {"uint16_t": np.dtype("uint16")}


class Typed(NamedTuple):
    """A call on A, B and D, their types, and what the first elements of D are then."""

    call: str
    first: str
    second: str
    result: str
    expected: Callable[[Any, Any, Any], Any]


def clipped(values: Any, dtype: Any) -> Any:
    return np.clip(np.rint(values.astype(np.float64)), np.iinfo(dtype).min, np.iinfo(dtype).max)


def wide(x: Any) -> Any:
    return x.astype(np.float32)


def bits(y: Any, count: int) -> Any:
    return np.unpackbits(y.view(np.uint8), bitorder="little")[:count].astype(bool)


def scaled(x: Any, scale: float) -> Any:
    return (x.astype(np.float64) * np.float64(np.float16(scale))).astype(np.float16)


def relu_of(x: Any, y: Any, scale: float) -> Any:
    return np.maximum(
        (wide(x + y) * np.float32(2**-17) * np.float32(np.float16(scale)) * np.float32(2**17)).astype(np.float16), 0
    )


CALLS = [
    Typed(
        "AddReluCast(D(int8_t), A(half), B(half), 200)",
        "half",
        "half",
        "int8_t",
        lambda x, y, z: clipped(np.maximum(x + y, 0), np.int8)[:200],
    ),
    Typed(
        "AddReluCast<half, float>(D(half), A(float), B(float), (uint64_t)64, 3, {1, 1, 1, 4, 8, 8})",
        "float",
        "float",
        "half",
        lambda x, y, z: np.maximum(x + y, 0)[:192],
    ),
    Typed(
        "SubReluCast(D(int8_t), A(int16_t), B(int16_t), 300)",
        "int16_t",
        "int16_t",
        "int8_t",
        lambda x, y, z: clipped(np.maximum(x - y, 0), np.int8)[:300],
    ),
    Typed(
        "MulCast(D(uint8_t), A(half), B(half), even, 1, {1, 1, 1, 4, 8, 8})",
        "half",
        "half",
        "uint8_t",
        lambda x, y, z: np.where(np.arange(64) % 2, z[:64], clipped(x * y, np.uint8)[:64]),
    ),
    Typed(
        "MulCast(D(int8_t), A(half), B(half), (uint64_t)128, 2, {2, 1, 1, 8, 8, 8})",
        "half",
        "half",
        "int8_t",
        lambda x, y, z: np.stack((clipped(x * y, np.int8)[:256].reshape(8, 32), z[:512].reshape(8, 2, 32)[:, 1]), 1).ravel(),
    ),
    Typed(
        "MulAddDst(D(float), A(half), B(half), 150)",
        "half",
        "half",
        "float",
        lambda x, y, z: (wide(x) * wide(y))[:150] + z[:150],
    ),
    Typed(
        "MulAddDst<float, half>(D(float), A(half), B(half), (uint64_t)64, 3, {1, 1, 1, 8, 4, 4})",
        "half",
        "half",
        "float",
        lambda x, y, z: (wide(x) * wide(y))[:192] + z[:192],
    ),
    Typed("MulAddDst<half, half>(D(half), A(half), B(half), 150)", "half", "half", "half", lambda x, y, z: (x * y + z)[:150]),
    Typed(
        "Axpy(D(float), A(half), (half)2.5, 150)",
        "half",
        "half",
        "float",
        lambda x, y, z: wide(x[:150]) * np.float32(2.5) + z[:150],
    ),
    Typed(
        "Axpy<float, half>(D(float), A(half), (half)2.5, even, 1, {1, 1, 8, 4})",
        "half",
        "half",
        "float",
        lambda x, y, z: np.where(np.arange(64) % 2, z[:64], wide(x[:64]) * np.float32(2.5) + z[:64]),
    ),
    Typed(
        "Axpy<half, half>(D(half), A(half), (half)2, 128, 3, {1, 1, 8, 8})",
        "half",
        "half",
        "half",
        lambda x, y, z: (x * np.float16(2) + z)[:384],
    ),
    Typed(
        "SetDeqScale((half)0.1); Cast(D(half), A(int32_t), RoundMode::CAST_ROUND, 200)",
        "int32_t",
        "int32_t",
        "half",
        lambda x, y, z: scaled(x[:200], 0.1),
    ),
    Typed(
        "SetDeqScale((half)-0.25); CastDeq<half, int32_t, false>(D(half), A(int32_t), 200)",
        "int32_t",
        "int32_t",
        "half",
        lambda x, y, z: scaled(x[:200], -0.25),
    ),
    Typed(
        "SetDeqScale((half)1); CastDequant<half, int32_t, true, false>(D(half), A(int32_t), 64, 3, {1, 1, 4, 8})",
        "int32_t",
        "int32_t",
        "half",
        lambda x, y, z: x[:192].astype(np.float16),
    ),
    Typed(
        "SetDeqScale((half)0.1); AddDeqRelu(D(half), A(int32_t), B(int32_t), 250)",
        "int32_t",
        "int32_t",
        "half",
        lambda x, y, z: relu_of(x, y, 0.1)[:250],
    ),
    Typed(
        "SetDeqScale((half)0.1); AddDeqRelu(D(half), A(int32_t), B(int32_t), even, 4, {1, 1, 1, 4, 8, 8})",
        "int32_t",
        "int32_t",
        "half",
        lambda x, y, z: np.where(np.arange(256) % 2, z[:256], relu_of(x, y, 0.1)[:256]),
    ),
    Typed(
        "Gatherb<uint16_t>(D(uint16_t), A(uint16_t), B(uint32_t), 2, {0, 8})",
        "uint16_t",
        "uint32_t",
        "uint16_t",
        lambda x, y, z: x.reshape(-1, 16)[y[:16] // 32].ravel(),
    ),
    Typed(
        "Gatherb<uint32_t>(D(uint32_t), A(uint32_t), B(uint32_t), 2, {2, 16})",
        "uint32_t",
        "uint32_t",
        "uint32_t",
        lambda x, y, z: np.stack((x.reshape(-1, 8)[y[:16] // 32], z.reshape(16, 2, 8)[:, 1]), 1).ravel(),
    ),
    Typed(
        "ReduceRepeat<ReduceType::MAX, half>(D(half), A(half), 128, 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX)",
        "half",
        "half",
        "half",
        lambda x, y, z: x[:384].reshape(3, 128).argmax(1).astype(np.uint32).view(np.float16),
    ),
    Typed(
        "ReduceRepeat<ReduceType::MIN>(D(float), A(float), even, 3, 2, 1, 8)",
        "float",
        "float",
        "float",
        lambda x, y, z: np.concatenate(
            [
                part
                for row, gap in zip(x[:192].reshape(3, 64)[:, ::2], z[:12].reshape(3, 4), strict=True)
                for part in ([row.min()], np.uint32([2 * row.argmin()]).view(np.float32), gap[2:])
            ]
        ),
    ),
    Typed(
        "ReduceDataBlock<ReduceType::MAX, half>(D(half), A(half), 128, 2, 1, 1, 8)",
        "half",
        "half",
        "half",
        lambda x, y, z: x[:256].reshape(16, 16).max(1),
    ),
    Typed(
        "ReducePairElem<ReduceType::SUM, float>(D(float), A(float), 64, 2, 1, 1, 8)",
        "float",
        "float",
        "float",
        lambda x, y, z: x[:128:2] + x[1:128:2],
    ),
    Typed(
        "Gather(D(half), A(half), B(uint32_t), 0u, even, 1, 8)",
        "half",
        "uint32_t",
        "half",
        lambda x, y, z: np.where(np.arange(64) % 2, z[:64], x[y[:64] // 2]),
    ),
    Typed(
        "SetCmpMask(A(float)); PipeBarrier<PIPE_V>(); SetVectorMask<float, MaskMode::NORMAL>(60); "
        "Select<float, uint8_t>(D(float), B(uint8_t), A(float), 2, {1, 1, 1, 8, 8, 8}); ResetMask()",
        "float",
        "uint8_t",
        "float",
        lambda x, y, z: np.where(np.arange(128) % 64 < 60, np.where(bits(y, 128), x[:128], x[0]), z[:128]),
    ),
]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel that makes one of the calls, by its number."""
    cases = "\n".join(f"if (which == {number}) {{ {one.call}; }}" for number, one in enumerate(CALLS))
    text = f"{BODY}{cases}\nPipeBarrier<PIPE_ALL>(); DataCopy(zg, d, 1024); }}"
    return made(tmp_path_factory.mktemp("calls"), text)


def given(dtype: str, seed: int) -> Any:
    """1024 bytes of numbers; those of uint32 are offsets of blocks."""
    form, rng = np.dtype(TYPES[dtype]), np.random.default_rng(seed)
    count = 1024 // form.itemsize
    if dtype == "uint32_t":
        return (rng.integers(0, 32, count) * 32).astype(form)
    return rng.integers(0, 100, count).astype(form) if form.kind in "iu" else (rng.standard_normal(count) * 9).astype(form)


@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_call_computes_what_numpy_does(calls: Any, number: int, engine: str) -> None:
    one = CALLS[number]
    x, y, z = given(one.first, 0), given(one.second, 1), given(one.result, 2)
    run = asim.launch(calls, 1, *(values.view(np.uint8).copy() for values in (x, y, z)), which=number, engine=engine)
    wanted, found = z.copy(), np.asarray(one.expected(x, y, z)).astype(z.dtype)
    wanted[: len(found)] = found
    np.testing.assert_array_equal(run.outputs["z"].view(z.dtype), wanted)
    assert not run.findings


REFUSED = {
    "AddReluCast(D(uint8_t), A(half), B(half), 64)": "AddReluCast: int8_t of half or int16_t, and half of float",
    "MulCast(D(half), A(float), B(float), 64)": "MulCast: int8_t or uint8_t of half",
    "Axpy(D(half), A(float), 2.0f, 64)": "operands have one type, or dst is float and the others half",
    "CastDeq<int8_t, int16_t, false>(D(int8_t), A(int16_t), 64)": "CastDeq: int32_t to half alone is simulated",
    "Gatherb(D(float), A(float), B(uint32_t), 1, {1, 8})": "has no gather_blocks of float32; it has uint16, uint32",
    "MulAddDst(D(float), D(half), B(half), 64)": "lies over it; they must lie apart",
    "Cast(D(half), A(int32_t), RoundMode::CAST_NONE, 64)": r"SetDeqScale\(half\) sets it before, and not to 0",
}
"""Calls that these cores lack, and what the refusal says."""


@pytest.mark.parametrize("call", REFUSED)
def test_what_the_cores_lack_is_told_with_its_line(tmp_path: Path, call: str) -> None:
    line = BODY.count("\n") + 3
    with pytest.raises(SimError, match=rf"kernel.cpp:{line}: .*{REFUSED[call]}"):
        kernel = made(tmp_path, f"{BODY}{call}; }}")
        asim.launch(kernel, 1, *(np.zeros(1024, np.uint8) for _ in range(3)), which=0)
