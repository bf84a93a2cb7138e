"""`ascend-sim cases`: the cases that ship with the package, a line each."""

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
