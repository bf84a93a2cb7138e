"""Measured against simulated: streams on all cores of a 910B1, single transfers, and the matmul sample's inner loop.

Usage: python tools/bench/bandwidth.py [spread in us ...]

The spread is how far apart the first and the last block are dispatched (default: the chip's); more than one prints the
streams once for each.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine"))

from streams import (
    CURVES,
    HITS,
    ROWS,
    hit_bandwidth,
    matmul_loop,
    single_transfer,
)

from ascend_sim.chip import ChipSpec, load_chip


def print_streams(chip: ChipSpec, spread_us: float | None) -> None:
    """The rows of the data_copy sample, TB/s of useful bytes."""
    dispatch = "as the chip says" if spread_us is None else f"within {spread_us:g} us"
    print(f"{chip.name}, cold L2, blocks dispatched {dispatch:20s} measured  simulated  ratio  sets")
    found = {}
    for row in ROWS:
        value = found[row.name] = row.simulated(chip, spread_us)
        print(f"{row.name:48s} {row.measured:9.3f} {value:10.3f} {value / row.measured:6.3f}  {row.sets}")
    for destination, prefix in (("UB", "UB"), ("L1", "L1 nd2nz")):
        value = hit_bandwidth(found[f"{prefix}, whole matrix x 4"], found[f"{prefix}, in 4 parts, each x 4"])
        measured = HITS[destination]
        name = f"{prefix}, L2 hits derived from the two rows"
        print(f"{name:48s} {measured:9.3f} {value:10.3f} {value / measured:6.3f}")
    print()


def print_transfers(chip: ChipSpec) -> None:
    """The msKPP curves, cycles of one transfer with nothing else under way."""
    print(
        f"{'path':10s} {'KiB':>4s} {'measured':>9s} {'to retirement':>14s} {'ratio':>6s} {'occupancy':>10s} {'ratio':>6s}"
    )
    for path, curve in CURVES.items():
        for kib, cycles in curve.items():
            occupied, whole = single_transfer(chip, path, kib)
            print(f"{path:10s} {kib:4d} {cycles:9.1f} {whole:14d} {whole / cycles:6.2f} ", end="")
            print(f"{occupied:10d} {occupied / cycles:6.2f}")
    print()


def main() -> None:
    """Print every table."""
    chip = load_chip("ascend910b1")
    for spread_us in [float(text) for text in sys.argv[1:]] or [None]:
        print_streams(chip, spread_us)
    print_transfers(chip)
    loop = matmul_loop(chip, 200)
    print(
        f"matmul step, cycles: M busy {loop.m_busy:.1f} (measured 522.0), MTE1 busy {loop.mte1_busy:.1f} (430), ",
        end="",
    )
    print(f"period {loop.period:.1f}")


if __name__ == "__main__":
    main()
