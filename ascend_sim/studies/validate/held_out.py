"""Whether intervals hold: kernels of a network in intervals from the others; of kinds with one network, kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.report.certainty import Errors, Kind, between_networks, of_errors


@dataclass(frozen=True)
class HeldOut:
    """Kernels of a kind that were left out, all those of `network` or, where that is the only one, one by one."""

    kind: Kind
    network: str
    inside: int
    kernels: int
    whole: bool
    """Whether the whole network was left out."""


def held_out(kinds: Sequence[Kind]) -> list[HeldOut]:
    """One for every kind and network of which something is known without it."""
    found = []
    for network in sorted({name for kind in kinds for name in kind.errors}):
        rest = [kind.without(network) for kind in kinds]
        between = between_networks(rest)
        for kind, others in zip(kinds, rest, strict=True):
            own = kind.errors.get(network, ())
            if others.errors:
                inside = [_inside(others.errors, us, error, between) for us, error in own]
            else:
                left = [{network: [*own[:at], *own[at + 1 :]]} for at in range(len(own))]
                inside = [_inside(rows, *one, between) for rows, one in zip(left, own, strict=True)]
            known = [hit for hit in inside if hit is not None]
            if known:
                found.append(HeldOut(kind, network, sum(known), len(known), bool(others.errors)))
    return found


def _inside(errors: Errors, us: float, error: float, between: float) -> bool | None:
    """Whether a kernel's measured time lies in the interval from those errors; None where there is none."""
    found = of_errors(errors, us, between)
    return None if found is None else found.low_us <= us * math.exp(error) <= found.high_us
