"""`ascend-sim chips [NAME]` and `ascend-sim chips --compare A B ...`."""

from __future__ import annotations

from typing import Annotated

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.completing import CHIPS
from ascend_sim.cli.terminal import console
from ascend_sim.errors import SimError


@app.command(epilog="Examples:  ascend-sim chips ascend910b3   |   ascend-sim chips --compare ascend910a ascend910b3")
def chips(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A chip's name or file; without it, all are listed.", autocompletion=CHIPS),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Print the named chips (A B, or A,B) side by side.")] = False,
) -> None:
    """List the chips, print every number of one with its source, or compare some."""
    from ascend_sim.chip import chip_of
    from ascend_sim.studies.lookup.chips import chip_detail, chips_table, compare_table

    with errors(as_json=False):
        specs = [chip_of(name) for text in names or () for name in text.split(",")]
        if compare and len(specs) < 2:
            raise SimError("chips --compare: give two chips or more, for example --compare ascend910a ascend910b3")
        if not compare and len(specs) > 1:
            raise SimError(f"chips: one chip at a time, got {len(specs)}; --compare prints them side by side")
        table = compare_table(specs) if compare else chip_detail(specs[0]) if specs else chips_table()
        console().print(table)
