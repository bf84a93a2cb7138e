"""Zeros of the cube kernels: a tile that nothing is added to, and L1 where a fill counts whole fractals."""

from __future__ import annotations

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, zero_l1

pytestmark = pytest.mark.fast

CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")


@asim.kernel_function(core=("AIC", "AI_CORE"))
def nothing(k: asim.Kernel, c: asim.Tensor, *, m: int, n: int, dtype: str, c0: int) -> None:
    pipeline = CubePipeline(k, 2, 1, -(-m // 16) * 16 * -(-n // 16) * 16 * 4)
    pipeline.begin_sum()
    pipeline.end_sum(m, n, c0, dtype)
    pipeline.drain(c.address, m, n, "float16", 16, m * 32)
    pipeline.close()


@pytest.mark.parametrize(("m", "n"), [(1, 1), (16, 48), (240, 16), (257, 33), (530, 16)])
@pytest.mark.parametrize("chip", CHIPS)
def test_a_tile_that_nothing_is_added_to_is_zeros(chip: str, m: int, n: int) -> None:
    """Whatever lies in L0 and L1; also of more rows than a map has padding above it."""
    held = np.full(-(-n // 16) * m * 16, 7, np.float16)
    dtypes = [("float16", 16)] + ([("float32", 8)] if "float32" in load_chip(chip).cube.rates else [])
    for dtype, c0 in dtypes:
        run = asim.launch(nothing, 1, held, chip=chip, m=m, n=n, dtype=dtype, c0=c0)
        assert not run.findings
        assert not run.outputs["c"].any()


@pytest.mark.parametrize("size", [32, 480, 512, 544, 1024, 1536 + 96])
@pytest.mark.parametrize("chip", CHIPS)
def test_l1_is_zeroed_to_the_byte_where_a_fractal_fits(chip: str, size: int) -> None:
    spec = load_chip(chip)
    kind = next(iter(spec.cores.kinds))
    k = KernelBuilder(InstructionTable(spec), 0, kind, [])
    zero_l1(k, 4096, size)
    fills = [view for view in k.finish() if view.instruction.name == "fill"]
    written = set[int]()
    for view in fills:
        written |= set(range(view.dst, view.dst + view.instruction.writes()[0].total))
    coupled = chip in ("ascend910a", "ascend310p3")
    assert written == set(range(4096, 4096 + (max(size, 512) if coupled else size)))
