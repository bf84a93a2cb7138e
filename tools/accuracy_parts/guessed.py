"""What the guessed rule on blocks of the first 910 costs or brings, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import numpy as np

from accuracy_parts.rows import DW, DX, FIRST, simulated_of
from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_weight.procedures import images_first
from ascend_sim.studies.validate.pages import spearman
from ascend_sim.studies.validate.run import Comparison, compare

GUESSED = """The blocks of the first 910 follow from a rule on images and cores that was read off these rows (`images_first`,
guessed), so they are no blind test: with the procedures that are published all 56 rows, told nothing, have a mean of 39.7
%, a bias of -30.8 %, rank 0.826. (That of dW with K cut by divisors alone, as the unit tests of 2022 have it, takes the
measured number of blocks in 23 of 60 rows; `images_first` in 41.) No part of the rule asks for a measured row: it holds for
any number of images. More images than cores are dealt out to 32 blocks, the cores of the 910A, in two rounds on 30; dealt
out to the cores that there are, the rows it decides would be, measured and predicted in us with the blocks:

{table}

{sums}"""


def guessed(compared: Sequence[Comparison]) -> str:
    """Rows of dW with more images than cores, with the rule and without it, and the means of both over all rows of a batch."""
    cores = load_chip(FIRST).cores.aic
    ruled = simulated_of(compared, FIRST, (DW, DX))
    with mock.patch.object(images_first, "tiled_for", lambda: cores):
        plain = compare([one.row for one in ruled], jobs=1)
    lines = ["| batch | layer | measured | with 32 | error % | without | error % |", "|" + "---|" * 7]
    for one, other in zip(ruled, plain, strict=True):
        kernel = one.row.kernel
        if kernel.op_type == DW and kernel["N"] > cores:
            layer = f"{kernel['Ci']} -> {kernel['Co']}, {kernel['Hi']}x{kernel['Wi']}, {kernel['kh']}x{kernel['kw']}"
            layer += f" stride {kernel['stride_h']}" if kernel["stride_h"] > 1 else ""
            cells = [str(kernel["N"]), layer, f"{one.row.duration_us:.1f} ({one.row.cells['block_dim']})"]
            for found in (one, other):
                cells += [f"{found.prediction.task_us:.1f} ({found.prediction.blocks})", f"{100 * found.error:+.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    sums = [
        f"{name}: {_figures(with_rule)} with the rule, {_figures(without)} without."
        for name, with_rule, without in (
            ("The 56 rows of batch 16 and 64", *([o for o in rows if not o.row.series] for rows in (ruled, plain))),
            ("The 19 of batch 32", *([o for o in rows if o.row.series] for rows in (ruled, plain))),
        )
    ]
    return GUESSED.format(table="\n".join(lines), sums=" ".join(sums))


def _figures(rows: Sequence[Comparison]) -> str:
    errors = np.array([one.error for one in rows])
    rank = spearman([one.prediction.task_us for one in rows], [one.row.duration_us for one in rows])
    return f"mean {100 * np.abs(errors).mean():.1f} %, bias {100 * errors.mean():+.1f} %, rank {rank:.3f}"
