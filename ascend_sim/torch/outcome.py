"""Simulating one call of PyTorch, and its outcome: status, times by part, kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from ascend_sim.calls.again import KeptCall
from ascend_sim.calls.run import run_call
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.calls.torch_tensors import OPEN
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.numerics import canonical
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import RunOptions
from ascend_sim.report.report import Report
from ascend_sim.report.summary import LAYOUT
from ascend_sim.runtime import Device, KernelMoves, run_tasks
from ascend_sim.torch.calls import MATMUL, Call, turned
from ascend_sim.torch.options import SimulateOptions


def matmul_problem(a: TensorSpec, b: TensorSpec, cube_math_type: int, chip: ChipSpec) -> MatMulProblem:
    """Return the MatMul kernel's problem for [M, K] x [K, N], or for batches of them. Raises SimError for an empty product and
    for dtypes that are no float formats of the chips (float64, integers).

    cubeMathType 1 and 3 use HF32 for float32 where the chip has it; 2 (float16) would need Casts around the kernel and changes
    nothing.
    """
    if 0 in a.shape or 0 in b.shape:
        raise SimError("an empty matrix product: no kernel runs")
    dtype = canonical(a.dtype)
    hf32 = dtype == "float32" and cube_math_type in (1, 3) and "hf32" in chip.cube.rates
    batch = a.shape[0] if len(a.shape) == 3 else 1
    return MatMulProblem(
        a.shape[-2],
        b.shape[-1],
        a.shape[-1],
        "hf32" if hf32 else dtype,
        dtype,
        batch,
        turned(a),
        turned(b),
        b_batched=len(b.shape) == 3,
    )


def time_matmul(
    problem: MatMulProblem, chip: ChipSpec, *, l2: str = "cold", engine: str | None = None, before: Sequence[KernelMoves] = ()
) -> Report:
    """Run the MatMul kernel alone in timing mode and return its report; `before` are the kernels of the step before it.

    In `before` "a", "b" and "c" name this product's tensors; `l2` "warm" has a and b in the L2. Raises SimError if the chip
    lacks the kernel or no tiling fits.
    """
    tiling = choose_matmul(problem, chip)
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
    for operand in tensors[:2] if l2 == "warm" else ():
        device.warm(operand)
    device.replay(before, dict(zip("abc", tensors, strict=True)))
    task = matmul_task(chip, problem, tiling, tensors)
    outcome = run_tasks(device, [task], {"mode": "timing", "engine": engine})
    assert outcome.timeline is not None
    return Report.build(chip, outcome.timeline, [task], findings=outcome.findings, l2=l2)


Array = NDArray[Any]
_KEPT_BYTES = 1 << 29
"""Most bytes of programs and tensors that a simulation keeps for the next step."""
_KERNEL = ("op_type", "name", "block_dim", "task_us", "bottleneck_pipe", "tiling_source", "interval")


@frozen
class CallSettings:
    """Settings shared by all calls of a simulation: the chip and the options."""

    chip: ChipSpec
    options: SimulateOptions

    @property
    def mode(self) -> str:
        """Return the option `mode`: "full" (values and time), "functional" (values) or "timing" (time). Matrix products are
        only timed; "functional" leaves them out.
        """
        return self.options["mode"]


@frozen
class CallOutcome:
    """Outcome of one call. `status` 0: it ran; another code: the operator refused it; None: the simulator cannot run it.
    `message` has the reason.

    Times in us; `parts` are those of the kernels by the output that they make, and "layout". None and empty in functional mode
    and for a call that did not run.
    """

    status: int | None
    message: str = ""
    total_us: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


class KeptCalls:
    """Store of functional calls with their programs, for the next steps of a training, which differ in values only."""

    def __init__(self) -> None:
        self._calls: dict[Call, tuple[KeptCall, CallOutcome]] = {}
        self._room = _KEPT_BYTES

    def find(self, call: Call, arrays: Mapping[str, Array]) -> tuple[CallOutcome, dict[str, Array]] | None:
        """Return (outcome, outputs for these arrays) of a kept call, not built again; None if the call is not kept, or not for
        arrays of these shapes, dtypes and strides.
        """
        kept, outcome = self._calls.get(call, (None, None))
        given = {name: arrays.get(name) for name, _ in call.tensors}
        if kept is None or outcome is None or not kept.takes(given):
            return None
        return outcome, kept.outputs(given)

    def run(self, call: Call, given: Mapping[str, Any], options: RunOptions) -> KeptCall:
        """Run a call that is not kept yet and return it with its programs, as `keep` stores them; it stores nothing."""
        return KeptCall(OPERATORS[call.operator], given, call.named, options, self._room)

    def keep(self, call: Call, kept: KeptCall, outcome: CallOutcome) -> None:
        """Store a call that ran, with its outcome, if it has programs to keep and is new; less room is left for later calls."""
        if kept.nbytes and call not in self._calls:
            self._calls[call] = kept, outcome
            self._room -= kept.nbytes


def simulate_call(
    call: Call,
    settings: CallSettings,
    arrays: Mapping[str, Array] | None = None,
    *,
    strict: bool = False,
    kept: KeptCalls | None = None,
) -> tuple[CallOutcome, dict[str, Array]]:
    """Run a call; return its outcome, and its outputs by name if it has values (`arrays`, by the tensors' names), else {}.

    A call that the operator refuses or the simulator cannot run has an outcome too; with `strict` it raises SimError. In
    functional mode `kept` supplies and stores programs.
    """
    if kept is not None and arrays is not None and (found := kept.find(call, arrays)) is not None:
        return found
    first = None
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
            return _of_report(report, {"MatMul": call.part}, settings.chip), {}
        operator = OPERATORS[call.operator]
        tensors: dict[str, Any] = call.given if arrays is None else {name: arrays.get(name) for name in operator.tensors}
        options = filled(RunOptions, {**settings.options, "chip": settings.chip, "timeline": False})
        if kept is None or settings.mode != "functional":
            result = run_call(operator, tensors, call.named, options, before=call.before)
        else:
            first = kept.run(call, tensors, options)
            result = first.result
    except SimError as error:
        if strict:
            raise
        status = error.status if isinstance(error, AclnnError) else None
        return CallOutcome(status, error.message if isinstance(error, AclnnError) else str(error)), {}
    # The bias of a forward convolution is a part of its output.
    parts = {name: part for part, (name, _) in operator.layer_parts.items()}
    parts = {name: "output" if part == "bias" else part for name, part in parts.items()}
    outcome = _of_report(result.report, parts, settings.chip)
    if kept is not None and first is not None:
        kept.keep(call, first, outcome)
    return outcome, result.outputs


def _of_report(report: Report, part_of: Mapping[str, str], chip: ChipSpec) -> CallOutcome:
    """Return the outcome with the few figures of a report that a step keeps; `part_of` maps a kernel's name to its part, else
    "layout".
    """
    kernels: tuple[Mapping[str, Any], ...] = tuple(
        {key: one.get(key) for key in _KERNEL} | {"ideal_us": round(chip.us(one.get("ideal_cycles") or 0), 4)}
        for one in report.kernels
    )
    parts: dict[str, float] = {}
    for kernel in kernels if report.total_us is not None else ():
        part = part_of.get(kernel["name"], LAYOUT)
        parts[part] = parts.get(part, 0.0) + kernel["task_us"]
    return CallOutcome(0, "", report.total_us, parts, kernels, report.findings, report.warnings)
