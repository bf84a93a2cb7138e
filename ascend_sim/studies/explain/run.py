"""One element of a gradient, followed through the run that made it.

    explanation = ascend_sim.explain("strided", element=(0, 3, 5, 5))
    explanation.parts[0].mmads[-1].partial, explanation.value, explanation.reference

The call runs in `full` mode. Before its values are computed, the element's bytes are followed backwards through the programs
that ran (`engine.provenance`): from the caller's tensor through Cast and TransData to the instruction that took them out of
L0C, to every mmad that added to them, to the fractals, the loads and the rows in L1 that those multiplied, and to the caller's
numbers. While values are computed, memory is looked at where the value passes; what stands here are those bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import index as whole
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ascend_sim.calls.cases import call_case, of_this_case
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import check_fits
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.engine.flow import CONSTANT
from ascend_sim.engine.follow import Follower, ItemStep, MmadOperand, SumPart
from ascend_sim.engine.provenance import Provenance
from ascend_sim.engine.replay import Row
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.isa.memory import Memory
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.convolution.formula import Formula
from ascend_sim.ops.operator import Operator
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.verdicts.values import numbers, operand
from ascend_sim.options.description import with_options
from ascend_sim.options.run_options import ExplainOptions
from ascend_sim.report.shown import ShownResult
from ascend_sim.runtime import Progress, ValueModel

Array = NDArray[Any]


@mutable(eq=False)
class Explanation(ShownResult):
    """Result of `explain`: everything about element `index` (in the caller's order) of the output `tensor`.

    `way` has the parts of the sum and the steps to the output, each behind its sources; `output` is the last step.
    `formula` has the products; its left tensor is the one that the cube takes as left operand. `operands` are the caller's
    input tensors by name, 8-bit ones decoded. `reference` is the float64 sum of the numbers as the cube rounds them,
    `unrounded` that of the caller's numbers.
    """

    tensor: str
    index: tuple[int, ...]
    case: Case
    chip: ChipSpec
    result: Result
    formula: Formula
    provenance: Provenance
    output: ItemStep
    way: list[ItemStep | SumPart]
    operands: Mapping[str, Array]
    reference: float
    unrounded: float
    _drawn: ClassVar[str] = "ascend_sim.studies.explain.text:draw_explanation"

    def __repr__(self) -> str:
        what = f"{self.tensor}{list(self.index)} on {self.chip.name}"
        return f"<Explanation of {what}: {len(self.way)} steps, reference {self.reference:.6g}>"

    @property
    def value(self) -> float:
        """Return the value of the element in the output that the call returned."""
        return self.output.value

    @property
    def call(self) -> ConvolutionCall:
        """Return the accepted call, with the problem's sizes."""
        call = self.result.call
        assert isinstance(call, ConvolutionCall)  # no other has a formula
        return call

    @property
    def operator(self) -> Operator[Any, Any]:
        """Return the call's operator."""
        return OPERATORS[self.case.operator]

    @property
    def parts(self) -> list[SumPart]:
        """Return the parts of the sum in `way`, one for each L0C tile that held a partial sum of the element."""
        return [part for part in self.way if isinstance(part, SumPart)]

    @property
    def agrees(self) -> bool:
        """Return True if the cube multiplied exactly the formula's pairs, each once; products with padding do not count."""
        left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in self.parts:
            for mmad in part.mmads:
                real = (mmad.left.origins != CONSTANT) & (mmad.right.origins != CONSTANT)
                left.append(self.indices(mmad.left, real))
                right.append(self.indices(mmad.right, real))
        mine = np.stack([np.concatenate(left), np.concatenate(right)])
        wanted = np.stack([self.formula.left, self.formula.right])
        return np.array_equal(mine[:, np.lexsort(mine)], wanted[:, np.lexsort(wanted)])

    def indices(self, operand: MmadOperand, which: Array) -> Array:
        """Return the flat indices, in the caller's tensor, of the elements `which` (a mask or indices) of an mmad's operand.

        Every one of them must be a number of the caller: an element that is CONSTANT, such as padding, has no index.
        """
        name = self.formula.left_name if operand.space == "L0A" else self.formula.right_name
        (tensor,) = {t.base: t for task in self.provenance.tasks for t in task.tensors if t.name == name}.values()
        return (operand.origins[which] - tensor.base) // self.itemsize(name)

    def itemsize(self, tensor: str) -> int:
        """Return the bytes of one element of an input tensor in GM."""
        return int(numpy_dtype(self.call.inputs[tensor].dtype).itemsize)

    def name(self, tensor: str) -> str:
        """Return the caller's name of a tensor that the simulator calls `tensor`; mostly they are equal."""
        return self.operator.given_name(tensor)

    def subscript(self, tensor: str, flat: int) -> str:
        """Return the text "weight[1, 0, 2, 2]" for the element of an input tensor at a flat index."""
        place = np.unravel_index(flat, self.operands[tensor].shape)
        return f"{self.name(tensor)}[{', '.join(str(int(i)) for i in place)}]"

    def task(self, row: Row) -> Task:
        """Return the kernel launch that ran the instruction `row`."""
        return self.provenance.tasks[self.provenance.programs[row[0]].task]


@with_options(ExplainOptions)
def explain(
    case: str | Path | Case,
    *,
    element: Sequence[int] | None = None,
    weight: Sequence[int] | None = None,
    tiles: bool = False,
    progress: Progress | None = None,
    **options: Unpack[ExplainOptions],
) -> Explanation:
    """Follow one element of an output through a run in mode "full"; its index is in the caller's order.

    `element` is an index of grad_input or of a forward operator's output, `weight` one of grad_weight. Without either it is the
    middle of the first output. `tiles` keeps the L0C tile after every mmad. Options that are left out or None are the case's.
    Raises SimError for both at once, for an output that the call does not have, for an index outside it, and errors of the call
    itself.
    """
    loaded = case if isinstance(case, Case) else load_case(case)
    chosen = _chosen(loaded, element, weight)
    return explain_all(loaded, [chosen], tiles=tiles, progress=progress, **ExplainOptions(**options))[0]


def explain_all(
    case: Case,
    elements: Sequence[tuple[str, tuple[int, ...]]],
    *,
    tiles: bool = False,
    progress: Progress | None = None,
    **options: Unpack[ExplainOptions],
) -> list[Explanation]:
    """Follow several elements, (output, index) each, through one run in mode "full" and return their explanations in order.

    `tiles` and `options` are those of `explain`. Raises KeyError for an output that the call does not have and ValueError for
    an index outside it.
    """
    how = of_this_case(case, options)
    spec = chip_of(how["chip"])
    check_fits(case.tensors, spec)
    values = make_tensors(case)
    followers = []
    for output, index in elements:
        shape, dtype = case.results[output]
        offset = int(np.ravel_multi_index(index, shape)) * int(numpy_dtype(dtype).itemsize)
        followers.append(Follower(output, offset, dtype, tiles=tiles))
    result = call_case(case, values, **options, progress=progress, observer=_Together(followers))
    call, operator = result.call, OPERATORS[case.operator]
    assert call is not None
    ours = operator.by_our_names(values)
    plain = {name: numbers(ours[name], tensor.dtype) for name, tensor in call.inputs.items()}
    model = ValueModel.of(spec, how["accumulate"], how["overflow"])
    shapes = {name: array.shape for name, array in (plain | result.outputs).items()}
    found = []
    for (output, index), follower in zip(elements, followers, strict=True):
        terms = operator.formula(call, output, shapes, index)
        if _left_of(follower, tuple(call.inputs)) == terms.right_name:
            terms = terms.turned()
        compute, factors = operator.computed_in(call, output), (terms.left_name, terms.right_name)
        seen = {name: operand(plain[name], compute, model) for name in factors}
        found.append(
            Explanation(
                output,
                index,
                case,
                spec,
                result,
                terms,
                follower.provenance,
                follower.output,
                follower.way,
                plain,
                _sum(terms, seen, plain),
                _sum(terms, plain, plain),
            )
        )
    return found


def _left_of(follower: Follower, names: Sequence[str]) -> str | None:
    """Return the name of the caller's tensor whose numbers are the left operand of the mmads that the follower saw; None if
    they multiply only constants there.
    """
    inputs = [t for task in follower.provenance.tasks for t in task.tensors if t.name in names]
    for part in follower.way:
        for mmad in part.mmads if isinstance(part, SumPart) else ():
            for origin in mmad.left.origins[mmad.left.origins != CONSTANT][:1]:
                return next((t.name for t in inputs if t.base <= origin < t.base + t.size), None)
    return None


class _Together:
    """Observer of a run that passes each watched instruction to the followers that asked for it."""

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


def _sum(terms: Formula, operands: Mapping[str, Array], plain: Mapping[str, Array]) -> float:
    """Return the formula's value in float64: the sum of the products of `operands`, plus the element of `plain` that the
    formula adds (a bias), if any.
    """
    left = operands[terms.left_name].reshape(-1)[terms.left].astype(np.float64)
    right = operands[terms.right_name].reshape(-1)[terms.right].astype(np.float64)
    added = 0.0 if terms.added is None else float(plain[terms.added[0]].reshape(-1)[terms.added[1]])
    return float((left * right).sum()) + added


def _chosen(case: Case, element: Sequence[int] | None, weight: Sequence[int] | None) -> tuple[str, tuple[int, ...]]:
    """Return (output, index) of the element to follow; without `element` and `weight` the middle of the first output that
    the case has.

    Raises SimError for both at once, an operator or call without that output, an empty output, and an index outside it.
    """
    options = OPERATORS[case.operator].explained
    if not options:
        raise SimError(f"explain: {case.operator} has no element to follow")
    given = {option: index for option, index in (("element", element), ("weight", weight)) if index is not None}
    if len(given) > 1:
        both = " and ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name} (of {options.get(name)})" for name in given)
        raise SimError(f"explain: {both} given; one at a time")
    (option, index), *_ = [*given.items(), (next(iter(options)), None)]
    if option not in options:
        raise SimError(f"explain: {case.operator} has no {option} to follow; it has {', '.join(options)}")
    output = options[option]
    if not given:
        output = next((name for name in options.values() if name in case.results), output)
    if output not in case.results:
        others = [f"--{name} ({one})" for name, one in options.items() if one in case.results]
        advice = f"; another number: {' or '.join(others)}" if others else ""
        raise SimError(f"explain: output_mask leaves {output} out of this call{advice}")
    shape = case.results[output][0]
    if not math.prod(shape):
        raise SimError(f"explain: {output} {list(shape)} has no elements")
    try:
        place = tuple(size // 2 for size in shape) if index is None else tuple(map(whole, index))
    except TypeError:
        example = [size // 2 for size in shape]
        raise SimError(f"explain: {option} {index!r}: allowed are {len(shape)} whole numbers, for example {example}") from None
    if len(place) != len(shape) or any(not 0 <= i < size for i, size in zip(place, shape, strict=False)):
        raise SimError(
            f"explain: {output} has no element {list(place)}; its shape is {list(shape)}, "
            f"so allowed are {len(shape)} numbers from 0 to {[size - 1 for size in shape]}"
        )
    return output, place
