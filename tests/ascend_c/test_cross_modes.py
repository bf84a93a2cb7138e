"""Flags between cores by mode (0: all cores of a kind, 1: the vector cores of a block, 2: cube and vector cores of a block)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler

ALL_MODES = """
template <class T> LocalTensor<T> local(TPosition place, uint32_t at) { return LocalTensor<T>(place, at, 256); }
#define STEP(event) { SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0); }
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_{RATIO});
    GlobalTensor<float> xg, yg, zg;
    xg.SetGlobalBuffer((__gm__ float *)x), yg.SetGlobalBuffer((__gm__ float *)y), zg.SetGlobalBuffer((__gm__ float *)z);
    const int blocks = GetBlockNum(), block = get_block_idx(), next = (block + 1) % blocks;
    if ASCEND_IS_AIV {  // y[core] = x[core] + 1; then both cores of a block read each other's
        const int core = GetBlockIdx(), ratio = GetSubBlockNum(), other = core / ratio * ratio + (core + 1) % ratio;
        auto a = local<float>(TPosition::VECCALC, 0), b = local<float>(TPosition::VECCALC, 1024);
        DataCopy(a, xg[core * 64], 64); STEP(MTE2_V) Adds(a, a, 1.0f, 64); STEP(V_MTE3) DataCopy(yg[core * 64], a, 64);
        if (!({WITHOUT} & 1)) { CrossCoreSetFlag<1, PIPE_MTE3>(3); CrossCoreWaitFlag<1>(3); }
        DataCopy(b, yg[other * 64], 64); STEP(MTE2_V) Add(a, a, b, 64); STEP(V_MTE3) DataCopy(zg[core * 64], a, 64);
        CrossCoreSetFlag<2, PIPE_MTE3>(4);
        CrossCoreWaitFlag<2>(5);
        if (!({WITHOUT} & 4)) { CrossCoreSetFlag<0, PIPE_MTE3>(6); CrossCoreWaitFlag<0>(6); }
        // what the cube core of the next block brought from the one behind it
        const int far = (core + ratio) % (blocks * ratio);
        DataCopy(b, zg[(blocks * ratio + far) * 64], 64); STEP(MTE2_V) Adds(b, b, 0.5f, 64); STEP(V_MTE3)
        DataCopy(zg[(2 * blocks * ratio + core) * 64], b, 64);
    } else {
        const int ratio = {RATIO};
        auto l1 = local<float>(TPosition::A1, 0);
        CrossCoreWaitFlag<2>(4);
        if (!({WITHOUT} & 2)) { CrossCoreSetFlag<0, PIPE_FIX>(7); CrossCoreWaitFlag<0>(7); }
        DataCopy(l1, zg[next * ratio * 64], 64 * ratio);
        STEP(MTE2_MTE3)
        DataCopy(zg[(blocks + block) * ratio * 64], l1, 64 * ratio);
        CrossCoreSetFlag<2, PIPE_MTE3>(5);
    }
}
"""


def races(kernel: Any, *given: Any) -> list[Any]:
    """Return the findings of `check` without flags that order nothing, such as mode 1 of a single vector core."""
    return [one for one in asim.check_kernel(kernel, 3, *given).findings if one.kind != "redundant flag"]


@pytest.mark.parametrize("ratio", [1, 2])
def test_every_mode_joins_its_cores(tmp_path: Path, ratio: int) -> None:
    blocks, cores = 3, 3 * ratio
    kernel = made(tmp_path, ALL_MODES.replace("{RATIO}", f"{ratio}").replace("{WITHOUT}", "0"))
    x = np.random.default_rng(ratio).standard_normal((blocks, ratio, 64)).astype(np.float32)
    raised = x + np.float32(1)
    sums = raised + raised[:, ::-1]
    wanted = np.stack((sums, np.roll(sums, -1, axis=0), np.roll(sums, -2, axis=0) + np.float32(0.5)))
    given = x, asim.empty((cores, 64), "float32"), asim.empty((3, cores, 64), "float32")
    for engine in ("simpy", "compiled"):
        run = asim.launch(kernel, blocks, *given, engine=engine)
        np.testing.assert_array_equal(run.outputs["z"].reshape(wanted.shape), wanted)
        assert not run.findings
    assert not races(kernel, *given)


@pytest.mark.parametrize("without", [1, 2, 4])
def test_a_missing_flag_of_a_mode_is_found(tmp_path: Path, without: int) -> None:
    """Vector cores of a block need mode 1; cores that read what the next block wrote need mode 0."""
    kernel = made(tmp_path, ALL_MODES.replace("{RATIO}", "2").replace("{WITHOUT}", f"{without}"))
    given = np.ones((6, 64), np.float32), asim.empty((6, 64), "float32"), asim.empty((3, 6, 64), "float32")
    assert races(kernel, *given)


@pytest.mark.parametrize("pipe", ["PIPE_S", "PIPE_ALL"])
def test_pipes_that_raise_no_flag_are_refused(tmp_path: Path, pipe: str) -> None:
    text = (
        f'extern "C" __global__ __aicore__ void kernel(GM_ADDR x) {{ CrossCoreSetFlag<0, {pipe}>(1);\nCrossCoreWaitFlag(1); }}'
    )
    with pytest.raises(SimError, match=f":3: .*CrossCoreSetFlag: a flag is not raised from {pipe}"):
        asim.launch(made(tmp_path, text), 1, np.zeros(64, np.float32))


def test_modes_of_other_chips_are_refused_at_compile_time(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="CrossCoreSetFlag: modes 0, 1 and 2"):
        made(tmp_path, 'extern "C" __global__ __aicore__ void kernel(GM_ADDR x) { CrossCoreSetFlag<4, PIPE_MTE3>(1); }')
