"""Loads of L0A and L0B in compiled kernels: transposed squares of four and one bytes, and fractals straight from GM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.cube_text import LOCAL
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler

M, K, N = 48, 64, 80
SQUARES = """
    DataCopy(l1a, ag, Nd2NzParams(K / 16, 16, M, 16 * M, M, 16, 1, 16 * M));
    DataCopy(l1b, bg, Nd2NzParams(K / 16, 16, N, 16 * N, N, 16, 1, 16 * N));
    STEP(MTE2_MTE1, 0)
    for (int i = 0; i < M / 16; i++)
        LoadDataWithTranspose(l0a[i * 16 * K], l1a, LoadData2dTransposeParams(i, K / 16, M / 16, 1, 0));
    for (int i = 0; i < K / 16; i++)
        LoadDataWithTranspose(l0b[i * 16 * N], l1b[i * 16 * N], LoadData2dTransposeParams(0, N / 16, 1, 0, N / 16 - 1));
    STEP(MTE1_M, 0)
"""
"""The left operand lies in GM as [K, M]; rows of 16 x 16 squares in L1 become ZZ in L0A, and ZN in L0B."""
FROM_GM = """
    LoadData(l0a, ag, LoadData2DParams(0, M * K / 128, 1, 0, 0, false, 0));
    for (int i = 0; i < N / 16; i++)
        LoadData(l0b[i * 128], bg[i * K * 16], LoadData2DParams(0, K / 8, 1, 0, N / 16 - 1, false, 0));
    STEP(MTE2_M, 0)
"""
"""GM holds L0A's fractals in their order, and those of L0B by columns."""


def kernel(folder: Path, load: str) -> asim.CppKernel:
    sizes = f"constexpr int M = {M}, K = {K}, N = {N};"
    text = f"""{LOCAL}extern "C" __global__ __aicore__ void kernel(GM_ADDR a, GM_ADDR b, GM_ADDR c) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); {sizes}
    GlobalTensor<float> ag, bg, cg;
    ag.SetGlobalBuffer((__gm__ float *)a), bg.SetGlobalBuffer((__gm__ float *)b), cg.SetGlobalBuffer((__gm__ float *)c);
    auto l1a = local<float>(TPosition::A1, 0), l1b = local<float>(TPosition::B1, 0x8000);
    auto l0a = local<float>(TPosition::A2, 0), l0b = local<float>(TPosition::B2, 0), co = local<float>(TPosition::CO1, 0);
    {load}
    Mmad(co, l0a, l0b, MmadParams(M, N, K, 0, false, true)); STEP(M_FIX, 0)
    Fixpipe(cg, co, FixpipeParamsV220(N, M, M, N, false)); }}"""
    return made(folder, text)


@pytest.mark.parametrize("load", ["squares", "from GM"])
def test_both_operands_are_loaded_as_the_page_has_them(tmp_path: Path, load: str) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((M, K), (K, N)))
    if load == "squares":
        given = a.T, b
    else:  # [M1][K1][16][8], and [N1][K1][16 of N][8 of K]
        given = a.reshape(M // 16, 16, K // 8, 8).swapaxes(1, 2), b.T.reshape(N // 16, 16, K // 8, 8).swapaxes(1, 2)
    function = kernel(tmp_path, SQUARES if load == "squares" else FROM_GM)
    operands = [np.ascontiguousarray(one) for one in given]
    runs = [asim.launch(function, 1, *operands, np.zeros((M, N), np.float32), engine=one) for one in ("simpy", "compiled")]
    for run in runs:
        np.testing.assert_array_equal(run.outputs["c"], a @ b)
        assert not run.findings
    assert runs[0].report.total_us == runs[1].report.total_us
