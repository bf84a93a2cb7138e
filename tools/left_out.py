"""Writes tools/left_out.md, a section of docs/accuracy.md: how far fits of costs go beyond the rows that they were made on.

Usage: python tools/left_out.py [PAGE]. The fits are those of tools/calibrate.py on the measured convolutions.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from calibrate import Bench, groups, value_of

from ascend_sim.report.files import atomic_write
from ascend_sim.validate import GRADIENTS, Row, shipped_rows
from ascend_sim.workers import usable_cores

FITTED = {
    "ascend910b": ("memory.hbm_gb_per_s", "paths.UB->GM.bytes_per_cycle", "launch.task_overhead_us.AI_CORE"),
    "ascend910b2": (
        "launch.core_start_us.AIC", "launch.task_overhead_us.AIC", "fixpipe.channel_split_bytes_per_cycle",
        "fixpipe.channel_split_atomic_bytes_per_cycle",
    ),
}  # fmt: skip
"""Costs whose source says that they were fitted to these rows."""

HEAD = """## Rows left out of the fit

The costs of a chip that were fitted to its convolution rows are fitted once more with `tools/calibrate.py`: on all rows, and
on all but one group, which is then predicted. Errors are means over rows of task times, in percent. "as shipped" is the chip
file, "fitted" the same fields set anew on all rows, "left out" every row under a fit without its group. All rows of a chip come
from one network (ResNet-50 on the first 910, AlexNet on the 910B2): a group is a layer or a batch of it, so this says less than
a second network would. Tilings and kernels were written with all these rows in view.

| chip | fields | rows | as shipped | fitted | left out: one {by} | worst {by} left out |
|---|---|---|---|---|---|---|"""


def main(page: str) -> None:
    """Fit and write the fragment."""
    lines = [HEAD.replace("{by}", "group")]
    for chip, fields in FITTED.items():
        rows = [
            row for row in shipped_rows()
            if row.kernel.chip == chip and row.kernel.op_type in GRADIENTS and not row.unlike and not row.series
        ]  # fmt: skip
        lines += table(chip, fields, rows)
    with atomic_write(page) as file:
        file.write(("\n".join(lines) + "\n").encode())
    print(f"wrote {page}")


def table(chip: str, fields: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """A line for every way to leave groups out."""
    start = {field: value_of(chip, field) for field in fields}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(chip, start, Path(folder), usable_cores())
        before, after = bench.percent(rows, start), bench.percent(rows, bench.fitted(rows))
        for by in ("layer", "batch"):
            _, parts = groups(rows, by)
            errors = bench.left_out(parts)
            if not errors:
                continue
            mean = float(np.average(list(errors.values()), weights=[len(parts[group]) for group in errors]))
            worst = max(errors, key=lambda group: errors[group])
            names = ", ".join(f"`{field}`" for field in fields)
            lines.append(
                f"| {chip} | {names} | {len(rows)} | {before:.1f} | {after:.1f} | {by}: {mean:.1f} | "
                f"{errors[worst]:.1f} ({worst}) |"
            )
    return lines


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    main(sys.argv[1] if len(sys.argv) == 2 else str(Path(__file__).with_name("left_out.md")))
