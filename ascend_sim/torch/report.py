"""Report of a model's step on the simulated chip: a row for each layer, as plain data and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.frozen import frozen, mutable
from ascend_sim.report.grid import Grid
from ascend_sim.report.shown import ShownResult
from ascend_sim.report.summary import LAYOUT
from ascend_sim.torch.calls import MATMUL, Call, CalledLayer
from ascend_sim.torch.outcome import CallOutcome

Array = NDArray[Any]
HEADS = {part: part for part in ("output", "grad_input", "grad_weight", "grad_bias", LAYOUT, "total")}
"""Part of the time -> head of its column in the table."""
_NARROW = ("tiling", "dtype", "kernels", "calls", "bottleneck", "from torch", "input * weight")
"""Columns that are left out, in this order, while the table is wider than its console."""


@mutable
class LayerRow:
    """A layer and its distinct calls, each with the number of times that it was made.

    `asks`: True if input, weight, bias want gradients. `differences`: output -> largest max |chip - torch| / max |torch| of any
    call. `kept`: the first backward call with its arrays (None in timing mode).
    """

    layer: CalledLayer
    calls: dict[Call, int] = field(default_factory=dict)
    bias: bool = True
    asks: tuple[bool, bool, bool] = (True, True, True)
    differences: dict[str, float] = field(default_factory=dict)
    kept: tuple[Call, dict[str, Array]] | None = None

    def keep(self, call: Call, arrays: Mapping[str, Array]) -> None:
        """Keep a call with copies of its arrays, unless an earlier call is kept. PyTorch changes weights in place, hence the
        copies.
        """
        if self.kept is None:
            self.kept = call, {name: array.copy() for name, array in arrays.items()}

    def differs(self, name: str, distance: float) -> None:
        """Record the distance of one output of the chip from PyTorch's; the largest is kept."""
        self.differences[name] = max(distance, self.differences.get(name, 0.0))


@frozen
class ModelReport(ShownResult):
    """Report of all observed layers in the order of their first calls; `outcomes` has every distinct simulated call."""

    chip: str
    mode: str
    values: str
    cube_math_type: int
    rows: tuple[LayerRow, ...]
    outcomes: Mapping[Call, CallOutcome]
    l2: str = "cold"
    launches: str = "cold"

    def us(self, row: LayerRow) -> dict[str, float]:
        """Return {part: us} of all calls of a row, repeated ones as often as they ran, with "total" (gaps between kernels
        included). Calls without times are left out; {} if none has one.
        """
        found: dict[str, float] = {}
        for call, count in row.calls.items():
            outcome = self.outcomes.get(call)
            if outcome is None or outcome.total_us is None:
                continue
            for part, value in (*outcome.parts.items(), ("total", outcome.total_us)):
                found[part] = found.get(part, 0.0) + count * value
        return {part: round(value, 4) for part, value in found.items()}

    @property
    def totals(self) -> dict[str, float]:
        """Return {part: us} summed over all rows, with "total"; parts without time are 0."""
        found = dict.fromkeys(HEADS, 0.0)
        for row in self.rows:
            for part, value in self.us(row).items():
                found[part] += value
        return {part: round(value, 4) for part, value in found.items()}

    def refusals(self, row: LayerRow) -> list[tuple[Call, CallOutcome]]:
        """Return (call, outcome) for each of the row's calls that was refused or could not be simulated."""
        outcomes = ((call, self.outcomes.get(call)) for call in row.calls)
        return [(call, outcome) for call, outcome in outcomes if outcome is not None and outcome.status != 0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: chip, mode, values, cube_math_type, "totals_us", the number of "distinct_calls", and
        "layers", each with its times over all calls and its "calls"; times in these are of one call.
        """
        return {
            "chip": self.chip,
            "mode": self.mode,
            "values": self.values,
            "cube_math_type": self.cube_math_type,
            "totals_us": self.totals,
            "distinct_calls": len(self.outcomes),
            "layers": [self._layer(row) for row in self.rows],
        }

    def _layer(self, row: LayerRow) -> dict[str, Any]:
        times, total = self.us(row), self.totals["total"]
        return {
            "layer": row.layer.name,
            "kind": row.layer.kind,
            "tensors": _tensors(row.layer.tensors),
            **{name: list(value) if isinstance(value, tuple) else value for name, value in row.layer.attributes},
            "us": times,
            "share": round(times.get("total", 0.0) / total, 4) if total else None,
            "bottleneck": self.bottleneck(row),
            "tiling_source": self.tiling_sources(row),
            "difference_from_torch": dict(row.differences),
            "calls": [self._call(call, count) for call, count in row.calls.items()],
        }

    def _call(self, call: Call, count: int) -> dict[str, Any]:
        outcome = self.outcomes.get(call, CallOutcome(None, "not simulated: its values are PyTorch's"))
        return {
            "operator": call.operator,
            "pass": "forward" if call.forward else "backward",
            "count": count,
            "tensors": _tensors(call.tensors),
            "output_mask": list(call.named["output_mask"]) if "output_mask" in call.named else None,
            "status": outcome.status,
            "message": outcome.message,
            "total_us": outcome.total_us,
            "us": {part: round(value, 4) for part, value in outcome.parts.items()},
            "kernels": [dict(kernel) for kernel in outcome.kernels],
            "findings": [dict(one) for one in outcome.findings],
            "warnings": list(outcome.warnings),
        }

    def kernels(self, row: LayerRow) -> Iterator[Mapping[str, Any]]:
        """Yield the kernels of a row's calls, each distinct call once."""
        for call in row.calls:
            if call in self.outcomes:
                yield from self.outcomes[call].kernels

    def bottleneck(self, row: LayerRow) -> str | None:
        """Return the op_type of the row's longest kernel and the pipe that is busiest in it, as one text such as "MatMul MTE2";
        None without times.
        """
        timed = [kernel for kernel in self.kernels(row) if kernel["task_us"] is not None]
        longest = max(timed, key=lambda kernel: kernel["task_us"], default=None)
        return None if longest is None else f"{longest['op_type']} {longest['bottleneck_pipe'] or '-'}"

    def tiling_sources(self, row: LayerRow) -> list[str]:
        """Return the distinct sources of the tilings of the row's kernels, in the order of the kernels; [] if none has a
        tiling.
        """
        return list(dict.fromkeys(kernel["tiling_source"] for kernel in self.kernels(row) if kernel["tiling_source"]))

    # -- the table -----------------------------------------------------------------------------------------------------

    _width = 10_000

    def _draw(self, console: Console) -> None:
        self.render(console)

    def head(self) -> str:
        """Return the report's first line: layers, chip, mode, distinct calls and total time."""
        text = f"{len(self.rows)} layer{'' if len(self.rows) == 1 else 's'} on {self.chip}, mode {self.mode}"
        if self.values == "chip":
            text += ", PyTorch goes on with the chip's values"
        times = "" if self.mode == "functional" else f", {self.totals['total']:,.1f} us (columns in us)"
        return f"{text}: {len(self.outcomes)} distinct calls{times}"

    def render(self, console: Console) -> None:
        """Print a head, a line for each layer, the totals, and notes.

        As long as the table is wider than the console, the next column of `_NARROW` is left out; a line names the columns left
        out.
        """
        lines, names = self.lines(), [name for name, _ in self.columns()]
        widths = {column[0]: max(map(len, column)) + 2 for column in zip(names, *lines, strict=True)}
        left_out: list[str] = []
        for name in _NARROW:
            if name in widths and sum(widths.values()) - 2 > console.width:
                left_out.append(name)
                del widths[name]
        table = Grid("", [f"{'>' * (side == 'right')}{name}" for name, side in self.columns() if name in widths])
        for cells in lines:
            table.row(*(cell for name, cell in zip(names, cells, strict=True) if name in widths))
        console.print(Text(self.head(), style="bold"))
        console.print(table)
        if left_out:
            console.print(Text(f"not shown in {console.width} columns: {', '.join(left_out)}"), highlight=False)
        for note in self.notes():
            console.print(Text(note), highlight=False)

    def columns(self) -> list[tuple[str, str]]:
        """Return (head, "left" or "right") of each column of the table; times are missing in functional mode."""
        times = [*((head, "right") for head in HEADS.values()), ("share", "right"), ("bottleneck", "left")]
        return [
            ("layer", "left"), ("input * weight", "left"), ("dtype", "left"), ("calls", "right"), ("kernels", "right"),
            *(times if self.mode != "functional" else [("status", "left")]), ("tiling", "left"),
            *([("from torch", "right")] if self.mode != "timing" else []),
        ]  # fmt: skip

    def lines(self) -> list[list[str]]:
        """Return the table's rows as lists of cells; unless the mode is functional, the last row is the totals."""
        totals, width, timed = self.totals, len(self.columns()), self.mode != "functional"
        lines = []
        for row in self.rows:
            times = self.us(row)
            kernels = sum(1 for _ in self.kernels(row))
            cells = [row.layer.name, row.layer.text, row.layer.tensors[0][1].dtype, counts(row), str(kernels)]
            if timed:
                share = times.get("total", 0.0) / (totals["total"] or 1.0)
                cells += [*(f"{times[part]:.1f}" if part in times else "-" for part in HEADS), f"{100 * share:.1f}%"]
            cells.append(self.status(row) or (self.bottleneck(row) if timed else "0") or "-")
            cells.append(self._tiling(row))
            worst = max(row.differences.values(), default=None)
            lines.append([*cells, "-" if worst is None else f"{worst:.1e}"][:width])
        if not timed:
            return lines
        total = ["total", "", "", "", "", *(f"{totals[part]:.1f}" for part in HEADS)]
        return [*lines, [*total, *[""] * (width - len(total))]]

    def status(self, row: LayerRow) -> str:
        """Return the statuses of the row's calls that did not run, with their passes, as text; "" if all ran."""
        found: dict[str, list[str]] = {}
        for call, outcome in self.refusals(row):
            found.setdefault(_refusal(outcome), []).append("forward" if call.forward else "backward")
        return "; ".join(f"{text} ({', '.join(dict.fromkeys(passes))})" for text, passes in found.items())

    def _tiling(self, row: LayerRow) -> str:
        alone = ["MatMul kernel alone"] if row.layer.kind == MATMUL else []
        return ", ".join((*alone, *self.tiling_sources(row)))

    def notes(self) -> list[str]:
        """Return lines of text: each reason why calls did not run, each finding, with its layers; a line if none was seen."""
        if not self.rows:
            return ["no convolution, gradient of one or matrix product ran within the context and its thread"]
        found: dict[str, list[str]] = {}
        for row in self.rows:
            for _, outcome in self.refusals(row):
                found.setdefault(f"{_refusal(outcome)}: {outcome.message}", []).append(row.layer.name)
            for call in row.calls:
                for one in self.outcomes[call].findings if call in self.outcomes else ():
                    found.setdefault(f"finding: {one['task']}: {one['text']}", []).append(row.layer.name)
        return [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]


def _refusal(outcome: CallOutcome) -> str:
    return "not simulated" if outcome.status is None else f"refused with {outcome.status}"


def counts(row: LayerRow) -> str:
    """Return "FORWARD+BACKWARD", the numbers of calls; the two products of a matrix product's backward count as one."""
    forward = sum(count for call, count in row.calls.items() if call.forward)
    backward: dict[str, int] = {}
    for call, count in row.calls.items():
        if not call.forward:
            backward[call.part] = backward.get(call.part, 0) + count
    return f"{forward}+{max(backward.values(), default=0)}"


def _tensors(tensors: tuple[tuple[str, TensorSpec | None], ...]) -> dict[str, Any]:
    return {
        name: {"shape": list(spec.shape), "dtype": spec.dtype}
        | ({"strides": list(spec.strides)} if spec.strides is not None else {})
        for name, spec in tensors
        if spec is not None
    }
