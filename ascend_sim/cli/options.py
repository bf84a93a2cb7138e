"""Arguments and options that several commands have, each with its help text."""

from __future__ import annotations

from typing import Annotated

import typer

from ascend_sim.cli.completing import CASES, CHIPS

Case = Annotated[
    str,
    typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.", autocompletion=CASES),
]
Chip = Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.", autocompletion=CHIPS)]
OneChip = Annotated[str, typer.Option(help="Chip name or chip file.", autocompletion=CHIPS)]
CubeMathType = Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")]
Conformance = Annotated[str | None, typer.Option(help="documented or library; default: the case's.")]
Deterministic = Annotated[
    bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
]
Accumulate = Annotated[str, typer.Option(help="Model of the cube's sums: blas, chunk or exact_group.")]
Overflow = Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")]
Library = Annotated[
    str | None, typer.Option(help="Version of the vendor's kernels: 9.0.0, 2026-08; default: the newest.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")]
