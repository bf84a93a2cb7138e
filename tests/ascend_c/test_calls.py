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
    "Mul(d, a, b, (uint64_t)64, 1, {1, 1, 0, 8, 8, 1})": lambda x, y: x * np.tile(y[:8], 8),
    "Div(d, a, b, (uint64_t)16, 4, {1, 1, 0, 2, 2, 1})": (lambda x, y: (x.reshape(4, 2, 8) / y.reshape(8, 1, 8)[:4]).ravel()),
    "Add(d, a, b, (uint64_t)32, 2, {2, 1, 1, 1, 4, 4})": (lambda x, y: (x + y).reshape(2, 4, 8).transpose(1, 0, 2).ravel()),
    "Adds(d, a, 1.0f, (uint64_t)64, 1, {1, 0, 8, 8})": lambda x, y: np.tile(x[:8], 8) + np.float32(1),
    "Abs(d, a, (uint64_t)32, 2, {1, 2, 4, 1})": lambda x, y: np.abs(x).reshape(4, 2, 8).transpose(1, 0, 2).ravel(),
    "Duplicate(d, 1.0f, 64); MulAddDst(d, a, b, (uint64_t)64, 1, {1, 1, 0, 8, 8, 0})": (
        lambda x, y: x * np.tile(y[:8], 8) + np.float32(1)
    ),
    "Duplicate(d, 0.0f, 64); Add(d, a, b, (uint64_t)60, 1, {1, 1, 0, 8, 8, 0})": (
        lambda x, y: np.where(np.arange(64) < 60, x + np.tile(y[:8], 8), 0)
    ),
    "uint64_t odd[2] = {0xAAAAAAAAAAAAAAAA, 0}; Duplicate(d, 0.0f, 64); Sub(d, a, b, odd, 1, {1, 1, 0, 8, 8, 8})": (
        lambda x, y: np.where(np.arange(64) % 2, x - np.tile(y[:8], 8), 0)
    ),
    "AddRelu(d, a, b, 64)": lambda x, y: np.maximum(x + y, 0),
    "SubRelu(d, a, b, (uint64_t)8, 8, {1, 1, 1, 1, 1, 0})": lambda x, y: np.maximum(x - np.tile(y[:8], 8), 0),
    "Duplicate(d, 3.0f, 64); FusedMulAdd(d, a, b, 64)": lambda x, y: x * np.float32(3) + y,
    "Duplicate(d, 3.0f, 64); FusedMulAddRelu(d, a, b, 64)": lambda x, y: np.maximum(x * np.float32(3) + y, 0),
    "CreateVecIndex(d, 3.0f, 64u)": lambda x, y: np.arange(3, 67, dtype=np.float32),
    "Duplicate(d, 0.0f, 64); PipeBarrier<PIPE_ALL>(); ArithProgression(d, 1.0f, -0.5f, 13)": (
        lambda x, y: np.where(np.arange(64) < 13, 1 - np.arange(64, dtype=np.float32) / 2, 0)
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


@pytest.mark.parametrize(("name", "pick"), [("Max", np.maximum), ("Min", np.minimum)])
def test_copies_that_keep_an_extreme(tmp_path: Path, name: str, pick: Any) -> None:
    """A plain copy, a padded one in another format, and an overwriting one behind SetAtomicNone."""
    body = f"""{IN} Muls(d, a, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    SetAtomic{name}<float>(); DataCopy(zg, d, 64); DataCopyPad(zg[64], d, DataCopyExtParams(2, 20, 1, 12, 0));
    GlobalTensor<int32_t> n; n.SetGlobalBuffer((__gm__ int32_t *)z + 96);
    SetAtomic{name}<int32_t>(); DataCopy(n, d.ReinterpretCast<int32_t>(), 16); SetAtomicNone(); DataCopy(zg[112], d, 16);"""
    x, start = floats(64), floats(128, 3)
    z = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, x, start).outputs["z"]
    np.testing.assert_array_equal(z[:64], pick(x, start[:64]))
    np.testing.assert_array_equal(z[64:69], pick(x[:5], start[64:69]))
    np.testing.assert_array_equal(z[72:77], pick(x[16:21], start[72:77]))
    np.testing.assert_array_equal(z[69:72], start[69:72])
    np.testing.assert_array_equal(z[96:112].view(np.int32), pick(x[:16].view(np.int32), start[96:112].view(np.int32)))
    np.testing.assert_array_equal(z[112:], x[:16])


INDEX = """extern "C" __global__ __aicore__ void extremes(GM_ADDR x, GM_ADDR z, uint32_t count, int32_t largest) {
    GlobalTensor<TYPE> xg, zg; xg.SetGlobalBuffer((__gm__ TYPE *)x); zg.SetGlobalBuffer((__gm__ TYPE *)z);
    TPipe pipe; TBuf<> b, w, o;
    pipe.InitBuffer(b, 8192 * 4); pipe.InitBuffer(w, 8192); pipe.InitBuffer(o, 64);
    LocalTensor<TYPE> a = b.Get<TYPE>(), t = w.Get<TYPE>(), d = o.Get<TYPE>();
    DataCopy(a, xg, 8192);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    if (largest) ReduceMax(d, a, t, count, true);
    else ReduceMin(d, a, t, count, true);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, d, 32 / sizeof(TYPE));
}
"""


@pytest.mark.parametrize("dtype", ["float", "half"])
def test_extremes_with_their_index(tmp_path: Path, dtype: str) -> None:
    """All ways through the levels: one repeat, several, a rest behind them, more repeats than one word has."""
    kernel = made(tmp_path, INDEX.replace("TYPE", dtype))
    form = np.dtype(np.float32 if dtype == "float" else np.float16)
    for count in (1, 40, 64, 65, 128, 199, 384, 391, 4096, 8191):
        x = np.random.default_rng(count).permutation(8192).astype(form) / form.type(8)
        for largest in (0, 1):
            run = asim.launch(kernel, 1, x, asim.empty(16, form.name), count=count, largest=largest)
            z, found = run.outputs["z"], x[:count]
            place = found.argmax() if largest else found.argmin()
            assert z[0] == found[place] and z.view(f"u{form.itemsize}")[1] == place, (count, largest)
            assert not run.findings


REARRANGED = """extern "C" __global__ __aicore__ void t2(GM_ADDR x, GM_ADDR i, GM_ADDR z, GM_ADDR h, GM_ADDR n, GM_ADDR m)
{
    GlobalTensor<float> xg, zg; xg.SetGlobalBuffer((__gm__ float *)x); zg.SetGlobalBuffer((__gm__ float *)z);
    GlobalTensor<uint32_t> ig; ig.SetGlobalBuffer((__gm__ uint32_t *)i);
    GlobalTensor<half> hg; hg.SetGlobalBuffer((__gm__ half *)h);
    GlobalTensor<int32_t> ng; ng.SetGlobalBuffer((__gm__ int32_t *)n);
    GlobalTensor<half> mg; mg.SetGlobalBuffer((__gm__ half *)m);
    TPipe pipe; TBuf<TPosition::VECCALC> b, w, o; pipe.InitBuffer(b, 1024); pipe.InitBuffer(w, 1024); pipe.InitBuffer(o, 8192);
    LocalTensor<float> a = b.Get<float>(), d = o.Get<float>();
    LocalTensor<uint32_t> off = w.Get<uint32_t>();
    DataCopy(a, xg, 256);
    DataCopy(off, ig, 200);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    Gather(d, a, off, 0u, 200u);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, d, 200);
    SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);
    // padding: 3 rows of 5 floats to 8, left 1, right 2, value 7.5
    DataCopyPadExtParams<float> pad{true, 1, 2, 7.5f};
    DataCopyPad(d, xg, DataCopyExtParams{3, 20, 4, 0, 0}, pad);
    SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(zg[200], d, 24);
    // the value of SetPadValue pads without isPad; of 8 bytes it is 0
    SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);
    SetPadValue(-2.5f);
    DataCopyPad(d, xg, DataCopyExtParams{2, 20, 4, 0, 0}, DataCopyPadExtParams<float>{false, 2, 1, 1.0f});
    SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(zg[352], d, 16);
    SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);
    GlobalTensor<int64_t> wide; wide.SetGlobalBuffer((__gm__ int64_t *)i);
    DataCopyPadExtParams<int64_t> zeros{true, 1, 2, 0};
    DataCopyPad(d.ReinterpretCast<int64_t>(), wide, DataCopyExtParams{1, 40, 0, 0, 0}, zeros);
    SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(zg[368], d, 16);
    // the value fills up a block of which the padding is a part: 24 bytes, 30 of padding, 10 more
    SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);
    GlobalTensor<int16_t> shorts; shorts.SetGlobalBuffer((__gm__ int16_t *)i);
    DataCopyPadExtParams<int16_t> sevens{true, 0, 15, 7};
    DataCopyPad(d.ReinterpretCast<int16_t>(), shorts, DataCopyExtParams{1, 24, 0, 0, 0}, sevens);
    SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(zg[384], d, 16);
    // turned squares
    LocalTensor<half> s = d[512].ReinterpretCast<half>(), t = d[1024].ReinterpretCast<half>();
    DataCopy(s, hg, 512);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    Transpose(t, s);
    LocalTensor<half> from[16], to[16];
    for (int j = 0; j < 16; j++) from[j] = s[256 + 16 * j], to[j] = t[256 + 16 * j];
    TransDataTo5HD<half>(to, from, TransDataTo5HDParams(false, false, 1, 0, 0));
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(hg, t, 512);
    // float: 16 rows of 8
    SetFlag<HardEvent::MTE3_MTE2>(1); WaitFlag<HardEvent::MTE3_MTE2>(1);
    DataCopy(a, xg, 256);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    uint64_t dl[16], sl[16];
    for (int j = 0; j < 16; j++) { sl[j] = (uint64_t)a[8 * j].GetPhyAddr(); dl[j] = (uint64_t)d[8 * j].GetPhyAddr(); }
    TransDataTo5HD<float>(dl, sl, TransDataTo5HDParams(false, false, 1, 0, 0));
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg[224], d, 128);
    PipeBarrier<PIPE_ALL>();
    LocalTensor<int32_t> q = a.ReinterpretCast<int32_t>();
    DataCopy(q, ng, 64);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    SetDeqScale((half)1.0);
    Cast(t, q, RoundMode::CAST_NONE, 64);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(mg, t, 64);
}
"""


def test_gathering_padding_squares_and_casts_from_int32(tmp_path: Path) -> None:
    kernel, rng = made(tmp_path, REARRANGED), np.random.default_rng(0)
    x, h = rng.standard_normal(256).astype(np.float32), rng.standard_normal(512).astype(np.float16)
    offsets, n = (rng.integers(0, 256, 200) * 4).astype(np.uint32), rng.integers(-3000, 3000, 64).astype(np.int32)
    given = x, offsets, asim.empty(400, "float32"), h, n, asim.empty(64, "float16")
    run = asim.launch(kernel, 1, *given)
    z, turned = run.outputs["z"], run.outputs["h"].reshape(2, 16, 16)
    assert np.array_equal(z[:200], x[offsets // 4])
    padded = np.full((3, 8), 7.5, np.float32)
    padded[:, 1:6] = x[:18].reshape(3, 6)[:, :5]
    assert np.array_equal(z[200:224].reshape(3, 8), padded)
    assert np.array_equal(turned, h.reshape(2, 16, 16).transpose(0, 2, 1))
    assert np.array_equal(z[224:352].reshape(8, 16), x[:128].reshape(16, 8).T)
    padded = np.full((2, 8), -2.5, np.float32)
    padded[:, 2:7] = x[:12].reshape(2, 6)[:, :5]
    assert np.array_equal(z[352:368].reshape(2, 8), padded)
    assert np.array_equal(z[384:].view(np.int16), np.concatenate((offsets[:6].view(np.int16), [7] * 20)))
    assert np.array_equal(z[368:384].view(np.int64), np.concatenate(([0], offsets[:10].view(np.int64), [0, 0])))
    assert np.array_equal(run.outputs["m"], n.astype(np.float16))
    assert not asim.check_kernel(kernel, 1, *given).findings


HALVES = """extern "C" __global__ __aicore__ void halves(GM_ADDR x, GM_ADDR z) {
    GlobalTensor<TYPE> xg, zg; xg.SetGlobalBuffer((__gm__ TYPE *)x); zg.SetGlobalBuffer((__gm__ TYPE *)z);
    TPipe pipe; TBuf<TPosition::VECCALC> b, o; pipe.InitBuffer(b, 2048); pipe.InitBuffer(o, 4096);
    LocalTensor<TYPE> s = b.Get<TYPE>(), d = o.Get<TYPE>();
    DataCopy(s, xg, 2048); DataCopy(d, zg, 4096);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    LocalTensor<TYPE> from[16], to[16];
    for (int j = 0; j < 16; j++) from[j] = s[32 * j], to[j] = d[64 * j];
    TransDataTo5HD(to, from, TransDataTo5HDParams(DST, SRC, 4, 32, 16));
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, d, 4096);
}
"""


@pytest.mark.parametrize(("kind", "to", "source"), [("int8_t", 0, 1), ("uint8_t", 1, 0), ("int8_t", 1, 1), ("uint8_t", 0, 0)])
def test_halves_of_blocks_of_bytes_are_turned(tmp_path: Path, kind: str, to: int, source: int) -> None:
    """Public documentation: element i of 16 half blocks becomes half a block at address i; nothing else is stored."""
    dtype = np.dtype(kind.removesuffix("_t"))
    x, z = (np.random.default_rng(size).integers(0, 100, size).astype(dtype) for size in (2048, 4096))
    code = HALVES.replace("TYPE", kind).replace("DST", f"{to}").replace("SRC", f"{source}")
    given, wanted = made(tmp_path, code), z.reshape(4, 16, 2, 2, 16).copy()
    wanted[:, :, 0, to] = x.reshape(4, 16, 2, 16)[:, :, source].transpose(0, 2, 1)
    assert np.array_equal(asim.launch(given, 1, x, z.copy()).outputs["z"], wanted.reshape(-1))
    assert not asim.check_kernel(given, 1, x, z.copy()).findings
