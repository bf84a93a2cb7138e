"""`ascend-sim cases`: the cases that ship with the package, a line each."""

from __future__ import annotations

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.terminal import console


@app.command(epilog="Example:  ascend-sim cases")
def cases() -> None:
    """List the cases that ship with the package, which `run` and others take by name."""
    from ascend_sim.ops.case import case_names, load_case
    from ascend_sim.report.grid import Grid

    with errors(as_json=False):
        table = Grid("", ("case", "operator", ">input", ">weight", "dtype"))
        for name in case_names():
            case = load_case(name)
            tensors = case.tensors
            shapes = ["x".join(map(str, tensors[one][0])) if one in tensors else "-" for one in ("input", "weight")]
            dtype = tensors["input" if "input" in tensors else next(iter(tensors))][1]
            table.row(name, case.operator, *shapes, dtype)
        console().print(table)
