"""`ascend-sim tile CASE`: the tiling of a cube kernel of convolution backward that takes the fewest cycles."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ascend_sim.cli.app import OptionalValues, app, errors, make_folder
from ascend_sim.cli.options import Case, Conformance, CubeMathType, Deterministic, Jobs, Library
from ascend_sim.cli.progress import Status
from ascend_sim.cli.terminal import console, print_text


class _TileCommand(OptionalValues):
    alone: ClassVar = {"--plot": "tilings.png"}


@app.command(
    cls=_TileCommand,
    epilog="Examples:  ascend-sim tile resnet50_conv2_3x3 --kernel grad_input --out tilings/   |   "
    "ascend-sim tile fp32_keep --chip ascend910b3,ascend910a --time-limit 60 --plot",
)
def tile(
    case: Case,
    kernel: Annotated[str | None, typer.Option(help="grad_input or grad_weight; default: both.")] = None,
    chip: Annotated[str | None, typer.Option(help="Chips, with commas; default: the case's.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Fix a field: baseM=256, or grad_input.baseM=256; again for more.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.sqlite (the search goes on from there) and best.yaml.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="New simulations at most, for each kernel.")] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0, help="Seconds at most, for each kernel; its own choice is always simulated.")
    ] = None,
    within: Annotated[
        float, typer.Option(min=0, max=100, help="Leave out what can be better by less than this many per cent.")
    ] = 0.0,
    top: Annotated[int, typer.Option(min=1, help="Tilings in the table.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Write cycles against bound and L1 use to this PNG file.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    l2: Annotated[
        str, typer.Option(help="warm: the kernel finds its operands in the L2, as within a call; cold: it does not.")
    ] = "warm",
    cube_math_type: CubeMathType = None,
    deterministic: Deterministic = None,
    conformance: Conformance = None,
    library: Library = None,
    jobs: Jobs = None,
) -> None:
    """Search the tiling of a cube kernel of convolution backward that takes the fewest cycles; show the best ones."""
    from ascend_sim.ops.case import load_case
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.tiles import command, pages
    from ascend_sim.studies.tiles.search import State
    from ascend_sim.studies.validate.scatter import check_plot

    with errors(json_output):
        if plot is not None:
            check_plot(plot)
        loaded = load_case(case)
        chips = list(dict.fromkeys(chip.split(","))) if chip else [loaded.chip]
        kernels = command.kernels_of(
            loaded,
            chips,
            kernel,
            l2=l2,
            cube_math_type=cube_math_type,
            deterministic=deterministic,
            conformance=conformance,
            library=library,
        )
        if out is not None:
            make_folder(out)
        with closing(Status("preparing tilings")) as line:
            began: dict[str, float] = {}

            def tell(name: str, state: State) -> None:
                since = line.seconds - began.setdefault(name, line.seconds)
                left = state.open * since / state.simulated if state.simulated else None
                if time_limit is not None and left is not None:
                    left = min(left, max(time_limit - since, 0.0))
                line(pages.progress_text(name, state), left)

            outcomes = command.run_searches(
                kernels,
                field or [],
                out,
                jobs=jobs or usable_cores(),
                limit=limit,
                seconds=time_limit,
                within=within / 100,
                top=None if plot is not None else top,  # a picture shows all that was simulated
                progress=tell,
            )
        best = command.write_best(outcomes, out) if out is not None else {}
        written = list(best)
        if plot is not None:
            pages.plot(outcomes, plot)
            written.append(plot)
        if json_output:
            print(json.dumps([pages.to_dict(outcome, top) for outcome in outcomes], indent=1))
        else:
            screen = console()
            for outcome in outcomes:
                pages.render(outcome, screen, top)
                screen.print()
            if len({outcome.kernel.chip.name for outcome in outcomes}) > 1:
                pages.compare_chips(outcomes, screen)
            if written:
                print_text(f"wrote {', '.join(str(path) for path in written)}")
        for path, kept in best.items():
            if kept is not None:
                print(f"{path} held other tilings; they are in {kept} now", file=sys.stderr)
        seconds = sum(outcome.seconds for outcome in outcomes)
        again = sum(outcome.reused for outcome in outcomes)
        print(f"took {seconds:.1f} s" + (f"; {again} results were there before" if again else ""), file=sys.stderr)
        if outcomes[-1].reason == "interrupted":
            raise KeyboardInterrupt
        raise typer.Exit(1 if any(one["findings"] for outcome in outcomes for one in outcome.results) else 0)
