"""`ascend-sim sweep CASE --vary FIELD=VALUES ...`: a case under every combination of settings."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors, make_folder
from ascend_sim.cli.completing import varied_fields
from ascend_sim.cli.options import Case, Jobs, command
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_json, print_written
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.options.short_names import full_column
from ascend_sim.report.columns import counted
from ascend_sim.studies.sweep.options import SweepOptions


@frozen
class SweepPictures:
    """Options for the pictures of a sweep: a heat map over two fields, and a Pareto front."""

    heat_map: Annotated[Path | None, typer.Option(help="Write a heat map over two of the fields to this PNG.")] = None
    axes: Annotated[str, typer.Option(help="X,Y: the two fields of the heat map; default: the first two.")] = ""
    column: Annotated[str, typer.Option("--of", help="The column that the heat map shows.")] = "us"
    pareto: Annotated[str, typer.Option(help="X,Y: mark the rows that no other beats in both columns: us,l1 or us,error.")] = ""
    pareto_plot: Annotated[Path | None, typer.Option(help="Draw that front (us,l1 by default) to this PNG.")] = None


@frozen
class SweepRows:
    """Options for the printed rows and columns of a sweep, and their form."""

    table: Annotated[Path | None, typer.Option(help="Write every row and column to this .csv or .parquet file.")] = None
    columns: Annotated[str, typer.Option(help="Columns to print, with commas.")] = ""
    top: Annotated[int, typer.Option(min=1, help="Rows to print, shortest time first.")] = 20
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False


@command(
    epilog="Examples:  ascend-sim sweep strided --vary baseM=64,128 --vary batch=1:64:*2   |   "
    "ascend-sim sweep fp32_keep --vary cube_math_type=0,1,2,3 --mode full --pareto us,error   |   "
    "ascend-sim sweep strided --vary chip.memory.hbm_gb_per_s=400:1600:400 --vary size=14,28 --heat-map hbm.png"
)
def sweep(
    case: Case,
    vary: Annotated[
        list[str],
        typer.Option(
            help="FIELD=VALUES, again for more fields; values with commas, FIRST:LAST:STEP or FIRST:LAST:*FACTOR. "
            "Sizes may have a unit: 512KiB. FIELD,FIELD=[A,B],[C,D] varies two together. Fields: of a case file, batch, "
            "in_channels, size, kernel_size, ..., baseM, grad_input.baseM, chip, chip.SECTION.NUMBER.",
            autocompletion=varied_fields,
        ),
    ],
    asked: SweepOptions,
    pictures: SweepPictures,
    rows: SweepRows,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the store; default: sweep-CASE. The same command goes on from there.")
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler in place of processes: tcp://HOST:PORT.")] = None,
    jobs: Jobs = None,
) -> None:
    """Run a case under every combination of the varied fields; a point that is refused is a row with its reason.

    Exit code 2 where all points are.

    Every finished point is kept at once: a sweep that was killed goes on where it was, and two commands on one folder share
    the work.
    """
    from ascend_sim.ops.case import case_label, load_case
    from ascend_sim.report.png import check_png
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.sweep import pages
    from ascend_sim.studies.sweep.point import columns_of
    from ascend_sim.studies.sweep.run import sweep as run_sweep
    from ascend_sim.studies.sweep.values import grouped, parse_vary

    begin = time.monotonic()
    with errors(rows.json_output):
        for option, picture in (("--heat-map", pictures.heat_map), ("--pareto-plot", pictures.pareto_plot)):
            if picture is not None:
                check_png(picture, option)
        if rows.table is not None:
            pages.check_table(rows.table)
        shown = [full_column(name.strip()) for name in rows.columns.split(",") if name.strip()]
        column = full_column(pictures.column)
        known = columns_of(load_case(case).operator, asked["mode"], asked["tile"])
        varied = [parse_vary(text) for text in vary]
        for name, _ in varied:
            if [one for one, _ in varied].count(name) > 1:
                raise ConfigError(f"--vary {name}: given twice; its values stand in one list")
        groups = grouped(dict(varied))
        fields = {name: given for group, given in groups.items() for name in group}
        chosen_axes, front_of = _pair("--axes", pictures.axes), _pair("--pareto", pictures.pareto)
        if pictures.heat_map is not None:
            # Of fields that vary together the first stands for all.
            chosen_axes = pages.axes_of(
                fields if chosen_axes else {group[0]: given for group, given in groups.items()}, chosen_axes
            )
        known = [*fields, *known]
        for option, names in (("--columns", shown), ("--of", [column]), ("--pareto", front_of)):
            for name in names:
                if name not in known:
                    raise SimError(f"{option} {name}: no such column; there are {', '.join(known)}")
        folder = out or Path(f"sweep-{case_label(case)}")
        make_folder(folder)
        if scheduler is not None and sys.stderr.isatty():  # as all that tells of progress
            print(f"asking the scheduler {scheduler} ...", file=sys.stderr)
        with Progress("points", at_once=True) as progress:
            jobs = jobs or usable_cores()
            found = run_sweep(case, dict(varied), out=folder, jobs=jobs, scheduler=scheduler, progress=progress, **asked)
        front = found.front(*(front_of or ("us", "l1"))) if front_of or pictures.pareto_plot else []
        if rows.table is not None:
            pages.write_table(found, rows.table)
        if pictures.heat_map is not None:
            pages.heat_map(found, pictures.heat_map, column=column, axes=chosen_axes)
        if pictures.pareto_plot is not None:
            pages.pareto_plot(found, pictures.pareto_plot, *(front_of or ("us", "l1")))
        if rows.json_output:
            print_json(found.to_dict())
        else:
            pages.render(found, console(), top=rows.top, columns=shown or None, front=front)
            print_written([rows.table, pictures.heat_map, pictures.pareto_plot])
        again = f"; {counted(found.reused, 'result')} {'was' if found.reused == 1 else 'were'} there before"
        again *= bool(found.reused)
        print(f"took {time.monotonic() - begin:.1f} s; results are kept in {folder}{again}", file=sys.stderr)
        if not found.complete:
            raise KeyboardInterrupt
        if not found.ran:
            raise typer.Exit(2)


def _pair(option: str, text: str) -> tuple[str, str] | tuple[()]:
    """Return the full names of the two columns in a text "X,Y", () for an empty text. Raises SimError unless they are two
    different names.
    """
    names = [full_column(name.strip()) for name in text.split(",")]
    if not text.strip():
        return ()
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise SimError(f"{option} {text}: allowed are two different names with a comma between them")
    return names[0], names[1]
