"""The outputs and the report of one call of an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from ascend_sim.frozen import mutable
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case_entries import Case
from ascend_sim.sequence import RunResult

Array = NDArray[Any]


@mutable(repr=False)
class Result(RunResult):
    """Result of a call: its outputs in the caller's layout and dtype, and the report.

    `outputs` has no masked outputs, and in timing mode none at all. `call` is the call as it was accepted, `made_case` makes a
    case of it. The rest is as in `RunResult`.
    """

    call: AcceptedCall | None = None
    made_case: Callable[[], Case] | None = field(default=None, repr=False)

    def case(self) -> Case:
        """Return the call as a Case with contiguous tensors, no values, and the options that a case may have, as `run_case`,
        `sweep` and `search_tilings` take it. A chip that does not ship unchanged is replaced by the default one, and
        `l2="step"` by "cold".

        Raises SimError if no case can express it.
        """
        assert self.made_case is not None
        return self.made_case()

    @property
    def _title(self) -> str:
        return f"Result of {self.report.problem.get('operator', 'run')}"

    @property
    def output(self) -> Array | None:
        """Return the output of a forward convolution; None for other operators and in timing mode."""
        return self.outputs.get("output")

    @property
    def grad_input(self) -> Array | None:
        """Return the gradient of the input; None if it is masked, in timing mode and for a forward convolution."""
        return self.outputs.get("grad_input")

    @property
    def grad_weight(self) -> Array | None:
        """Return the gradient of the weight; None if it is masked, in timing mode and for a forward convolution."""
        return self.outputs.get("grad_weight")

    @property
    def grad_bias(self) -> Array | None:
        """Return the gradient of the bias; None if it is masked, in timing mode and for a forward convolution."""
        return self.outputs.get("grad_bias")
