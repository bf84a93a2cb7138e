"""`ascend-sim cases` and `ascend-sim networks`: what ships with the package, a line each."""

from __future__ import annotations

from ascend_sim.cli.app import app, errors


@app.command(epilog="Example:  ascend-sim cases")
def cases() -> None:
    """List the cases that ship with the package, which `run` and others take by name."""
    from ascend_sim.ops.case import case_names, load_case

    with errors(as_json=False):
        width = max(map(len, case_names()))
        for name in case_names():
            case = load_case(name)
            shapes = ", ".join(
                f"{tensor} {list(shape)}" for tensor, (shape, _) in case.tensors.items() if tensor != "bias"
            )
            print(f"{name:{width}}  {case.operator}: {shapes}")


@app.command(epilog="Example:  ascend-sim networks")
def networks() -> None:
    """List the networks that ship with the package, which `run-network` takes by name."""
    from ascend_sim.studies.network.file import load_network, network_names

    with errors(as_json=False):
        for name in network_names():
            layers = load_network(name).layers
            print(f"{name}  {len(layers)} convolutions, {len({repr(layer.said) for layer in layers})} of them distinct")
