"""Faults that are planted into instructions, and what a verdict says of them."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.isa import effect
from ascend_sim.isa.cube import Mmad
from ascend_sim.ops import execute


def wrong(result):
    return {name: figures["decided_by"] for name, figures in result.report.outputs.items() if not figures["correct"]}


class Faulty:
    """Counts the Mmads of a run from 0 and spoils a product of number `at`: `factor` -1 loses it, 1 adds it twice."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, choose=None, factor: float = 0.0) -> None:
        self.count, self.hits, read, placed = 0, 0, Mmad.read, execute.place

        def spoiled(mmad, memory, dst, src0, src1):
            result = read(mmad, memory, dst, src0, src1)
            if self.count == at:
                a, b = mmad.factors(memory, src0, src1)
                place = next(choose(a, b), None)
                if place is not None:
                    m, n, k = place
                    result = with_product(result, (m, n), np.float32(factor) * a[m, k], b[n, k])
                    self.hits += 1
            self.count += 1
            return result

        def anew(*arguments, **options):
            self.count = 0
            return placed(*arguments, **options)

        patch.setattr(Mmad, "read", spoiled)
        patch.setattr(execute, "place", anew)
        patch.setattr("ascend_sim.calls.run.place", anew)


def with_product(result, place, left, right):
    """Add a product at `place` to the operands of a Mmad: to its sums (`blas`), or to factors that are added up later."""
    if not isinstance(result, tuple):
        result[place] += left * right
        return result
    columns = []
    for factor, row, value in zip(result[:2], place, (left, right), strict=True):
        column = np.zeros((len(factor), 1), factor.dtype)
        column[row] = value
        columns.append(np.concatenate((factor, column), axis=1))
    return *columns, result[2]


def first(a, b, step=1):
    """(m, n, k) of the products of one Mmad that are not zero, in order."""
    for m in np.flatnonzero(a.any(axis=1))[::step]:
        for n in np.flatnonzero(b.any(axis=1))[::step]:
            for k in np.flatnonzero((a[m] != 0) & (b[n] != 0))[::step]:
                yield int(m), int(n), int(k)


def last(a, b):
    """Count like `first`, but from the end."""
    return first(a, b, -1)


def truncated(values):
    """float64 as float32, towards zero."""
    near = values.astype(np.float32)
    return np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near).astype(np.float32)


def truncate_to(values, digits):
    """float32 with so many digits, towards zero."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.trunc(np.ldexp(mantissa, digits)), exponent - digits).astype(np.float32)


def cut_sums(moves, memory, out, left, right, start):
    """Stand for `effect._added`: each addition to L0C goes towards zero."""
    total = np.zeros((moves.product.m, moves.product.n), np.float32)
    if moves.adds:
        effect._view(moves.put, total, 0, np.dtype(np.float32), packed=True)[...] = out
    return truncated(total.astype(np.float64) + left.astype(np.float64) @ right.T.astype(np.float64))
