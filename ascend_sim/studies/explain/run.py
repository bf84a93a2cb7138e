"""One element of a gradient, followed through the run that made it.

    explanation = ascend_sim.explain("strided", element=(0, 3, 5, 5))
    explanation.parts[0].mmads[-1].partial, explanation.value, explanation.reference

The call runs in `full` mode. Before its values are computed, the element's bytes are followed backwards through the
programs that ran (`engine.provenance`): from the caller's tensor through Cast and TransData to the instruction that took
them out of L0C, to every mmad that added to them, to the fractals, the loads and the rows in L1 that those multiplied, and
to the caller's numbers. While values are computed, memory is looked at where the value passes; what stands here are those
bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.api import Result, call_case, check_fits
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.flow import CONSTANT
from ascend_sim.engine.follow import Follower, Operand, Part, Step
from ascend_sim.engine.provenance import Provenance
from ascend_sim.engine.replay import Row
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Memory
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.call import INPUTS, AcceptedCall
from ascend_sim.ops.case import Case, load_case, make_tensors
from ascend_sim.ops.operators.convolution_backward.formula import Formula, formula
from ascend_sim.ops.operators.convolution_backward.verdicts import computed_in, numbers, operand
from ascend_sim.runtime import Progress, ValueModel

Array = NDArray[Any]


@dataclass(eq=False)
class Explanation:
    """Everything about element `index` (in the caller's order) of `gradient`.

    `way` holds the steps and parts in the order of their instructions, `formula` the products with the tensor on the left that
    is the left operand of the cube, `operands` the caller's tensors by our names, 8-bit ones decoded.
    `reference` is the sum in float64 of the numbers as the cube sees them, `unrounded` that of the caller's numbers.
    """

    gradient: str
    index: tuple[int, ...]
    case: Case
    chip: ChipSpec
    result: Result
    formula: Formula
    provenance: Provenance
    output: Step
    way: list[Step | Part]
    operands: Mapping[str, Array]
    reference: float
    unrounded: float

    @property
    def value(self) -> float:
        """The element that the call returned."""
        return self.output.value

    @property
    def call(self) -> AcceptedCall:
        """The call as it was accepted."""
        assert self.result.call is not None
        return self.result.call

    @property
    def parts(self) -> list[Part]:
        """The L0C tiles that held the sum, or parts of it."""
        return [part for part in self.way if isinstance(part, Part)]

    @property
    def agrees(self) -> bool:
        """Whether the numbers that the cube multiplied are those of the formula, each product once."""
        left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in self.parts:
            for mmad in part.mmads:
                real = (mmad.left.origins != CONSTANT) & (mmad.right.origins != CONSTANT)
                left.append(self.indices(mmad.left, real))
                right.append(self.indices(mmad.right, real))
        mine = np.stack([np.concatenate(left), np.concatenate(right)])
        wanted = np.stack([self.formula.left, self.formula.right])
        return np.array_equal(mine[:, np.lexsort(mine)], wanted[:, np.lexsort(wanted)])

    def indices(self, operand: Operand, which: Array) -> Array:
        """Flat indices into the caller's tensor of the numbers `which` of one side of an mmad; none may be constants."""
        name = self.formula.left_name if operand.space == "L0A" else self.formula.right_name
        (tensor,) = {t.base: t for task in self.provenance.tasks for t in task.tensors if t.name == name}.values()
        return (operand.origins[which] - tensor.base) // self.itemsize(name)

    def itemsize(self, tensor: str) -> int:
        """Bytes of an element of an input in GM."""
        return int(numpy_dtype(self.call.inputs[tensor].dtype).itemsize)

    def name(self, tensor: str) -> str:
        """What the operator calls one of our tensors."""
        return "self" if tensor == "grad_output" and self.call.operator == "conv_tbc_backward" else tensor

    def subscript(self, tensor: str, flat: int) -> str:
        """An element of an input by its flat index: "weight[1, 0, 2, 2]"."""
        place = np.unravel_index(flat, self.operands[tensor].shape)
        return f"{self.name(tensor)}[{', '.join(str(int(i)) for i in place)}]"

    def task(self, row: Row) -> Task:
        """The kernel of an instruction."""
        return self.provenance.tasks[self.provenance.programs[row[0]].task]


def explain(
    case: str | Path | Case,
    *,
    element: Sequence[int] | None = None,
    weight: Sequence[int] | None = None,
    **options: Any,
) -> Explanation:
    """Follow one element of grad_input (`element`) or grad_weight (`weight`), by its index in the caller's order.

    Without either it is the middle of grad_input, or of grad_weight where there is no other. `options` are those of
    `explain_all`. Raises SimError for an index outside the gradient, and whatever the call itself raises.
    """
    loaded = case if isinstance(case, Case) else load_case(case)
    return explain_all(loaded, [_chosen(loaded, element, weight)], **options)[0]


def explain_all(
    case: Case,
    elements: Sequence[tuple[str, tuple[int, ...]]],
    *,
    chip: str | Path | ChipSpec | None = None,
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    cube_math_type: int | None = None,
    deterministic: bool | None = None,
    conformance: str | None = None,
    accumulate: str = "blas",
    overflow: str | None = None,
    tiles: bool = False,
    progress: Progress | None = None,
) -> list[Explanation]:
    """Follow several elements, (gradient, index) each, through one run. `tiles` keeps the L0C tile after every mmad.

    The other options are those of `convolution_backward`; left out, they are the case's.
    """
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip or case.chip)
    check_fits(case.tensors, spec)
    values = make_tensors(case)
    followers = [_follower(case, gradient, index, tiles) for gradient, index in elements]
    result = call_case(
        case,
        values,
        cube_math_type=case.cube_math_type if cube_math_type is None else cube_math_type,
        chip=spec,
        mode="full",
        deterministic=case.deterministic if deterministic is None else deterministic,
        conformance=conformance or case.conformance,
        tiling=tiling or case.tiling,
        block_dim=case.block_dim or None,
        l2=case.l2,
        accumulate=accumulate,
        overflow=overflow,
        progress=progress,
        observer=_Together(followers),
    )
    call = result.call
    assert call is not None
    plain = {"grad_output" if name == "self" else name: array for name, array in values.items()}
    plain = {name: numbers(plain[name], call.inputs[name].dtype) for name in INPUTS}
    model = ValueModel.of(spec, accumulate, overflow)
    shapes = {name: array.shape for name, array in plain.items()}
    found = []
    for (gradient, index), follower in zip(elements, followers, strict=True):
        terms = formula(call, gradient, shapes, index)
        if _left_of(follower) == terms.right_name:
            terms = terms.turned()
        seen = {name: operand(array, computed_in(call, gradient), model) for name, array in plain.items()}
        found.append(
            Explanation(
                gradient, index, case, spec, result, terms, follower.provenance, follower.output, follower.way, plain,
                _sum(terms, seen), _sum(terms, plain),
            )
        )  # fmt: skip
    return found


def _left_of(follower: Follower) -> str | None:
    """Which of the caller's tensors is the left operand of the mmads; None where they multiply zeros alone."""
    inputs = [t for task in follower.provenance.tasks for t in task.tensors if t.name in INPUTS]
    for part in follower.way:
        for mmad in part.mmads if isinstance(part, Part) else ():
            for origin in mmad.left.origins[mmad.left.origins != CONSTANT][:1]:
                return next((t.name for t in inputs if t.base <= origin < t.base + t.size), None)
    return None


def _follower(case: Case, gradient: str, index: tuple[int, ...], tiles: bool) -> Follower:
    shape, dtype = case.tensors["input" if gradient == "grad_input" else "weight"]
    if gradient == "grad_weight":
        dtype = case.attributes.get("grad_weight_dtype") or ("float32" if dtype in EIGHT_BIT else dtype)
    offset = int(np.ravel_multi_index(index, shape)) * int(numpy_dtype(dtype).itemsize)
    return Follower(gradient, offset, dtype, tiles=tiles)


class _Together:
    """Several followers of one run."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._followers = followers
        self._wanted: dict[Row, list[Follower]] = {}

    def watch(self, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> Mapping[Row, object]:
        for follower in self._followers:
            for row in follower.watch(tasks, programs):
                self._wanted.setdefault(row, []).append(follower)
        return self._wanted

    def started(self, row: Row, memory: Memory) -> None:
        for follower in self._wanted[row]:
            follower.started(row, memory)

    def retired(self, row: Row, memory: Memory) -> None:
        for follower in self._wanted[row]:
            follower.retired(row, memory)


def _sum(terms: Formula, operands: Mapping[str, Array]) -> float:
    left = operands[terms.left_name].reshape(-1)[terms.left].astype(np.float64)
    right = operands[terms.right_name].reshape(-1)[terms.right].astype(np.float64)
    return float((left * right).sum())


def _chosen(case: Case, element: Sequence[int] | None, weight: Sequence[int] | None) -> tuple[str, tuple[int, ...]]:
    """The gradient and the index in it; SimError where there is no such element."""
    if element is not None and weight is not None:
        raise SimError("explain: an element (of grad_input) and a weight (of grad_weight) given; one at a time")
    mask = dict(zip(("grad_input", "grad_weight"), case.attributes.get("output_mask", (True, True)), strict=False))
    gradient = "grad_weight" if weight is not None or (element is None and not mask["grad_input"]) else "grad_input"
    shape = case.tensors["input" if gradient == "grad_input" else "weight"][0]
    if not mask[gradient]:
        raise SimError(f"explain: output_mask {list(mask.values())} leaves {gradient} out of this call")
    if not math.prod(shape):
        raise SimError(f"explain: {gradient} {list(shape)} has no elements")
    given = weight if weight is not None else element
    index = tuple(size // 2 for size in shape) if given is None else tuple(int(i) for i in given)
    if len(index) != len(shape) or any(not 0 <= i < size for i, size in zip(index, shape, strict=False)):
        raise SimError(
            f"explain: {gradient} has no element {list(index)}; its shape is {list(shape)}, "
            f"so allowed are {len(shape)} numbers from 0 to {[size - 1 for size in shape]}"
        )
    return gradient, index
