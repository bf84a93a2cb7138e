"""The float64 sums of an output, with infinities and NaN among the operands treated as in IEEE 754.

    found = sums_of(operator, call, "grad_input", operands, inputs)
    found.total, found.weights, found.doubtful

A cube multiplies zeros too: of padding, between the pixels of a strided gradient, behind the last product. With finite operands
they add nothing; with an infinite or NaN factor they make NaN. Which zeros a kernel multiplies is its own affair, so only the
products of the definition make `total`, and `doubtful` has the elements that a zero may have turned into NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operator import Operator, Sums

Array = NDArray[Any]


def sums_of(
    operator: Operator[Any, Any],
    call: AcceptedCall,
    output: str,
    operands: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *,
    absolute: bool = False,
) -> Sums:
    """Return the sums of one output; arguments are those of `Operator.sums`. `weights` are sum (ab)^2, with `absolute` sum
    |ab|.

    If a factor holds infinities or NaN, `total` is the sum of the products in the definition by IEEE 754, without products with
    padding. `weights` then cover the finite products only, and `doubtful`, else None, marks elements that a zero times an
    infinity or NaN may have turned into NaN.
    """
    names = operator.factors(call, output)
    special = {name: ~np.isfinite(operands[name]) for name in names}
    if not any(mask.any() for mask in special.values()):
        total, *weights = operator.sums(call, output, operands, inputs, absolute=absolute)
        return Sums(total, weights[-1], None, absolute)
    values = {name: operands[name].astype(np.float64) for name in names}
    finite = {**operands, **{name: np.where(special[name], 0.0, values[name]) for name in names}}
    total, *weights = operator.sums(call, output, finite, inputs, absolute=absolute)

    def counted(factors: Mapping[str, Array]) -> tuple[Array, ...]:
        """Return (sum ab, sum (ab)^2, sum |ab|) with the numbers `factors` for the named tensors, without added inputs."""
        counts = {name: part.astype(np.float64) for name, part in factors.items()}
        return operator.sums(call, output, {**finite, **counts}, {}, absolute=True)

    nan = np.zeros(total.shape)
    plus, minus = np.zeros(total.shape), np.zeros(total.shape)
    for one, other in (names, names[::-1]):
        infinite, mate = np.isinf(values[one]), values[other]
        for left, right in ((np.isnan(values[one]), np.ones(mate.shape)), (infinite, mate == 0)):
            if left.any():
                nan += counted({one: left, other: right})[0]
        if infinite.any():
            signs = {one: np.where(infinite, np.sign(values[one]), 0.0), other: np.nan_to_num(np.sign(mate))}
            difference, _, both = counted(signs)
            plus, minus = plus + (both + difference), minus + (both - difference)
    of_products = np.select([(nan > 0) | ((plus > 0) & (minus > 0)), plus > 0, minus > 0], [np.nan, np.inf, -np.inf], 0.0)
    doubtful = operator.meets_zeros(call, output, special, nan + plus + minus > 0)
    return Sums(total + of_products, weights[-1], np.broadcast_to(doubtful, total.shape), absolute)
