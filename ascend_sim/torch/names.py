"""Which layer a call belongs to.

A forward call belongs to the module whose `forward` runs: hooks on all modules keep a stack of them for each thread. A
backward call runs in an autograd node. PyTorch numbers the nodes of a thread as it makes them, and makes a convolution's
node right before it runs the convolution: so the number tells which forward call a node is the backward of, also for
functional calls, shared modules and what checkpointing computes again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

_KEY = "ascend_sim"
"""What a node's metadata hold its layer under, once it was met in a backward pass."""
NO_MODULE = "(no module)"
_NODES = {f"{made}Backward0" for made in ("Convolution", "ConvolutionBackward", "Addmm", "Mm", "Bmm", "Baddbmm")}
"""The nodes that are signed."""


class _Thread(threading.local):
    """The modules at work in a thread, the outermost first; how many simulations it has entered."""

    def __init__(self) -> None:
        self.modules: list[torch.nn.Module] = []
        self.entered = 0


@dataclass
class Names:
    """The names of layers: those in `model`, or in the outermost module that is called."""

    model: torch.nn.Module | None = None
    _thread: _Thread = field(default_factory=_Thread)
    _made: dict[tuple[int, int], Any] = field(default_factory=dict)
    _layers: WeakKeyDictionary[torch.nn.Module, str] = field(default_factory=WeakKeyDictionary)
    _roots: WeakKeyDictionary[torch.nn.Module, None] = field(default_factory=WeakKeyDictionary)
    _places: WeakKeyDictionary[torch.nn.Module, tuple[ref[torch.nn.Module], str]] = field(
        default_factory=WeakKeyDictionary
    )
    _prefixes: WeakKeyDictionary[torch.nn.Module, str] = field(default_factory=WeakKeyDictionary)
    _hooks: list[Any] = field(default_factory=list)

    def watch(self) -> None:
        """Follow the modules of this thread from now on. The hooks are PyTorch's global ones, set once for all threads."""
        self._thread.entered += 1
        if not self._hooks:
            hook = torch.nn.modules.module
            self._hooks = [
                hook.register_module_forward_pre_hook(self._enter),
                hook.register_module_forward_hook(self._leave, always_call=True),
            ]

    def leave(self, *, last: bool) -> None:
        """End of `watch` in this thread; `last`: in all of them."""
        self._thread.entered -= 1
        if last:
            for handle in self._hooks:
                handle.remove()
            self._hooks = []
            self._made.clear()

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        if self._thread.entered:
            if not self._thread.modules:
                self._roots.setdefault(module)
            self._thread.modules.append(module)

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        stack = self._thread.modules
        while stack and stack.pop() is not module:  # what raised an error inside has not left by itself
            pass

    @property
    def in_module(self) -> bool:
        """Whether some module's `forward` runs in this thread."""
        return bool(self._thread.modules)

    def here(self) -> str:
        """The name of the module whose `forward` runs."""
        stack = self._thread.modules
        if not stack:
            return NO_MODULE
        module = stack[-1]
        if module not in self._layers:
            self._layers[module] = self._name(module)
        return self._layers[module]

    def _name(self, module: torch.nn.Module) -> str:
        """Within `model`, or else within the first outermost module that has it: checkpointing calls inner ones alone."""
        if (
            module not in self._places
        ):  # all modules in one walk: a walk for each of them costs a model of many layers dear
            for root in (*([] if self.model is None else [self.model]), *self._roots):
                for name, one in root.named_modules():
                    self._places.setdefault(one, (ref(root), name))
        root_of, name = self._places.get(module, (lambda: None, ""))
        root = root_of()
        if root is None:
            return type(module).__name__
        plain = name.replace("_orig_mod.", "").removesuffix("_orig_mod")  # of torch.compile
        return ".".join(filter(None, (self._prefix(root), plain))) or type(root).__name__

    def _prefix(self, root: torch.nn.Module) -> str:
        """Nothing for the first root that has a layer; the class, numbered if need be, of each further one."""
        if root not in self._prefixes:
            kind = type(root).__name__
            same = sum(type(other) is type(root) for other in self._prefixes)
            self._prefixes[root] = (f"{kind}#{same + 1}" if same else kind) if len(self._prefixes) else ""
        return self._prefixes[root]

    def sign(self, layer: Any, tensors: tuple[Any, ...]) -> None:
        """`layer` is what the node just made for these tensors belongs to; nothing where no node was made."""
        if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in tensors):
            self._made[threading.get_ident(), torch._C._autograd._get_sequence_nr() - 1] = layer

    def of_node(self) -> Any:
        """What the node that runs was signed with; None outside a backward pass and for a node that nobody signed."""
        node = torch._C._current_autograd_node()
        if node is None or node.name() not in _NODES:
            return None
        if _KEY not in node.metadata:
            number = node._sequence_nr()
            key = threading.get_ident(), number
            if key not in self._made:  # the node was made in another thread
                key = next((other for other in self._made if other[1] == number), key)
            node.metadata[_KEY] = self._made.pop(key, None)
        return node.metadata[_KEY]
