"""Writes docs/accuracy.md (which figures to trust, and known errors) and docs/accuracy-tables.md (all tables).

Usage: python tools/accuracy_page.py PAGE [--long] [--keep FOLDER]. The tables go to PAGE with "-tables" in its name. With
--long the products that take minutes each run too. FOLDER keeps what was predicted, and a run that was broken off goes on
from there. A note on a weakness stands on the page as long as the error is above its limit."""

from __future__ import annotations

import argparse
from pathlib import Path

from accuracy_parts import words
from accuracy_parts.aims import aims
from accuracy_parts.fitted import FITTED, fitted_costs
from accuracy_parts.guessed import guessed, unseen
from accuracy_parts.left_out import LEFT_OUT, left_out
from accuracy_parts.markdown import markdown
from accuracy_parts.mechanisms import mechanisms
from accuracy_parts.notes import notes
from accuracy_parts.picture import TEXT
from accuracy_parts.programs import POINTS, programs
from accuracy_parts.refit import refits, refitted
from accuracy_parts.rows import B2, DW, DX, FIRST, SIMULATED
from accuracy_parts.sealed import how_far_off, step
from accuracy_parts.structure import choices
from accuracy_parts.sure import intervals, sure
from accuracy_parts.tables import by_label, calls, headline, kernels, kind, layer, products, three_columns
from accuracy_parts.what_if import figures

from ascend_sim.report.files import atomic_write
from ascend_sim.runtime.workers import usable_cores
from ascend_sim.studies.validate.instruction_points import compare_points, shipped_points
from ascend_sim.studies.validate.launches import MATMULS
from ascend_sim.studies.validate.pages import group_by, group_points, points_text, skipped_lines
from ascend_sim.studies.validate.rows import FACTS, of_chips, sealed_rows, shipped_rows
from ascend_sim.studies.validate.run import compare


def main(page: str, long: bool, keep: Path | None) -> None:
    """Run all rows once, those of the 910B2 also with a cold L2, and write both pages."""
    if keep is not None:
        keep.mkdir(exist_ok=True)
    plain, helped, closed = shipped_rows(), shipped_rows(facts=FACTS), sealed_rows()
    chilled = of_chips([row for row in shipped_rows("cold") if row.kernel.op_type in SIMULATED], [B2])
    # equal kernels run once
    parts = (plain, helped, closed, chilled)
    every = iter(compare([row for rows in parts for row in rows], jobs=usable_cores(), long=long, out=keep))
    compared, with_facts, sealed, cold = ([next(every) for _ in rows] for rows in parts)
    groups = group_by(compared)
    on_b2 = [
        one
        for one in compared
        if one.row.kernel.chip == B2 and one.row.kernel.op_type in SIMULATED and not one.prediction.skipped
    ]
    asked = figures(compared)
    table, rows = calls(compared)
    write(
        Path(page),
        words.HEAD,
        how_far_off(compared, sealed),
        words.MEASURED,
        TEXT,
        words.CALLS_TEXT.format(**asked),
        sure(),
        "## Where it is weak, and why\n\n" + notes(groups),
        words.NOT_MODELLED,
    )
    write(
        Path(page).with_stem(f"{Path(page).stem}-tables"),
        words.TABLES,
        "## Task time by chip and operator\n\n" + three_columns(compared, with_facts),
        "## Convolutions of training steps\n\n" + headline(compared, with_facts),
        words.BLOCKS,
        step(),
        "## Whole calls\n\n"
        '"named": the source names the kernels. "inside": calls whose measured time lies in the sum of its kernels\' '
        f"intervals.\n\n{table}\n\n### Every call\n\n{rows}",
        words.V1_TRIED,
        "## Core and pipe times\n\n" + markdown([group for group in groups if group.core is not None]),
        "## Rows that are not simulated\n\n" + "\n".join(f"- {line}" for line in skipped_lines(groups)),
        "## Against the aims\n\n" + aims(compared, with_facts, sealed),
        guessed(compared),
        words.UNSEEN.format(unseen=unseen(compared)),
        LEFT_OUT.format(refitted=refitted(refits(plain, keep)))
        + "\n"
        + "\n".join([*left_out(compared, "none"), *left_out(with_facts, "all")]),
        intervals(),
        FITTED + "\n\n" + fitted_costs() + "\n\n" + choices(),
        mechanisms(),
        "## The four convolution kernels of the 910B2\n\nMean over repeats; measured / predicted.\n\n" + kernels(on_b2),
        "## Matrix products\n\nMean over repeats; measured / predicted.\n\n" + products(compared),
        "With facts:\n\n" + products([one for one in with_facts if one.row.kernel.op_type in MATMULS]),
        words.TRANS_DATA + "\n\n" + by_label(compared, B2, "TransData", kind),
        "## The first 910 by batch and kind of convolution\n\n"
        + "\n\n".join(
            f"{what}.\n\n{by_label(found, FIRST, op, layer)}"
            for what, found in (("Sizes only", compared), ("With the blocks", with_facts))
            for op in (DW, DX)
        ),
        programs(compared),
        POINTS + "\n\n" + "\n".join(f"- {line}" for line in points_text(group_points(compare_points(shipped_points())))),
        "## The 910B2 with a cold L2\n\n" + markdown(group_by(cold)),
        Path(__file__).with_name("tuned_tilings.md").read_text(encoding="utf-8").replace("../docs/", ""),
    )


def write(page: Path, *parts: str) -> None:
    """Write a page: its parts with an empty line between them."""
    with atomic_write(page) as file:
        file.write(("\n\n".join(part.strip("\n") for part in parts) + "\n").encode())
    print(f"wrote {page}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    main(given.page, given.long, given.keep)
