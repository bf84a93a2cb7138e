"""Modes that `simulate` puts below and above autograd, and the handlers that note each operator with a kernel on the chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ascend_sim.calls.torch_tensors import is_plain
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.torch import calls, over_time
from ascend_sim.torch.calls import Call, CalledLayer
from ascend_sim.torch.names import GRADIENTS, NO_MODULE, OUTSIDE, Names
from ascend_sim.torch.step import StepOrder

aten = torch.ops.aten
_TWICE = {"ConvolutionBackwardBackward0", "_ConvTbcGradBackward", "_ConvTbcGradGeneratedBackward"}
"""Autograd nodes that compute the gradient of a gradient; they make forward calls too."""


class Watcher(Protocol):
    """Interface of a simulation that records calls.

    `forward` and `matmul` are True if forward calls and matrix products count. `order` records every operator if the L2
    is to be as the step leaves it, else it is None.
    """

    names: Names
    forward: bool
    matmul: bool
    order: StepOrder | None

    def row(self, layer: CalledLayer) -> Any:
        """Return the row of a layer, made at its first call."""

    def asks(self, layer: CalledLayer, tensors: Mapping[str, Any]) -> None:
        """Record which tensors of a forward call require gradients."""

    def asked(self, layer: CalledLayer, mask: tuple[bool, bool, bool], bias: bool) -> None:
        """Record a backward call's output mask, and whether the layer has a bias."""

    def note(self, layer: CalledLayer, call: Call, tensors: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """Record a call with its tensors and results."""


class Operators(TorchDispatchMode):
    """Dispatch mode below autograd that sees every aten operator and notes convolutions and matrix products.

    Calls with sparse or nested tensors are not noted; most operators cost one table look-up.
    """

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.watcher = watcher

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = self._run(func, args, kwargs or {})
        if self.watcher.order is not None and results is not NotImplemented:
            self.watcher.order.ran(func, args, kwargs or {}, results)
        return results

    def _run(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        seen = _SEEN.get(func)
        if seen is None:
            if torch.is_inference_mode_enabled():  # without autograd, composite operators arrive in one piece
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            return func(*args, **kwargs)
        if not all(is_plain(one) for one in args if isinstance(one, torch.Tensor)):
            self.watcher.names.sign(None)
            return func(*args, **kwargs)
        return seen(self.watcher, func, args, kwargs)


class Functions(TorchFunctionMode):
    """Function mode that replaces `torch.conv_tbc` by `over_time.conv_tbc`, whose backward is one operator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CONV_TBC:
            given = calls.bound(aten.conv_tbc.default, args, kwargs or {})
            names = ("self", "input"), ("weight",), ("bias",)
            data, weight, bias = (next(given[one] for one in either if one in given) for either in names)
            return over_time.conv_tbc(data, weight, bias, given.get("pad", 0))
        return func(*args, **(kwargs or {}))


def _forward(sim: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    tensors = {name: given.get(name) for name in ("input", "weight", "bias")}
    layer = calls.convolution_layer(_forward_name(sim), given)
    sim.names.sign(layer)
    output = func(*args, **kwargs)
    sim.asks(layer, tensors)
    if sim.forward:
        sim.note(layer, calls.convolution_call(given), tensors, {"output": output})
    return output


def _backward(sim: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    layer = calls.convolution_layer(NO_MODULE, given)
    layer = _named_by_node(sim, layer)
    tensors = {one: given[one] for one in ("grad_output", "input", "weight")}
    sim.names.sign(layer)
    results = func(*args, **kwargs)
    call = calls.convolution_backward_call(given)
    sim.asked(layer, call.named["output_mask"], tuple(given["bias_sizes"] or (0,)) != (0,))
    sim.note(layer, call, tensors, _named("convolution_backward", results))
    return results


def _over_time(sim: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    layer = calls.conv_tbc_layer(_forward_name(sim), given)
    sim.names.sign(layer)
    sim.row(layer)  # in its place among the rows; the operator itself is not there
    return func(*args, **kwargs)


def _over_time_backward(sim: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    given = calls.bound(func, args, kwargs)
    tensors = {"self": given["grad_output"], **{name: given[name] for name in ("input", "weight", "bias")}}
    layer = _named_by_node(sim, calls.conv_tbc_layer(NO_MODULE, given))
    sim.names.sign(layer)
    results = func(*args, **kwargs)
    sim.note(layer, calls.conv_tbc_backward_call(tensors, given["pad"]), tensors, _named("conv_tbc_backward", results))
    return results


def _product(sim: Watcher, func: Any, args: Any, kwargs: Any, *, first: int) -> Any:
    """Run mm, bmm, addmm or baddbmm and record the product; its left operand is argument number `first`.

    In a backward pass the product belongs to the layer of the running autograd node; one without a layer is not recorded.
    """
    left, right = args[first : first + 2]
    if sim.names.in_module or _is_forward():
        layer, part = calls.matmul_layer(sim.names.here(), left, right), "output"
        sim.names.sign((layer, set()))
        if sim.matmul:
            sim.row(layer)
    else:
        signed = sim.names.of_node(partial(_unseen_product, left=left, right=right))
        sim.names.sign(None)  # a product in the gradient of a gradient is nobody's
        if not isinstance(signed, tuple):
            return func(*args, **kwargs)
        layer, seen = signed
        part = calls.product_part(layer, left, right, seen)
        if part in seen:  # the same graph once more
            seen.clear()
        seen.add(part)
    if sim.matmul and (sim.forward or part != "output"):
        sim.note(layer, calls.matmul_call(left, right, part), {"a": left, "b": right}, {})
    return func(*args, **kwargs)


def _is_forward() -> bool:
    """Return True outside of a backward pass, and in a forward pass that checkpointing runs again in one.

    That pass has gradients on, and its autograd node is none of `GRADIENTS`, or saved tensors have hooks.
    """
    node = torch._C._current_autograd_node()
    if node is None or not torch.is_grad_enabled():
        return node is None
    return node.name() not in GRADIENTS or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _unseen_product(node: Any, *, left: Any, right: Any) -> Any:
    if node.name() not in GRADIENTS:  # nobody knows what its products are
        return None
    return calls.unseen_product(OUTSIDE, node, left, right), set()


def _forward_name(sim: Watcher) -> str:
    """Return the layer name for a forward call: that of the running module.

    In a gradient of a gradient, and in a backward pass outside of modules, it is that of the layer that owns the running
    autograd node.
    """
    node = torch._C._current_autograd_node()
    if node is not None and (node.name() in _TWICE or not sim.names.in_module):
        return _name(sim, sim.names.of_node(lambda node: None))
    return sim.names.here()


def _named_by_node(sim: Watcher, layer: CalledLayer) -> CalledLayer:
    """Return the layer under the name of the forward call whose backward is running, found by its autograd node.

    If that call was made outside of the context, the name is OUTSIDE; without a recorded layer it is the running module's.
    """
    outside = layer.called(OUTSIDE)
    signed = sim.names.of_node(lambda node: None if node.name() in _TWICE else outside)
    return layer.called(_name(sim, signed))


def _name(sim: Watcher, signed: Any) -> str:
    """Return the name of the layer `signed`, recorded for an autograd node alone or first in a tuple; the running module's name
    if it is not a layer.
    """
    layer = signed[0] if isinstance(signed, tuple) else signed
    return layer.name if isinstance(layer, CalledLayer) else sim.names.here()


def _named(operator: str, results: Any) -> Mapping[str, Any]:
    return dict(zip(OPERATORS[operator].outputs, results, strict=True))


_SEEN: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _forward,
    aten._convolution.default: _forward,  # what torch.jit.trace makes of it
    aten.convolution_backward.default: _backward,
    over_time.OUTPUT: _over_time,
    over_time.GRADIENTS: _over_time_backward,
    aten.mm.default: partial(_product, first=0),
    aten.bmm.default: partial(_product, first=0),
    aten.addmm.default: partial(_product, first=1),
    aten.baddbmm.default: partial(_product, first=1),
}
_CONV_TBC = {torch.conv_tbc, aten.conv_tbc, aten.conv_tbc.default}
