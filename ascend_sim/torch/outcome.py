"""Outcome of one call on the simulated chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from ascend_sim.calls.run import run_call
from ascend_sim.calls.torch_tensors import OPEN
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import RunOptions
from ascend_sim.report.report import Report
from ascend_sim.report.summary import LAYOUT
from ascend_sim.torch.calls import MATMUL, Call
from ascend_sim.torch.matmul import matmul_problem, time_matmul
from ascend_sim.torch.options import SimulateOptions

Array = NDArray[Any]
_KERNEL = ("op_type", "name", "block_dim", "task_us", "bottleneck_pipe", "tiling_source")


@frozen
class CallSettings:
    """Settings of simulated calls that are neither tensors nor attributes."""

    chip: ChipSpec
    options: SimulateOptions

    @property
    def mode(self) -> str:
        """Return the mode in which every call runs."""
        return self.options["mode"]


@frozen
class CallOutcome:
    """`status` 0: accepted; another code: refused; None: accepted, but the simulator cannot run it. `message` has the
    reason.

    Times in us; `parts` are those of the kernels that make an output, and "layout". None and empty in functional mode.
    """

    status: int | None
    message: str = ""
    total_us: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


def simulate_call(
    call: Call, settings: CallSettings, arrays: Mapping[str, Array] | None = None, *, strict: bool = False
) -> tuple[CallOutcome, dict[str, Array]]:
    """Run a call; return its outcome, and its outputs if it has values (`arrays`, by the tensors' names).

    A call that the operator refuses or the simulator cannot run has an outcome too; with `strict` it raises SimError.
    """
    try:
        if any(spec is not None and OPEN in spec.shape for _, spec in call.tensors):
            raise SimError("a tensor has an axis whose size is not known (-1): only whole sizes are simulated")
        if call.operator == MATMUL:
            given = call.given
            a, b = given["a"], given["b"]
            assert a is not None and b is not None
            problem = matmul_problem(a, b, settings.options["cube_math_type"], settings.chip)
            l2, engine = settings.options["l2"], settings.options["engine"]
            report = time_matmul(problem, settings.chip, l2=l2, engine=engine, before=call.before or ())
            return _of_report(report, {"MatMul": call.part}), {}
        operator = OPERATORS[call.operator]
        result = run_call(
            operator,
            call.given if arrays is None else {name: arrays.get(name) for name in operator.tensors},
            call.named,
            filled(RunOptions, {**settings.options, "chip": settings.chip, "timeline": False}),
            before=call.before,
        )
    except SimError as error:
        if strict:
            raise
        status = error.status if isinstance(error, AclnnError) else None
        return CallOutcome(status, error.message if isinstance(error, AclnnError) else str(error)), {}
    # The bias of a forward convolution is a part of its output.
    parts = {name: part for part, (name, _) in operator.layer_parts.items()}
    parts = {name: "output" if part == "bias" else part for name, part in parts.items()}
    return _of_report(result.report, parts), result.outputs


def _of_report(report: Report, part_of: Mapping[str, str]) -> CallOutcome:
    """Return the outcome with the few figures of a report that are kept, because a training step has many calls."""
    kernels: tuple[Mapping[str, Any], ...] = tuple({key: one.get(key) for key in _KERNEL} for one in report.kernels)
    parts: dict[str, float] = {}
    for kernel in kernels if report.total_us is not None else ():
        part = part_of.get(kernel["name"], LAYOUT)
        parts[part] = parts.get(part, 0.0) + kernel["task_us"]
    return CallOutcome(0, "", report.total_us, parts, kernels, report.findings, report.warnings)
