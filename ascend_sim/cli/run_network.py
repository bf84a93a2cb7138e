"""`ascend-sim run-network NETWORK`: one pass of every convolution of a network."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ascend_sim.cli.app import app, errors, make_folder
from ascend_sim.cli.options import Jobs
from ascend_sim.cli.page import check_html
from ascend_sim.cli.progress import Progress


@app.command("run-network", epilog="Example:  ascend-sim run-network resnet50 --batch 64 --chip ascend910b3 --out out/")
def run_network(
    network: Annotated[str, typer.Argument(help="A network file (.yaml) or the name of one that ships: resnet50.")],
    batch: Annotated[int | None, typer.Option(min=1, help="Images in a batch; default: the file's.")] = None,
    chip: Annotated[str, typer.Option(help="Chip name or chip file.")] = "ascend910b3",
    conformance: Annotated[str, typer.Option(help="documented or library.")] = "documented",
    l2: Annotated[str, typer.Option(help="cold: each layer starts with an empty L2; warm: with its inputs.")] = "cold",
    forward: Annotated[bool, typer.Option("--forward", help="The forward pass; default: backward.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for network.json and layers.csv.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with figures to this file.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    jobs: Jobs = None,
) -> None:
    """Time the backward (or forward) pass of every convolution of a network: one line a layer and the totals."""
    from ascend_sim.report.files import atomic_write, write_json
    from ascend_sim.runtime.workers import usable_cores
    from ascend_sim.studies.network import pages
    from ascend_sim.studies.network import run as networks
    from ascend_sim.studies.network.file import load_network
    from ascend_sim.studies.network.page import write_page

    begin = time.monotonic()
    with errors(json_output):
        loaded = load_network(network)
        if html is not None:
            check_html(html, out)
        if out is not None:
            make_folder(out)
        jobs = jobs or usable_cores()
        with closing(Progress("layers")) as progress:
            run = networks.run_network(
                loaded,
                chip=chip,
                batch=batch,
                conformance=conformance,
                l2=l2,
                jobs=jobs,
                progress=progress,
                direction="forward" if forward else "backward",
            )
        if json_output:
            print(json.dumps(run.to_dict(), indent=1))
        else:
            pages.render(run, Console(width=None if sys.stdout.isatty() else 140))
        if out is not None:
            write_json(out / "network.json", run.to_dict())
            with atomic_write(out / "layers.csv") as file:
                file.write(pages.csv_text(run).encode())
        if html is not None:
            write_page(html, run)
        print(pages.cost_line(run, time.monotonic() - begin, jobs), file=sys.stderr)
        if not run.complete:
            raise KeyboardInterrupt
    raise typer.Exit(1 if run.findings else 0)
