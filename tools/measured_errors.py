"""Writes configs/measurements/errors.yaml: how far the measured kernels that ship lie from what is predicted from sizes only;
and their picture, docs/images/accuracy.png.

Errors are those of the prediction that ships; where costs can be fitted again (`accuracy_parts/refit.py`) those of costs that
were fitted without the kernel's layer stand beside them.

Usage: python tools/measured_errors.py [--long] [--keep FOLDER]. Some minutes; with --long the products that take minutes each
run too. FOLDER keeps what was predicted, and a run that was broken off goes on from there (.accuracy serves tools/accuracy
as well). `ascend_sim.report.certainty` says what is made of it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from accuracy_parts.picture import PICTURE, draw
from accuracy_parts.refit import Refit, refits
from accuracy_parts.rows import ordered_products, out_of_order

from ascend_sim.chip import load_chip
from ascend_sim.report import certainty
from ascend_sim.report.files import atomic_write
from ascend_sim.runtime.workers import usable_cores
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.launches import CALLS, MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.rows import shipped_rows
from ascend_sim.studies.validate.run import RowComparison, as_timed, compare

FILE = Path(__file__).parents[1] / "configs" / "measurements" / "errors.yaml"
NETWORKS = ("alexnet", "ascdevkit_matmul", "kernelbench")
"""Beginnings of the names of runs that are of one network or sample; every other run is one of its own."""
HEAD = """# Measured over predicted times of the measured kernels here, from sizes only. Made by tools/measured_errors.py.
# A kind is an architecture, the operators of one kernel, whether it is grouped, and the version of the library where it
# depends on it. By chip and network or run: [predicted us, measured over predicted] of its distinct kernels, of repeats the
# geometric mean, as shipped; where costs were fitted on rows of a kind (but products), also measured over what is predicted by
# costs that were fitted without the kernel's layer. Calls of several kernels are left out: only their sum was measured.
# AlexNet's products are predicted with the L2 that the step's earlier kernels leave, as `validate` predicts a profile.
kinds:
"""

Key = tuple[str, tuple[str, ...], bool, str]


def kind_of(one: RowComparison) -> Key | None:
    """Architecture, operators, grouped or not, and library of a row; None for one that measures no single kernel."""
    kernel = one.row.kernel
    if one.prediction.skipped or kernel.op_type in MICROBENCHMARKS:
        return None
    op_type = kernel.op_type
    if op_type in CALLS:
        if len(one.prediction.kernels) != 1:
            return None
        op_type = one.prediction.kernels[0][0]
    op_types = MATMULS if op_type in MATMULS else (op_type,)
    return load_chip(kernel.chip).identity.arch, op_types, kernel.get("groups", 1) > 1, kernel.label("library")


def network_of(run: str) -> str:
    """The network or run that a row belongs to."""
    return next((name for name in NETWORKS if run.startswith(name)), run)


def text_of(compared: Sequence[RowComparison], again: Sequence[Refit] = ()) -> str:
    """The file; `again` has the left-out times of kernels whose costs were fitted again."""
    left_out = {kernel: us for found in again for kernel, us in found.left_out.items()}
    kinds: dict[Key, dict[tuple[str, str], dict[MeasuredKernel, list[RowComparison]]]] = {}
    for one in compared:
        key = kind_of(one)
        if key is not None:
            place = load_chip(one.row.kernel.chip).name, network_of(one.row.cells["run"])
            rows = kinds.setdefault(key, {}).setdefault(place, {})
            rows.setdefault(as_timed(one.row.kernel), []).append(one)
    lines = []
    for (arch, op_types, grouped, library), places in sorted(kinds.items()):
        lines += [
            f"- arch: {arch}",
            f"  op_types: [{', '.join(op_types)}]",
            f"  grouped: {str(grouped).lower()}",
            f'  library: "{library}"',
            "  errors:",
        ]
        before = ""
        for (chip, network), kernels in sorted(places.items()):
            lines += [f"    {chip}:"] if chip != before else []
            before = chip
            rows = []
            for kernel, found in kernels.items():
                us = found[0].prediction.task_us
                measured = math.exp(fmean(math.log(one.row.duration_us) for one in found))
                ratios = [f"{measured / time:.4f}" for time in (us, *([left_out[kernel]] if kernel in left_out else []))]
                rows.append((us, f"[{us:.2f}, {', '.join(ratios)}]"))
            lines.append(f"      {network}: [{', '.join(text for _, text in sorted(rows))}]")
    return HEAD + "\n".join(lines) + "\n"


def main(long: bool, keep: Path | None) -> None:
    """Run all rows and write the file."""
    if keep is not None:
        keep.mkdir(exist_ok=True)
    rows = shipped_rows()
    known = [row for row in rows if not out_of_order(row)] + ordered_products()
    compared = compare(known, jobs=usable_cores(), long=long, out=keep)
    with atomic_write(FILE) as file:
        file.write(text_of(compared, refits(rows, keep)).encode())
    print(f"wrote {FILE}")
    certainty.kinds.cache_clear()  # fits in this process have read the file as it was
    draw()
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    main(given.long, given.keep)
