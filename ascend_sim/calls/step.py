"""The order of a training step: which kernels ran before a layer's call, and what they moved.

Forward kernels of all layers, then backward ones from the last layer on. Autograd keeps each layer's input and output in
buffers of their own; gradients of maps take turns in two buffers of their size, as freed ones are handed out again (assumed).
What lies between two convolutions is one kernel that reads one map and writes the next (assumed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ascend_sim.runtime import KernelMoves, Moved

Tensors = Mapping[str, int]
"""Bytes of the tensors of a layer's call by their names in the operator; none of a layer that has no call in this pass."""
_REMEMBERED = 4
"""L2 sizes of traffic that are replayed: a line of a first-in first-out cache is gone after one."""


def kernels_before(layers: Sequence[Tensors], place: int, direction: str, l2_bytes: int) -> tuple[KernelMoves, ...]:
    """Return the traffic of the kernels that run before the call of the layer at `place` in a training step, oldest first; the
    layer must have a call.

    It goes back until four times `l2_bytes` were moved, or to the beginning of the step. Buffers of the layer itself have the
    names of its call's tensors.
    """
    own = {(place, name): name for name in layers[place]}
    kernels = list(_forward(layers, place if direction == "forward" else len(layers)))
    if direction == "forward":
        kernels.append((_of(layers, place, "input", True),))
    else:
        kernels += _backward(layers, place)
    left, found = _REMEMBERED * l2_bytes, []
    for moved in reversed(kernels):
        found.append(tuple((own.get(buffer, buffer), nbytes, written) for buffer, nbytes, written in moved))  # type: ignore[call-overload]
        left -= sum(nbytes for _, nbytes, _ in moved)
        if left <= 0:
            break
    return tuple(reversed(found))


def _forward(layers: Sequence[Tensors], count: int) -> Iterator[KernelMoves]:
    """Yield the moves of the forward kernels of the first `count` layers: for each the kernel that writes its input, then
    its own.

    A layer without tensors is left out.
    """
    for at in range(count):
        if not layers[at]:
            continue
        yield (_of(layers, at, "input", True),)
        yield _of(layers, at, "input", False), _of(layers, at, "weight", False), _map(layers, at, True)


def _backward(layers: Sequence[Tensors], place: int) -> Iterator[KernelMoves]:
    """Yield the moves of the backward kernels of the layers after `place`, from the last one on, then of the kernel that
    writes the gradient of this layer's output.

    Before each layer stands the kernel that writes its output gradient; a layer without tensors is left out.
    """
    turns: dict[int, int] = {}
    for at in range(len(layers) - 1, place, -1):
        if not layers[at]:
            continue
        gradient = _gradient(layers[at], "grad_output", turns)
        yield (gradient,)
        made = [_gradient(layers[at], "grad_input", turns)] if "grad_input" in layers[at] else []
        made += [_of(layers, at, name, True) for name in ("grad_weight",) if name in layers[at]]
        yield (*gradient[:2], False), _of(layers, at, "input", False), _of(layers, at, "weight", False), *made
    yield _map(layers, place, False), _of(layers, place, "grad_output", True)


def _of(layers: Sequence[Tensors], at: int, name: str, written: bool) -> Moved:
    """Return the move (buffer, bytes, written) of a tensor that only the layer `at` uses."""
    return (at, name), layers[at][name], written


def _map(layers: Sequence[Tensors], at: int, written: bool) -> Moved:
    """Return the move (buffer, bytes, written) of a layer's output, which is as large as its gradient."""
    return (at, "map"), layers[at].get("grad_output") or layers[at]["output"], written


def _gradient(layer: Tensors, name: str, turns: dict[int, int]) -> Moved:
    """Return the write of a gradient of a map, in turns to one of two buffers of its size; `turns` counts the gradients of
    each size and is updated.
    """
    nbytes = layer[name]
    turns[nbytes] = turns.get(nbytes, 0) + 1
    return ("gradient", nbytes, turns[nbytes] % 2), nbytes, True
