"""Calls of the cube in all their documented forms, in compiled kernels, against numpy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.cube_text import LOAD, LOCAL, RAW
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler

MMAD = "Mmad(co, l0a, l0b, MmadParams(64, 48, 96, 0, false, true)); STEP(M_FIX, 0)"
OUT = "Fixpipe(cg, co, FixpipeParamsV220(48, 64, 64, 48, false));"
PADS = "(const uint8_t[4]){0, 0, 0, 0}"
FLAGGED = "MmadParams f(64, 48, 96, 3, false, true); FixpipeParamsV220 q(48, 64, 64, 48, false);"
SCALES = "auto fb = local<uint64_t>(TPosition::C1, 0x10000); DataCopy(fb, dg, 48); STEP(MTE2_FIX, 0)"


def quantised(to: str, mode: str, scale: str = "", fields: str = "") -> str:
    """Return the code of a Fixpipe with arithmetic to rows of elements `to`."""
    how = f"FixpipeParamsV220 q(48, 64, 64, 48, false); q.quantPre = QuantMode_t::{mode}; {fields}"
    return f"{MMAD} GlobalTensor<{to}> og; og.SetGlobalBuffer((__gm__ {to} *)c); {how} Fixpipe(og, co, {scale}q);"


def rounded(x: Any, low: int, high: int) -> Any:
    return np.clip(np.rint(x), low, high).astype(np.uint8 if low == 0 else np.int8)


CALLS = {
    "MmadParams m(64, 48, 96, 0, false, true); m.fmOffset = 1; m.enSsparse = m.enWinogradA = m.enWinogradB = true; "
    f"Mmad(co, l0a, l0b, m); STEP(M_FIX, 0) {OUT}": lambda a, b, d: a @ b,
    f"SetHF32Mode(HF32Mode::DISABLE); SetHF32TransMode(HF32TransMode::NEAREST_EVEN); SetMMRowMajor(); SetMMColumnMajor(); "
    f"{MMAD} {OUT}": lambda a, b, d: a @ b,
    "InitConstValue(l0a, InitConstValueParams<half>(0, 2, 0, 0)); InitConstValue(l1a, InitConstValueParams<half>(1, 0, 0, 0)); "
    f"LoadData(l0a, l1a, LoadData3DParamsV2<half>({PADS}, 8, 8, 16, 0, 64, 0, 0, 1, 1, 1, 1, 1, 1, false, false, 0)); "
    f"LoadData(l0a, l1a, LoadData3DParamsV2<half>({PADS}, 8, 8, 16, 16, 64, 0, 0, 1, 1, 0, 1, 1, 1, false, false, 0)); "
    f"{MMAD} {OUT} Fixpipe(cg, co, FixpipeParamsV220(16, 64, 64, 48, true, QuantMode_t::NoQuant, 0, 0, 4, 16, 0));": (
        lambda a, b, d: a @ b
    ),
    f"InitConstValue(l0a, InitConstValueParams<half>(2, 1, 5, 0)); STEP(MTE1_M, 0) {MMAD} {OUT}": (
        lambda a, b, d: np.concatenate((a[:32, 16:] @ b[16:], a[32:] @ b))
    ),
    f"InitConstValue(l0a, InitConstValueParams<half>(6, 0)); STEP(MTE1_M, 0) {MMAD} {OUT}": (
        lambda a, b, d: np.concatenate((np.zeros((16, 48)), a[16:] @ b))
    ),
    f"{MMAD} GlobalTensor<half> og; og.SetGlobalBuffer((__gm__ half *)c); "
    "Fixpipe<half, float, CFG_NZ>(og, co, FixpipeParamsV220(48, 64, 64, 64, true, F322F16, 0, 1, 0, 0, 0, true));": (
        lambda a, b, d: np.maximum(a @ b, 0).reshape(64, 3, 16).transpose(1, 0, 2).astype(np.float16)
    ),
    "InitConstValue(l0a, InitConstValueParams<half>(2, 1, 5, 1.5)); InitConstValue(l0b.ReinterpretCast<int16_t>(), "
    f"InitConstValueParams<int16_t>(1, 3, 0, 0x4000)); STEP(MTE1_M, 0) {MMAD} {OUT}": lambda a, b, d: (
        np.concatenate((np.full((32, 16), 1.5), a[32:, :16])) @ np.full((16, 48), 2) + a[:, 16:] @ b[16:]
    ),
    "PipeBarrier<PIPE_ALL>(); DataCopy(l1a, ag, Nd2NzParams(2, 16, 96, 3072, 96, 64, 2, 16)); "
    "DataCopy(l1a[512], ag[1536], Nd2NzParams(2, 16, 96, 3072, 96, 64, 2, 16)); STEP(MTE2_MTE1, 0)"
    f"{LOAD} {MMAD} {OUT}": lambda a, b, d: a.reshape(2, 2, 16, 96).transpose(1, 2, 0, 3).reshape(64, 96) @ b,
    f"LoadDataWithTranspose(l0b, l1b, LoadData2dTransposeParams(0, 3, 6, 0, 7)); STEP(MTE1_M, 0) {MMAD} {OUT}": (
        lambda a, b, d: a @ b
    ),
    f"{FLAGGED} Mmad(co, l0a, l0b, f); q.nSize = 16; q.unitFlag = 3; Fixpipe(cg, co, q); q.nSize = 32; q.unitFlag = 2; "
    "Fixpipe(cg[16], co[1024], q); q.unitFlag = 3; Fixpipe(cg[16], co[1024], q); SetAtomicAdd<float>(); "
    "Mmad(co, l0a, l0b, f); q.nSize = 48; q.mSize = 32; Fixpipe(cg, co, q); Fixpipe(cg[1536], co[512], q); SetAtomicNone();": (
        lambda a, b, d: 2 * (a @ b)
    ),
    f"{MMAD} FixpipeParamsV220 q(48, 64, 64, 64 * 16 * 2 / 32, false); q.quantPre = F322F16; "
    "auto back = local<half>(TPosition::A1, 0x20000); Fixpipe(back, co, q); GlobalTensor<half> og; "
    "og.SetGlobalBuffer((__gm__ half *)c); STEP(FIX_MTE3, 0) DataCopy(og, back, 64 * 48);": lambda a, b, d: (
        (a @ b).reshape(64, 3, 16).transpose(1, 0, 2).astype(np.float16)
    ),
    f"{SCALES} {MMAD} FixpipeParamsV220 q(64, 64, 64, 64 * 32 / 32, false); q.nSize = 32; q.quantPre = VQF322B8_PRE; "
    "auto back = local<int8_t>(TPosition::A1, 0x20000); Fixpipe<int8_t, float, CFG_NZ>(back, co, fb, q); "
    "GlobalTensor<int8_t> og; og.SetGlobalBuffer((__gm__ int8_t *)c); STEP(FIX_MTE3, 0) DataCopy(og, back, 64 * 32);": (
        lambda a, b, d: rounded(a[:, :] @ b[:, :32] * d[:32], -128, 127)
    ),
    quantised("int8_t", "QF322B8_PRE", fields="q.deqScalar = 1ull << 46 | 0x3e800000;"): (
        lambda a, b, d: rounded(a @ b / 4, -128, 127)
    ),
    quantised("uint8_t", "QF322B8_PRE", fields="q.deqScalar = 0x3e800000;"): lambda a, b, d: rounded(a @ b / 4, 0, 255),
    f"{SCALES} {quantised('int8_t', 'VQF322B8_PRE', 'fb, ', 'q.reluEn = true;')}": (
        lambda a, b, d: rounded(np.maximum(a @ b, 0) * d, -128, 127)
    ),
}
"""Calls that write to c, which begins with zeros, and what numpy says of the operands a and b and of the scales d."""


REFUSED = {
    f"{MMAD} auto back = local<float>(TPosition::A1, 0x20000);\n"
    "FixpipeParamsV220 q(48, 64, 64, 128, false);\nFixpipe(back, co, q);": (
        "Fixpipe to L1: quantPre NoQuant; L1 takes numbers of 1 and 2 bytes"
    ),
    f"{MMAD} auto back = local<half>(TPosition::A1, 0x20000);\nFixpipeParamsV220 q(48, 64, 64, 64, false); "
    "q.quantPre = F322F16; q.unitFlag = 3;\nFixpipe(back, co, q);": ("Fixpipe to L1: unitFlag 3 is not simulated; 0 is"),
    f"{MMAD}\nFixpipeParamsV220 q(48, 64, 64, 48, false); q.unitFlag = 1;\nFixpipe(cg, co, q);": (
        "Fixpipe: unitFlag 1 is not simulated"
    ),
    f"{FLAGGED} Mmad(co, l0a, l0b, f); q.unitFlag = 3; Fixpipe(cg, co, q);\n\nFixpipe(cg, co, q);": (
        "Fixpipe with unitFlag 3: no Mmad with unitFlag 3 filled the tile at 0 of L0C"
    ),
    f"{MMAD}\nFixpipeParamsV220 q(48, 64, 64, 48, false); q.unitFlag = 3;\nFixpipe(cg, co, q);": (
        "Fixpipe with unitFlag 3: no Mmad with unitFlag 3 filled the tile at 0 of L0C"
    ),
    f"{FLAGGED}\n\nMmad(co, l0a, l0b, f); q.unitFlag = 2; Fixpipe(cg, co, q);": (
        "flag 'unit flag 0 full' (M->FIX) is still raised"
    ),
    f"{FLAGGED} Mmad(co, l0a, l0b, f);\n\nMmad(co, l0a, l0b, f); q.unitFlag = 3; Fixpipe(cg, co, q);": (
        "Mmad with unitFlag 3: the tile at 0 of L0C is still full; a Fixpipe with unitFlag 3 empties it"
    ),
    f"{FLAGGED} Mmad(co, l0a, l0b, f); f.unitFlag = 2;\n\nMmad(co, l0a, l0b, f); q.unitFlag = 3; Fixpipe(cg, co, q);": (
        "Mmad with unitFlag 2: the tile at 0 of L0C is still full"
    ),
    f"{FLAGGED} Mmad(co, l0a, l0b, f); q.unitFlag = 2; Fixpipe(cg, co, q);\n\nMmad(co, l0a, l0b, f);": (
        "Mmad with unitFlag 3: the tile at 0 of L0C is still full"
    ),
    "LoadData2DParams t(0, 1, 1, 0, 0, true, 0); GlobalTensor<half> ag; ag.SetGlobalBuffer((__gm__ half *)a);\n\n"
    "LoadData(l0a, ag, t);": "LoadData from GM: ifTranspose turns squares between L1 and L0 alone; false is possible",
}
"""Calls that are refused, at their third line."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel that makes one of the calls, by its number."""
    cases = "\n".join(f"if (which == {number}) {{ {call} }}" for number, call in enumerate([*CALLS, *REFUSED]))
    views = "auto co = local<float>(TPosition::CO1, 0); GlobalTensor<float> cg; cg.SetGlobalBuffer((__gm__ float *)c); "
    scales = "GlobalTensor<uint64_t> dg; dg.SetGlobalBuffer((__gm__ uint64_t *)d);"
    text = f"""{LOCAL}extern "C" __global__ __aicore__ void kernel(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR d, int32_t which) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    {RAW}{LOAD}{views}{scales}\n{cases} }}"""
    return made(tmp_path_factory.mktemp("calls"), text.replace("{T}", "half"))


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_of_the_cube_computes_what_numpy_does(calls: Any, number: int) -> None:
    rng = np.random.default_rng(number)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 96), (96, 48)))
    d = (2.0 ** -rng.integers(1, 6, 48)).astype(np.float32)
    wanted = np.asarray([*CALLS.values()][number](*(one.astype(np.float32) for one in (a, b, d))))
    wanted = wanted.astype(np.float32) if wanted.dtype == np.float64 else wanted
    out = np.zeros((64, 48), np.float32)
    for engine in ("simpy", "compiled"):
        run = asim.launch(calls, 1, a, b, out, d.view(np.uint32).astype(np.uint64), which=number, engine=engine)
        found = run.outputs["c"].reshape(-1).view(wanted.dtype)[: wanted.size]
        np.testing.assert_array_equal(found, wanted.reshape(-1))
        assert not run.findings


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refusal_names_the_line(calls: Any, number: int) -> None:
    said = [*REFUSED.values()][number]
    told = enumerate(calls.sources[0].read_text().splitlines(), 1)
    lines = [at for at, text in told if re.match(r"(Fixpipe\(\w+, co, q|Mmad\(co, l0a, l0b, f|LoadData\(l0a, ag, t)\);", text)]
    a, b, c = np.zeros((64, 96), np.float16), np.zeros((96, 48), np.float16), np.zeros((64, 48), np.float32)
    with pytest.raises(SimError) as caught:
        asim.launch(calls, 1, a, b, c, np.zeros(48, np.uint64), which=len(CALLS) + number)
    assert said in str(caught.value) and f".cpp:{lines[number]}: " in str(caught.value)


def test_a_queue_in_the_fixpipe_buffer_keeps_order_by_barriers(tmp_path: Any) -> None:
    """Its events join the pipe FIX with itself: each set and each wait of one is a barrier (words.json, FIX_FIX)."""
    text = f"""{LOCAL}extern "C" __global__ __aicore__ void kernel(GM_ADDR d) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GlobalTensor<uint64_t> dg; dg.SetGlobalBuffer((__gm__ uint64_t *)d);
    auto line = local<uint64_t>(TPosition::C1, 0); DataCopy(line, dg, 16); STEP(MTE2_FIX, 0)
    TPipe pipe; TQue<TPosition::C2PIPE2GM, 1> queue; pipe.InitBuffer(queue, 1, 128);
    for (int turn = 0; turn < 2; turn++) {{
        auto taken = queue.AllocTensor<uint64_t>(); DataCopy(taken, line, DataCopyParams(1, 1, 0, 0)); queue.EnQue(taken);
        auto held = queue.DeQue<uint64_t>(); queue.FreeTensor(held);
    }}
}}"""
    kernel, scales = made(tmp_path, text), np.zeros(16, np.uint64)
    run = asim.launch(kernel, 1, scales)
    names = [row.instruction.name for row in run.timeline.programs[0].program]
    assert not run.findings and not asim.check_kernel(kernel, 1, scales).findings
    assert names.count("pipe_barrier") == 2 * 3 + 2 + 1  # EnQue, DeQue and FreeTensor, two waits for the buffer; the end's own
