"""`ascend-sim networks`: the networks that ship with the package, a line each."""

from __future__ import annotations

from ascend_sim.cli.app import app, errors


@app.command(epilog="Example:  ascend-sim networks")
def networks() -> None:
    """List the networks that ship with the package, which `run-network` takes by name."""
    from ascend_sim.studies.network.file import load_network, network_names

    with errors(as_json=False):
        for name in network_names():
            layers = load_network(name).layers
            print(f"{name}  {len(layers)} convolutions, {len({repr(layer.said) for layer in layers})} of them distinct")
