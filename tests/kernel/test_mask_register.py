"""The mask register in kernels: Python on both engines and in both modes, and the same in C++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim import SimError
from tests.support.ascend_c.kernels import made, needs_compiler
from tests.support.isa.refusals import told_whole

COUNT = 256


@asim.kernel_function(core="AIV")
def chosen(k, x, y, bits, out):  # type: ignore[no-untyped-def]
    left, right, result = (k.local_tensor(COUNT, "float32", name) for name in ("left", "right", "result"))
    stored = k.local_tensor(16, "uint8", "stored")
    loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
    k.gm_to_ub(left, x)
    k.gm_to_ub(right, y)
    k.set_flag(loaded), k.wait_flag(loaded)
    with k.ordered("V"):
        k.compare_to_register("lt", left[:64], right[:64])
        k.store_mask_register(stored)
        k.select_by_register(result, left, right)
        k.load_mask_register(stored)
        k.select_by_register(left, result, right)
    k.set_flag(done), k.wait_flag(done)
    k.ub_to_gm(out, left)
    k.ub_to_gm(bits, stored)


def expected(x: Any, y: Any) -> tuple[Any, Any]:
    lower = x[:64] < y[:64]
    return np.where(np.tile(lower, COUNT // 64), x, y), np.packbits(
        np.concatenate([lower, np.zeros(64, bool)]), bitorder="little"
    )


@pytest.mark.parametrize(("mode", "engine"), [("full", "simpy"), ("full", "compiled"), ("functional", "compiled")])
def test_a_kernel_selects_by_what_it_compared(mode: str, engine: str) -> None:
    x, y = np.random.default_rng(5).standard_normal((2, COUNT)).astype(np.float32)
    tensors = x, y, asim.empty(16, "uint8"), asim.empty(COUNT, "float32")
    more = {} if mode == "functional" else {"engine": engine}
    given = asim.launch(chosen, 1, *tensors, chip="ascend910b3", mode=mode, **more)
    wanted, bits = expected(x, y)
    assert given.findings == []
    assert given.outputs["out"].tolist() == wanted.tolist() and given.outputs["bits"].tolist() == bits.tolist()
    assert asim.check_kernel(chosen, 1, *tensors, chip="ascend910b3").findings == []


CPP = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void chosen(GM_ADDR x, GM_ADDR y, GM_ADDR bits, GM_ADDR out) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> a, b, c, d;
    pipe.InitBuffer(a, 1024), pipe.InitBuffer(b, 1024), pipe.InitBuffer(c, 1024), pipe.InitBuffer(d, 32);
    GlobalTensor<float> gx, gy, go;
    GlobalTensor<uint8_t> gb;
    gx.SetGlobalBuffer((__gm__ float *)x), gy.SetGlobalBuffer((__gm__ float *)y), go.SetGlobalBuffer((__gm__ float *)out);
    gb.SetGlobalBuffer((__gm__ uint8_t *)bits);
    LocalTensor<float> left = a.Get<float>(), right = b.Get<float>(), result = c.Get<float>();
    LocalTensor<uint8_t> stored = d.Get<uint8_t>();
    DataCopy(left, gx, 256), DataCopy(right, gy, 256);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0), WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    BinaryRepeatParams each = {1, 1, 1, 8, 8, 8};
    Compare(left, right, CMPMODE::LT, (uint64_t)64, each);
    PipeBarrier<PIPE_V>();
    GetCmpMask(stored);
    PipeBarrier<PIPE_V>();
    Select<float, SELMODE::VSEL_CMPMASK_SPR>(result, left, right, 4, each);
    PipeBarrier<PIPE_V>();
    SetCmpMask(stored);
    PipeBarrier<PIPE_V>();
    SetMaskCount(), SetVectorMask<float, MaskMode::COUNTER>(0, 256);
    Select<float, SELMODE::VSEL_CMPMASK_SPR>(left, result, right, 1, each);
    SetMaskNorm(), ResetMask();
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0), WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(go, left, 256);
    DataCopyPad(gb, stored, {1, 16, 0, 0, 0});
}
"""


@needs_compiler
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_the_same_in_cpp(mode: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(6).standard_normal((2, COUNT)).astype(np.float32)
    tensors = x, y, asim.empty(16, "uint8"), asim.empty(COUNT, "float32")
    given = asim.launch(made(tmp_path, CPP), 1, *tensors, chip="ascend910b3", mode=mode)
    wanted, bits = expected(x, y)
    assert given.outputs["out"].tolist() == wanted.tolist() and given.outputs["bits"].tolist() == bits.tolist()


@pytest.mark.fast
def test_operands_that_do_not_go_together() -> None:
    def one(write: Any) -> str:
        return told_whole("ascend910b3", write)

    def run(address: int, count: int, dtype: str = "float32") -> Any:
        return asim.LocalTensor(address, (count,), dtype, 0)

    assert "not whole repeats of 64" in one(lambda k: k.select_by_register(run(0, 96), run(1024, 96), run(2048, 96)))
    assert "on_false must have the shape" in one(lambda k: k.select_by_register(run(0, 64), run(1024, 64), run(2048, 32)))
    assert "must have the same shape" in one(lambda k: k.compare_to_register("lt", run(0, 64), run(1024, 32)))
    assert "the register has 16 uint8 elements" in one(lambda k: k.load_mask_register(run(0, 8, "uint8")))
    mask = run(4096, 16, "uint8")
    assert one(lambda k: (k.load_mask_register(mask), k.select_by_register(run(0, 24), run(1024, 24), run(2048, 24)))) == ""
    with pytest.raises(SimError):
        asim.launch(chosen, 1, *[np.zeros(COUNT, np.float32)] * 4, chip="ascend950pr_9589")


@pytest.mark.fast
def test_a_mask_that_nothing_has_set_is_not_taken() -> None:
    """A program begins with a register of unknown bits; a set behind the first use comes too late."""
    mask = asim.LocalTensor(4096, (16,), "uint8", 0)
    rows = [asim.LocalTensor(at, (64,), "float32", 0) for at in (0, 1024, 2048)]

    def store(k: Any) -> None:
        k.store_mask_register(mask)

    def load(k: Any) -> None:
        k.load_mask_register(mask)

    def compare(k: Any) -> None:
        k.compare_to_register("lt", *rows[1:])

    def select(k: Any) -> None:
        k.select_by_register(*rows)

    for before, words in (((), "nothing has set"), ((load,), ""), ((compare,), "")):
        for use in (store, select):
            assert words in told_whole("ascend910b3", lambda k, all_=(*before, use, load): [one(k) for one in all_])
            assert words or not told_whole("ascend910b3", lambda k, all_=(*before, use): [one(k) for one in all_])

    @asim.kernel_function(core="AIV")
    def forgotten(k: Any, y: Any) -> None:
        at = k.local_tensor(16, "uint8", "bits")
        k.store_mask_register(at)
        k.set_flag(done := k.flag("V", "MTE3", "done")), k.wait_flag(done)
        k.ub_to_gm(y, at)

    found = asim.check_kernel(forgotten, 1, asim.empty(16, "uint8")).findings
    (one,) = [one for one in found if "nothing has set the mask register" in one.text]
    assert "test_mask_register.py:" in one.text
