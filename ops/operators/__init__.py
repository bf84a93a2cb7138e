"""The register of operators: everything that runs, checks or explains a call finds its operator here, by name.

operator = OPERATORS["convolution_backward"]
OPERATORS.add(MyOperator())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ascend_sim.errors import SimError

if TYPE_CHECKING:
    from ascend_sim.ops.operator import Operator


SHIPPED = ("convolution_backward", "conv_tbc_backward", "convolution")
"""One name for each operator: the folder beside this file, whose module `operator` has the instance OPERATOR."""


class Register(Mapping[str, "Operator[Any, Any]"]):
    """Mapping from operator name to operator. Those of the package are imported when they are first asked for; others can be
    added.

    Raises SimError for an unknown name, from `get` too.
    """

    def __init__(self, shipped: tuple[str, ...] = ()) -> None:
        self._shipped = shipped
        self._added: dict[str, Operator[Any, Any]] = {}

    def __getitem__(self, name: str) -> Operator[Any, Any]:
        if name in self._added:
            return self._added[name]
        if name not in self._shipped:
            raise SimError(f"no operator {name!r}; there are {', '.join(self)}")
        found: Operator[Any, Any] = import_module(f"{__name__}.{name}.operator").OPERATOR
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._shipped
        yield from self._added

    def __len__(self) -> int:
        return len(self._shipped) + len(self._added)

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._added

    def add(self, operator: Operator[Any, Any]) -> None:
        """Add an operator under its `name`. Raises SimError if the name exists already."""
        if operator.name in self:
            raise SimError(f"there is an operator {operator.name!r} already")
        self._added[operator.name] = operator

    def of_pass(self, direction: str, kind: str = "conv") -> Operator[Any, Any]:
        """Return the first registered operator for the "forward" or "backward" pass of a layer of kind `kind`. SimError where
        there is none.
        """
        known: dict[str, Operator[Any, Any]] = {}
        for operator in self.values():
            if operator.layer_kind == kind and operator.layer_direction is not None:
                known.setdefault(operator.layer_direction, operator)
        if direction not in known:
            raise SimError(f"no operator for the {direction} pass of a layer of {kind}; there is {', '.join(known)}")
        return known[direction]

    def remove(self, name: str) -> None:
        """Remove an operator that `add` added. Raises SimError for any other name, also for one of the package."""
        if self._added.pop(name, None) is None:
            raise SimError(f"no operator {name!r} was added")


OPERATORS = Register(SHIPPED)
