"""`ascend-sim format NAME`: a number format, and how a number is rounded to it."""

from __future__ import annotations

from typing import Annotated

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.completing import formats
from ascend_sim.cli.terminal import print_text


@app.command("format", epilog="Example:  ascend-sim format hifloat8 --value 0.1 --rounding hybrid")
def format_command(
    name: Annotated[
        str, typer.Argument(help="A number format: float16, bf16, hf32, hifloat8, float8_e4m3fn, ...", autocompletion=formats)
    ],
    value: Annotated[str | None, typer.Option(help="A number to round step by step, such as 0.1, inf or nan.")] = None,
    rounding: Annotated[str | None, typer.Option(help="A cast mode of the format; default: its first.")] = None,
    mantissa_bits: Annotated[int | None, typer.Option(help="For hf32: 11 (910B, 910_93) or 10 (950).")] = None,
) -> None:
    """Explain a number format: layout, range, special codes, spacing, and how a number is rounded to it."""
    from ascend_sim.studies.lookup.formats import explain_format

    with errors(as_json=False):
        print_text(explain_format(name, value, rounding=rounding, mantissa_bits=mantissa_bits).rstrip("\n"))
