"""Writes tools/left_out.md, a section of docs/accuracy.md: how far fits of costs go beyond the rows that they were made on.

Usage: python tools/left_out.py [PAGE]. The fits are those of tools/calibrate.py on the measured convolutions.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from calibrate import Bench, groups, value_of

from ascend_sim.report.files import atomic_write
from ascend_sim.validate import GRADIENTS, Row, shipped_rows
from ascend_sim.workers import usable_cores

B2_FIELDS = (
    "launch.core_start_us.AIC", "launch.task_overhead_us.AIC", "fixpipe.channel_split_bytes_per_cycle",
    "fixpipe.channel_split_atomic_bytes_per_cycle",
)  # fmt: skip
FIRST_FIELDS = ("memory.hbm_gb_per_s", "paths.UB->GM.bytes_per_cycle")
"""Costs whose source says that they were fitted to these rows."""

HEAD = """## Rows left out of the fit

Costs of a chip that were fitted to its convolution rows are fitted once more with `tools/calibrate.py`: on all rows, and on all
but one group, which is then predicted. Errors are means over rows of task times, in percent. "as shipped" is the chip file,
"fitted" the same fields set anew on all these rows, "left out" every row under a fit that has not seen its group. All rows of
a chip come from one network (ResNet-50 on the first 910, AlexNet on the 910B2), so a group is a layer or a batch of it, which
says less than a second network would; tilings and kernels were written with all these rows in view.

| chip | rows | fields | as shipped | fitted | left out | worst |
|---|---|---|---|---|---|---|"""


def main(page: str) -> None:
    """Fit and write the section."""
    b2, first = (convolutions(chip) for chip in ("ascend910b2", "ascend910b"))
    by_batch = {n: [row for row in first if row.kernel["N"] == n] for n in (16, 64)}
    lines = [
        HEAD,
        one_group_at_a_time("ascend910b2", b2, B2_FIELDS),
        one_group_at_a_time("ascend910b", by_batch[16], FIRST_FIELDS),
        fitted_here_used_there("ascend910b", by_batch, FIRST_FIELDS),
    ]
    with atomic_write(page) as file:
        file.write(("\n".join(lines) + "\n").encode())
    print(f"wrote {page}")


def convolutions(chip: str) -> list[Row]:
    """The rows of a chip's gradients that are compared with the aims."""
    return [
        row for row in shipped_rows()
        if row.kernel.chip == chip and row.kernel.op_type in GRADIENTS and not row.unlike and not row.series
    ]  # fmt: skip


def one_group_at_a_time(chip: str, rows: Sequence[Row], fields: Sequence[str]) -> str:
    """A line: every layer left out in turn."""
    with tempfile.TemporaryDirectory() as folder:
        bench = _bench(chip, fields, folder)
        before, after = bench.percent(rows, bench.start), bench.percent(rows, bench.fitted(rows))
        _, parts = groups(rows, "layer")
        layers: dict[str, list[Row]] = {}
        for name, mine in parts.items():  # both gradients of a layer are one group
            layers.setdefault(name.split(" ", 1)[1], []).extend(mine)
        errors = bench.left_out(layers)
    mean = float(np.average(list(errors.values()), weights=[len(layers[layer]) for layer in errors]))
    worst = max(errors, key=lambda layer: errors[layer])
    size = _batches(rows)
    return _line(
        chip,
        f"{len(rows)}, {size}",
        fields,
        before,
        after,
        f"{len(layers)} layers: {mean:.1f}",
        f"{errors[worst]:.1f}: {worst}",
    )


def fitted_here_used_there(chip: str, rows: Mapping[int, Sequence[Row]], fields: Sequence[str]) -> str:
    """A line: one batch fitted, the other predicted."""
    (known, _), (unseen, others) = rows.items()
    with tempfile.TemporaryDirectory() as folder:
        bench = _bench(chip, fields, folder)
        values = bench.fitted(rows[known])
        before, error = bench.percent(others, bench.start), bench.percent(others, values)
    return _line(chip, f"{len(others)}, batch {unseen}", fields, before, None, f"fit on batch {known}: {error:.1f}", "")


def _bench(chip: str, fields: Sequence[str], folder: str) -> Bench:
    return Bench(chip, {field: value_of(chip, field) for field in fields}, Path(folder), usable_cores(), FACTORS)


FACTORS = (0.7, 1.0, 1.4)


def _batches(rows: Sequence[Row]) -> str:
    return "batch " + " and ".join(str(n) for n in sorted({row.kernel["N"] for row in rows}))


def _line(
    chip: str, rows: str, fields: Sequence[str], before: float, after: float | None, left_out: str, worst: str
) -> str:
    names = ", ".join(f"`{field}`" for field in fields)
    fitted = "-" if after is None else f"{after:.1f}"
    return f"| {chip} | {rows} | {names} | {before:.1f} | {fitted} | {left_out} | {worst} |"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    main(sys.argv[1] if len(sys.argv) == 2 else str(Path(__file__).with_name("left_out.md")))
