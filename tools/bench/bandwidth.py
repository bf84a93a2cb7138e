"""Measured against simulated: streams on all cores of a 910B1, single transfers, and the matmul sample's inner loop.

Usage: python tools/bench/bandwidth.py [spread in us ...]

The spread is how far apart the first and the last block are dispatched (default: the chip's); more than one prints the
streams once for each. The rows are those of configs/measurements/microbench.csv.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.launches import stream_of
from ascend_sim.studies.validate.microbench import KIB, measure, run_alone, single_transfer
from ascend_sim.studies.validate.rows import shipped_rows

ALL_CORES_HITS = {"UB": 6.02, "L1 nd2nz": 5.04}
"""TB/s of the L2 hits in "in 4 parts, each x 4": 3/4 of the bytes over its time less 1/4 of that of "whole matrix x 4"
[derived]."""
CURVES = ("GM->L1", "UB->GM", "L0C->GM")
POWERS = tuple(1024 << power for power in range(10))


def name_of(row: MeasuredRow) -> str:
    """A stream in words."""
    kernel = row.kernel
    prefix = "UB" if kernel.label("path") == "GM->UB" else "L1 nd2nz"
    if kernel.get("repeats", 1) > 1:
        parts = kernel.get("splits", 1)
        return f"{prefix}, in {parts} parts, each x 4" if parts > 1 else f"{prefix}, whole matrix x 4"
    size = 2 * kernel["tile_n"]
    row_bytes = f"{size // 1024} KB" if size >= 1024 else f"{size} B"
    return f"{prefix}, {kernel['tile_m']} x {row_bytes}" + (", unaligned" if kernel["N"] % 2 else "")


def bandwidth(row: MeasuredRow, us: float) -> float:
    """TB/s (1e12) of useful bytes."""
    return stream_of(row.kernel).useful_bytes / us / 1e6


def hit_bandwidth(whole: float, parts: float) -> float:
    """TB/s of L2 hits from the two bandwidths, by the derivation of `ALL_CORES_HITS`."""
    return 0.75 / (1 / parts - 0.25 / whole)


def print_streams(chip: ChipSpec, rows: Iterable[MeasuredRow], spread_us: float | None) -> None:
    """The rows of the data_copy sample, TB/s of useful bytes."""
    dispatch = "as the chip says" if spread_us is None else f"within {spread_us:g} us"
    print(f"{chip.name}, cold L2, blocks dispatched {dispatch:20s} measured  simulated  ratio  sets")
    found = {}
    for row in rows:
        stream = stream_of(row.kernel)
        run = measure(chip, stream.shortened(stream.cores(chip)), spread_us)
        value = run.by_core if row.kernel.label("quantity") == "core" else run.by_mte2
        measured = bandwidth(row, row.duration_us)
        found[name_of(row)] = value
        print(f"{name_of(row):48s} {measured:9.3f} {value:10.3f} {value / measured:6.3f}  {row.cells['sets']}")
    for prefix, measured in ALL_CORES_HITS.items():
        value = hit_bandwidth(found[f"{prefix}, whole matrix x 4"], found[f"{prefix}, in 4 parts, each x 4"])
        name = f"{prefix}, L2 hits derived from the two rows"
        print(f"{name:48s} {measured:9.3f} {value:10.3f} {value / measured:6.3f}")
    print()


def print_transfers(chip: ChipSpec, rows: Iterable[MeasuredRow]) -> None:
    """The msKPP curves, cycles of one transfer with nothing else under way."""
    print(f"{'path':10s} {'KiB':>4s} {'measured':>9s} {'to retirement':>14s} {'ratio':>6s} {'occupancy':>10s} {'ratio':>6s}")
    for row in rows:
        path, nbytes, cycles = row.kernel.label("path"), row.kernel["nbytes"], float(row.cells["cycles"])
        if path in CURVES and nbytes in POWERS:
            occupied, whole = single_transfer(chip, path, nbytes)
            print(f"{path:10s} {nbytes // 1024:4d} {cycles:9.1f} {whole:14d} {whole / cycles:6.2f} ", end="")
            print(f"{occupied:10d} {occupied / cycles:6.2f}")
    print()


@frozen
class InnerLoop:
    """Measured cycles per step of the matmul sample's inner loop: busy cycles of M and of MTE1, and cycles from step to
    step.
    """

    m_busy: float
    mte1_busy: float
    period: float


def matmul_loop(chip: ChipSpec, steps: int) -> InnerLoop:
    """Run `steps` steps of the matmul sample's inner loop, operands in L1, and return mean cycles of one step as an
    InnerLoop.

    A step is one load3d of 16 KB, four load2d of 8 KB, one fp16 Mmad 128 x 64 x 256.
    """

    def build(k: KernelBuilder) -> None:
        left = [k.allocate("L0A", 16 * KIB, f"l0a[{i}]") for i in range(2)]
        right = [k.allocate("L0B", 32 * KIB, f"l0b[{i}]") for i in range(2)]
        sums = k.allocate("L0C", 128 * KIB, "l0c")
        map_in_l1, weights_in_l1 = k.allocate("L1", 16 * KIB, "map"), k.allocate("L1", 32 * KIB, "weights")
        # A 1 x 1 kernel over one row of 128 pixels and 64 channels: img2col is the plain matrix.
        window, rows, columns = matrix_window(128), Span(0, 128), Span(0, 64)
        queue = BufferQueue(k, "l0", "MTE1", "M", [0, 1])
        for step in range(steps):
            half = queue.acquire()
            k.load_data_3d("L0A", left[half], map_in_l1, 2, window, rows, columns)
            for quarter in range(4):
                offset = quarter * 8 * KIB
                k.load_data_2d("L0B", right[half] + offset, weights_in_l1 + offset, 2, 16)
            queue.publish()
            half = queue.take()
            k.mmad(sums, left[half], right[half], 128, 64, 256, "float16", step > 0)
            queue.release()
        queue.close()

    run = run_alone(chip, "AIC", build, 0)
    busy = run.busy()
    mmads = np.flatnonzero(run.program.per_row("pipe") == PIPES.index("M"))
    work = mmads[run.end[mmads] > run.start[mmads] + 500]
    period = (run.start[work[-1]] - run.start[work[0]]) / (len(work) - 1)
    return InnerLoop(busy["M"] / steps, busy["MTE1"] / steps, float(period))


def main(spreads: Sequence[float]) -> None:
    """Print every table."""
    chip = load_chip("ascend910b1")
    rows = [row for row in shipped_rows() if row.kernel.chip == chip.name]
    streams = [row for row in rows if row.kernel.op_type == "DataCopyStream"]
    for spread_us in spreads or [None]:
        print_streams(chip, streams, spread_us)
    print_transfers(chip, [row for row in rows if row.kernel.op_type == "DataCopy"])
    loop = matmul_loop(chip, 200)
    print(f"matmul step, cycles: M busy {loop.m_busy:.1f} (measured 522.0), MTE1 busy {loop.mte1_busy:.1f} (430), ", end="")
    print(f"period {loop.period:.1f}")


if __name__ == "__main__":
    from asked import arguments  # which stands beside the script

    main([float(text) for text in arguments()])
