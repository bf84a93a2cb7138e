"""Errors of each layer's gradients in each cubeMathType: the columns of `ascend-sim precision`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ascend_sim.calls.as_case import case_of
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.shown import ShownResult
from ascend_sim.studies.precision.run import PrecisionTable, precision
from ascend_sim.studies.precision.summary import render_summary
from ascend_sim.torch.calls import MATMUL
from ascend_sim.torch.options import SimulateOptions
from ascend_sim.torch.report import LayerRow
from ascend_sim.torch.summary import addresses


@frozen
class LayerPrecision(ShownResult):
    """Precision table of each layer by its address; `print` shows each distinct summary once, `tables` hold all figures."""

    tables: Mapping[str, PrecisionTable]

    @property
    def passed(self) -> bool:
        """Return True if every row of every table passed."""
        return all(table.passed for table in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: {layer: its table}."""
        return {name: table.to_dict() for name, table in self.tables.items()}

    _width = 10_000

    def _draw(self, console: Console) -> None:
        if not self.tables:
            console.print("no gradient of a convolution was seen")
        alike: dict[str, list[str]] = {}
        for name, table in self.tables.items():
            alike.setdefault(json.dumps(table.to_dict(), sort_keys=True), []).append(name)
        for name, *others in alike.values():
            same = f", as {', '.join(others)}" if others else ""
            console.print(Text(f"{name}{same}: inputs {self.tables[name].inputs}", style="bold"))
            render_summary(self.tables[name], console, more="")


def layer_precision(
    rows: Sequence[LayerRow], chip: ChipSpec, *, dtypes: Sequence[str] | None, inputs: str | None, options: SimulateOptions
) -> LayerPrecision:
    """Run the first backward call of each layer in every precision; return the table of each layer by its address.

    With `inputs` the arrays are random, from that distribution. Without it they are those that the simulation kept, else random
    (normal). `dtypes` None: the layer's own. Left out are layers without a backward call, matrix products and layers that no
    case can express.
    """
    tables: dict[str, PrecisionTable] = {}
    drawn: dict[str, PrecisionTable] = {}
    for address, row in addresses(rows).items():
        backward = next((call for call in row.calls if not call.forward), None)
        if backward is None or row.layer.kind == MATMUL:
            continue
        call, arrays = row.kept if row.kept is not None and inputs is None else (backward, None)
        try:
            case = case_of(OPERATORS[call.operator], call.given, call.named, options, chip)
        except SimError:
            continue
        own = case.tensors["input"][1]
        shape = case.model_dump_json()
        table = (drawn.get(shape) if arrays is None else None) or precision(
            case,
            chips=[chip],
            inputs=inputs,
            accumulate=options["accumulate"],
            overflow=options["overflow"],
            dtypes=dtypes or [own],
            tensors=arrays,
        )
        if arrays is None:
            drawn[shape] = table
        tables[address] = table
    return LayerPrecision(tables)
