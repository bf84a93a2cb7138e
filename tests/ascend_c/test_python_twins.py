"""Kernels in C++ beside the same kernels in Python: rows equal, field by field (that of add_custom: test_function.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.function import cpp_kernel
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.sync import CrossCoreWaitFlag
from ascend_sim.isa.vector import ReduceRows, Transpose, VectorBinary, VectorUnary
from tests.support.ascend_c.kernels import floats, made, needs_compiler, vector_kernel
from tests.support.places import DOCS

pytestmark = needs_compiler
SAMPLES = DOCS / "ascend-c"
TILE, DEPTH, COLUMNS = 64, 128, 32
INDEX = (3, 1, 6, 0)


def compared(cpp: Any, python: Any, blocks: int, *tensors: Any, **fields: Any) -> Any:
    """The run of the C++ kernel, whose rows, times and values are those of the Python kernel."""
    runs = [asim.launch(one, blocks, *tensors, **fields) for one in (cpp, python)]
    rows = [[[(row.pipe, row.instruction, row.dst, row.src0, row.src1) for row in p] for p in run.programs] for run in runs]
    assert rows[0] == rows[1]
    assert runs[0].report.total_us == runs[1].report.total_us
    for name, value in runs[0].outputs.items():
        np.testing.assert_array_equal(value, runs[1].outputs[name])
    assert not runs[0].findings and not runs[1].findings
    return runs[0]


@asim.kernel_function(core="AIV")
def python_row_sums(k: asim.Kernel, x: asim.Tensor, sums: asim.Tensor) -> None:
    """row_sums.cpp: one piece of 32 rows of a repeat, through two queues of a buffer."""
    rows, result = k.allocate("UB", 8192, "rows"), k.allocate("UB", 128, "result")
    full, free = k.flag("MTE2", "V", "full"), k.flag("V", "MTE2", "free")
    done, given = k.flag("V", "MTE3", "done"), k.flag("MTE3", "V", "given")
    k.data_copy("GM", "UB", rows, x.address + k.block * 8192, 8192)
    k.set_flag(full)
    k.wait_flag(full)
    k.emit(VectorUnary("abs", "float32", 2048), rows, rows)
    k.pipe_barrier("V")
    k.emit(ReduceRows(32, 64, 256), result, rows)
    k.set_flag(done)
    k.set_flag(free)
    k.wait_flag(done)
    k.data_copy("UB", "GM", sums.address + k.block * 128, result, 128)
    k.set_flag(given)
    k.wait_flag(free)
    k.wait_flag(given)
    k.pipe_barrier("ALL")


def test_a_reduction_of_rows() -> None:
    x = floats(2 * 32 * 64).reshape(64, 64)
    kernel = cpp_kernel(SAMPLES / "row_sums.cpp", entry="row_sums<float>")
    run = compared(kernel, python_row_sums, 2, x, asim.empty(64, "float32"))
    np.testing.assert_allclose(run.outputs["sums"], np.abs(x).sum(1), rtol=1e-5)


@asim.kernel_function(core="AIV")
def python_gather(k: asim.Kernel, table: asim.Tensor, index: asim.Tensor, y: asim.Tensor, *, count: int, columns: int) -> None:
    """gather_rows.cpp for the indices of `INDEX`: rows go through a queue of two buffers, from GM to GM."""
    k.table.flags_count = True  # as those of queues in C++: set again once the wait was issued
    size = 2 * columns
    buffers = [k.allocate("UB", size, f"buffer {number}") for number in range(2)]
    full = k.flag("MTE2", "MTE3", "full")
    free = [k.flag("MTE3", "MTE2", f"free {number}") for number in range(2)]
    for i, row in enumerate(INDEX[:count]):
        k.scalar_load(index[i : i + 1], cached=i > 0)
        if i > 1:
            k.wait_flag(free[i % 2])
        k.data_copy("GM", "UB", buffers[i % 2], table.address + row * size, size)
        k.set_flag(full)
        k.wait_flag(full)
        k.data_copy("UB", "GM", y.address + i * size, buffers[i % 2], size)
        k.set_flag(free[i % 2])
    for flag in free:
        k.wait_flag(flag)
    k.pipe_barrier("ALL")


def test_a_gather_of_rows() -> None:
    table = floats(8 * COLUMNS).astype(np.float16).reshape(8, COLUMNS)
    index = np.array(INDEX, np.int32)
    out = asim.empty((len(INDEX), COLUMNS), "float16")
    kernel = cpp_kernel(SAMPLES / "gather_rows.cpp")
    run = compared(kernel, python_gather, 1, table, index, out, count=len(INDEX), columns=COLUMNS)
    np.testing.assert_array_equal(run.outputs["y"], table[list(INDEX)])


SQUARES = """
GlobalTensor<half> from, to; from.SetGlobalBuffer((__gm__ half *)x); to.SetGlobalBuffer((__gm__ half *)z);
LocalTensor<half> in(TPosition::VECCALC, 0, 512), turned(TPosition::VECCALC, 1024, 512);
for (int turn = 0; turn < 2; turn++) {
    if (turn) WaitFlag<HardEvent::V_MTE2>(0);
    DataCopy(in[256 * turn], from[256 * turn], 256);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    Transpose(turned[256 * turn], in[256 * turn]);
    PipeBarrier<PIPE_V>();
    Add(turned[256 * turn], turned[256 * turn], in[256 * turn], (uint64_t)128, 2, {1, 1, 1, 8, 8, 8});
    if (!turn) SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(to[256 * turn], turned[256 * turn], 256);
}"""


@asim.kernel_function(core="AIV")
def python_squares(k: asim.Kernel, x: asim.Tensor, z: asim.Tensor) -> None:
    """Squares and their transposes are added, one after the other."""
    full, free, done = k.flag("MTE2", "V", "full"), k.flag("V", "MTE2", "free"), k.flag("V", "MTE3", "done")
    taken, turned = k.allocate("UB", 1024, "taken"), k.allocate("UB", 1024, "turned")
    for turn in range(2):
        at = 512 * turn
        if turn:
            k.wait_flag(free)
        k.data_copy("GM", "UB", taken + at, x.address + at, 512)
        k.set_flag(full)
        k.wait_flag(full)
        k.emit(Transpose("float16", 16, 16, 32, 32), turned + at, taken + at)
        k.pipe_barrier("V")
        k.emit(VectorBinary("add", "float16", 256), turned + at, turned + at, taken + at)
        if not turn:
            k.set_flag(free)
        k.set_flag(done)
        k.wait_flag(done)
        k.data_copy("UB", "GM", z.address + at, turned + at, 512)


def test_squares_that_are_turned(tmp_path: Path) -> None:
    x = floats(512).astype(np.float16).reshape(2, 16, 16)
    run = compared(made(tmp_path, vector_kernel(SQUARES, tensors="x z")), python_squares, 1, x, asim.empty(x.shape, "float16"))
    np.testing.assert_array_equal(run.outputs["z"], x + x.transpose(0, 2, 1))


PRODUCT = """
extern "C" __global__ __aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR c) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GlobalTensor<half> ag, bg; GlobalTensor<float> cg;
    ag.SetGlobalBuffer((__gm__ half *)a); bg.SetGlobalBuffer((__gm__ half *)b); cg.SetGlobalBuffer((__gm__ float *)c);
    LocalTensor<half> a1(TPosition::A1, 0, 4096), b1(TPosition::B1, 8192, 4096);
    LocalTensor<half> a2(TPosition::A2, 0, 4096), b2(TPosition::B2, 0, 4096);
    LocalTensor<float> co(TPosition::CO1, 0, 4096);
    DataCopy(a1, ag, Nd2NzParams(1, 64, 64, 0, 64, 64, 1, 0));
    DataCopy(b1, bg, Nd2NzParams(1, 64, 64, 0, 64, 64, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(0); WaitFlag<HardEvent::MTE2_MTE1>(0);
    for (int i = 0; i < 4; i++) {
        LoadData(a2[1024 * i], a1[256 * i], LoadData2DParams(0, 4, 4, 0, 0, false, 0));
        LoadData(b2[1024 * i], b1[256 * i], LoadData2DParams(0, 4, 4, 0, 0, true, 0));
    }
    SetFlag<HardEvent::MTE1_M>(0); WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams p; p.m = p.n = p.k = 64;
    Mmad(co, a2, b2, p);
    SetFlag<HardEvent::M_FIX>(0); WaitFlag<HardEvent::M_FIX>(0);
    Fixpipe(cg, co, FixpipeParamsV220(64, 64, 64, 64, false));
}
"""


@asim.kernel_function(core="AIC")
def python_product(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, c: asim.Tensor) -> None:
    """A product of 64 x 64 matrices."""
    come, split, done = k.flag("MTE2", "MTE1", "come"), k.flag("MTE1", "M", "split"), k.flag("M", "FIX", "done")
    a1, b1 = k.allocate("L1", 8192, "A"), k.allocate("L1", 8192, "B")
    a2, b2, co = k.allocate("L0A", 8192, "A"), k.allocate("L0B", 8192, "B"), k.allocate("L0C", 16384, "C")
    for at, matrix in ((a1, a), (b1, b)):
        k.data_copy_nd2nz(at, matrix.address, 64, 64, 2, 128, 64)
    k.set_flag(come)
    k.wait_flag(come)
    for i in range(4):
        k.load_data_2d("L0A", a2 + 2048 * i, a1 + 512 * i, 2, 4, 4)
        k.load_data_2d("L0B", b2 + 2048 * i, b1 + 512 * i, 2, 4, 4, transpose=True)
    k.set_flag(split)
    k.wait_flag(split)
    k.mmad(co, a2, b2, 64, 64, 64, "float16", False)
    k.set_flag(done)
    k.wait_flag(done)
    k.pipe_barrier("FIX")
    k.fixpipe_nd(c.address, co, 64, 64, 64, "float32", 256)


def test_a_product(tmp_path: Path) -> None:
    a, b = (floats(4096, seed).astype(np.float16).reshape(64, 64) for seed in (0, 1))
    run = compared(made(tmp_path, PRODUCT), python_product, 1, a, b, asim.empty((64, 64), "float32"))
    np.testing.assert_allclose(run.outputs["c"], a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@asim.kernel_function(core="MIX")
def python_mix(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, d: asim.Tensor, c: asim.Tensor, workspace: asim.Tensor) -> None:
    """matmul_relu_mix.cpp for one tile a block: the cube core multiplies, each vector core adds d to its half."""
    if k.is_cube:
        return _cube_of_mix(k, a, b, workspace)
    size, half = 8192, k.sub_block * 8192
    buffers = [k.allocate("UB", 2 * size, name) for name in ("x", "d", "c")]
    come = [k.flag("MTE2", "V", f"come {number}") for number in range(2)]
    free = [k.flag("V", "MTE2", f"free {number}") for number in range(2)]
    done, given = k.flag("V", "MTE3", "done"), k.flag("MTE3", "V", "given")
    row = k.block * TILE * TILE * 4
    k.data_copy("GM", "UB", buffers[1], d.address + row + half, size)
    k.set_flag(come[0])
    k._emit((CrossCoreWaitFlag, 5, 2, "S", True))  # the pipe of the call without one
    k.data_copy("GM", "UB", buffers[0], workspace.address + row + half, size)
    k.set_flag(come[1])
    k.wait_flag(come[1])
    k.wait_flag(come[0])
    k.emit(VectorBinary("add", "float32", 2048), buffers[2], buffers[0], buffers[1])
    k.set_flag(done)
    for flag in free:
        k.set_flag(flag)
    k.wait_flag(done)
    k.data_copy("UB", "GM", c.address + row + half, buffers[2], size)
    k.set_flag(given)
    for flag in free:
        k.wait_flag(flag)
    k.wait_flag(given)
    k.pipe_barrier("ALL")
    return None


def _cube_of_mix(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, workspace: asim.Tensor) -> None:
    size = TILE * DEPTH * 2
    left, right = k.allocate("L1", size, "A"), k.allocate("L1", size, "B")
    pipe = [k.flag("M", "MTE1", f"of the pipe {number}") for number in range(3)]
    for flag in pipe:
        k.set_flag(flag)
    come = [k.flag("MTE2", "MTE1", f"come {number}") for number in range(2)]
    split = [k.flag("MTE1", "M", f"split {number}") for number in range(2)]
    taken = [k.flag("MTE1", "MTE2", f"taken {number}") for number in range(2)]
    free = [k.flag("M", "MTE1", f"free {number}") for number in range(2)]
    done, stored = k.flag("M", "FIX", "done"), k.flag("FIX", "M", "stored")
    k.data_copy_nd2nz(left, a.address + k.block * size, TILE, DEPTH, 2, 2 * DEPTH, TILE)
    k.data_copy_nd2nz(right, b.address, DEPTH, TILE, 2, 2 * TILE, DEPTH)
    for flags in (come,):
        for flag in flags:
            k.set_flag(flag)
        for flag in flags:
            k.wait_flag(flag)
    k.emit(LoadData3D("L0A", 2, 1, TILE, 1, 1, 1, 1, 1, 1, 0, 0, 1, TILE, 0, TILE, 0, DEPTH), 0, left)
    for i in range(DEPTH // 16):
        k.load_data_2d("L0B", 2048 * i, right + 512 * i, 2, 4, 8, transpose=True)
    for flag in (*split, *taken):
        k.set_flag(flag)
    for flag in split:
        k.wait_flag(flag)
    k.mmad(0, 0, 0, TILE, DEPTH, TILE, "float16", False)
    for flag in (*free, done):
        k.set_flag(flag)
    k.wait_flag(done)
    k.pipe_barrier("FIX")
    place = workspace.address + k.block * TILE * TILE * 4
    k.fixpipe_nd(place, 0, TILE, TILE, TILE, "float32", TILE * 4, pre=Quantisation("float32", relu=True))
    k.cross_core_set(5, 2, "FIX")
    k.set_flag(stored)
    for flag in (*taken, *free, stored, *pipe):
        k.wait_flag(flag)
    k.pipe_barrier("ALL")


def test_cube_and_vector_cores() -> None:
    """One tile a block: the C++ kernel's rows and depth are fields of its own."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2 * TILE, DEPTH)).astype(np.float16), rng.standard_normal((DEPTH, TILE)).astype(np.float16))
    d = rng.standard_normal((2 * TILE, TILE)).astype(np.float32)
    tensors = a, b, d, asim.empty(d.shape, "float32"), np.zeros((2, TILE, TILE), np.float32)
    cpp = asim.launch(cpp_kernel(SAMPLES / "matmul_relu_mix.cpp"), 2, *tensors, rows=2 * TILE, depth=DEPTH)
    python = asim.launch(python_mix, 2, *tensors)
    assert len(cpp.programs) == len(python.programs) == 6
    for ours, other in zip(cpp.programs, python.programs, strict=True):
        rows = [[(row.pipe, row.instruction, row.dst, row.src0, row.src1) for row in one] for one in (ours, other)]
        assert rows[0] == rows[1]
    np.testing.assert_array_equal(cpp.outputs["c"], python.outputs["c"])
    assert cpp.report.total_us == python.report.total_us
