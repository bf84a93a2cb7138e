"""Methods of a kernel that multiply: whole kernels of int8, on every chip that multiplies it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim import SimError
from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand


@ascend_sim.kernel_function(core="AIC")
def product(k: Kernel, a: Any, b: Any, bias: Any, c: Any) -> None:
    """[M, K] x [K, N] + bias, K in two steps, out by the Fixpipe."""
    (m, depth), n = a.shape, b.shape[1]
    a1, b1, bias1 = (k.allocate("L1", m * depth, "a1"), k.allocate("L1", depth * n, "b1"), k.allocate("L1", n * 4, "bias1"))
    a0, b0 = k.allocate("L0A", m * depth, "a0"), k.allocate("L0B", depth * n, "b0")
    c0, start = k.allocate("L0C", m * n * 4, "c0"), k.allocate("BT", n * 4, "start")
    in_l1, ready, done = k.flag("MTE2", "MTE1", "l1"), k.flag("MTE1", "M", "l0"), k.flag("M", "FIX", "l0c")
    free = k.flag("M", "MTE1", "free")
    k.gm_to_l1(a1, a), k.gm_to_l1(b1, b)
    k.data_copy("GM", "L1", bias1, bias.address, n * 4)
    k.set_flag(in_l1), k.wait_flag(in_l1)
    k.load_bias(start, bias1, n, "int32")
    half = depth // 2
    for step in range(2):
        if step:
            k.wait_flag(free)
        k.l1_to_l0a(a0, a1, m, half, "int8", held=m, column=step * half)
        k.l1_to_l0b(b0, b1, half, n, "int8", held=depth, row=step * half)
        k.set_flag(ready), k.wait_flag(ready)
        k.mmad(c0, a0, b0, m, half, n, "int8", step > 0, bias=-1 if step else start)
        if not step:
            k.set_flag(free)
    k.set_flag(done), k.wait_flag(done)
    k.l0c_to_gm(c, c0)


@ascend_sim.kernel_function(core="AI_CORE")
def coupled_product(k: Kernel, a: Any, b: Any, c: Any) -> None:
    """[M, K] x [N, K]^T with fractals of both operands in GM, out by the vector unit: [N / 16][M][16]."""
    m, depth, n = 32, 64, 32
    a1, b1 = k.allocate("L1", m * depth, "a1"), k.allocate("L1", depth * n, "b1")
    a0, b0 = k.allocate("L0A", m * depth, "a0"), k.allocate("L0B", depth * n, "b0")
    c0, out = k.allocate("L0C", m * n * 4, "c0"), k.allocate("UB", m * n * 4, "out")
    in_l1, ready = k.flag("MTE2", "MTE1", "l1"), k.flag("MTE1", "M", "l0")
    done, written = k.flag("M", "V", "l0c"), k.flag("V", "MTE3", "ub")
    k.data_copy("GM", "L1", a1, a.address, m * depth), k.data_copy("GM", "L1", b1, b.address, depth * n)
    k.set_flag(in_l1), k.wait_flag(in_l1)
    k.load_data_2d("L0A", a0, a1, 1, m * depth // 512), k.load_data_2d("L0B", b0, b1, 1, depth * n // 512)
    k.set_flag(ready), k.wait_flag(ready)
    k.mmad(c0, a0, b0, m, depth, n, "int8", False)
    k.set_flag(done), k.wait_flag(done)
    k.l0c_to_ub(out, c0, m, n // 16, m, "int32")
    k.set_flag(written), k.wait_flag(written)
    k.data_copy("UB", "GM", c.address, out, m * n * 4)


@ascend_sim.kernel_function(core="AI_CORE")
def one_row(k: Kernel, a: Any, b: Any, c: Any) -> None:
    """[1, K] x [N, K]^T in GEMV mode, with fractals of b in GM; one row of each block of columns leaves L0C."""
    depth, n = 32, 48
    a1, b1 = k.allocate("L1", 512, "a1"), k.allocate("L1", depth * n * 2, "b1")
    a0, b0 = k.allocate("L0A", 512, "a0"), k.allocate("L0B", depth * n * 2, "b0")
    c0, out = k.allocate("L0C", 16 * n * 4, "c0"), k.allocate("UB", n * 4, "out")
    in_l1, ready = k.flag("MTE2", "MTE1", "l1"), k.flag("MTE1", "M", "l0")
    done, written = k.flag("M", "V", "l0c"), k.flag("V", "MTE3", "ub")
    k.data_copy("GM", "L1", a1, a.address, 512), k.data_copy("GM", "L1", b1, b.address, depth * n * 2)
    k.set_flag(in_l1), k.wait_flag(in_l1)
    k.load_data_2d("L0A", a0, a1, 2, 1), k.load_data_2d("L0B", b0, b1, 2, depth * n // 256)
    k.set_flag(ready), k.wait_flag(ready)
    k.mmad(c0, a0, b0, 1, depth, n, "float16", False)
    k.set_flag(done), k.wait_flag(done)
    k.l0c_to_ub(out, c0, 1, n // 16, 16, "float32")
    k.set_flag(written), k.wait_flag(written)
    k.data_copy("UB", "GM", c.address, out, n * 4)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3"])
def test_a_row_of_gemv_mode_leaves_alone(chip: str, mode: str, engine: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, 256).astype(np.float16)  # 32 of them count
    b = rng.integers(-4, 5, (32, 48)).astype(np.float16)
    fractals = np.ascontiguousarray(b.reshape(2, 16, 3, 16).transpose(0, 2, 3, 1))
    tensors = a, fractals, ascend_sim.empty(48, "float32")
    run = ascend_sim.launch(one_row, 1, *tensors, chip=chip, mode=mode, engine=engine)
    assert run.findings == []
    np.testing.assert_array_equal(run.outputs["c"], a[:32].astype(np.float32) @ b.astype(np.float32))
    findings = ascend_sim.check_kernel(one_row, 1, *tensors, chip=chip).findings
    assert [one.kind for one in findings if one.level == "ERROR"] == []


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_a_product_of_int8_with_a_bias_is_exact(chip: str, engine: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((48, 128), (128, 64)))
    bias = rng.integers(-(2**30), 2**30, 64, dtype=np.int32)
    wanted = a.astype(np.int64) @ b.astype(np.int64) + bias
    for mode in ("full", "functional"):
        options: Any = {} if mode == "functional" else {"engine": engine}
        out = ascend_sim.empty((48, 64), "int32")
        run = ascend_sim.launch(product, 1, a, b, bias, out, chip=chip, mode=mode, **options)
        np.testing.assert_array_equal(run.outputs["c"], wanted)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3"])
def test_a_product_of_int8_is_exact_where_the_vector_unit_takes_it_out(chip: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, (32, 64), dtype=np.int8) for _ in range(2))
    left = a.reshape(2, 16, 2, 32).transpose(0, 2, 1, 3).copy()
    right = b.reshape(2, 16, 2, 32).transpose(2, 0, 1, 3).copy()
    run = ascend_sim.launch(coupled_product, 1, left, right, ascend_sim.empty((2, 32, 16), "int32"), chip=chip)
    wanted = a.astype(np.int64) @ b.astype(np.int64).T
    np.testing.assert_array_equal(run.outputs["c"].transpose(1, 0, 2).reshape(32, 32), wanted)


def test_squares_of_one_byte_items_are_whole() -> None:
    a, b, bias = np.zeros((48, 128), np.int8), np.zeros((128, 48), np.int8), np.zeros(48, np.int32)
    with pytest.raises(SimError, match="columns from 0: 1-byte items are transposed in squares of 32"):
        ascend_sim.launch(product, 1, a[:, :96], b[:96], bias, ascend_sim.empty((48, 48), "int32"))


def drained(k: Kernel, a: Any, b: Any, c: Any, pre: Any = None, second: str = "") -> None:
    """A product of int8 of 32 x 32 x 32 to `c`, in `second` another product behind it that takes its place."""
    a1, b1 = (k.allocate("L1", 1024, name) for name in ("a1", "b1"))
    a0, b0, c0 = k.allocate("L0A", 4096, "a0"), k.allocate("L0B", 4096, "b0"), k.allocate("L0C", 4096, "c0")
    in_l1, ready, done = k.flag("MTE2", "MTE1", "l1"), k.flag("MTE1", "M", "l0"), k.flag("M", "FIX", "l0c")
    k.gm_to_l1(a1, a), k.gm_to_l1(b1, b)
    k.set_flag(in_l1), k.wait_flag(in_l1)
    k.l1_to_l0a(a0, a1, 32, 32, "int8", held=32)
    k.l1_to_l0b(b0, b1, 32, 32, "int8", held=32)
    k.set_flag(ready), k.wait_flag(ready)
    k.mmad(c0, a0, b0, 32, 32, 32, "int8", False)
    if second:
        k.mmad(c0, a0, b0, 32, 16, 32, second, False)
    k.set_flag(done), k.wait_flag(done)
    k.l0c_to_gm(c, c0, pre=pre)


def of_int8(dtype: str, **options: Any) -> np.ndarray[Any, Any]:
    """The result of `drained` as `dtype`, and the exact product."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 6, (32, 32), dtype=np.int8) for _ in range(2))
    kernel = ascend_sim.kernel_function(core="AIC")(lambda k, a, b, c: drained(k, a, b, c, **options))
    out = ascend_sim.empty((32, 32), dtype)
    run = ascend_sim.launch(kernel, 1, a, b, out, chip="ascend910b3", mode="functional")
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert run.outputs["c"].shape == exact.shape
    return np.stack([run.outputs["c"].astype(np.float64), exact.astype(np.float64)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_whole_numbers_of_l0c_do_not_leave_as_real_ones(dtype: str) -> None:
    with pytest.raises(SimError, match="takes float32; L0C") as caught:
        of_int8(dtype)
    said = str(caught.value)
    assert "holds int32, the sums of mmad; dequantise with pre=Quantisation(" in said and "\n" not in said


def test_real_numbers_of_l0c_do_not_leave_as_whole_ones() -> None:
    with pytest.raises(SimError, match=r"takes int32; L0C.* holds float32, the sums of mmad; bring float32 out"):
        of_int8("int32", second="float16")


def test_a_product_of_int8_leaves_dequantised_by_l0c_to_gm() -> None:
    found, exact = of_int8("float16", pre=ascend_sim.Quantisation("int32", 0.5))
    np.testing.assert_array_equal(found, (exact * 0.5).astype(np.float16))
    found, exact = of_int8("int32")
    np.testing.assert_array_equal(found, exact)


def test_a_product_over_others_takes_their_place() -> None:
    """Integers that a larger product of floats covers are gone: what lay inside it is drained as float32."""
    k = KernelBuilder(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [1 << 16])
    k.mmad(1024, 0, 0, 16, 32, 16, "int8", False)
    k.pipe_barrier("M")
    k.mmad(0, 0, 0, 32, 16, 16, "float16", False)
    k.fixpipe(gm_operand(0, 0), 1024, 16, 16, 16, "float32", 16, 1024)
    assert len(k.finish()) == 4
