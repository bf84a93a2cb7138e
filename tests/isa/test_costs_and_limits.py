"""Costs and limits of single instructions on paper: tails, heads, rows that are not aligned, sums that clamp."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, FixpipeUnitFlag, Mmad
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.transfer import DataCopy, DataCopyPastL2
from ascend_sim.isa.vector import Compare, VectorCast
from ascend_sim.isa.vector.arithmetic import VectorMulAdd
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.workbench import CHIP, Workbench

pytestmark = pytest.mark.fast
PLAIN = load_chip("ascend950pr_9589")


def work(instruction: Instruction) -> int:
    return instruction.cost(CHIP).work


def test_a_product_pays_for_whole_fractals_of_k() -> None:
    k0 = CHIP.cube.rates["float16"].k0
    cycles = [Mmad(16, k, 16, "float16", False).work_cycles(CHIP) for k in (k0, k0 + 1, 2 * k0)]
    assert cycles[1] == cycles[2] == 2 * cycles[0]


def test_a_fixpipe_has_two_heads_wherever_it_stands_in_a_stream() -> None:
    path = CHIP.path("L0C", "GM").model_copy(update={"head": 7})
    chip = CHIP.model_copy(update={"paths": CHIP.paths | {"L0C->GM": path}})
    assert chip.fixpipe is not None
    cost = Fixpipe(16, 16, 16, "float32", 16, 1024).cost(chip)
    assert cost.head_first == cost.head_stream == chip.fixpipe.head + 7


@pytest.mark.parametrize(("padded", "shape"), [(32, (2, 1)), (48, (0, 0))])
def test_a_tile_with_gaps_in_l0c_is_not_drained_fractal_by_fractal(padded: int, shape: tuple[int, int]) -> None:
    pace = FixpipeUnitFlag(32, 16, padded, "float32", 16, 2048).pace(CHIP)
    assert (pace.rows, pace.columns) == shape


@pytest.mark.parametrize(("overflow", "expected"), [("saturate", 65504.0), ("inf_nan", np.inf)])
def test_sums_in_gm_clamp_where_the_chip_does(overflow: str, expected: float) -> None:
    """60,000 + 60,000 in float16, by a Fixpipe and by a copy."""
    there, new = np.full(256, 6e4, np.float16), np.full(256, 6e4, np.float32)
    for adding, source, values in (
        (Fixpipe(16, 16, 16, "float16", 16, 512, atomic_add=True), "L0C", new),
        (DataCopy("UB", "GM", 512, atomic_add="float16"), "UB", there),
    ):
        bench = Workbench()
        bench.memory.model = ValueModel.of(CHIP, overflow=overflow)
        bench.put("GM", gm_operand(0, 0), there)
        bench.put(source, 0, values)
        bench.do(adding, gm_operand(0, 0), 0)
        assert (bench.get("GM", gm_operand(0, 0), np.float16, 256) == expected).all(), adding.name


def test_a_load_reads_no_row_below_its_last_tap() -> None:
    """Two output rows of a 2 x 2 kernel, dilated by 3: input rows 0 to 1 + 3 of 9, 32 bytes a pixel."""
    load = LoadData3D("L0A", 2, 9, 4, 2, 2, 1, 1, 3, 1, 0, 0, 2, 3, 0, 6, 0, 64)
    (region,) = load.reads()
    assert (region.offset, region.row_bytes) == (0, 5 * 4 * 32)


def test_a_copy_within_a_core_pays_for_all_its_rows() -> None:
    one, three = (DataCopy("UB", "L1", 512, rows, 512, 512).cost(PLAIN).work for rows in (1, 3))
    assert three == -(-3 * 512 // int(PLAIN.path("UB", "L1").bytes_per_cycle)) > one > 0


def test_two_rows_apart_by_no_whole_block_are_not_aligned() -> None:
    aligned, apart = (work(DataCopy("GM", "UB", 64, 2, stride, 64)) for stride in (96, 100))
    assert aligned == 0 and apart == 2 * (CHIP.path("GM", "UB").unaligned_row or 0) > 0


def test_a_copy_past_the_l2_keeps_nothing_there() -> None:
    past, plain = (copy("GM", "UB", 64).gm_access(CHIP) for copy in (DataCopyPastL2, DataCopy))
    assert past is not None and plain is not None and not past.kept and plain.kept


def test_a_fixpipe_by_columns_reads_from_its_row_on() -> None:
    (region,) = FixpipeDn(16, 16, 32, 0, "float32", 4, 64, row=3).reads()
    assert region.offset == 3 * 16 * 4
    bench = Workbench()
    tile = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)
    bench.put("L0C", 0, tile)
    bench.do(FixpipeDn(16, 16, 32, 0, "float32", 64, 4, row=3), gm_operand(0, 0), 0)
    found = bench.get("GM", gm_operand(0, 0), np.float32, 256).reshape(16, 16)
    np.testing.assert_array_equal(found, tile[3:19])


def test_l0c_to_ub_pays_for_whole_fractals() -> None:
    """One row pays for itself."""
    one, part, whole = (L0cToUb(rows, 16, 16, "float32").cost(PLAIN).work for rows in (1, 2, 16))
    assert part == whole == 16 * one > 0


def test_a_comparison_takes_whole_repeats() -> None:
    count = CHIP.vector.repeat_bytes // 2
    assert Compare("lt", "float16", count).pipe(CHIP) == "V"
    with pytest.raises(SimError, match="not whole repeats"):
        Compare("lt", "float16", count + 16).pipe(CHIP)


def test_a_cast_costs_by_its_wider_side() -> None:
    expected = CHIP.vector.cycles("cast", "float32", 256 * 4)[1]
    assert work(VectorCast("float16", "float32", 256, "none")) == expected
    assert work(VectorCast("float32", "float16", 256, "rint")) == expected


def test_mul_add_adds_to_what_the_target_holds() -> None:
    bench = Workbench()
    left, right, there = (np.arange(start, start + 64, dtype=np.float32) for start in (1, 200, 5))
    for address, values in ((0, left), (256, right), (512, there)):
        bench.put("UB", address, values)
    bench.do(VectorMulAdd("mul_add", "float32", 64), 512, 0, 256)
    np.testing.assert_array_equal(bench.get("UB", 512, np.float32, 64), left * right + there)
