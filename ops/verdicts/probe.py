"""The probing verdict: the programs of a call run again on data on which every product counts.

The caller's data may not show that a product is missing: in a sum of 100,000 products of one sign the verdict's bound, which
grows with the sum, is as large as several of them. So the same programs get two more sets of operands.

exact: numbers of few binary digits with random signs, magnitudes in [1/2, 1), so that every partial sum has at most 24 digits
    and float32 holds it exactly whatever the order. The result must be the exact sum, rounded as the output is: one
    product lost, doubled or exchanged, one rounding on the way too many, and the element is another one. Products are at
    least 1/4 large; where an ULP of the result is larger, a single product is found with probability `least_chance`.
leaning: positive numbers with all digits. Sums must be within the verdict's bound, and the results that are not the correctly
    rounded ones must lie on both sides (`numerics.direction`): an accumulator that cuts digits off errs to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.frozen import frozen
from ascend_sim.numerics import Verdict, encode, format_of, half_ulp, ulp
from ascend_sim.numerics.direction import Direction
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operator import Operator, Sums
from ascend_sim.ops.verdicts.sums import sums_of
from ascend_sim.ops.verdicts.values import numbers, operand, typed
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]
Rerun = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""The programs of the call once more: flat storages of its inputs -> its outputs as the caller sees them."""

ACCUMULATOR_DIGITS = 24
"""Binary digits of a float32 number: integers up to 2^24 are exact."""
MOST_DIGITS = 12
"""Most binary digits of an operand of the exact data: products of two fill the accumulator."""
SEED = 20
SOON_DONE = 1 << 28
"""Most products of all outputs for which a call is probed without the user's request: well under a second."""


@frozen
class Probed:
    """Result of the probe for an output, from a run on exact data (every partial sum fits float32) and one on leaning
    data (all positive).

    `wrong` elements differ from the exact sums; `first_wrong` is the index of the first. `bound` is the verdict on the
    leaning data, `direction` on which side of the right results its errors lie. `least_chance` is the least chance,
    over all elements, that one lost product shows.
    """

    wrong: int
    first_wrong: tuple[int, ...] | None
    least_chance: float
    bound: Verdict
    direction: Direction

    @property
    def correct(self) -> bool:
        return not self.wrong and self.bound.correct and not self.direction.leans

    @property
    def failed(self) -> str | None:
        """Return the first of the tests "exact", "bound", "direction" that failed; None if all passed."""
        tests = {"exact": self.wrong, "bound": not self.bound.correct, "direction": self.direction.leans}
        return next((name for name, failed in tests.items() if failed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for a report as plain values: "ran" (True), "correct", the "failed" test, the number of "wrong"
        elements, "first_wrong" (index), "least_chance", the direction's counts "away" and "towards_zero" and their "limit".
        """
        return {
            "ran": True,
            "correct": self.correct,
            "failed": self.failed,
            "wrong": self.wrong,
            "first_wrong": None if self.first_wrong is None else list(self.first_wrong),
            "least_chance": self.least_chance,
            "away": self.direction.away,
            "towards_zero": self.direction.towards_zero,
            "limit": round(self.direction.limit, 1),
        }


@frozen(eq=False)
class Probe:
    """A call that can be run again on other data. `fresh()` returns name -> (flat storage, view of it in the caller's
    layout) of each input; `rerun` computes the outputs from the storages.

    A probe costs two more runs of the values, and two float64 references. `wanted` True or False decides; with None a call is
    probed if that is soon done (up to `SOON_DONE` products), or if the caller's data may hide a product of mean size.
    """

    operator: Operator[Any, Any]
    call: AcceptedCall
    model: ValueModel
    fresh: Callable[[], Mapping[str, tuple[Array, Array]]]
    rerun: Rerun
    wanted: bool | None = None

    def refused(self, may_lose: float) -> str | None:
        """Return the reason why the call is not probed, None if it is; `may_lose` is the worst of `judge.may_lose` over
        its outputs.

        Even if it is `wanted`, a call with nothing to add or with sums longer than 2^24 products is not probed.
        """
        if self.wanted is False:
            return "probe = False"
        products = self.operator.products(self.call)
        work = sum(products[name] * prod(made.shape) for name, made in self.call.outputs.items())
        if self.wanted is None and may_lose < 1 and work > SOON_DONE:
            return f"{work} products, and none of mean size can be lost within the bound: small ones may be, and sums may lean"
        longest = max(products.values(), default=0)
        if longest == 0 or any(tensor.is_empty for tensor in self.call.inputs.values()):
            return "there is nothing to add"
        if longest > 1 << ACCUMULATOR_DIGITS:
            return f"sums of {longest} products: float32 holds at most {1 << ACCUMULATOR_DIGITS} exactly"
        return None

    def run(self) -> dict[str, Probed]:
        """Run the call twice, in storages of its own (`fresh`), and return output -> result: on exact data (sums fit float32),
        and on leaning (positive) data.
        """
        exact, leaning = (self._outcome(draw) for draw in (self._exact, self._leaning))
        with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
            return {name: self._judged(name, exact, leaning) for name in exact.outputs}

    def _judged(self, name: str, exact: _ProbeRun, leaning: _ProbeRun) -> Probed:
        operator, call = self.operator, self.call
        sums, inputs, result = exact.sums(name)
        expected = self._rounded(name, sums.total, inputs).reshape(result.shape)
        values = numbers(result, call.outputs[name].dtype).astype(np.float64)
        differ = ~((values == expected) | (np.isnan(values) & np.isnan(expected)))
        place = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), differ.shape)) if differ.any() else None
        narrow = [format_of(step) for step in ("float32", *operator.roundings(call, name))]
        steps = np.max([2 * half_ulp(np.abs(sums.total) + 1, step) for step in narrow], axis=0)
        chance = np.minimum(_LEAST_PRODUCT / steps, 1.0)
        lean, lean_inputs, lean_result = leaning.sums(name)
        bound = operator.verdict(call, name, lean_result, lean, self.model, inputs=lean_inputs)
        found = numbers(lean_result, call.outputs[name].dtype)
        rounded, totals = (part.reshape(found.shape) for part in (self._rounded(name, lean.total, lean_inputs), lean.total))
        direction = Direction.of(found, rounded, totals)
        return Probed(int(differ.sum()), place, round(float(chance.min(initial=1.0)), 4), bound, direction)

    def _rounded(self, name: str, total: Array, inputs: Mapping[str, Array]) -> Array:
        return self.operator.rounded(self.call, name, total, self.model, inputs=inputs)

    # -- data ----------------------------------------------------------------------------------------------------------

    def _outcome(self, draw: Callable[[str, Array, np.random.Generator], Array]) -> _ProbeRun:
        rng = np.random.default_rng(SEED)
        fresh, arrays = self.fresh(), {}
        for name, (_, view) in fresh.items():
            values, dtype = draw(name, view, rng), self.call.inputs[name].dtype
            view[...] = encode(values, dtype) if view.dtype == np.uint8 else values.astype(view.dtype)
            arrays[name] = view.copy()  # elements of a broadcast view share one number
        return _ProbeRun.of(self, arrays, self.rerun({name: storage for name, (storage, _) in fresh.items()}))

    def _exact(self, name: str, like: Array, rng: np.random.Generator) -> Array:
        digits = self._digits()[name]
        first = 1 << max(digits - 1, 0)
        magnitudes = rng.integers(first, max(1 << digits, first + 1), like.shape) / (1 << digits)
        return magnitudes * rng.choice(np.array([-1.0, 1.0]), like.shape)

    def _leaning(self, name: str, like: Array, rng: np.random.Generator) -> Array:
        """Return positive data in [1/2, 1) of the shape of `like`, divided by a power of two where sums would leave float16."""
        longest = max(self.operator.products(self.call).values())
        return (0.5 + rng.random(like.shape) / 2) / (1 << max(longest.bit_length() - 14, 0))

    def _digits(self) -> dict[str, int]:
        """Return input -> binary digits of its exact data: the most that its dtypes hold, up to `MOST_DIGITS`, and that keep
        partial sums in `ACCUMULATOR_DIGITS`; left factors have at most half of these, rounded up. 0 digits: data are +-1.
        """
        operator, call = self.operator, self.call
        budget = ACCUMULATOR_DIGITS - (max(operator.products(call).values()) - 1).bit_length()
        computed = {operator.computed_in(call, output) for output in call.outputs}
        own = {
            name: min(MOST_DIGITS, *(self._held(dtype) for dtype in {tensor.dtype, *computed}))
            for name, tensor in call.inputs.items()
        }
        first = {pair[0] for output in call.outputs if (pair := operator.factors(call, output))}
        left = min([own[name] for name in first] or [MOST_DIGITS])
        left = min(left, -(-budget // 2))
        return {name: left if name in first else min(own[name], budget - left) for name in own}

    def _held(self, dtype: str) -> int:
        """Return how many binary digits numbers just below 1 have in `dtype`."""
        bits = self.model.chip.cube.hf32_mantissa_bits if dtype == "hf32" else None
        return int(np.log2(0.5 / float(ulp(np.asarray(0.5), format_of(dtype, bits))))) + 1


_LEAST_PRODUCT = 0.25


@frozen(eq=False)
class _ProbeRun:
    """Inputs and outputs of a run on one of the probe's sets of data, with axes in the order of the problem."""

    probe: Probe
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    @classmethod
    def of(cls, probe: Probe, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> _ProbeRun:
        operator, call = probe.operator, probe.call
        values = {name: numbers(array, call.inputs[name].dtype) for name, array in inputs.items()}
        results = {name: typed(array, call.outputs[name].dtype) for name, array in outputs.items()}
        return cls(probe, operator.in_problem_order(call, values), operator.in_problem_order(call, results))

    def sums(self, name: str) -> tuple[Sums, Mapping[str, Array], Array]:
        """Return (float64 sums for output `name`, all inputs, the run's array of that output).

        The sums are of the operands as the cube rounds them; of unrounded ones for an output that is not a sum of products.
        """
        operator, call = self.probe.operator, self.probe.call
        operands = self.inputs
        if operator.summed(name) is None:
            compute = operator.computed_in(call, name)
            factors = {key: array for key, array in operands.items() if key not in operator.added}
            operands = {key: operand(array, compute, self.probe.model) for key, array in factors.items()}
        return sums_of(operator, call, name, operands, self.inputs), self.inputs, self.outputs[name]
