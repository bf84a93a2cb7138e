"""`ascend-sim precision`, `run-network`, `validate` and `tile`: many runs, and tables of them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from ascend_sim.cli.app import OptionalValues, app, errors, make_folder
from ascend_sim.cli.progress import Progress, Status
from ascend_sim.errors import SimError


class _PrecisionCommand(OptionalValues):
    alone: ClassVar = {"--accumulate": "all", "--plot": "precision.png"}


@app.command(
    cls=_PrecisionCommand,
    epilog="Example:  ascend-sim precision fp32_keep --chips ascend910b3,ascend910_9391 --inputs normal --accumulate all",
)
def precision(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    chips: Annotated[str | None, typer.Option(help="Chips side by side, with commas; default: the case's.")] = None,
    inputs: Annotated[
        str | None, typer.Option(help="uniform, normal, relu, wide, ones, adversarial or a .npz file.")
    ] = None,
    accumulate: Annotated[
        str, typer.Option(help="Models of the cube's sums: blas, chunk, exact_group, several with commas, or all.")
    ] = "blas",
    overflow: Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the error distributions to this PNG file.")] = None,
) -> None:
    """Run a case in every precision that the product offers and compare the errors of its gradients."""
    from ascend_sim.studies.precision import pages
    from ascend_sim.studies.precision import run as precision_bench

    progress = Progress("rows")
    with errors(json_output):
        if json_output and csv_output:
            raise SimError("--json and --csv: give one of them")
        try:
            table = precision_bench.precision(
                case,
                chips=chips.split(",") if chips else None,
                inputs=inputs,
                accumulate=accumulate if accumulate == "all" else accumulate.split(","),
                overflow=overflow,
                conformance=conformance,
                progress=progress,
            )
        finally:
            progress.close()
        if plot is not None:
            pages.plot(table, plot)
        if json_output:
            print(json.dumps({**table.to_dict(), "notes": pages.notes(table)}, indent=1))
        elif csv_output:
            print(pages.csv_text(table), end="")
        else:
            pages.render(table, Console(width=max(Console().width, 170)))  # wider than most terminals; nothing is cut
            if plot is not None:
                print(f"wrote {plot}")
    raise typer.Exit(0 if table.passed else 1)


@app.command("run-network", epilog="Example:  ascend-sim run-network resnet50 --batch 64 --chip ascend910b3 --out out/")
def run_network(
    network: Annotated[str, typer.Argument(help="A network file (.yaml) or the name of one that ships: resnet50.")],
    batch: Annotated[int, typer.Option(min=1, help="Images in a batch.")] = 64,
    chip: Annotated[str, typer.Option(help="Chip name or chip file.")] = "ascend910b3",
    conformance: Annotated[str, typer.Option(help="documented or library.")] = "documented",
    l2: Annotated[str, typer.Option(help="cold: each layer starts with an empty L2; warm: with its inputs.")] = "cold",
    out: Annotated[Path | None, typer.Option(help="Folder for network.json and layers.csv.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Time the backward pass of every convolution of a network: one line a layer and the totals."""
    from ascend_sim.report.files import atomic_write, write_json
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.network import pages
    from ascend_sim.studies.network import run as networks

    progress = Progress("layers")
    begin = time.monotonic()
    with errors(json_output):
        loaded = networks.load_network(network)
        if out is not None:
            make_folder(out)
        jobs = jobs or usable_cores()
        try:
            run = networks.run_network(
                loaded, chip=chip, batch=batch, conformance=conformance, l2=l2, jobs=jobs, progress=progress
            )
        finally:
            progress.close()
        if json_output:
            print(json.dumps(run.to_dict(), indent=1))
        else:
            pages.render(run, Console(width=None if sys.stdout.isatty() else 140))
        if out is not None:
            write_json(out / "network.json", run.to_dict())
            with atomic_write(out / "layers.csv") as file:
                file.write(pages.csv_text(run).encode())
        print(pages.cost_line(run, time.monotonic() - begin, jobs), file=sys.stderr)
    raise typer.Exit(1 if run.findings else 0)


@app.command(
    epilog="Examples:  ascend-sim validate --chip ascend910b2 --csv rows.csv --plot accuracy.png   |   "
    "ascend-sim validate --rows PROF_000001/ --chip ascend910b3",
)
def validate(
    chip: Annotated[
        str | None,
        typer.Option(help="Only rows of these chips, with commas; the chip of a profiler's table; a chip file."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="Your own rows: CSV, op_summary_*.csv, kernel_details.csv or a PROF_* folder. Default: shipped."
        ),
    ] = None,
    csv_output: Annotated[
        Path | None, typer.Option("--csv", help="Write all rows with predictions to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write predicted against measured to this PNG file.")] = None,
    l2: Annotated[
        str,
        typer.Option(
            help="For rows that do not say it. warm: a kernel finds its inputs in the L2, as far as they fit; cold: nothing; "
            "stale: what other kernels wrote."
        ),
    ] = "warm",
    long: Annotated[
        bool, typer.Option("--long", help="Run the rows that take minutes too (MatMul of 8192 and more).")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Compare simulated with measured kernels: errors of task, core and pipe times by chip and operator."""
    from ascend_sim.report.files import atomic_write
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.validate import pages
    from ascend_sim.studies.validate import run as validation
    from ascend_sim.studies.validate.instruction_points import compare_points, shipped_points

    progress = Progress("kernels")
    begin = time.monotonic()
    with errors(json_output):
        if plot is not None:
            pages.check_plot(plot)
        if csv_output is not None and not csv_output.parent.is_dir():
            raise SimError(f"--csv {csv_output}: there is no folder {csv_output.parent}")
        measured = validation.read_rows(rows, l2, chip) if rows is not None else validation.shipped_rows(l2)
        if chip is not None:
            measured = validation.of_chips(measured, chip.split(","))
        try:
            compared = validation.compare(measured, jobs=jobs or usable_cores(), progress=progress, long=long)
        finally:
            progress.close()
        if csv_output is not None:
            with atomic_write(csv_output) as file:
                file.write(pages.csv_text(compared).encode())
        if plot is not None:
            pages.plot(compared, plot)
        # Published points are of architectures: they belong to the whole table.
        shipped = rows is None and chip is None
        points = pages.group_points(compare_points(shipped_points())) if shipped else []
        if json_output:
            figures = pages.to_dict(compared) | ({"points": pages.points_dict(points)} if shipped else {})
            print(json.dumps(figures, indent=1))
        else:
            pages.render(compared, Console(width=None if sys.stdout.isatty() else 170))
            print("\n".join(pages.points_text(points)), end="\n" if points else "")
        print(f"took {time.monotonic() - begin:.1f} s", file=sys.stderr)


class _TileCommand(OptionalValues):
    alone: ClassVar = {"--plot": "tilings.png"}


@app.command(
    cls=_TileCommand,
    epilog="Examples:  ascend-sim tile resnet50_conv2_3x3 --kernel grad_input --out tilings/   |   "
    "ascend-sim tile fp32_keep --chip ascend910b3,ascend910a --time-limit 60 --plot",
)
def tile(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    kernel: Annotated[str | None, typer.Option(help="grad_input or grad_weight; default: both.")] = None,
    chip: Annotated[str | None, typer.Option(help="Chips, with commas; default: the case's.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Fix a field: baseM=256, or grad_input.baseM=256; again for more.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.sqlite (the search goes on from there) and best.yaml.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="New simulations at most, for each kernel.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds at most, for each kernel.")] = None,
    within: Annotated[
        float, typer.Option(min=0, max=100, help="Leave out what can be better by less than this many per cent.")
    ] = 0.0,
    top: Annotated[int, typer.Option(min=1, help="Tilings in the table.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Write cycles against bound and L1 use to this PNG file.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    l2: Annotated[
        str, typer.Option(help="warm: the kernel finds its operands in the L2, as within a call; cold: it does not.")
    ] = "warm",
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
    ] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Search the tiling of a cube kernel that takes the fewest cycles, and show the best beside the simulator's own."""
    from ascend_sim.ops.case import load_case
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.tiles import command, pages
    from ascend_sim.studies.validate.pages import check_plot

    progress = Status()
    with errors(json_output):
        if plot is not None:
            check_plot(plot)
        loaded = load_case(case)
        chips = list(dict.fromkeys(chip.split(","))) if chip else [loaded.chip]
        kernels = command.kernels_of(
            loaded, chips, kernel, l2=l2, cube_math_type=cube_math_type,
            deterministic=deterministic, conformance=conformance,
        )  # fmt: skip
        if out is not None:
            make_folder(out)
        try:
            outcomes = command.run_searches(
                kernels, field or [], out, jobs=jobs or usable_cores(), limit=limit, seconds=time_limit,
                within=within / 100, progress=lambda name, state: progress(pages.progress_text(name, state)),
            )  # fmt: skip
        finally:
            progress.close()
        best = command.write_best(outcomes, out) if out is not None else {}
        written = list(best)
        if plot is not None:
            pages.plot(outcomes, plot)
            written.append(plot)
        if json_output:
            print(json.dumps([pages.to_dict(outcome, top) for outcome in outcomes], indent=1))
        else:
            console = Console(width=None if sys.stdout.isatty() else 170)
            for outcome in outcomes:
                pages.render(outcome, console, top)
                console.print()
            if len({outcome.kernel.chip.name for outcome in outcomes}) > 1:
                pages.compare_chips(outcomes, console)
            if written:
                print(f"wrote {', '.join(str(path) for path in written)}")
        for path, kept in best.items():
            if kept is not None:
                print(f"{path} held other tilings; they are in {kept} now", file=sys.stderr)
        seconds = sum(outcome.seconds for outcome in outcomes)
        again = sum(outcome.reused for outcome in outcomes)
        print(f"took {seconds:.1f} s" + (f"; {again} results were there before" if again else ""), file=sys.stderr)
        if outcomes[-1].reason == "interrupted":
            raise typer.Exit(130)
        raise typer.Exit(1 if any(one["findings"] for outcome in outcomes for one in outcome.results) else 0)
