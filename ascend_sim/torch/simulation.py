"""`simulate`: PyTorch runs as usual, and its convolutions also run on the simulated chip.

1. `with simulate(...) as sim:` puts a dispatch mode below autograd, which sees every aten operator of this thread.
2. Convolutions, their gradients and matrix products are noted with their layer (`names`), all others pass untouched.
3. In mode "timing" nothing is simulated until results are used (`sim.report`, `print(sim)`): equal calls then run once.
   With values ("functional", "full") each call runs when PyTorch makes it, and `values="chip"` returns its numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import torch
from numpy.typing import NDArray
from rich.console import Console

from ascend_sim.calls.torch_tensors import array_of, distance, has_values, put
from ascend_sim.chip import chip_of
from ascend_sim.engine.choice import chosen_engine
from ascend_sim.errors import SimError
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import with_options
from ascend_sim.options.run_options import STEP
from ascend_sim.report.files import make_folder, write_json
from ascend_sim.report.layer_pages import folder_of, page_name
from ascend_sim.report.printed import UNLIMITED
from ascend_sim.report.ranking import print_lines
from ascend_sim.report.shown import LayersShown
from ascend_sim.runtime import ValueModel
from ascend_sim.runtime.workers import spread
from ascend_sim.settings import check_options
from ascend_sim.studies.compare.layers import SIMULATION
from ascend_sim.torch.calls import MATMUL, Call, CalledLayer
from ascend_sim.torch.layer import SimulatedLayer, layer_named
from ascend_sim.torch.modes import Functions, Operators
from ascend_sim.torch.names import Names
from ascend_sim.torch.network import network_of
from ascend_sim.torch.options import SimulateOptions
from ascend_sim.torch.outcome import CallOutcome, CallSettings, KeptCalls, simulate_call
from ascend_sim.torch.page import write_page
from ascend_sim.torch.precision import LayerPrecision, layer_precision
from ascend_sim.torch.report import LayerRow, ModelReport
from ascend_sim.torch.step import StepOrder
from ascend_sim.torch.summary import lines_of, summary_of

Array = NDArray[Any]


@with_options(SimulateOptions, mode="timing")
def simulate(model: torch.nn.Module | None = None, **options: Unpack[SimulateOptions]) -> Simulation:
    """Return a context in which convolutions, their gradients and matrix products also run on a simulated chip.

    In mode "timing" (time alone) tensors may be any, meta and fake ones too; in mode "functional" matrix products do not count.
    Layers are named as in `model`, or else as in the outermost module that runs. Options mean what they mean in
    `ascend_sim.convolution_backward`.

    A context belongs to the thread that enters it; other threads enter it themselves (`with sim:`) to be counted too. It may be
    entered again for a backward pass of its own, and within another one: each has its whole table. Raises TypeError for an
    unknown option, SimError for a value that its option does not allow.
    """
    return Simulation(model, SimulateOptions(**options))


class Simulation(LayersShown):
    """Context that `simulate` returns; it records calls while it is entered, and then has the report. `print` shows its
    summary, and `print(sim.report)` every layer.

    Raises SimError for a value that its option does not allow.
    """

    _width = UNLIMITED

    def __init__(self, model: torch.nn.Module | None, options: SimulateOptions) -> None:
        if model is not None and not isinstance(model, torch.nn.Module):
            raise SimError(f"model is {model!r}; allowed is a torch.nn.Module, whose layers are named (a chip is chip=...)")
        check_options(SimulateOptions, options)
        if options["values"] == "chip" and options["mode"] == "timing":
            raise SimError('values "chip": mode "timing" computes none; allowed are functional and full')
        chosen_engine(options["engine"])
        chip = chip_of(options["chip"])
        ValueModel.of(chip, options["accumulate"], options["overflow"])  # refuses what the chip has not
        self.settings = CallSettings(chip, options)
        self.values, self.forward, self.strict = options["values"], options["forward"], options["strict"]
        self.matmul = options["matmul"] and options["mode"] != "functional"  # the kernel has times alone
        self.jobs = options["jobs"]
        self.order = StepOrder(chip.memory.l2_bytes) if options["l2"] == STEP else None
        self.names = Names(model)
        self._rows: dict[CalledLayer, LayerRow] = {}
        self._outcomes: dict[Call, CallOutcome] = {}
        self._kept = KeptCalls()
        self._lock = threading.RLock()
        self._inside = 0
        self._stacks = threading.local()

    # -- the context ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Simulation:
        stack, entered = ExitStack(), self._stacks.__dict__.setdefault("entered", [])
        if not entered:  # entered twice by one thread it still counts each call once
            with self._lock:
                self._inside += 1
                self.names.watch()
            stack.callback(self._left)
            stack.enter_context(Functions())
            stack.enter_context(Operators(self))
        entered.append(stack)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stacks.entered.pop().close()

    def _left(self) -> None:
        with self._lock:
            self._inside -= 1
            self.names.leave(everywhere=not self._inside)

    # -- what was seen -------------------------------------------------------------------------------------------------

    @property
    def report(self) -> ModelReport:
        """Return the report of all calls recorded so far. Those not yet simulated are simulated now, in `jobs` processes: all
        in mode "timing", matrix products in mode "full".
        """
        with self._lock:
            open_calls = [call for call in self._seen() if call not in self._outcomes and self._later(call)]
            run = partial(_timed, settings=self.settings)
            found = spread(run, open_calls, jobs=self.jobs, name="calls")
            self._outcomes |= dict(zip(open_calls, found, strict=True))
            return ModelReport(
                self.settings.chip.name,
                self.settings.mode,
                self.values,
                self.settings.options["cube_math_type"],
                tuple(row for row in self.rows if row.calls),
                dict(self._outcomes),
                self.settings.options["l2"],
                self.settings.options["launches"],
            )

    def precision(self, *, dtypes: Sequence[str] | None = None, inputs: str | None = None) -> LayerPrecision:
        """Return the errors of each layer's gradients in each cubeMathType: one table for each layer.

        With `inputs` the arrays are random, from that distribution. Without it they are, in the modes "functional" and
        "full", those of the layer's first backward call, else normal. `dtypes` of the rows; None: the layer's own. Matrix
        products, and layers that no case can express (float64), are left out.
        """
        return layer_precision(self.rows, self.settings.chip, dtypes=dtypes, inputs=inputs, options=self.settings.options)

    def write_html(self, path: str | Path, *, layers: int = 0) -> None:
        """Write the report as one page; with `layers` also pages of the backward calls of that many convolutions, those that
        take longest, and links to them.

        Raises SimError if a file cannot be written, with `layers` also without Plotly and for a call that cannot run.
        """
        report = self.report
        write_page(path, report, self._layer_pages(path, report, layers) if layers else {})

    def _layer_pages(self, path: str | Path, report: ModelReport, most: int) -> dict[str, str]:
        """Run the backward calls of the `most` convolutions with most time and write their pages to a folder beside `path`;
        return {layer name: link}. Of equal names the first row counts.
        """
        folder = folder_of(path)
        make_folder(folder)
        named: dict[str, LayerRow] = {}  # the first of a name: its link stands at every row of the name
        for row in report.rows:
            if row.layer.kind != MATMUL and any(not call.forward for call in row.calls):
                named.setdefault(row.layer.name, row)
        links = {}
        for name, row in sorted(named.items(), key=lambda one: -report.us(one[1]).get("total", 0.0))[:most]:
            SimulatedLayer(name, row, self.settings).write_html(folder / page_name(name))
            links[name] = f"{folder.name}/{page_name(name)}"
        return links

    def __getitem__(self, name: str) -> SimulatedLayer:
        """Return a layer by its name in the table; "NAME#2" is the second of that name. Raises SimError for an unknown name."""
        return layer_named(self.rows, name, self.settings)

    def write(self, out: str | Path) -> None:
        """Write the report to simulation.json in the folder `out`, for `ascend-sim compare`; the folder is made if needed.
        Raises SimError if folder or file cannot be written.
        """
        folder = Path(out)
        make_folder(folder)
        write_json(folder / SIMULATION, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return `report.to_dict()` with "summary" in it (None without times), plain data for JSON; calls not yet simulated are
        simulated first.
        """
        report = self.report
        return {**report.to_dict(), "summary": summary_of(report) if self._timed else None}

    def _draw(self, console: Console) -> None:
        """Print the summary; without times the report's table."""
        if self._timed:
            print_lines(lines_of(summary_of(self.report)), console)
        else:
            self.report.render(console)

    def _draw_all(self, console: Console) -> None:
        self._draw(console)
        if self._timed:
            self.report.render(console)

    @property
    def _timed(self) -> bool:
        return self.settings.mode != "functional"

    def __repr__(self) -> str:
        seen = sum(sum(row.calls.values()) for row in self._rows.values())
        return f"<simulation on {self.settings.chip.name}, mode {self.settings.mode}: {seen} calls of {len(self._rows)} layers>"

    def _later(self, call: Call) -> bool:
        """Return True for a call simulated on demand, not when made: any in mode "timing", and matrix products."""
        return self.settings.mode == "timing" or call.operator == MATMUL

    def _seen(self) -> dict[Call, None]:
        return {call: None for row in self._rows.values() for call in row.calls}

    @property
    def rows(self) -> tuple[LayerRow, ...]:
        """Return the rows of all layers recorded so far, in the order of their first calls."""
        with self._lock:
            return tuple(self._rows.values())

    def to_network(self, path: str | Path, name: str = "model") -> None:
        """Write the recorded convolutions as a network file for `ascend-sim run-network`. Raises as `network_of`."""
        network_of(self.rows, name, path)

    # -- what the modes report -----------------------------------------------------------------------------------------

    def row(self, layer: CalledLayer) -> LayerRow:
        """Return the row of a layer, made at its first call."""
        with self._lock:
            return self._rows.setdefault(layer, LayerRow(layer))

    def asks(self, layer: CalledLayer, tensors: Mapping[str, Any]) -> None:
        """Record which of input, weight and bias require gradients in a forward call; a backward call's mask overrides it."""
        row = self.row(layer)
        if all(call.forward for call in row.calls):
            given = [tensors[name] for name in ("input", "weight", "bias")]
            row.bias = given[2] is not None
            first, second, third = (one is not None and one.requires_grad for one in given)
            row.asks = first, second, third

    def asked(self, layer: CalledLayer, mask: tuple[bool, bool, bool], bias: bool) -> None:
        """Record a backward call's output mask, and that the layer has a bias if `bias` or its mask says so."""
        row = self.row(layer)
        row.asks, row.bias = mask, mask[2] or bias

    def note(self, layer: CalledLayer, call: Call, tensors: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """Record one call with its tensors and PyTorch's results by output name.

        With values the call is simulated now, its distance from PyTorch's results is recorded, and `values="chip"` overwrites
        them in place. In mode "timing", and for matrix products, it is simulated later, or now if `strict`, which raises
        SimError for a refused call.
        """
        with self._lock:
            if self.order is not None:
                own = tensors if call.operator == MATMUL else OPERATORS[call.operator].by_our_names(tensors)
                call = replace(call, before=self.order.before({**own, **results}))
            row = self.row(layer)
            row.calls[call] = row.calls.get(call, 0) + 1
            if self._later(call):
                if self.strict and call not in self._outcomes:
                    self._outcomes[call] = simulate_call(call, self.settings, strict=True)[0]
                return
        outcome, outputs, arrays = self._run(call, tensors)
        with self._lock:
            if call not in self._outcomes or self._outcomes[call].status is None:  # fake tensors came first
                self._outcomes[call] = outcome
            if arrays and not call.forward:
                row.keep(call, arrays)
            for name, array in outputs.items():
                row.differs(name, distance(array, results[name]))
        for name, array in outputs.items() if self.values == "chip" else ():
            put(array, results[name])

    def _run(self, call: Call, tensors: Mapping[str, Any]) -> tuple[CallOutcome, dict[str, Array], dict[str, Array]]:
        if not all(has_values(tensor) for tensor in tensors.values() if tensor is not None):
            text = "a tensor without values (meta or fake); only mode 'timing' runs without"
            if self.strict:
                raise SimError(text)
            return CallOutcome(None, text), {}, {}
        arrays = {name: array_of(tensor) for name, tensor in tensors.items() if tensor is not None}
        outcome, outputs = simulate_call(call, self.settings, arrays, strict=self.strict, kept=self._kept)
        return outcome, outputs, arrays


def _timed(call: Call, settings: CallSettings) -> CallOutcome:
    return simulate_call(call, settings)[0]
