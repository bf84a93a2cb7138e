"""`ascend-sim run-network NETWORK`: one pass, or both, of every convolution of a network."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors, make_folder
from ascend_sim.cli.completing import NETWORKS
from ascend_sim.cli.options import Jobs, command
from ascend_sim.cli.page import check_html
from ascend_sim.cli.progress import Progress, ProgressLine
from ascend_sim.cli.terminal import console, print_json, print_written
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import ProfileOptions
from ascend_sim.studies.network.options import NetworkOptions


@frozen
class Passes:
    """Options for the passes of a network: forward, both (training) or, by default, backward."""

    forward: Annotated[bool, typer.Option("--forward", help="The forward pass; default: backward.")] = False
    training: Annotated[bool, typer.Option("--training", help="A training step: forward, then backward.")] = False

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the passes in the order in which they run."""
        return ("forward", "backward") if self.training else ("forward",) if self.forward else ("backward",)


@frozen
class NetworkTilings:
    """Options for the layers' tilings: given ones, or a search for better ones."""

    tiling: Annotated[
        Path | None,
        typer.Option(
            help="The folder of an earlier --tile, a file like its tilings.yaml, or the best.yaml of `tile` for each layer."
        ),
    ] = None
    tile: Annotated[
        bool, typer.Option("--tile", help="Search the tilings of all layers (needs --out) and show what they gain.")
    ] = False
    time_limit: Annotated[float, typer.Option(min=0, help="With --tile: seconds for each kernel, at most.")] = 10.0
    within: Annotated[
        float, typer.Option(min=0, max=100, help="With --tile: leave out what can be better by less than this per cent.")
    ] = 0.0


@frozen
class NetworkFiles:
    """Options for the files that a run of a network writes, and for what it prints."""

    out: Annotated[
        Path | None, typer.Option(help="Folder for network.json and layers.csv, and the store: finished layers are kept.")
    ] = None
    html: Annotated[Path | None, typer.Option(help="Write one page to this file: figures, and the layers ranked by time.")] = (
        None
    )
    layer_pages: Annotated[
        int, typer.Option(min=0, help="With --html: also pages of so many distinct layers, the longest first, to click on.")
    ] = 0
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False
    full: Annotated[bool, typer.Option("--full", help="Print a line for every layer.")] = False


@command(
    "run-network",
    epilog="Examples:  ascend-sim run-network resnet50 --batch 64 --chip ascend910b3 --out out/   |   "
    "ascend-sim run-network resnet18 --tile --out tuned/ --html tuned.html   |   "
    "ascend-sim run-network resnet18 --tiling tuned/   |   ascend-sim run-network unet --training",
)
def run_network(
    network: Annotated[
        str, typer.Argument(help="A network file (.yaml), or one that `ascend-sim networks` lists.", autocompletion=NETWORKS)
    ],
    asked: NetworkOptions,
    passes: Passes,
    tilings: NetworkTilings,
    files: NetworkFiles,
    batch: Annotated[int | None, typer.Option(min=1, help="Images in a batch; default: the file's.")] = None,
    jobs: Jobs = None,
) -> None:
    """Time a pass of every convolution of a network: one line a layer and the totals. Exit code 1 where a layer has findings.

    A layer that the chip refuses is a line with its reason. With --out finished layers are kept at once, and the same command
    goes on from there.
    """
    from ascend_sim.ops.network import load_network
    from ascend_sim.report.files import write_json, write_text
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.network import pages
    from ascend_sim.studies.network import run as networks
    from ascend_sim.studies.network.page import write_layer_pages, write_page
    from ascend_sim.studies.network.tuning import read_tilings, tune, write_tilings

    begin = time.monotonic()
    with errors(files.json_output):
        if passes.forward + passes.training + (tilings.tile or tilings.tiling is not None) > 1:
            raise SimError(
                "--forward, --training and --tile or --tiling exclude each other: tilings belong to the backward pass"
            )
        if tilings.tile and files.out is None:
            raise SimError("--tile: needs a folder for what it finds (--out DIR)")
        if tilings.tile and tilings.tiling is not None:
            raise SimError("--tile searches tilings, --tiling takes those of a folder: give one of them")
        if files.html is not None:
            check_html(files.html, files.out)
        elif files.layer_pages:
            raise SimError("--layer-pages: needs the page of the network (--html FILE)")
        loaded = load_network(network)
        layers = [layer.name for layer in loaded.layers]
        found = None if tilings.tiling is None else read_tilings(tilings.tiling, layers)
        if files.out is not None:
            make_folder(files.out)
        jobs = jobs or usable_cores()
        runs, tuned = [], None
        if tilings.tile:
            assert files.out is not None
            with ProgressLine(f"{loaded.name}: preparing layers") as status:
                tuned = tune(
                    loaded,
                    out=files.out,
                    batch=batch,
                    jobs=jobs,
                    progress=lambda name, done, total: status(f"{name}: {done} of {total} layers timed"),
                    searching=lambda name, done, total: status(
                        f"searching tilings of {name}, layer {done + 1} of {total}",
                        2 * tilings.time_limit * (total - done),
                        at_most=True,
                    ),
                    seconds=tilings.time_limit,
                    within=tilings.within / 100,
                    **filled(ProfileOptions, asked),
                    chip=asked["chip"],
                )
            runs.append(tuned.after)
        for direction in () if tilings.tile else passes.directions:
            with Progress("layers", at_once=True) as bar:
                run = networks.run_network(
                    loaded, batch=batch, direction=direction, tilings=found, out=files.out, jobs=jobs, progress=bar, **asked
                )
            runs.append(run)
        told = {run.direction: run.to_dict() for run in runs}
        written = told if passes.training else told[runs[0].direction]
        written |= {} if tuned is None else {"before_us": tuned.before.totals["total"]}
        if files.json_output:
            print_json(written)
        else:
            screen = console()
            for run in runs:
                (pages.render if files.full else pages.render_summary)(run, screen)
            if passes.training:
                screen.print(f"a training step: {sum(run.totals['total'] for run in runs):,.1f} us in convolutions")
            if tuned is not None:
                pages.render_tuned(tuned, screen)
        paths = []
        if files.out is not None:
            paths.append(files.out / "network.json")
            write_json(paths[0], written)
            for run in runs:
                paths.append(files.out / (f"layers-{run.direction}.csv" if passes.training else "layers.csv"))
                write_text(paths[-1], pages.csv_text(run))
            if tuned is not None:
                write_tilings(tuned.tilings, files.out)
        if files.html is not None:
            links = write_layer_pages(files.html, runs[-1], files.layer_pages, **asked) if files.layer_pages else {}
            write_page(files.html, runs[-1], tuned, links)
            paths.append(files.html)
        if not files.json_output:
            print_written(paths)
        for run in runs:
            print(pages.cost_line(run, time.monotonic() - begin, jobs), file=sys.stderr)
        if not all(run.complete for run in runs) or (tuned is not None and not tuned.complete):
            raise KeyboardInterrupt
    raise typer.Exit(1 if any(run.findings for run in runs) else 0)
