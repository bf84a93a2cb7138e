"""Whether intervals hold: kernels of a network in intervals from the others; of kinds with one network, kernel by kernel; and
kinds in intervals that they would borrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascend_sim.frozen import frozen
from ascend_sim.report.certainty import (
    Errors,
    Interval,
    Kind,
    Measured,
    between_networks,
    borrowed,
    nearest,
    of_errors,
)


@frozen
class HeldOut:
    """Kernels of a kind that were left out, all those of `network` or, where that is the only one, one by one.

    `inside` counts those whose measured time lies in the interval around what ships; `refitted` those in the one around what
    costs predict that were fitted without the kernel's layer.
    """

    kind: Kind
    network: str
    inside: int
    refitted: int
    kernels: int
    whole: bool
    """Whether the whole network was left out."""


@frozen
class Borrowed:
    """Kernels of a kind that was left out, inside the interval of `nearest`, widened."""

    kind: Kind
    nearest: Kind
    inside: int
    kernels: int


def held_out(kinds: Sequence[Kind]) -> list[HeldOut]:
    """One for every kind and network of which something is known without it."""
    found = []
    for network in sorted({name for kind in kinds for name in kind.errors}):
        rest = [kind.without(network) for kind in kinds]
        between = between_networks(rest)
        for kind, others in zip(kinds, rest, strict=True):
            own = kind.errors.get(network, ())
            whole = others.kernels >= 2
            if whole:
                left = [(others.errors, between)] * len(own)
            else:
                left = [({network: [*own[:at], *own[at + 1 :]]}, 0.0) for at in range(len(own))]
            hits = [_hits(*known, one) for known, one in zip(left, own, strict=True)]
            known = [hit for hit in hits if hit is not None]
            if known:
                inside, refitted = (sum(column) for column in zip(*known, strict=True))
                found.append(HeldOut(kind, network, inside, refitted, len(known), whole))
    return found


def borrowing(kinds: Sequence[Kind]) -> list[Borrowed]:
    """Each kind as if none of its kernels had been measured."""
    found = []
    for kind in kinds:
        rest = [other for other in kinds if other is not kind]
        lender = nearest(rest, kind.arch, kind.op_types[0], grouped=kind.grouped, library=kind.library)
        between = between_networks(rest)
        kernels = [one for rows in kind.errors.values() for one in rows]
        inside = [_inside(borrowed(lender, one.us, between), one.us, one.error) for one in kernels]
        found.append(Borrowed(kind, lender, sum(inside), len(inside)))
    return found


def _hits(errors: Errors, between: float, one: Measured) -> tuple[bool, bool] | None:
    """Whether a kernel lies inside as shipped, and by costs fitted without it; None where nothing is known."""
    found = of_errors(errors, one.us, between)
    return None if found is None else (_inside(found, one.us, one.error), _inside(found, one.us, one.left_out))


def _inside(found: Interval, us: float, error: float) -> bool:
    return found.low_us <= us * math.exp(error) <= found.high_us
