"""Streams on all cores of a 910B1 against the asc-devkit data_copy sample; single transfers; the matmul sample's loop.

The rows of `streams.ROWS` with `sets` decided a cost in the chip file, which was frozen before the others were compared.
Not blind either: `partial_line_refetch`, a yes or no that the unaligned rows made a yes; the L2 read rate and the dispatch
interval, which were picked with the rows in view. Everything is compared at 15 % unless said.
"""

import functools
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest runs with --import-mode=importlib

from streams import CURVES, HITS, ROWS, hit_bandwidth, matmul_loop, measure, single_transfer

from ascend_sim.chip import load_chip

PAGE = Path(__file__).parents[2] / "docs" / "measured-bandwidth.md"
CHIP = load_chip("ascend910b1")
BY_NAME = {row.name: row for row in ROWS}
TOLERANCE = 0.15


@functools.cache
def simulated(name: str) -> float:
    return BY_NAME[name].simulated(CHIP)


@pytest.mark.parametrize("name", BY_NAME)
def test_measured_bandwidth(name: str) -> None:
    assert simulated(name) == pytest.approx(BY_NAME[name].measured, rel=TOLERANCE)


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.sets])
def test_rows_that_set_a_cost_come_out_as_measured(name: str) -> None:
    assert simulated(name) == pytest.approx(BY_NAME[name].measured, rel=0.05)


@pytest.mark.parametrize(("destination", "prefix"), [("UB", "UB"), ("L1", "L1 nd2nz")])
def test_bandwidth_of_hits_by_the_derivation_of_the_measured_one(destination: str, prefix: str) -> None:
    whole, parts = simulated(f"{prefix}, whole matrix x 4"), simulated(f"{prefix}, in 4 parts, each x 4")
    assert hit_bandwidth(whole, parts) == pytest.approx(HITS[destination], rel=TOLERANCE)


def test_derivation_gives_the_published_figures() -> None:
    rows = {name: row.measured for name, row in BY_NAME.items()}
    ub = hit_bandwidth(rows["UB, whole matrix x 4"], rows["UB, in 4 parts, each x 4"])
    l1 = hit_bandwidth(rows["L1 nd2nz, whole matrix x 4"], rows["L1 nd2nz, in 4 parts, each x 4"])
    assert (ub, l1) == pytest.approx((HITS["UB"], HITS["L1"]), rel=0.005)


@pytest.mark.parametrize(("name", "ratio"), [("UB, whole matrix x 4", 0.0), ("UB, in 4 parts, each x 4", 0.75)])
def test_hit_ratio(name: str, ratio: float) -> None:
    """Measured 0.00005 and 0.75: the matrix does not fit the L2, a quarter of it does."""
    assert measure(CHIP, BY_NAME[name].stream).hit_ratio == pytest.approx(ratio, abs=0.001)


@pytest.mark.parametrize("name", ["UB, 1 x 128 B", "L1 nd2nz, 64 x 128 B"])
def test_a_line_read_in_four_pieces_leaves_hbm_once(name: str) -> None:
    run = measure(CHIP, BY_NAME[name].stream)
    assert run.hbm_bytes == run.useful_bytes


@pytest.mark.parametrize("name", ["UB, 64 x 2 KB, unaligned", "L1 nd2nz, 64 x 512 B, unaligned"])
def test_unaligned_rows_need_the_partial_line_rule(name: str) -> None:
    """Without it the next tile would find the line at the end of a row in the L2, and the penalty would vanish."""
    memory = CHIP.memory.model_copy(update={"partial_line_refetch": False})
    without = BY_NAME[name].simulated(CHIP.model_copy(update={"memory": memory}))
    assert without > (1 + TOLERANCE) * BY_NAME[name].measured


@pytest.mark.parametrize("name", ["UB, 1 x 128 B", "UB, 64 x 128 B", "L1 nd2nz, 64 x 128 B"])
def test_small_rows_hold_when_the_cores_begin_four_times_as_far_apart(name: str) -> None:
    assert BY_NAME[name].simulated(CHIP, spread_us=2.0) == pytest.approx(BY_NAME[name].measured, rel=TOLERANCE)


@pytest.mark.parametrize("kib", CURVES["GM->L1"])
def test_single_gm_to_l1(kib: int) -> None:
    """1 KiB sets the latency. The curve's step at 4 KiB (234 cycles, and 237 for 8) is not in the model: 18 % there."""
    tolerance = 0.19 if kib == 4 else TOLERANCE
    assert single_transfer(CHIP, "GM->L1", kib)[1] == pytest.approx(CURVES["GM->L1"][kib], rel=tolerance)


@pytest.mark.parametrize("kib", [kib for kib in CURVES["UB->GM"] if kib <= 32])
def test_single_ub_to_gm(kib: int) -> None:
    """1 KiB sets the latency. From 64 KiB the curve stays at 66 bytes/cycle, where the profiler's peak is 108.4."""
    assert single_transfer(CHIP, "UB->GM", kib)[1] == pytest.approx(CURVES["UB->GM"][kib], rel=TOLERANCE)


@pytest.mark.parametrize("kib", [1, 64, 128])
def test_single_l0c_to_gm(kib: int) -> None:
    """The curve is the larger of 80 cycles and bytes/120, not a sum: both ends agree, 2 to 32 KiB do not."""
    assert single_transfer(CHIP, "L0C->GM", kib)[1] == pytest.approx(CURVES["L0C->GM"][kib], rel=TOLERANCE)


@pytest.mark.parametrize("kib", [kib for kib in CURVES["L0C->GM"] if kib >= 8])
def test_occupancy_of_l0c_to_gm(kib: int) -> None:
    """Read as transfers back to back the same curve is what the Fixpipe is occupied for."""
    assert single_transfer(CHIP, "L0C->GM", kib)[0] == pytest.approx(CURVES["L0C->GM"][kib], rel=TOLERANCE)


def test_matmul_loop() -> None:
    """Measured: 3082.158 us of cube on 24 cores for fp16 8192^3, MTE1 busy 430 cycles per Mmad; the heads come from here."""
    loop = matmul_loop(CHIP, 200)
    assert loop.m_busy == pytest.approx(512 + 10.0, abs=0.1)
    assert loop.mte1_busy == 320 + 5 * 22
    assert loop.period == pytest.approx(522, abs=0.1), "the loads of the next step hide behind the Mmad"
    mmads_per_core = (8192 // 128) * (8192 // 256) * (8192 // 64) / CHIP.cores.aic
    assert CHIP.us(loop.m_busy * mmads_per_core) == pytest.approx(3082.158, rel=0.001)


def test_the_page_shows_what_the_simulator_says() -> None:
    shown = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in BY_NAME and len(cells) == 5:
            shown[cells[0]] = (float(cells[1]), float(cells[2]))
    assert list(shown) == list(BY_NAME)
    for name, (measured, value) in shown.items():
        assert measured == BY_NAME[name].measured
        assert value == pytest.approx(simulated(name), rel=0.01), name
