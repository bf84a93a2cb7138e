"""`ascend-sim validate`: simulated against measured kernels."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors, make_folder
from ascend_sim.cli.options import Jobs, command
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_json, print_text, print_written
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen


@frozen
class ValidateFiles:
    """Options for the files that a comparison with measured rows writes, and for what it prints."""

    csv_output: Annotated[
        Path | None, typer.Option("--csv", help="Write all rows with predictions and their 80 % intervals to this file.")
    ] = None
    plot: Annotated[Path | None, typer.Option(help="Write predicted against measured to this PNG file.")] = None
    out: Annotated[
        Path | None, typer.Option(help="Folder of a store: finished kernels are kept, and the same command goes on.")
    ] = None
    json_output: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False


@command(
    epilog="Examples:  ascend-sim validate --chip ascend910b2 --csv rows.csv --plot accuracy.png   |   "
    "ascend-sim validate --rows PROF_000001/ --chip ascend910b3"
)
def validate(
    files: ValidateFiles,
    chip: Annotated[
        str | None, typer.Option(help="Only rows of these chips, with commas; the chip of a profiler's table; a chip file.")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="Your own rows: CSV, op_summary_*.csv, kernel_details.csv or a PROF_* folder. Default: shipped."),
    ] = None,
    facts: Annotated[
        str,
        typer.Option(
            help="Measured facts that the prediction may use, with commas: block_dim (the row's blocks), tiling (of a MatMul). "
            "Default: none."
        ),
    ] = "",
    l2: Annotated[
        str | None,
        typer.Option(
            help="What the L2 holds, where a row does not say it. warm: a kernel finds its inputs in the L2, as far as they "
            "fit; cold: nothing; step: what the earlier kernels of a profile leave, which is the default of a profile with "
            "start times."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every group, pipe, small program and note.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Run the rows that take minutes too (MatMul of 8192 and more).")] = False,
    jobs: Jobs = None,
) -> None:
    """Compare simulated with measured kernels: errors of task, core and pipe times by chip and operator."""
    from ascend_sim.report.files import write_text
    from ascend_sim.report.png import check_png
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.validate import pages, scatter, summary
    from ascend_sim.studies.validate.instruction_points import compare_points, shipped_points
    from ascend_sim.studies.validate.run import INTERRUPTED
    from ascend_sim.studies.validate.run import validate as run_rows

    begin = time.monotonic()
    with errors(files.json_output):
        if files.plot is not None:
            check_png(files.plot)
        if files.csv_output is not None and not files.csv_output.parent.is_dir():
            raise SimError(f"--csv {files.csv_output}: there is no folder {files.csv_output.parent}")
        if files.out is not None:
            make_folder(files.out)
        with Progress("kernels", at_once=True) as progress:
            compared = run_rows(
                rows,
                chips=chip.split(",") if chip else (),
                l2=l2,
                facts=[name.strip() for name in facts.split(",") if name.strip()],
                jobs=jobs or usable_cores(),
                progress=progress,
                long=long,
                out=files.out,
            )
        if files.csv_output is not None:
            write_text(files.csv_output, pages.csv_text(compared))
        if files.plot is not None:
            scatter.plot(compared, files.plot)
        # Published points are of architectures: they belong to the whole table.
        shipped = rows is None and chip is None
        points = pages.group_points(compare_points(shipped_points())) if shipped else []
        if files.json_output:
            verdict = summary.ValidationSummary.of(compared)
            figures = {"summary": verdict and verdict.to_dict(), **pages.to_dict(compared)}
            print_json(figures | ({"points": list(map(asdict, points))} if shipped else {}))
        else:
            (pages.render if full else summary.render_summary)(compared, console())
            for line in pages.points_text(points) if full else ():
                print_text(line)
            print_written([files.csv_output, files.plot])
        print(f"took {time.monotonic() - begin:.1f} s", file=sys.stderr)
        if any(one.prediction.skipped == INTERRUPTED for one in compared):
            raise KeyboardInterrupt
