"""One layer of a simulated model: its case, a run of its own, its page and a search of its tilings.

layer = sim["blocks.4.1.conv_dw"]
print(layer.run())                       # the summary of its backward call
layer.write_html("layer.html"), layer.tile(), layer.case()
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from ascend_sim.calls.as_case import case_of
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import run_call
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_known
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.commands import PythonCalls
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import RunOptions
from ascend_sim.studies.tiles.command import search_tilings
from ascend_sim.studies.tiles.options import SearchOptions
from ascend_sim.studies.tiles.outcome import SearchOutcomes
from ascend_sim.torch.calls import MATMUL, Call
from ascend_sim.torch.options import alone
from ascend_sim.torch.outcome import CallSettings
from ascend_sim.torch.report import LayerRow
from ascend_sim.torch.summary import addresses

_LISTED = 8


@frozen
class SimulatedLayer:
    """One layer of a simulated model, with the settings of its simulation; methods use its backward call unless `forward` is
    True.

    A layer that runs by itself has no step before it: where the simulation's L2 is as the step leaves it, here it is cold.
    """

    name: str
    row: LayerRow
    settings: CallSettings

    def __repr__(self) -> str:
        return f"<layer {self.name} on {self.settings.chip.name}: {self.row.layer.text}>"

    def call(self, *, forward: bool = False) -> Call:
        """Return the layer's first recorded call of one pass (`forward`: the forward one, else the backward one). Raises
        SimError if there was none, and for a matrix product.
        """
        if self.row.layer.kind == MATMUL:
            raise SimError(f"{self.name}: a matrix product, which is not a call of a convolution operator")
        found = next((call for call in self.row.calls if call.forward == forward), None)
        if found is None:
            seen = "forward" if not forward else "backward"
            raise SimError(f"{self.name}: no {'forward' if forward else 'backward'} call was seen, only the {seen} pass")
        return found

    def case(self, *, forward: bool = False) -> Case:
        """Return the call of one pass (`forward` as in `call`) as a Case with contiguous tensors, as commands and
        `ascend_sim.run_case` take it; it names the chip if that ships.

        Raises SimError if no case can express it.
        """
        call = self.call(forward=forward)
        try:
            return case_of(OPERATORS[call.operator], call.given, call.named, self.settings.options, self.settings.chip)
        except SimError as error:
            raise SimError(f"{self.name}: {error}") from None

    def run(self, *, forward: bool = False) -> Result:
        """Run the call of one pass (`forward` as in `call`) in timing mode with the settings of the simulation; return its
        Result, with a timeline. Raises SimError as `call`, and AclnnError where the operator refuses the call.
        """
        call = self.call(forward=forward)
        options = {**alone(self.settings.options), "chip": self.settings.chip, "mode": "timing", "timeline": True}
        result = run_call(OPERATORS[call.operator], call.given, call.named, filled(RunOptions, options))
        commands = result.report.commands
        if isinstance(commands, PythonCalls):
            made = f"sim[{json.dumps(self.name)}].case({'forward=True' if forward else ''})"
            result.report = replace(result.report, commands=replace(commands, made=made))
        return result

    def tile(self, kernel: str | None = None, **options: Unpack[SearchOptions]) -> SearchOutcomes:
        """Search the tilings of the layer's cube kernels in its backward call (`kernel`: one of them); `options` are those of
        `ascend_sim.search_tilings`. Raises SimError as `case`.
        """
        return search_tilings(self.case(), kernel, chips=[self.settings.chip], **options)

    def write_html(self, path: str | Path, *, forward: bool = False) -> None:
        """Run the layer's call of one pass (`forward` as in `call`) and write its report to the HTML file `path`. Raises
        SimError as `run` and `Result.write_html`.
        """
        self.run(forward=forward).write_html(path, name=self.name)


def layer_named(rows: Sequence[LayerRow], name: str, settings: CallSettings) -> SimulatedLayer:
    """Return the layer called `name`; "NAME#2" is the second row of that name.

    Raises SimError, with similar names, for an unknown one.
    """
    found = addresses(rows)
    if not isinstance(name, str):
        some = f", such as sim[{next(iter(found))!r}]" if found else "; no layer was seen"
        raise SimError(f"layer {name!r} given; allowed are names{some}")
    if name in found:
        return SimulatedLayer(name, found[name], settings)
    near = near_known(name, found)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    some = ", ".join(list(found)[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    raise SimError(f"no layer {name!r} was seen{hint or f'; seen: {some or 0}'}")
