"""`simulate`: PyTorch runs, and what the chip would do runs along.

1. `with simulate(...) as sim:` puts a dispatch mode below autograd, which sees every aten operator of this thread.
2. Convolutions, their gradients and matrix products are noted with their layer (`names`), all others pass untouched.
3. In mode "timing" nothing is simulated until somebody asks (`sim.report`, `print(sim)`): equal calls then run once.
   With values ("functional", "full") each call runs when PyTorch makes it, and `values="chip"` returns its numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import MODES, ValueModel
from ascend_sim.runtime.workers import spread
from ascend_sim.settings import check_settings
from ascend_sim.torch import calls
from ascend_sim.torch.calls import MATMUL, Call, Layer
from ascend_sim.torch.names import Names
from ascend_sim.torch.network import network_of
from ascend_sim.torch.outcome import Outcome, Settings, simulate_call
from ascend_sim.torch.page import write_page
from ascend_sim.torch.precision import LayerPrecision, layer_precision
from ascend_sim.torch.report import ModelReport, Row
from ascend_sim.torch.tensors import array_of, distance, has_values, is_plain, put

Array = NDArray[Any]
aten = torch.ops.aten
VALUES = ("torch", "chip")


def simulate(
    model: torch.nn.Module | None = None,
    *,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "timing",
    values: str = "torch",
    forward: bool = True,
    matmul: bool = True,
    strict: bool = False,
    cube_math_type: int = 0,
    deterministic: bool | None = None,
    conformance: str = "documented",
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    engine: str | None = None,
    jobs: int = 1,
) -> Simulation:
    """A context in which convolutions, their gradients and matrix products also run on a simulated chip.

    `mode`: "timing" (time alone, any tensors, meta and fake ones too), "functional" (values alone), "full" (both).
    `values="chip"` hands the chip's outputs of convolutions and of their gradients to PyTorch in place of its own ones.
    `forward` and `matmul` (the products of Linear layers and the like, time alone) may be left out. A call that the operator
    refuses is a row with its status; with `strict` it raises. Layers are named as in `model`, or else as in the outermost
    module that runs. `jobs` processes share the simulations in mode "timing" (a script must then guard its start with
    `if __name__ == "__main__"`). The other options are those of `ascend_sim.convolution_backward`.

    A context belongs to the thread that enters it; other threads enter it themselves (`with sim:`) to be counted too.
    Raises SimError for options that there are not.
    """
    return Simulation(model, **{name: value for name, value in locals().items() if name != "model"})


class Simulation:
    """What `simulate` returns: the context, and afterwards what was seen. `print` shows the table of layers."""

    def __init__(self, model: torch.nn.Module | None, **options: Any) -> None:
        if model is not None and not isinstance(model, torch.nn.Module):
            raise SimError(
                f"model is {model!r}; allowed is a torch.nn.Module, whose layers are named (a chip is chip=...)"
            )
        check_settings(options)
        mode, values = options["mode"], options["values"]
        if mode not in MODES:
            raise SimError(f"mode {mode!r}: allowed are {', '.join(MODES)}")
        if values not in VALUES:
            raise SimError(f"values {values!r}: allowed are {' and '.join(VALUES)}")
        if values == "chip" and mode == "timing":
            raise SimError('values "chip": mode "timing" computes none; allowed are functional and full')
        if options["l2"] not in ("cold", "warm"):
            raise SimError(f"l2 {options['l2']!r}: allowed are cold and warm")
        if not isinstance(options["jobs"], int) or options["jobs"] < 1:
            raise SimError(f"jobs is {options['jobs']!r}; allowed is a whole number from 1")
        chip = options["chip"]
        spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
        ValueModel.of(spec, options["accumulate"], options["overflow"])  # refuses what the chip has not
        self.values, self.forward, self.matmul, self.strict = (
            values, options["forward"], options["matmul"], options["strict"],
        )  # fmt: skip
        self.matmul = self.matmul and mode != "functional"  # the kernel has times alone
        self.jobs = options["jobs"]
        shared = ("deterministic", "conformance", "l2", "accumulate", "overflow", "engine")
        self.settings = Settings(spec, mode, options["cube_math_type"], {name: options[name] for name in shared})
        self.names = Names(model)
        self._rows: dict[Layer, Row] = {}
        self._outcomes: dict[Call, Outcome] = {}
        self._lock = threading.RLock()
        self._inside = 0
        self._stacks = threading.local()

    # -- the context ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Simulation:
        with self._lock:
            self._inside += 1
            self.names.watch()
        stack = ExitStack()
        stack.enter_context(_Functions(self))
        stack.enter_context(_Operators(self))
        self._stacks.__dict__.setdefault("entered", []).append(stack)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stacks.entered.pop().close()
        with self._lock:
            self._inside -= 1
            self.names.leave(last=not self._inside)

    # -- what was seen -------------------------------------------------------------------------------------------------

    @property
    def report(self) -> ModelReport:
        """Everything seen so far, simulated; in mode "timing" what was not yet simulated runs now."""
        with self._lock:
            open_calls = [call for call in self._seen() if call not in self._outcomes and self._later(call)]
            run = partial(_timed, settings=self.settings)
            found = spread(run, open_calls, jobs=self.jobs, name="calls")
            self._outcomes |= dict(zip(open_calls, found, strict=True))
            return ModelReport(
                self.settings.chip.name,
                self.settings.mode,
                self.values,
                self.settings.cube_math_type,
                tuple(row for row in self.rows if row.calls),
                dict(self._outcomes),
            )

    def precision(self, *, dtypes: Sequence[str] | None = None, inputs: str | None = None) -> LayerPrecision:
        """What each cubeMathType would lose in each layer's gradients: the table of `ascend-sim precision`, layer by layer.

        In the modes "functional" and "full" on the arrays of the layer's first backward call, else on normal values; `inputs`
        names another distribution. `dtypes` of the rows; None: the layer's own. Layers that no case can say (float64) are
        left out.
        """
        return layer_precision(
            self.rows, self.settings.chip, dtypes=dtypes, inputs=inputs, options=self.settings.options
        )

    def write_html(self, path: str | Path) -> None:
        """Write the report as one page; SimError where the folder is missing."""
        write_page(path, self.report)

    def __str__(self) -> str:
        return str(self.report)

    def __repr__(self) -> str:
        seen = sum(sum(row.calls.values()) for row in self._rows.values())
        return f"<simulation on {self.settings.chip.name}, mode {self.settings.mode}: {seen} calls of {len(self._rows)} layers>"

    def _later(self, call: Call) -> bool:
        """Whether it is simulated when somebody asks, not when PyTorch makes it: what has a time and needs no values."""
        return self.settings.mode == "timing" or call.operator == MATMUL

    def _seen(self) -> dict[Call, None]:
        return {call: None for row in self._rows.values() for call in row.calls}

    @property
    def rows(self) -> tuple[Row, ...]:
        """The layers seen so far."""
        with self._lock:
            return tuple(self._rows.values())

    def to_network(self, path: str | Path, name: str = "model") -> None:
        """Write the convolutions as a network file for `ascend-sim run-network`; SimError where none was seen."""
        network_of(self.rows, name, path)

    # -- what the modes report -----------------------------------------------------------------------------------------

    def row(self, layer: Layer) -> Row:
        """The row of a layer, a new one where it is the first time."""
        return self._rows.setdefault(layer, Row(layer))

    def note(self, layer: Layer, call: Call, tensors: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """One call with its tensors, and PyTorch's results by our outputs' names, which `values="chip"` overwrites."""
        with self._lock:
            row = self.row(layer)
            row.calls[call] = row.calls.get(call, 0) + 1
            if self._later(call):
                if self.strict and call not in self._outcomes:
                    self._outcomes[call] = simulate_call(call, self.settings, strict=True)[0]
                return
        outcome, outputs, arrays = self._run(call, tensors)
        with self._lock:
            self._outcomes.setdefault(call, outcome)
            if arrays and not call.forward:
                row.keep(call, arrays)
            for name, array in outputs.items():
                row.differs(name, distance(array, results[name]))
        for name, array in outputs.items() if self.values == "chip" else ():
            put(array, results[name])

    def _run(self, call: Call, tensors: Mapping[str, Any]) -> tuple[Outcome, dict[str, Array], dict[str, Array]]:
        if not all(has_values(tensor) for tensor in tensors.values() if tensor is not None):
            text = "a tensor without values (meta or fake); only mode 'timing' runs without"
            if self.strict:
                raise SimError(text)
            return Outcome(None, text), {}, {}
        arrays = {name: array_of(tensor) for name, tensor in tensors.items() if tensor is not None}
        outcome, outputs = simulate_call(call, self.settings, arrays, strict=self.strict)
        return outcome, outputs, arrays


def _timed(call: Call, settings: Settings) -> Outcome:
    return simulate_call(call, settings)[0]


# -- the modes ---------------------------------------------------------------------------------------------------------


class _Operators(TorchDispatchMode):
    """Sees every aten operator below autograd; all but a few pass at the price of one look into a table."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen = _SEEN.get(func)
        if seen is None:
            if torch.is_inference_mode_enabled():  # without autograd, composite operators arrive in one piece
                with self:
                    parts = func.decompose(*args, **(kwargs or {}))
                if parts is not NotImplemented:
                    return parts
            return func(*args, **(kwargs or {}))
        if not all(is_plain(one) for one in args if isinstance(one, torch.Tensor)):
            return func(*args, **(kwargs or {}))
        return seen(self.simulation, func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Gives conv_tbc a backward that is one call: autograd's own makes matrix products of it, which nobody can tell."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch.func's transforms want another kind of Function: autograd's own backward then, which has no row
        if func in _CONV_TBC and not torch._C._are_functorch_transforms_active():
            given = calls.bound(aten.conv_tbc.default, args, kwargs or {})
            names = ("self", "input"), ("weight",), ("bias",)
            data, weight, bias = (next(given[one] for one in either if one in given) for either in names)
            kind = data.device.type
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
                dtype = torch.get_autocast_dtype(kind)
                data, weight, bias = (
                    one.to(dtype) if one.is_floating_point() and one.dtype is not torch.float64 else one
                    for one in (data, weight, bias)
                )
            return _ConvTbc.apply(self.simulation, data, weight, bias, given.get("pad", 0))
        return func(*args, **(kwargs or {}))


def _forward(sim: Simulation, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    tensors = {name: given.get(name) for name in ("input", "weight", "bias")}
    node = torch._C._current_autograd_node()
    twice = node is not None and node.name() == "ConvolutionBackwardBackward0"  # the gradient of a gradient
    name = _layer_name(sim, node_first=twice)
    sim.names.sign(name, tuple(tensors.values()))
    output = func(*args, **kwargs)
    layer = calls.convolution_layer(name, given)
    _asks(sim.row(layer), tensors)
    if sim.forward:
        sim.note(layer, calls.convolution_call(given), tensors, {"output": output})
    return output


def _asks(row: Row, tensors: Mapping[str, Any]) -> None:
    """What a forward call tells of gradients; a backward call knows better."""
    if not any(not call.forward for call in row.calls):
        given = [tensors[name] for name in ("input", "weight", "bias")]
        row.bias = given[2] is not None
        first, second, third = (one is not None and one.requires_grad for one in given)
        row.asks = first, second, third


def _backward(sim: Simulation, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    name = _layer_name(sim, node_first=True)
    tensors = {one: given[one] for one in ("grad_output", "input", "weight")}
    sim.names.sign(name, tuple(tensors.values()))
    results = func(*args, **kwargs)
    layer, call = calls.convolution_layer(name, given), calls.convolution_backward_call(given)
    row = sim.row(layer)
    row.asks = call.named["output_mask"]
    row.bias = row.asks[2] or tuple(given["bias_sizes"] or (0,)) != (0,)
    sim.note(layer, call, tensors, _named("convolution_backward", results))
    return results


def _product(sim: Simulation, func: Any, args: Any, kwargs: Any, *, first: int) -> Any:
    """mm, bmm and, with a tensor to be added before them, addmm and baddbmm."""
    left, right = args[first : first + 2]
    if sim.names.in_module or torch._C._current_autograd_node() is None:
        layer, part = calls.matmul_layer(_layer_name(sim, node_first=False), left, right), "output"
        sim.names.sign((layer, set()), tuple(args))
        if sim.matmul:
            sim.row(layer)
    else:
        signed = sim.names.of_node()
        if not isinstance(signed, tuple):  # a product in the gradient of something else, or of a gradient
            return func(*args, **kwargs)
        layer, seen = signed
        part = calls.product_part(layer, left, right, seen)
        if part in seen:  # the same graph once more
            seen.clear()
        seen.add(part)
    if sim.matmul and (sim.forward or part != "output"):
        sim.note(layer, calls.matmul_call(left, right, part), {}, {})
    return func(*args, **kwargs)


def _layer_name(sim: Simulation, *, node_first: bool) -> str:
    """The layer at work: the one that the running node belongs to, or the module that runs."""
    signed = sim.names.of_node() if node_first or not sim.names.in_module else None
    return signed if isinstance(signed, str) else sim.names.here()


def _named(operator: str, results: Any) -> dict[str, Any]:
    return dict(zip(OPERATORS[operator].outputs, results, strict=True))


_SEEN: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _forward,
    aten._convolution.default: _forward,  # what torch.jit.trace makes of it
    aten.convolution_backward.default: _backward,
    aten.mm.default: partial(_product, first=0),
    aten.bmm.default: partial(_product, first=0),
    aten.addmm.default: partial(_product, first=1),
    aten.baddbmm.default: partial(_product, first=1),
}
_CONV_TBC = {torch.conv_tbc, aten.conv_tbc, aten.conv_tbc.default}


class _ConvTbc(torch.autograd.Function):
    """conv_tbc, and its backward in one piece."""

    @staticmethod
    def forward(ctx: Any, sim: Simulation, data: Any, weight: Any, bias: Any, pad: int) -> Any:
        ctx.sim, ctx.pad, ctx.layer = sim, pad, sim.names.here()
        ctx.save_for_backward(data, weight, bias)
        sim.row(calls.conv_tbc_layer(ctx.layer, {"input": data, "weight": weight}, pad))
        return aten.conv_tbc.default(data, weight, bias, pad)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        data, weight, bias = ctx.saved_tensors
        tensors = {"self": grads[0], "input": data, "weight": weight, "bias": bias}
        # Matrix products under a node that nobody signed: the mode lets them pass.
        results = aten.conv_tbc_backward.default(grads[0], data, weight, bias, ctx.pad)
        ctx.sim.note(
            calls.conv_tbc_layer(ctx.layer, tensors, ctx.pad),
            calls.conv_tbc_backward_call(tensors, ctx.pad),
            tensors,
            _named("conv_tbc_backward", results),
        )
        wanted = ctx.needs_input_grad[1:4]
        return None, *(made if need else None for made, need in zip(results, wanted, strict=True)), None
