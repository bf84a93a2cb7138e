"""`ascend-sim tile CASE`: the tiling of a cube kernel of convolution backward that takes the fewest cycles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors, make_folder
from ascend_sim.cli.completing import KERNELS, SEVERAL_CHIPS
from ascend_sim.cli.options import Case, Jobs, command
from ascend_sim.cli.progress import ProgressLine
from ascend_sim.cli.terminal import console, print_json, print_written
from ascend_sim.frozen import frozen
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import ChoiceOptions
from ascend_sim.studies.tiles.options import LimitOptions, SearchOptions


@frozen
class TilingsShown:
    """Options for the tilings that a search prints: how many and in which form."""

    top: Annotated[int, typer.Option(min=1, help="Tilings in the table.")] = 10
    plot: Annotated[Path | None, typer.Option(help="Write cycles against bound and L1 use to this PNG file.")] = None
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False


@command(
    alone={"--plot": "tilings.png"},
    epilog="Examples:  ascend-sim tile resnet50_conv2_3x3 --kernel grad_input --out tilings/   |   "
    "ascend-sim tile fp32_keep --chip ascend910b3,ascend910a --time-limit 60 --plot",
)
def tile(
    case: Case,
    asked: SearchOptions,
    shown: TilingsShown,
    kernel: Annotated[
        str | None, typer.Option(help="grad_input (or dX), grad_weight (or dW); default: both.", autocompletion=KERNELS)
    ] = None,
    chip: Annotated[
        str | None, typer.Option(help="Chips, with commas; default: the case's.", autocompletion=SEVERAL_CHIPS)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.sqlite (the search goes on from there) and best.yaml.")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Search the tiling of a cube kernel of convolution backward that takes the fewest cycles; show the best ones.

    Exit code 1 where a tiling has findings, such as hazards.
    """
    from ascend_sim.ops.case import load_case
    from ascend_sim.report.png import check_png
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.tiles import command as searches
    from ascend_sim.studies.tiles import pages
    from ascend_sim.studies.tiles.search import State

    with errors(shown.json_output):
        if shown.plot is not None:
            check_png(shown.plot)
        loaded = load_case(case)
        chips = list(dict.fromkeys(chip.split(","))) if chip else [loaded.chip]
        how = filled(SearchOptions, {"top": None if shown.plot is not None else shown.top, **asked})  # a picture shows all
        state = {"l2": how["l2"], "launches": how["launches"]}
        kernels = searches.kernels_of(loaded, chips, kernel, **state, **filled(ChoiceOptions, how))
        if out is not None:
            make_folder(out)
        with ProgressLine("preparing tilings") as line:
            began: dict[str, float] = {}

            def tell(name: str, state: State) -> None:
                since = line.seconds - began.setdefault(name, line.seconds)
                left = state.open * since / state.simulated if state.simulated else None
                if how["seconds"] is not None and left is not None:
                    left = min(left, max(how["seconds"] - since, 0.0))
                line(pages.progress_text(name, state), left)

            limits = filled(LimitOptions, how)
            outcomes = searches.run_searches(kernels, how["fields"], out, jobs=jobs or usable_cores(), progress=tell, **limits)
        best = searches.write_best(outcomes, out) if out is not None else {}
        if shown.plot is not None:
            pages.plot(outcomes, shown.plot)
        if shown.json_output:
            print_json([outcome.to_dict(shown.top) for outcome in outcomes])
        else:
            screen = console()
            for outcome in outcomes:
                pages.render(outcome, screen, shown.top)
                screen.print()
            if len({outcome.kernel.chip.name for outcome in outcomes}) > 1:
                pages.compare_chips(outcomes, screen)
            print_written([*best, shown.plot])
        for path, kept in best.items():
            if kept is not None:
                print(f"{path} held other tilings; they are in {kept} now", file=sys.stderr)
        seconds = sum(outcome.seconds for outcome in outcomes)
        again = sum(outcome.reused for outcome in outcomes)
        print(f"took {seconds:.1f} s" + (f"; {again} results were there before" if again else ""), file=sys.stderr)
        for outcome in outcomes:
            if outcome.reason == "time":
                searched = f"{outcome.simulated:,} of {outcome.simulated + outcome.open:,} tilings that might be best"
                print(
                    f"{outcome.kernel.name}: simulated {searched} in {how['seconds']:g} s; --time-limit inf for all",
                    file=sys.stderr,
                )
        if outcomes[-1].reason == "interrupted":
            raise KeyboardInterrupt
        raise typer.Exit(1 if any(one["findings"] for outcome in outcomes for one in outcome.results) else 0)
