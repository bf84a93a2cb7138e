"""Further calls of the API in compiled kernels: bits, gathering, joins with a workspace, buffers without a TPipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.stream import FINE, REFUSED
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import IN, OUT, floats, made, needs_compiler, recorded, vector_kernel
from tests.support.ascend_c.vendor_words import vendor_words

pytestmark = needs_compiler

WAIT_S = "SetFlag<HardEvent::V_S>(1); WaitFlag<HardEvent::V_S>(1);"
WHOLE = "auto w = a.ReinterpretCast<int32_t>(), v = d.ReinterpretCast<int32_t>();"
CALLS = {
    f"{WHOLE} ShiftLeft(v, w, 3, 64)": lambda x: (x.view(np.int32) << 3).view(np.float32),
    f"{WHOLE} ShiftRight(v, w, 5, 64)": lambda x: (x.view(np.int32) >> 5).view(np.float32),
    f"{WHOLE} ShiftRight(v, w, 4, (uint64_t)64, 1, {{1, 1, 8, 8}}, true)": (
        lambda x: ((x.view(np.int32).astype(np.int64) + 8) >> 4).astype(np.int32).view(np.float32)
    ),
    "Duplicate(d, 0.0f, 64); PipeBarrier<PIPE_V>(); uint64_t kept = 0; GatherMask(d, a, (uint8_t)2, false, 0u, "
    "GatherMaskParams(1, 1, 8, 0), kept); if (kept != 32) Trap()": lambda x: np.concatenate(
        (x[1::2], np.zeros(32, np.float32))
    ),
    "auto m = b[64].ReinterpretCast<uint8_t>(); CompareScalar(m, a, 0.0f, CMPMODE::GT, 64); Duplicate(d, 0.0f, 64); "
    "PipeBarrier<PIPE_V>(); uint64_t kept = 0; GatherMask(d, a, m.ReinterpretCast<uint32_t>(), false, 0u, "
    f"GatherMaskParams(1, 1, 8, 0), kept); {WAIT_S} d.SetValue(63, (float)kept); SetFlag<HardEvent::S_MTE3>(1); "
    "WaitFlag<HardEvent::S_MTE3>(1)": lambda x: np.concatenate(
        (x[x > 0], np.zeros((x <= 0).sum() - 1, np.float32), [(x > 0).sum()])
    ),
    "Duplicate(d, 1.0f, (uint64_t)32, 1, 2, 8); Duplicate(d[8], 2.0f, (uint64_t)32, 1, 2, 8)": (
        lambda x: np.repeat(np.tile([1, 2], 4), 8).astype(np.float32)
    ),
    "auto w = b.ReinterpretCast<int64_t>(); Muls(a, a, 1e12f, 64); PipeBarrier<PIPE_V>(); "
    "Cast(w, a, RoundMode::CAST_TRUNC, 64); PipeBarrier<PIPE_V>(); Cast(d, w, RoundMode::CAST_RINT, 64)": lambda x: np.trunc(
        x * np.float32(1e12)
    ),
    "auto h = b.ReinterpretCast<half>(); Cast(h, a, RoundMode::CAST_RINT, (uint64_t)32, 2, {1, 1, 4, 4}); "
    "PipeBarrier<PIPE_V>(); Cast(d, h, RoundMode::CAST_NONE, (uint64_t)32, 2, {1, 1, 4, 4})": lambda x: x.astype(
        np.float16
    ).astype(np.float32),
    "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(64); "
    "Adds<float, false>(d, a, 1.0f, MASK_PLACEHOLDER, 1, {1, 0, 8, 8}); SetMaskNorm(); ResetMask()": lambda x: (
        np.tile(x[:8], 8) + 1
    ),
    "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(64); Muls<float, false>(d, a, 2.0f, 9); SetMaskNorm(); "
    "ResetMask()": lambda x: 2 * x,
    "auto m = b[64].ReinterpretCast<uint8_t>(); CompareScalar(m, a, 0.5f, CMPMODE::GT, 64); Duplicate(d, 3.0f, 64); "
    "PipeBarrier<PIPE_V>(); uint64_t odd[2] = {0xaaaaaaaaaaaaaaaaull, 0}, even[2] = {0x5555555555555555ull, 0}; "
    "Select(d, m, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, odd, 1, {1, 1, 1, 8, 8, 8}); PipeBarrier<PIPE_V>(); "
    "Select(d, m, a, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, even, 1, {1, 1, 1, 8, 8, 8})": lambda x: np.where(
        x > 0.5, x, np.where(np.arange(64) % 2, x[::-1], 7)
    ),
    "Compare(a, b, CMPMODE::GT, (uint64_t)ONE_REPEAT_FLOAT_SIZE, {1, 1, 1, 8, 8, 8}); PipeBarrier<PIPE_V>(); "
    "Select<float, SELMODE::VSEL_CMPMASK_SPR>(d, a, b, 1, {1, 1, 1, 8, 8, 8})": lambda x: np.maximum(x, x[::-1]),
    "a.SetSize(64); b.SetSize(64); d.SetSize(64); d = a + b": lambda x: x + x[::-1],
    "using T = Conditional<IsSameType<float, half>::value, half, float>::type; static_assert(Std::is_same_v<T, float>); "
    "bfloat16_t two = ToBfloat16(2.0f); assert(DivCeil(9, 8) + CeilDivision(0, 8) + AlignUp(9, 8u) == 18); "
    "Muls(d, a, ToFloat(two), Std::min(AlignUp(57, 8), 99))": lambda x: 2 * x,
    "d.SetSize(32); d = a * b; LocalTensor<float> h = d[32]; h.SetSize(32); h = a[32] - b[32]": lambda x: np.concatenate(
        (x[:32] * x[:31:-1], x[32:] - x[31::-1])
    ),
    "auto m = b[64].ReinterpretCast<uint8_t>(); a.SetSize(64); m = a > b; PipeBarrier<PIPE_V>(); "
    "Select(d, m, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64)": lambda x: np.maximum(x, x[::-1]),
    "auto m = b[64].ReinterpretCast<uint8_t>(); CompareScalar(m, a, 0.5f, CMPMODE::GT, (uint64_t)64, 1, {1, 1, 8, 8}); "
    "PipeBarrier<PIPE_V>(); Select(d, m, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64)": lambda x: np.where(x > 0.5, x, x[::-1]),
    "auto m = b[64].ReinterpretCast<uint8_t>(); Duplicate(a[64], 2.0f, 64); PipeBarrier<PIPE_V>(); "
    "uint64_t whole[2] = {~0ull, 0}; Compares(m, a, 0.5f, CMPMODE::LE, whole, 1, {1, 2, 8, 8}); PipeBarrier<PIPE_V>(); "
    "Select(d, m, b, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64)": lambda x: np.where(
        np.concatenate((x.reshape(8, 8)[::2].reshape(-1), np.full(32, 2))) <= 0.5, x[::-1], 7
    ),
    "auto m = d[64].ReinterpretCast<uint8_t>(); CompareScalar(m, a, 0.5f, CMPMODE::GT, 64); DataCopy(d, b, 64); "
    "PipeBarrier<PIPE_V>(); Select(d, m, a, d, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64)": lambda x: np.where(x > 0.5, x, x[::-1]),
    "auto m = b[64].ReinterpretCast<uint8_t>(); CompareScalar(m, a, 0.5f, CMPMODE::GT, 64); DataCopy(d, a, 64); "
    "PipeBarrier<PIPE_V>(); Select(d, m, d, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64)": lambda x: np.where(x > 0.5, x, 7),
    "uint64_t kept; DataCopy(d, a, 64); DataCopy(d[64], b, 64); PipeBarrier<PIPE_V>(); "
    "GatherMask(d, d, (uint8_t)1, false, 0u, {1, 2, 8, 0}, kept)": lambda x: np.concatenate((x[::2], x[::-2])),
    "DataCopy(d[512], a, 64); DataCopy(d[576], b, 64); PipeBarrier<PIPE_V>(); auto h = d[512].ReinterpretCast<half>(); "
    "Cast(h, d[512], RoundMode::CAST_NONE, 128); PipeBarrier<PIPE_V>(); Cast(d, h[64], RoundMode::CAST_NONE, 64)": lambda x: (
        x[::-1].astype(np.float16).astype(np.float32)
    ),
    "Duplicate(d, Cast<float, int32_t, RoundMode::CAST_CEIL>(2.25f) + 0.5f, 64)": lambda x: np.full(64, 3.5, np.float32),
    "FixpipeParamsV220 p(1, 2, 3, 4, false, QuantMode_t::NoQuant, 0, 1, 2, 3, 5, true); "
    "if (!p.isChannelSplit || p.unitFlag != 5) Trap(); Adds(d, a, 1.0f, 64)": lambda x: x + 1,
    "WholeReduceSum<float>(a, a, 64, 1, 1, 1, 8); PipeBarrier<PIPE_V>(); DataCopy(d, a, 64)": lambda x: np.concatenate(
        (x[None].sum(axis=1), x[1:])
    ),
    "BlockReduceSum<float>(a, a, 1, 64, 1, 1, 8); PipeBarrier<PIPE_V>(); DataCopy(d, a, 64)": lambda x: np.concatenate(
        (x.reshape(8, 8).sum(axis=1), x[8:])
    ),
    "BlockReduceMax<float>(a, a, 2, 32, 1, 1, 4); PipeBarrier<PIPE_V>(); DataCopy(d, a, 64)": lambda x: np.concatenate(
        (x[:32].reshape(4, 8).max(axis=1), x[4:8], x[32:].reshape(4, 8).max(axis=1), x[12:])
    ),
    "PairReduceSum<float>(a, a, 1, 64, 1, 1, 8); PipeBarrier<PIPE_V>(); DataCopy(d, a, 64)": lambda x: np.concatenate(
        (x[::2] + x[1::2], x[32:])
    ),
    "DataCopy(d, a, 64)": lambda x: x,
    "Duplicate(d, 9.0f, 64); SetFlag<HardEvent::V_MTE2>(1); WaitFlag<HardEvent::V_MTE2>(1); "
    "DataCopyPad(d, xg, {2, 20, 8, 1, 0}, {false, 0, 0, 0.0f}); SetFlag<HardEvent::MTE2_V>(1); "
    "WaitFlag<HardEvent::MTE2_V>(1)": lambda x: np.concatenate(
        (x[:5], x[[0] * 3], np.full(8, 9), x[7:12], x[[7] * 3], np.full(40, 9))
    ),
    "DataCopy(d, a, DataCopyParams(2, 2, 0, 2)); DataCopy(d[16], b, DataCopyParams(2, 2, 0, 2))": lambda x: np.concatenate(
        (x[:16], x[::-1][:16], x[16:32], x[::-1][16:32])
    ),
    "DataCopy(d, a, {1, 8, 0, 0}, DataCopyEnhancedParams(BlockMode::BLOCK_MODE_VECTOR, DeqScale::DEQ, 2, 0, true, "
    "pad_t::PAD_NONE, 0))": lambda x: x,
    "TPipe p; TBuf<> own; p.InitBuffer(own, 100000); LocalTensor<float> r; "
    "if (!PopStackBuffer<float, TPosition::VECCALC>(r) || r.GetSize() * 4 != 196608 - 64 - 100000 || r.GetPhyAddr() != 100000) "
    "Trap(); Adds(r, a, 1.0f, 64); PipeBarrier<PIPE_V>(); DataCopy(d, r, 64)": lambda x: x + 1,
}
"""Calls that fill 64 elements of d from 64 of a and, reversed, of b, and what numpy says of them."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel that makes one of the calls, by its number."""
    cases = "\n".join(f"if (which == {number}) {{ {call}; }}" for number, call in enumerate(CALLS))
    body = f"DataCopy(b, yg, 64); {IN} {cases} {OUT}"
    return made(tmp_path_factory.mktemp("calls"), vector_kernel(body, numbers="int32_t which"))


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_computes_what_numpy_does(calls: Any, number: int) -> None:
    x = floats(64)
    wanted = [*CALLS.values()][number](x).astype(np.float32)
    for engine in ("simpy", "compiled"):
        run = asim.launch(calls, 1, x, x[::-1].copy(), asim.empty(64, "float32"), which=number, engine=engine)
        np.testing.assert_array_equal(run.outputs["z"].view(np.int32), wanted.view(np.int32))
        assert not run.findings


def test_cores_join_by_a_workspace(tmp_path: Path) -> None:
    """Each writes its number, joins the others, and reads the next one's."""
    body = """GlobalTensor<int32_t> cg; cg.SetGlobalBuffer((__gm__ int32_t *)w); auto u = b.ReinterpretCast<int32_t>();
    zg.SetValue(16 * GetBlockIdx(), (float)GetBlockIdx());
    DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(zg);
    SyncAll(cg, u);
    float v = zg.GetValue(16 * ((GetBlockIdx() + 1) % GetBlockNum()));
    for (int i = 1; i < 16; i++) zg.SetValue(16 * GetBlockIdx() + i, v);"""
    kernel = made(tmp_path, vector_kernel(body, tensors="z w"))
    run = asim.launch(kernel, 4, asim.empty(64, "float32"), np.zeros(32, np.int32))
    wanted = np.repeat(np.roll(np.arange(4, dtype=np.float32), -1), 16).reshape(4, 16)
    wanted[:, 0] = np.arange(4)
    np.testing.assert_array_equal(run.outputs["z"], wanted.ravel())
    assert run.outputs["w"][::8].tolist() == [1, 1, 1, 1]
    assert not run.findings


def test_buffers_and_flags_without_a_pipe(tmp_path: Path) -> None:
    body = """LocalMemAllocator<> all; auto one = all.Alloc<float, 64>(); auto two = all.Alloc<TPosition::VECOUT, float>(64);
    TQueSync<PIPE_MTE2, PIPE_V> in; TQueSync<PIPE_V, PIPE_MTE3> out;
    DataCopy(one, xg, 64); in.SetFlag(0); in.WaitFlag(0);
    Adds(two, one, (float)all.GetCurAddr(), 64); out.SetFlag(0); out.WaitFlag(0); DataCopy(zg, two, 64);"""
    run = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, floats(64), asim.empty(64, "float32"))
    np.testing.assert_array_equal(run.outputs["z"], floats(64) + np.float32(512))
    assert not run.findings


def test_a_level_of_sums_for_many_repeats(tmp_path: Path) -> None:
    """A repeat holds 64 sums, so that more repeats take one level more."""
    body = (
        f"DataCopy(a, xg, 8192); {IN.partition(';')[2]} ReduceSum(d, a, b, 64, 128, 8); "
        f"{OUT.partition('DataCopy')[0]} DataCopy(zg, d, 8);"
    )
    x = np.random.default_rng(0).integers(-8, 9, 8192).astype(np.float32)
    run = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, x, asim.empty(8, "float32"))
    assert run.outputs["z"][0] == x.sum()


@pytest.mark.parametrize("dtype", ["half", "float"])
def test_columns_of_nz_become_rows(tmp_path: Path, dtype: str) -> None:
    """Two matrices of 32 x 32 beside each other in rows of 80; the public page has the first rows of one."""
    size = {"half": 2, "float": 4}[dtype]
    body = f"""GlobalTensor<{dtype}> in, out; in.SetGlobalBuffer((__gm__ {dtype} *)x); out.SetGlobalBuffer((__gm__ {dtype} *)z);
    LocalTensor<{dtype}> t = a.ReinterpretCast<{dtype}>(); DataCopy(t, in, 2048);
    SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(out, t, Nz2NdParamsFull(2, 32, 32, 4, 32, 80, 40));"""
    x = np.arange(1, 2049).astype(f"float{8 * size}")
    kernel = made(tmp_path, vector_kernel(body, tensors="x z"))
    rows = asim.launch(kernel, 1, x, np.zeros((32, 80), x.dtype)).outputs["z"]
    wanted = np.zeros((32, 80), x.dtype)
    for matrix in range(2):
        nz = x.reshape(2, 2, 32, 16)[matrix]
        wanted[:, 40 * matrix : 40 * matrix + 32] = nz.transpose(1, 0, 2).reshape(32, 32)
    np.testing.assert_array_equal(rows, wanted)
    assert rows[0, 15:17].tolist() == [16, 513]


SCALARS = """uint32_t sizes[] = {3, 5, 7}, before[] = {3, 35};
ShapeInfo all(3, sizes, 2, before, DataFormat::NCHW); a.SetShapeInfo(all); xg.SetShapeInfo(ShapeInfo(2, before));
LocalTensor<float> part = a[8]; ShapeInfo noted = part.GetShapeInfo();
if (GetShapeSize(noted) != 105 || noted.originalShape[1] != 35 || noted.dataFormat != DataFormat::NCHW) Trap();
if (GetShapeSize(xg.GetShapeInfo()) != 105 || b.GetShapeInfo().shapeDim) Trap();
static_assert(Std::is_same_v<float, float> && IsSameType<half, half>::value && !AscendC::Std::is_same<half, float>::value);
static_assert(AscendC::AlignUp(33, 32) == 64 && CeilDivision(7, 2) == 4);
if (Std::min(3, 4) + AscendC::Std::max(3u, 4u) != 7) Trap();
bfloat16_t low = AscendC::Cast(3.14159f); if (AscendC::Cast(low) != 3.140625f || ToFloat(ToBfloat16(1.5f)) != 1.5f) Trap();
for (uint32_t d : {1u, 2u, 3u, 7u, 10u, 641u, 65536u, 1000003u}) {
    uint32_t m, s; GetUintDivMagicAndShift(m, s, d);
    for (uint32_t n : {0u, 1u, 6u, 7u, 640u, 641u, 999999999u, 2147483647u})
        if (((uint32_t)((uint64_t)n * m >> 32) + n) >> s != n / d) Trap();
    uint64_t w, t, n = 123456789012345; GetUintDivMagicAndShift(w, t, (uint64_t)d * 1000003);
    if (((uint64_t)((unsigned __int128)n * w >> 64) + n) >> t != n / (d * 1000003ull)) Trap();
}"""


def test_shapes_and_numbers_that_divide(tmp_path: Path) -> None:
    asim.launch(made(tmp_path, vector_kernel(SCALARS, tensors="x")), 1, floats(64))


POOLS = """TPipe pipe; TBufPool<TPosition::VECCALC> whole, first, second; pipe.InitBufPool(whole, 2048);
whole.InitBufPool(first, 1024); whole.InitBufPool(second, 1024, first);
TQue<TPosition::VECIN, 1> in; TBuf<> t; TQue<TPosition::VECOUT, 1> out;
first.InitBuffer(in, 1, 256); first.InitBuffer(t, 256); first.InitBuffer(out, 1, 256);
auto x = in.AllocTensor<float>(); DataCopy(x, xg, 64); in.EnQue(x); x = in.DeQue<float>(); auto w = t.Get<float>();
Adds(w, x, 1.0f, 64); PipeBarrier<PIPE_V>(); auto y = out.AllocTensor<float>(); Adds(y, w, 1.0f, 64); in.FreeTensor(x);
out.EnQue(y); y = out.DeQue<float>(); DataCopy(zg, y, 64); out.FreeTensor(y); first.Reset();
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> both; second.InitBuffer(both, 2, 512);
x = both.AllocTensor<float>(); DataCopy(x, xg[64], 64); both.EnQue(x); x = both.DeQue<float>(); DataCopy(zg[64], x, 64);
both.FreeTensor(x); second.Reset();"""


def test_pools_have_the_same_memory_one_after_the_other(tmp_path: Path) -> None:
    kernel = made(tmp_path, f'extern "C" __global__ __aicore__ void kernel(GM_ADDR given, GM_ADDR z) {{ {VIEWS} {POOLS} }}')
    x = floats(128)
    run = asim.launch(kernel, 1, x, asim.empty(128, "float32"))
    np.testing.assert_array_equal(run.outputs["z"], np.concatenate((x[:64] + 1 + 1, x[64:])))
    report = asim.check_kernel(kernel, 1, x, asim.empty(128, "float32"))
    assert not report.findings, report.render()


VIEWS = "GlobalTensor<float> xg, zg; xg.SetGlobalBuffer((__gm__ float *)given); zg.SetGlobalBuffer((__gm__ float *)z);"
TOO_MUCH = {
    "TBufPool<TPosition::VECCALC> p; TBuf<> t; p.InitBuffer(t, 32);": "TBufPool: it has no memory; InitBufPool gives it some",
    "TBufPool<TPosition::VECCALC> p; pipe.InitBufPool(p, 64); TBuf<> t, u; p.InitBuffer(t, 32); p.InitBuffer(u, 64);": (
        "InitBuffer: 64 bytes at 32 of a pool; it has 64 bytes"
    ),
    "TBufPool<TPosition::VECCALC> p, q; pipe.InitBufPool(p, 64); pipe.InitBufPool(q, 96, p);": (
        "InitBufPool: 96 bytes; the pool that it shares has 64"
    ),
}


@pytest.mark.parametrize("code", TOO_MUCH)
def test_a_pool_gives_no_more_than_it_has(tmp_path: Path, code: str) -> None:
    kernel = made(tmp_path, f'extern "C" __global__ __aicore__ void kernel(GM_ADDR z) {{ TPipe pipe;\n{code}\n}}')
    with pytest.raises(SimError, match=TOO_MUCH[code]):
        asim.launch(kernel, 1, asim.empty(8, "float32"))


def test_a_declaration_of_both_cores_and_functions_of_one(tmp_path: Path) -> None:
    """A kernel's own function comes before one of the API with its name."""
    text = f"""__aicore__ inline int DivCeil(int a, int b) {{ return 64; }}
template <class T> __aicore__ inline T AlignUp(T a, T b) {{ return 64; }}
void cube(int &calls) {{ calls++; InitSocState(); }}
void add(GM_ADDR x, GM_ADDR z, int count) {{
    GlobalTensor<float> xg, zg; xg.SetGlobalBuffer((__gm__ float *)x), zg.SetGlobalBuffer((__gm__ float *)z);
    LocalTensor<float> a(TPosition::VECCALC, 0, 64), d(TPosition::VECCALC, 256, 64);
    ascendc_assert(GetTaskRatio() == 2, "of %d", 2);
    {IN} Adds(d, a, (float)GetTaskRation(), DivCeil(count, 1)); {OUT}
}}
__global__ __mix__(1, 2) void both(GM_ADDR x, GM_ADDR z) {{
    SetSyncBaseAddr(0);
    int calls = 0;
    Async<EngineType::AIC, cube>(calls);
    if (GetSubBlockIdx() == 0) Async<EngineType::AIV, add>(x, z, AlignUp(3, 5));
}}"""
    kernel, x = made(tmp_path, text), floats(64)
    assert kernel.cores == ("MIX",)
    assert (asim.launch(kernel, 1, x, asim.empty(64, "float32")).outputs["z"] == x + 2).all()


def test_a_mix_of_other_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SimError, match=r"kernel both: __mix__ with other cores than"):
        made(tmp_path, "__global__ __mix__(2, 2) void both(GM_ADDR x) {}")


MASKED = {
    "Add(d, a, b, m, 1, {1, 1, 1, 8, 8, 8});": 64,
    "Add(h, h, h, m, 1, {1, 1, 1, 8, 8, 8});": 128,
    "Abs(d, a, m, 1, {1, 1, 8, 8});": 64,
    "Adds(h, h, (half)1, m, 1, {1, 1, 8, 8});": 128,
    "ShiftLeft(i, i, 1, m, 1, {1, 1, 8, 8});": 64,
    "Duplicate(h, (half)0, m, 1, 1, 8);": 128,
    "Cast(d, h, RoundMode::CAST_NONE, m, 1, {1, 1, 8, 4});": 64,
    "Cast(h, d, RoundMode::CAST_NONE, m, 1, {1, 1, 4, 8});": 64,
    "Copy(h, h, m, 1, {1, 1, 8, 8});": 128,
    "Compare(h, h, CMPMODE::LT, m, {1, 1, 1, 8, 8, 8});": 128,
    "Select(d, a.ReinterpretCast<uint8_t>(), a, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, m, 1, {1, 1, 1, 8, 8, 8});": 64,
    "WholeReduceSum(h, h, (int32_t)m, 1, 1, 1, 8);": 128,
    "WholeReduceMax(d, a, (int32_t)m, 1, 1, 1, 8);": 64,
    "RepeatReduceSum(d, a, 1, (int32_t)m, 0, 1, 1, 8);": 64,
    "BlockReduceSum(h, h, 1, (int32_t)m, 1, 1, 8);": 128,
    "PairReduceSum(d, a, 1, (int32_t)m, 1, 1, 8);": 64,
    "ReduceSum(d, a, b, (int32_t)m, 1, 8);": 64,
    "ReduceMin(h, h, h, (int32_t)m, 1, 8);": 128,
    "Gather(d, a, b.ReinterpretCast<uint32_t>(), 0u, m, 1, 8);": 64,
    "CreateVecIndex(i, 0, m, 1, 1, 8);": 64,
    "MulAddDst(h, h, h, m, 1, {1, 1, 1, 8, 8, 8});": 128,
    "Axpy(d, h, (half)1, m, 1, {1, 1, 8, 4});": 64,
    "AddRelu(d, a, b, m, 1, {1, 1, 1, 8, 8, 8});": 64,
    "AddDeqRelu(h, i, i, m, 1, {1, 1, 1, 8, 8, 8});": 64,
    "SetVectorMask<half>((int32_t)m);": 128,
}
"""Calls with a mask of `m` elements, and the elements of a repeat."""
BY_BITS = [one for one in MASKED if not one.startswith(("RepeatReduceSum", "SetVectorMask"))]
"""Calls of MASKED that take bits as well."""


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with_bits = [re.sub(r"(\(int32_t\))?\bm\b", "bits", one) for one in BY_BITS]
    calls = "\n".join(f"if (which == {number}) {{ {one} }}" for number, one in enumerate([*MASKED, *with_bits]))
    views = "auto h = d.ReinterpretCast<half>(); auto i = d.ReinterpretCast<int32_t>(); SetDeqScale((half)1);\n"
    views += "uint64_t bits[2] = {m < 64 ? (1ull << m) - 1 : ~0ull, m > 64 ? (1ull << (m - 64)) - 1 : 0};\n"
    text = vector_kernel(views + calls, tensors="x", numbers="int32_t which, uint64_t m")
    return made(tmp_path_factory.mktemp("masked"), text)


@pytest.mark.parametrize("number", range(len(MASKED)), ids=[*MASKED])
def test_a_mask_has_at_most_the_elements_of_a_repeat(masked: Any, number: int) -> None:
    most = [*MASKED.values()][number]
    assert recorded(masked, 1 << 40, number, most).how == FINE
    refused = recorded(masked, 1 << 40, number, most + 1)
    assert refused.how == REFUSED and refused.last is not None and refused.last[1] == 6 + number
    assert refused.text == f"a mask of {most + 1} elements; allowed are 0 to {most}, those of a repeat"


@pytest.mark.parametrize("call", BY_BITS)
def test_a_number_of_elements_is_a_mask_of_its_lowest_bits(masked: Any, call: str) -> None:
    calls = [*MASKED].index(call), len(MASKED) + BY_BITS.index(call)
    for elements in (20, 64, MASKED[call] - 1):
        counted, with_bits = (recorded(masked, 1 << 40, number, elements) for number in calls)
        assert counted.how == with_bits.how == FINE and len(counted.rows)
        assert [word for _, word in vendor_words(counted)] == [word for _, word in vendor_words(with_bits)]


def test_rows_are_added_up_in_one_place(tmp_path: Path) -> None:
    """dst and src1 stand still (stated as allowed); elsewhere each repeat would overwrite the one before."""
    copy = f"{IN.replace('64', '512')} Duplicate(d, 1.0f, 64); Duplicate(b, 1.0f, 64); PipeBarrier<PIPE_V>();"
    call = "Add(d, a, apart ? b : d, (uint64_t)64, 8, {1, 1, 1, 0, 8, 0});"
    kernel = made(tmp_path, vector_kernel(f"{copy} {call} {OUT}", tensors="x z", numbers="int32_t apart"))
    x = np.random.default_rng(0).integers(-9, 9, (8, 64)).astype(np.float32)
    run = asim.launch(kernel, 1, x, asim.empty(64, "float32"), apart=0)
    np.testing.assert_array_equal(run.outputs["z"], x.sum(0) + 1)
    for apart in (0, 1):
        found = asim.check_kernel(kernel, 1, x, asim.empty(64, "float32"), apart=apart).findings
        assert [one.kind for one in found if one.level == "ERROR"] == ["rows over each other"] * apart
