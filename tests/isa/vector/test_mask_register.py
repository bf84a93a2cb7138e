"""The mask register against comparisons and selections one element at a time."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import SimError
from ascend_sim.chip import load_chip
from ascend_sim.isa.vector import (
    CompareToRegister,
    LoadMaskRegister,
    Mask,
    SelectByRegister,
    SelectRegisterScalar,
    StoreMaskRegister,
)
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

MODES = {
    "lt": operator.lt, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "le": operator.le,
}  # fmt: skip


@sampled(40, 300)
@given(st.sampled_from(sorted(MODES)), st.sampled_from(["float16", "float32"]), st.data(), st.integers(0, 999))
def test_a_comparison_sets_the_bits_by_which_every_repeat_chooses(
    mode: str, dtype: str, data: st.DataObject, seed: int
) -> None:
    per = 256 // np.dtype(dtype).itemsize
    count, rows, gap = data.draw(st.integers(1, per)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    rng, bench = np.random.default_rng(seed), Workbench(seed)
    left, right = (rng.integers(-2, 3, count).astype(dtype) for _ in range(2))
    bench.put("UB", 0, left)
    bench.put("UB", 512, right)
    bench.do(CompareToRegister(mode, dtype, count), 0, 0, 512)
    bits = [MODES[mode](float(a), float(b)) for a, b in zip(left, right, strict=True)]
    bench.do(StoreMaskRegister(), 1024)
    stored = bench.get("UB", 1024, np.uint8, 16)
    assert [bool(stored[i // 8] >> i % 8 & 1) for i in range(128)] == bits + [False] * (128 - count)

    stride = -(-count * np.dtype(dtype).itemsize // 32) * 32 + gap * 32
    held = stride // np.dtype(dtype).itemsize
    on_true, on_false = (rng.integers(-99, 99, (rows, held)).astype(dtype) for _ in range(2))
    bench.put("UB", 2048, on_true)
    bench.put("UB", 4096, on_false)
    before = bench.get("UB", 6144, dtype, rows * held).reshape(rows, held)
    bench.do(SelectByRegister(dtype, count, rows, stride, stride, stride), 6144, 2048, 4096)
    for row in range(rows):
        before[row, :count] = [t if bit else f for bit, t, f in zip(bits, on_true[row], on_false[row], strict=False)]
    found = bench.get("UB", 6144, dtype, rows * held)
    assert found.view(np.uint8).tolist() == before.reshape(-1).view(np.uint8).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_selection_takes_its_scalar_from_the_register(dtype: str) -> None:
    """The scalar is what the register begins with; bits continue from row to row."""
    bench, rng, per = Workbench(), np.random.default_rng(3), 256 // np.dtype(dtype).itemsize
    values, bits = rng.standard_normal(2 * per).astype(dtype), rng.integers(0, 256, 32, np.uint8)
    bench.put("UB", 0, values)
    bench.put("UB", 1024, bits)
    bench.put("UB", 1088, np.array([2.5, *range(16)], dtype))
    bench.do(LoadMaskRegister(), 0, 1088)
    one = SelectRegisterScalar(dtype, per, 0, 0, None, 2, 256, 256, 0, per // 8)
    assert [region.operand for region in one.reads()] == ["src0", "src1"]
    bench.do(one, 2048, 0, 1024)
    for i, found in enumerate(bench.get("UB", 2048, dtype, 2 * per)):
        assert found == (values[i] if bits[i // 8] >> i % 8 & 1 else 2.5)


def test_a_load_sets_all_bits_and_a_mask_leaves_elements_alone() -> None:
    bench = Workbench()
    bits = np.random.default_rng(1).integers(0, 256, 16, np.uint8)
    bench.put("UB", 64, bits)
    bench.do(LoadMaskRegister(), 0, 64)
    bench.do(StoreMaskRegister(), 96)
    assert bench.get("UB", 96, np.uint8, 16).tolist() == bits.tolist()
    bench.put("UB", 512, np.ones(128, np.float16))
    bench.put("UB", 1024, np.zeros(128, np.float16))
    bench.put("UB", 2048, np.full(128, 7, np.float16))
    bench.do(SelectByRegister("float16", 128, mask=Mask((1 << 64) - 1, 128)), 2048, 512, 1024)
    chosen = np.unpackbits(bits, bitorder="little").tolist()
    assert bench.get("UB", 2048, np.float16, 128).tolist() == chosen[:64] + [7] * 64


def test_what_no_repeat_holds_and_what_a_chip_lacks() -> None:
    with pytest.raises(
        SimError, match="compare_to_register: 65 float32 elements; the mask register has the bits of one repeat, 64"
    ):
        CompareToRegister("lt", "float32", 65).pipe(CHIP)
    with pytest.raises(SimError, match="select_by_register: 129 float16 elements"):
        SelectByRegister("float16", 129).pipe(CHIP)
    with pytest.raises(SimError, match="no mode 'is'; there are lt, gt"):
        CompareToRegister("is", "float32", 8)
    old, new = load_chip("ascend910a"), load_chip("ascend950pr_9589")
    assert SelectByRegister("float32", 64).pipe(old) == LoadMaskRegister().pipe(old) == "V"
    with pytest.raises(SimError, match="has no compare_to_register"):
        CompareToRegister("lt", "float32", 8).pipe(old)
    for one in (SelectByRegister("float32", 64), StoreMaskRegister(), CompareToRegister("lt", "float32", 8)):
        with pytest.raises(SimError, match=r"ascend950pr_9589 \(dav-3510\) has no "):
            one.pipe(new)


def test_the_register_takes_the_time_of_a_repeat() -> None:
    assert LoadMaskRegister().cost(CHIP).work == StoreMaskRegister().cost(CHIP).work == 1
    assert SelectByRegister("float32", 64, 5, 256, 256, 256).cost(CHIP).work == 5
