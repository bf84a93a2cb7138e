"""`ascend-sim init KIND [FILE]`: a commented file to begin with."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.terminal import print_text

_NEXT = {
    "case": "ascend-sim run {path}",
    "network": "ascend-sim run-network {path}",
    "chip": "ascend-sim run strided --mode timing --chip {path}",
    "kernel": "ascend-sim kernel {path}",
}


@app.command(epilog="Examples:  ascend-sim init case my_layer.yaml   |   ascend-sim init kernel my_kernel.py")
def init(
    kind: Annotated[str, typer.Argument(help="case, network, chip or kernel.")],
    file: Annotated[Path | None, typer.Argument(help="The file to write; default: my_KIND.yaml, my_kernel.py.")] = None,
) -> None:
    """Write a commented case, network, chip or kernel file that runs as it is; a file that exists is left alone."""
    from ascend_sim.studies.lookup.templates import write_template

    with errors(as_json=False):
        path = write_template(kind, file)
        print_text(f"wrote {path}; next: {_NEXT[kind].format(path=quote(str(path)))}")
