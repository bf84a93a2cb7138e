"""Finding the layer that a call belongs to.

A forward call belongs to the module whose `forward` runs: hooks on all modules keep a stack of them for each thread. A backward
call runs in an autograd node. PyTorch numbers the nodes of a thread as it makes them, and makes a convolution's node (one for
each transform of `torch.func` around it) right before it runs the convolution. So the number shows which forward call a node is
the backward of, also for functional calls, shared modules and what checkpointing computes again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from ascend_sim.frozen import mutable
from ascend_sim.torch.calls import CalledLayer

NO_MODULE = "(no module)"
OUTSIDE = "(forward outside simulate)"
"""The layer name for a gradient whose forward call ran before the context, or in a thread that had not entered it."""
GRADIENTS = {
    *(f"{made}Backward0" for made in ("Convolution", "ConvolutionBackward", "Addmm", "Mm", "Bmm", "Baddbmm")),
    *(f"{made}Backward" for made in ("_ConvTbc", "_ConvTbcGenerated", "_ConvTbcGrad", "_ConvTbcGradGenerated")),
}
"""Names of the autograd nodes whose operators are seen when they are made."""
_TRANSFORMS = 64
"""Most nodes made for one call: one for each transform around it, and one for each view that batching takes."""
_WAITING = 1 << 20
"""Most forward calls of a thread that wait for their backward; the oldest are forgotten (programs that never go backward)."""


def kind_of(module: torch.nn.Module) -> str:
    """Return the class name of a module; for a compiled module that of the original."""
    return type(getattr(module, "_orig_mod", module)).__name__


class _Thread(threading.local):
    """State of one thread: running modules (outermost first), number of simulations that it has entered, its autograd nodes."""

    def __init__(self) -> None:
        self.modules: list[torch.nn.Module] = []
        self.entered = 0
        self.began = 0
        """The nodes below this number were made before the thread entered."""
        self.looked = 0
        """The nodes below this number were looked at."""
        self.made: dict[int, tuple[int, Any]] = {}
        """The last node made for a call -> the first that can be its, and what it was signed with."""


@mutable
class Names:
    """Layer names for the calls of one simulation: paths in `model`, or in the outermost module that is called."""

    model: torch.nn.Module | None = None
    _thread: _Thread = field(default_factory=_Thread)
    _key: object = field(default_factory=object)
    """Key under which a node's metadata holds its layer; each simulation has its own."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _threads: list[dict[int, tuple[int, Any]]] = field(default_factory=list)
    _layers: WeakKeyDictionary[torch.nn.Module, str] = field(default_factory=WeakKeyDictionary)
    _roots: WeakKeyDictionary[torch.nn.Module, None] = field(default_factory=WeakKeyDictionary)
    _places: WeakKeyDictionary[torch.nn.Module, tuple[ref[torch.nn.Module], str]] = field(default_factory=WeakKeyDictionary)
    _prefixes: WeakKeyDictionary[torch.nn.Module, str] = field(default_factory=WeakKeyDictionary)
    _hooks: list[Any] = field(default_factory=list)

    def watch(self) -> None:
        """Follow modules and autograd nodes of this thread from now on; a module whose `forward` runs already is not followed.

        The hooks are PyTorch's global ones, set once for all threads.
        """
        thread = self._thread
        thread.entered += 1
        thread.modules.clear()
        thread.began = thread.looked = torch._C._autograd._get_sequence_nr()
        with self._lock:
            if not any(made is thread.made for made in self._threads):
                self._threads.append(thread.made)
            if not self._hooks:
                hook = torch.nn.modules.module
                self._hooks = [
                    hook.register_module_forward_pre_hook(self._enter),
                    hook.register_module_forward_hook(self._leave, always_call=True),
                ]

    def leave(self, *, everywhere: bool) -> None:
        """End `watch` in this thread; `everywhere` also removes the hooks.

        Layers recorded for nodes stay: their backward may come later.
        """
        self._thread.entered -= 1
        if everywhere:
            for handle in self._hooks:
                handle.remove()
            self._hooks = []

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        if self._thread.entered:
            if not self._thread.modules:
                with self._lock:
                    self._roots.setdefault(module)
            self._thread.modules.append(module)

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        stack = self._thread.modules
        if any(one is module for one in stack):  # not one that was entered before the context
            while stack.pop() is not module:  # what raised an error inside has not left by itself
                pass

    @property
    def in_module(self) -> bool:
        """Return True if a module's `forward` runs in this thread."""
        return bool(self._thread.modules)

    def here(self) -> str:
        """Return the name of the innermost module whose `forward` runs in this thread; NO_MODULE outside of any."""
        stack = self._thread.modules
        if not stack:
            return NO_MODULE
        module = stack[-1]
        if module not in self._layers:
            with self._lock:
                self._layers[module] = self._name(module)
        return self._layers[module]

    def _name(self, module: torch.nn.Module) -> str:
        """Return the module's path within `model`, or within the first outermost module that contains it, behind that one's
        prefix (`_prefix`); else its class name.

        Checkpointing calls inner modules alone, so outermost modules of earlier calls count too.
        """
        if module not in self._places:  # all modules in one walk: a walk for each of them costs a model of many layers dear
            for root in (*([] if self.model is None else [self.model]), *self._roots):
                for name, one in root.named_modules():
                    self._places.setdefault(one, (ref(root), name))
        root_of, name = self._places.get(module, (lambda: None, ""))
        root = root_of()
        if root is None:
            return kind_of(module)
        plain = name.replace("_orig_mod.", "").removesuffix("_orig_mod")  # of torch.compile
        return ".".join(filter(None, (self._prefix(root), plain))) or kind_of(root)

    def _prefix(self, root: torch.nn.Module) -> str:
        """Return the prefix of a root module's layer names: "" for the first root module, else its class, numbered if it
        repeats.
        """
        if root not in self._prefixes:
            kind = kind_of(root)
            same = sum(kind_of(other) == kind for other in self._prefixes)
            self._prefixes[root] = (f"{kind}#{same + 1}" if same else kind) if len(self._prefixes) else ""
        return self._prefixes[root]

    def sign(self, layer: Any) -> None:
        """Record `layer` as the owner of the autograd nodes that this thread made since the last `sign`, if any."""
        thread, number = self._thread, torch._C._autograd._get_sequence_nr()
        if number > thread.looked:
            thread.made[number - 1] = thread.looked, layer
            thread.looked = number
            if len(thread.made) > _WAITING:
                del thread.made[next(iter(thread.made))]

    def of_node(self, unseen: Callable[[Any], Any]) -> Any:
        """Return the layer recorded for the running autograd node; None outside a backward pass and for a node without one.

        A node made outside the context gets `unseen(node)` as its layer.
        """
        node = torch._C._current_autograd_node()
        if node is None:
            return None
        if self._key not in node.metadata:
            found = self._signed(node, unseen)
            if found is None:
                return None
            node.metadata[self._key] = found[0]
        return node.metadata[self._key]

    def _signed(self, node: Any, unseen: Callable[[Any], Any]) -> tuple[Any] | None:
        number, thread = node._sequence_nr(), self._thread
        gradient = node.name() in GRADIENTS
        others = [made for made in self._threads if made is not thread.made] if gradient else []
        alike = unseen(node) if others else None  # the numbers of other threads' nodes are the same
        found = _find(thread.made, number, near=gradient, like=alike)
        if found is not None or (not gradient and number >= thread.began):
            return found  # none: a function of the user's, in whose forward nothing was seen
        stranger = alike if others else unseen(node)
        for made in others:  # the node was made in another thread
            found = _find(made, number, near=True, like=stranger)
            if found is not None:
                return found
        return None if stranger is None else (stranger,)


def _find(made: dict[int, tuple[int, Any]], number: int, *, near: bool, like: Any = None) -> tuple[Any] | None:
    """Return, as a tuple of one, the layer that a thread recorded for the node `number`; None if there is none. `made` is {a
    call's last node: (its first node, layer)}; the record of a call whose last node is `number` is removed.

    `near`: a call may have made several nodes, so records up to a few numbers later count too. `like`: only a layer with equal
    tensors counts, because numbers of two threads overlap.
    """
    for last in range(number, number + (_TRANSFORMS if near else 1)):
        if last in made:
            first, layer = made[last]
            if first > number or (like is not None and _tensors(layer) != _tensors(like)):
                return None
            if last == number:  # the outermost one, or the only one: nobody will ask again
                made.pop(last, None)
            return (layer,)
    return None


def _tensors(signed: Any) -> Any:
    """Return (name, shape, dtype) of each tensor of a recorded layer, alone or first in a tuple; None for anything else."""
    layer = signed[0] if isinstance(signed, tuple) else signed
    return [(name, spec.shape, spec.dtype) for name, spec in layer.tensors] if isinstance(layer, CalledLayer) else None
