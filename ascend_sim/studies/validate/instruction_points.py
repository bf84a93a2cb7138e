"""Published cycles of single vector tile operations against the chip files' vector costs.

    compared = compare_points(shipped_points())
    compared[0].precision

A point is one tile operation (`rows` x `cols` elements, rows `pitch` elements apart) or a line in the number of 256-byte
repeats, `fixed` + `per_repeat` x repeats. Both tiles of a two-source operation lie in the same banks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.frozen import frozen

CHIPS = {"dav-2201": "ascend910b3", "dav-3510": "ascend950pr_9589"}
"""The chip whose file gives an architecture's costs; vector costs belong to the architecture."""

OPERATIONS = {
    "TADD": "add", "TSUB": "sub", "TMUL": "mul", "TMAX": "max", "TDIV": "div", "TSEL": "select", "TADDS": "adds",
    "TMAXS": "maxs", "TMINS": "mins", "TRELU": "relu", "TLRELU": "leaky_relu", "TMULS": "muls", "TNEG": "muls", "TDIVS": "div",
    "TEXP": "exp", "TLOG": "ln", "TSQRT": "sqrt", "TRSQRT": "rsqrt", "TCVT": "cast", "TTRANS": "transpose",
    "TAND": "and", "TOR": "or", "TROWSUM": "reduce_sum", "TROWMAX": "reduce_max",
}  # fmt: skip
_TWO_SOURCES = ("TADD", "TSUB", "TMUL", "TMAX", "TDIV", "TAND", "TOR")
_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "int16": "int16", "int32": "int32"}
_SIZES = {"fp16": 2, "bf16": 2, "fp32": 4, "int16": 2, "int32": 4, "int8": 1, "uint8": 1}
_LINE_REPEATS = (8, 64)  # a line is compared at both, the worse one counts


@frozen
class PublishedPoint:
    """One published figure on a vector tile operation: `cycles` for a tile of `rows` x `cols`, or a line with `cycles` None."""

    arch: str
    operation: str
    source: str
    target: str
    rows: int
    cols: int
    pitch: int
    cycles: float | None
    fixed: float
    per_repeat: float


@frozen
class ComparedPoint:
    """A published point with the chip file's prediction in cycles; `skipped` is the reason why there is none.

    `predicted` and `published` are both 0 if it is skipped, even if the point has a published figure.
    """

    point: PublishedPoint
    predicted: float = 0.0
    published: float = 0.0
    skipped: str = ""

    @property
    def precision(self) -> float:
        """Return 1 - abs(predicted - published) / published; 1 is exact. Raises ZeroDivisionError for a skipped point."""
        return 1 - abs(self.predicted - self.published) / self.published


def shipped_points() -> list[PublishedPoint]:
    """Return the published points of the package's vector_tiles.csv."""
    path = Path(str(files("ascend_sim.configs"))) / "measurements" / "points" / "vector_tiles.csv"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    points = []
    for row in csv.DictReader(lines):
        names = row["arch"], row["operation"], row["source"], row["target"]
        sizes = int(row["rows"] or 0), int(row["cols"] or 0), int(row["pitch"] or 0)
        cycles, of_line = float(row["cycles"]) if row["cycles"] else None, (row["fixed"], row["per_repeat"])
        points.append(PublishedPoint(*names, *sizes, cycles, *(float(number or 0) for number in of_line)))
    return points


def compare_points(points: Iterable[PublishedPoint]) -> list[ComparedPoint]:
    """Return every point with the prediction of its architecture's chip, in order; `skipped` where the chip file has no cost.

    Of a line the worse of its values at 8 and at 64 repeats is compared. Raises KeyError for an architecture that CHIPS lacks.
    """
    chips = {arch: load_chip(name) for arch, name in CHIPS.items()}
    return [_compare(point, chips[point.arch]) for point in points]


def _compare(point: PublishedPoint, chip: ChipSpec) -> ComparedPoint:
    operation = OPERATIONS.get(point.operation, "")
    if operation not in chip.vector.ops:
        return ComparedPoint(point, skipped=f"no cost of {point.operation}")
    known = point.source in _SIZES and point.target in _SIZES
    wide = max(point.source, point.target, key=lambda name: _SIZES[name]) if known else ""
    dtype = _DTYPES.get(wide, "")
    if dtype not in chip.vector.ops[operation].cycles_per_repeat:
        return ComparedPoint(point, skipped=f"no cost of {point.operation} {point.source} to {point.target}")
    conflict = point.operation in _TWO_SOURCES
    if point.cycles is None:
        found = []
        for repeats in _LINE_REPEATS:
            cycles = sum(chip.vector.cycles(operation, dtype, repeats * chip.vector.repeat_bytes, conflict))
            found.append(ComparedPoint(point, cycles, point.fixed + repeats * point.per_repeat))
        return min(found, key=lambda compared: compared.precision)
    row_bytes, rows = point.cols * _SIZES[wide], point.rows
    if point.pitch == point.cols and chip.vector.row_overhead is None:  # back to back: one run of repeats
        row_bytes, rows = row_bytes * rows, 1
    cycles = sum(chip.vector.cycles(operation, dtype, row_bytes, conflict, rows)) + chip.vector.latency
    return ComparedPoint(point, cycles, point.cycles)
