"""`ascend-sim networks`: the networks that ship with the package, a line each."""

from __future__ import annotations

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.terminal import console


@app.command(epilog="Example:  ascend-sim networks")
def networks() -> None:
    """List the networks that ship with the package, which `run-network` takes by name."""
    from ascend_sim.studies.network.pages import list_table

    with errors(as_json=False):
        console().print(list_table())
