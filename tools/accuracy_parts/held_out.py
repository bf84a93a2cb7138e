"""Tests of uncertainty intervals by leaving out networks, chips or kinds of kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ascend_sim.frozen import frozen
from ascend_sim.report.certainty import ErrorKind, Interval, MeasuredError, between_networks, nearest, of_kind


@frozen
class HeldOut:
    """Test of the intervals on the kernels of one kind, chip and `network`, left out of the kernels that give the interval: all
    together, or one by one if fewer than two kernels of the kind would stay.

    `inside` counts the kernels whose measured time lies in the interval around the shipped prediction; `refitted` those whose
    time lies in the interval around a prediction by costs that were fitted without the kernel's layer.
    """

    kind: ErrorKind
    chip: str
    network: str
    inside: int
    refitted: int
    kernels: int
    whole: bool
    """True if the whole network was left out."""


@frozen
class OtherChips:
    """Test of the intervals on all kernels of a kind on one chip: `inside` counts those in the intervals of the
    architecture's other chips.
    """

    kind: ErrorKind
    chip: str
    inside: int
    kernels: int


@frozen
class Borrowed:
    """Test of the intervals on all kernels of a kind: `inside` counts those in the widened interval of the `nearest` other
    kind.
    """

    kind: ErrorKind
    nearest: ErrorKind
    inside: int
    kernels: int


def held_out(kinds: Sequence[ErrorKind]) -> list[HeldOut]:
    """Return a test for every network, kind and chip: the network's kernels are left out together where at least two others of
    the kind stay, else one by one. Kernels for which the rest gives no interval are not counted.
    """
    networks = sorted({name for kind in kinds for name in kind.errors})
    return [found for network in networks for found in _without_network(kinds, network)]


def _without_network(kinds: Sequence[ErrorKind], network: str) -> Iterator[HeldOut]:
    rest = [kind.where(lambda name, _: name != network) for kind in kinds]
    between = between_networks(rest)
    for kind, others in zip(kinds, rest, strict=True):
        whole = others.kernels >= 2
        of_chip: dict[str, list[tuple[bool, bool]]] = {}
        for one in kind.errors.get(network, ()):
            hit = _hits(others, between, one) if whole else _hits(_others_of(kind, network, one), 0.0, one)
            if hit is not None:
                of_chip.setdefault(one.chip, []).append(hit)
        for chip, hits in sorted(of_chip.items()):
            inside, refitted = (sum(column) for column in zip(*hits, strict=True))
            yield HeldOut(kind, chip, network, inside, refitted, len(hits), whole)


def _others_of(kind: ErrorKind, network: str, one: MeasuredError) -> ErrorKind:
    """Return a copy of the kind that has only the kernels of `network`, without the kernel `one`."""
    return kind.where(lambda name, other: name == network and other is not one)


def other_chips(kinds: Sequence[ErrorKind]) -> list[OtherChips]:
    """Return the tests that leave out one chip: for every chip and kind, where the other chips give an interval."""
    chips = sorted({chip for kind in kinds for chip in kind.chips})
    return [found for chip in chips for found in _without_chip(kinds, chip)]


def _without_chip(kinds: Sequence[ErrorKind], chip: str) -> Iterator[OtherChips]:
    rest = [kind.where(lambda _, one: one.chip != chip) for kind in kinds]
    between = between_networks(rest)
    for kind, others in zip(kinds, rest, strict=True):
        kernels = [one for rows in kind.on(chip).errors.values() for one in rows]
        inside = [hit[0] for one in kernels if (hit := _hits(others, between, one)) is not None]
        if inside:
            yield OtherChips(kind, chip, sum(inside), len(inside))


def borrowing(kinds: Sequence[ErrorKind]) -> list[Borrowed]:
    """Return a test for each kind: how many of its kernels lie in the widened interval of the nearest other kind, as if none
    had been measured.
    """
    found = []
    for kind in kinds:
        rest = [other for other in kinds if other is not kind]
        lender = nearest(rest, kind.arch, kind.op_types[0], grouped=kind.grouped, library=kind.library)
        between = between_networks(rest)
        kernels = [one for rows in kind.errors.values() for one in rows]
        inside = []
        for one in kernels:
            interval = of_kind(lender, one.chip, one.us, between, lent=True)
            assert interval is not None  # a lender has enough kernels
            inside.append(_inside(interval, one.us, one.error))
        found.append(Borrowed(kind, lender, sum(inside), len(inside)))
    return found


def _hits(kind: ErrorKind, between: float, one: MeasuredError) -> tuple[bool, bool] | None:
    """Return two bools: True if the kernel's measured time lies in the interval of `kind` around the shipped prediction, and
    True if it lies in the one around a prediction by costs that were fitted without the kernel's layer.

    None if `kind` gives no interval. `between` is the variance of a network, as in `of_kind`.
    """
    found = of_kind(kind, one.chip, one.us, between)
    return None if found is None else (_inside(found, one.us, one.error), _inside(found, one.us, one.left_out))


def _inside(found: Interval, us: float, error: float) -> bool:
    return found.low_us <= us * math.exp(error) <= found.high_us
