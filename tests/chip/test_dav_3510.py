"""The chips of dav-3510 (950PR, 950DT) against published rates and measured curves of instructions and transfers."""

from __future__ import annotations

import pytest

from ascend_sim.chip import ChipSpec, load_chip

pytestmark = pytest.mark.fast


@pytest.fixture
def a5() -> ChipSpec:
    return load_chip("ascend950pr_9589")


def test_bandwidth_rows(a5: ChipSpec) -> None:
    """Measured on 64 AIV / 32 AIC at 1650 MHz (asc-devkit data_copy): 1.613-1.65 TB/s from HBM, 5.36 TB/s from L2 at most."""
    hertz = a5.clock.cube_mhz * 1e6
    assert a5.hbm_bytes_per_cycle() * hertz == pytest.approx(1.631e12, rel=0.012)
    assert a5.l2_read_bytes_per_cycle() * hertz == pytest.approx(5.36e12, rel=0.02)
    path = a5.path("GM", "UB")
    assert path.head + 128 / path.bytes_per_cycle == pytest.approx(39.4, abs=0.5)


@pytest.mark.parametrize(
    ("key", "gib_per_s"), [("GM->L1", 162.77), ("GM->UB", 163.13), ("UB->GM", 131.76), ("L0C->GM", 130.21)]
)
def test_path_peaks_of_the_profiler(a5: ChipSpec, key: str, gib_per_s: float) -> None:
    for chip, peak in ((a5, gib_per_s), (load_chip("ascend950pr_9599"), gib_per_s * 1800 / 1650)):
        assert chip.paths[key].bytes_per_cycle * chip.clock.cube_mhz * 1e6 / 2**30 == pytest.approx(peak, rel=0.001)


def test_gemm_step(a5: ChipSpec) -> None:
    """Per 256 x 256 x 64 Mmad: 2564.813 us over 2542.00 us of cube work; 333.5 cycles of MTE1 in two loads of 32 KB."""
    work = 256 * 256 * 64 // a5.cube.macs_per_cycle("float16")
    assert work == 1024
    assert (a5.cube.head_stream + work) / work == pytest.approx(2564.813 / 2542.00, rel=0.0005)
    loads = [a5.paths[key].head + 32768 / a5.paths[key].bytes_per_cycle for key in ("L1->L0A", "L1->L0B")]
    assert sum(loads) == pytest.approx(333.5, abs=1)


def test_load3d_is_alike_into_both_buffers(a5: ChipSpec) -> None:
    for stride in range(1, 64):
        expected = max(32, 512 // (2 * stride)) if stride in (1, 2, 4, 8) else 32
        assert a5.load3d.rate("L0A", stride, 2) == a5.load3d.rate("L0B", stride, 2) == expected


@pytest.mark.parametrize(("vectors", "instructions", "vector_us"), [(32, 256, 15.465), (170, 48.188, 11.121)])
def test_adds_in_a_stream(a5: ChipSpec, vectors: int, instructions: float, vector_us: float) -> None:
    """asc-devkit add_high_performance, fp16 8192 x 8192 on 64 AIV: the vector pipe's busy time, occupancy alone."""
    assert a5.us(sum(a5.vector.cycles("add", "float16", 256 * vectors)) * instructions) == pytest.approx(vector_us, rel=0.02)


# pto-isa st_a5_fit: isolated tile operations in UB. (operation, dtype, rows, 256-byte vectors in a row, cycles)
TILES = [
    ("add", "float32", 10, 3, 131), ("add", "float32", 2, 3, 66), ("add", "float32", 20, 3, 211),
    ("add", "float32", 20, 10, 450), ("add", "float32", 20, 20, 869), ("mul", "float32", 10, 20, 449),
    ("adds", "float32", 1, 20, 76), ("adds", "float32", 1, 5, 61), ("adds", "float32", 10, 2, 121),
    ("adds", "float32", 10, 10, 201), ("adds", "float32", 20, 20, 583), ("adds", "float16", 1, 10, 66),
    ("exp", "float32", 1, 20, 102), ("exp", "float32", 3, 10, 122), ("exp", "float32", 20, 2, 199),
    ("exp", "float32", 10, 20, 462), ("exp", "float16", 10, 10, 463), ("exp", "float16", 1, 1, 69),
    ("sqrt", "float32", 20, 10, 463), ("div", "float32", 10, 10, 267),
    ("rsqrt", "float32", 1, 5, 96), ("rsqrt", "float32", 10, 20, 877), ("rsqrt", "float16", 3, 3, 154),
    ("cast", "float32", 1, 10, 65), ("cast", "float32", 1, 1, 53),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype", "rows", "vectors", "measured"), TILES)
def test_isolated_tiles(a5: ChipSpec, op: str, dtype: str, rows: int, vectors: int, measured: int) -> None:
    took = sum(a5.vector.cycles(op, dtype, 256 * vectors, rows=rows)) + a5.vector.latency
    assert took == pytest.approx(measured, rel=0.08)


def test_partly_filled_vectors_cost_whole_ones(a5: ChipSpec) -> None:
    assert a5.vector.cycles("adds", "float32", 260) == a5.vector.cycles("adds", "float32", 512)
