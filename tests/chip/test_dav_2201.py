"""The chips of dav-2201 (910B, 910_93) against published rates and measured curves of instructions and transfers."""

from __future__ import annotations

import math

import pytest

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError


@pytest.fixture
def b1() -> ChipSpec:
    return load_chip("ascend910b1")


def test_chip_wide_bandwidth_rows(b1: ChipSpec) -> None:
    """asc-devkit data_copy, 24 AIC / 48 AIV at 1850 MHz: 1.490 TB/s measured from HBM, about 5.2 TB/s stated for L2."""
    hertz = b1.clock.cube_mhz * 1e6
    assert b1.hbm_bytes_per_cycle() * hertz == pytest.approx(1.490e12, rel=0.005)
    assert b1.l2_read_bytes_per_cycle() * hertz == pytest.approx(5.2e12, rel=0.001)
    assert b1.path("GM", "L1", "nd2nz").bytes_per_cycle * b1.cores.aic * hertz == pytest.approx(5.04e12, rel=0.001)


@pytest.mark.parametrize(
    ("soc", "key", "gib_per_s"),
    [
        ("910b1", "GM->L1", 264),
        ("910b1", "L1->GM", 199.43), ("910b1", "L0C->GM", 209.32),
        ("910b3", "GM->L1", 256.86), ("910b3", "L0C->GM", 203.66),
        ("910b4", "GM->L1", 222),
        ("910b4", "L1->GM", 189.89), ("910b4", "L0C->GM", 190.7),
    ],
)  # fmt: skip
def test_path_peaks_of_the_profiler(soc: str, key: str, gib_per_s: float) -> None:
    chip = load_chip(f"ascend{soc}")
    peak = chip.paths[key].bytes_per_cycle * chip.clock.cube_mhz * 1e6 / 2**30
    assert peak == pytest.approx(gib_per_s, rel=0.001)


@pytest.mark.parametrize(("key", "low", "high"), [("GM->L1", 171, 174), ("GM->UB", 216.5, 235.3), ("L0C->GM", 80, 92)])
def test_isolated_transfers_of_1_kb(b1: ChipSpec, key: str, low: float, high: float) -> None:
    """MindStudio msKPP curves: one transfer at a time, L2 hits."""
    path = b1.paths[key]
    own = b1.fixpipe.head + b1.fixpipe.latency if key == "L0C->GM" and b1.fixpipe else 0
    assert low <= own + path.head + math.ceil(1024 / path.bytes_per_cycle) + path.latency <= high


def test_a_128_byte_row_in_a_stream(b1: ChipSpec) -> None:
    """Measured 20.6 cycles per GM->UB instruction; the row touches one line."""
    path = b1.path("GM", "UB")
    assert path.head + math.ceil(b1.memory.l2_line_bytes / path.bytes_per_cycle) == math.ceil(20.6)


@pytest.mark.parametrize(("n", "measured"), [(208, 36), (2048, 151)])
def test_isolated_mmad(b1: ChipSpec, n: int, measured: int) -> None:
    """MindStudio msKPP on a 910B3: a single fp16 Mmad 16 x 16 x n."""
    assert b1.cube.head_first + n // 16 + b1.cube.latency == measured


def test_the_8192_gemm_step(b1: ChipSpec) -> None:
    """Per 128 x 256 x 64 Mmad: 522 cycles of cube; 430 of MTE1 in one load3d of 16 KB and four load2d of 8 KB."""
    assert b1.cube.head_stream + 128 * 256 * 64 // b1.cube.macs_per_cycle("float16") == 522
    load3d = b1.load3d.head + (16 << 10) / b1.load3d.rate("L0A", 1, 2)
    load2d = b1.path("L1", "L0B").head + (8 << 10) / b1.path("L1", "L0B").bytes_per_cycle
    assert load3d + 4 * load2d == 430


def test_published_isolated_loads(b1: ChipSpec) -> None:
    """asc-devkit load_data_perf: load2d 28, load3d 50, L1->BT and L1->FB 20 cycles beyond the data."""
    beyond = {key: path.head + path.latency for key, path in b1.paths.items() if key.startswith("L1->") and key != "L1->GM"}
    assert beyond == {"L1->L0A": 28, "L1->L0B": 28, "L1->BT": 20, "L1->FB": 20}
    assert b1.load3d.head + b1.load3d.latency == 50


def test_load3d_rates_follow_the_published_formula(b1: ChipSpec) -> None:
    for stride in range(1, 64):
        if stride == 1:
            expected = {"L0A": 256.0, "L0B": 128.0}
        elif stride in (2, 4, 8):
            expected = {"L0A": max(32, 512 // (2 * stride)), "L0B": max(28.4, 512 // (2 * stride + 2))}
        else:
            expected = {"L0A": 32, "L0B": 28.4}
        assert {dest: b1.load3d.rate(dest, stride, 2) for dest in expected} == expected


def test_the_transposing_32_bit_loads_are_slow(b1: ChipSpec) -> None:
    assert b1.load3d.rate("L0B", 1, 4, transpose=True) == 45
    assert b1.load3d.rate("L0B", 8, 4, transpose=True) == 28.4
    assert b1.load3d.rate("L0B", 1, 2, transpose=True) == 128
    assert b1.load3d.rate("L0A", 1, 4, transpose=True) == 128
    assert b1.load3d.rate("L0A", 4, 4, transpose=True) == 64
    assert [b1.load3d.rate("L0A", 1, *of) for of in ((2, False), (2, True), (4, False))] == [256] * 3


def test_sliding_rows_are_off_and_follow_the_formula_when_on(b1: ChipSpec) -> None:
    assert b1.load3d.rate("L0A", 1, 4, rows=10) == 256
    sliding = b1.load3d.model_copy(update={"slide_rows": True})
    assert sliding.rate("L0A", 1, 4, rows=1) == 256
    assert sliding.rate("L0A", 1, 4, rows=10) == 512 // 12
    assert sliding.rate("L0B", 1, 4, rows=13) == 512 // 17
    assert sliding.rate("L0B", 2, 4, rows=100) == 28.4
    assert sliding.rate("L0A", 3, 4, rows=2) == 32


@pytest.mark.parametrize(
    ("op", "dtype", "repeats", "conflict", "measured"),
    [
        ("add", "float16", 64, False, 88.4),
        ("add", "float16", 64, True, 154),
        ("add", "float16", 32, True, 86.0),
        ("add", "float16", 128, True, 278.5),
        ("add", "float16", 127, False, 149.6),
        ("add", "float32", 64, True, 160),
        ("exp", "float32", 64, False, 159),
        ("div", "float32", 64, True, 288),
    ],
)
def test_measured_vector_instructions(b1: ChipSpec, op: str, dtype: str, repeats: int, conflict: bool, measured: float) -> None:
    """asc-devkit bank_conflict_ub, add_high_performance; pto-isa tile operations on a 910B3."""
    assert sum(b1.vector.cycles(op, dtype, 256 * repeats, conflict)) == pytest.approx(measured, rel=0.06)


def test_a_partial_repeat_costs_a_whole_one_and_the_tail(b1: ChipSpec) -> None:
    head, work = b1.vector.cycles("reduce_sum", "float32", 512)
    assert b1.vector.cycles("reduce_sum", "float32", 516) == (head, work + 7 + 16)


def test_fixpipe_rates(b1: ChipSpec) -> None:
    assert b1.fixpipe is not None
    assert [b1.fixpipe.rate(size) for size in (1, 2, 4)] == [64, 128, 128]
    assert b1.fixpipe.rate(4, channel_split=True) == 32
    with pytest.raises(SimError, match=r"8-byte.*1, 2, 4"):
        b1.fixpipe.rate(8)


def test_rows_cost_nothing_extra_where_the_unit_strides(b1: ChipSpec) -> None:
    assert b1.vector.row_overhead is None
    assert b1.vector.cycles("adds", "float32", 512, rows=10) == b1.vector.cycles("adds", "float32", 5120)


def test_a_missing_path_lists_what_there_is(b1: ChipSpec) -> None:
    with pytest.raises(SimError, match=r"ascend910b1 \(dav-2201\) has no path UB->L1; from UB there is UB->GM "):
        b1.path("UB", "L1")
    with pytest.raises(SimError, match=r"no path GM->UB:nd2nz; from GM there is GM->L1, GM->L1:nd2nz, GM->L0A"):
        b1.path("GM", "UB", "nd2nz")


def test_what_a_chip_lacks_is_an_error_with_the_alternatives(b1: ChipSpec) -> None:
    with pytest.raises(SimError, match=r"'float64'; it takes float16, "):
        b1.peak_tflops("float64")
    with pytest.raises(SimError, match=r"'tanh'; there are add, "):
        b1.vector.cycles("tanh", "float32", 256)
    with pytest.raises(SimError, match=r"exp has no 'int32'; it has float16, float32 "):
        b1.vector.cycles("exp", "int32", 256)
    with pytest.raises(SimError, match=r"'UB'; it reaches L0A, L0B "):
        b1.load3d.rate("UB", 1, 2)
