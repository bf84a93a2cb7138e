"""Intervals that reports give, and the share of held-out kernels that lie in them."""

from __future__ import annotations

from collections.abc import Sequence

from accuracy_parts.held_out import Borrowed, HeldOut, borrowing, held_out, other_chips
from ascend_sim.chip import load_chip
from ascend_sim.report.certainty import (
    ENOUGH,
    LEVEL,
    LONG_US,
    MADE,
    MANY,
    ErrorKind,
    Interval,
    between_networks,
    interval,
    kinds,
    of_kind,
)

SURE = """## How sure a time is

Reports, pages and totals of `run-network` give each kernel's time with an interval in which {level:.0f} % of such kernels are
expected: those of its kind (architecture, operator, grouped or not, version of the library), chip and size (shorter or longer
than {long} us).

- With fewer than {enough} measured kernels of that chip and size it is the interval of the size on all chips of the
  architecture, and with fewer than {enough} of these that of all kernels of the kind.
- It is made of `configs/measurements/errors.yaml` (`tools/measured_errors.py`) at a level of {made:.0f} %, for new kernels err
  more than rows in view. Where costs were fitted on a kernel, errors of
  costs fitted without its layer stand beside them, and the larger scatter counts. Scatter between networks is pooled. From
  {many} kernels on what holds {level:.0f} % of them bounds a kernel's own part: errors have long tails.
- Kernels of other chips make an interval wider: a chip is taken to vary as much as a network (assumed).
- A kind without measured kernels borrows the nearest kind's interval, wider: first of the same unit (cube or vector), then
  architecture, work, operator, groups and version of the library. The order and the widening are assumed.
- Bounds of a total are sums, as if all errors went the same way. Totals of a network were not measured.

**Held out.** All rows of a network or run are left out, and its kernels compared with intervals from the others: {inside} of
{kernels} kernels, {share:.0f} %, lie inside; the aim is {least:.0f} to {most:.0f} %.
With costs that were fitted without the kernel's layer:
{refitted} of {kernels}, {refitted_share:.0f} % (without the products, whose costs are not fitted again, {own_refitted} of
{own}). {outside} Each chip as if nothing had been measured on it: {elsewhere} of {elsewhere_of}, {elsewhere_share:.0f} %.
Each kind as if it had not been measured: {lent} of {lent_of}, {lent_share:.0f} %. [The intervals, and every
kind](accuracy-tables.md#intervals)."""

INTERVALS = """## Intervals

Intervals that reports give, for a predicted time of 50 and of 500 us:

| chip | kernel | kernels of (networks) | 50 us, interval | 500 us, interval |
|---|---|---|---|---|
{shipped}

Some chips and kinds without rows:

| chip | kernel | as | of | 50 us, interval |
|---|---|---|---|---|
{without}

Held out, by kind. Runs of ResNet-50 with other batches count as networks. For kinds that were measured in one network one
kernel is left out at a time, with no allowance for other networks:

| kernel | chip | left out | inside | % | inside, costs fitted without its layer |
|---|---|---|---|---|---|
{by_kind}

Held out, by network or run:

| network or run | chip | kernel | inside |
|---|---|---|---|
{whole}

Each chip of a kind that was measured on several, in the interval from the others:

| kernel | chip | inside |
|---|---|---|
{chips}

Each kind in the interval that it would borrow:

| kernel | as | inside |
|---|---|---|
{borrowed}"""

ENDS = (50.0, 500.0)
"""Predicted us for which the table has the interval."""
UNMEASURED: tuple[tuple[str, str, bool, str], ...] = (
    ("ascend910a", "Conv2DBackpropFilter", False, ""), ("ascend910b3", "Conv2DBackpropFilter", False, ""),
    ("ascend910b3", "TransData", False, ""), ("ascend910_9391", "MatMul", False, ""),
    ("ascend950pr_9589", "Conv3DBackpropFilterV2", False, "9.0.0"), ("ascend910b2", "Cast", False, ""),
    ("ascend910b2", "Conv3DBackpropFilter", False, ""), ("ascend910b2", "Conv3DBackpropInputV2", False, ""),
    ("ascend910b2", "Conv2DBackpropFilter", True, ""), ("ascend910b2", "Conv2DBackpropInput", True, ""),
    ("ascend310p3", "Conv2DBackpropInput", False, ""), ("ascend310p3", "Conv2DBackpropFilter", False, ""),
    ("ascend310p3", "TransData", False, ""), ("ascend950pr_9579", "Conv3DBackpropInputV2", False, ""),
    ("ascend950pr_9579", "Conv3DBackpropFilterV2", False, "2026-08"),
    ("ascend950pr_9579", "Conv3DBackpropFilterV2", True, "9.0.0"), ("ascend950pr_9579", "Cast", False, ""),
    ("ascend950pr_9589", "MatMul", False, ""),
)  # fmt: skip
"""Chip, operator, grouped and library of kernels without rows that the page has an interval of."""
BAND = (LEVEL - 0.05, LEVEL + 0.15)
"""Share of left-out kernels that is aimed at."""
SOME = 10
"""Kernels from which the share of a kind says something."""


def sure() -> str:
    """The text on intervals, with the shares of kernels that were held out."""
    found = held_out(kinds())
    whole = [one for one in found if one.whole]
    sums = {name: sum(getattr(one, name) for one in whole) for name in ("inside", "refitted", "kernels")}
    own = [one for one in whole if "MatMul" not in one.kind.op_types]
    lent, elsewhere = _lent(), other_chips(kinds())
    lent_inside, lent_of = sum(one.inside for one in lent), sum(one.kernels for one in lent)
    elsewhere_inside, elsewhere_of = sum(one.inside for one in elsewhere), sum(one.kernels for one in elsewhere)
    return SURE.format(
        level=100 * LEVEL,
        made=100 * MADE,
        many=MANY,
        least=100 * BAND[0],
        most=100 * BAND[1],
        long=LONG_US,
        enough=ENOUGH,
        **sums,
        own_refitted=sum(one.refitted for one in own),
        own=sum(one.kernels for one in own),
        share=100 * sums["inside"] / sums["kernels"],
        refitted_share=100 * sums["refitted"] / sums["kernels"],
        outside=_outside(found),
        elsewhere=elsewhere_inside,
        elsewhere_of=elsewhere_of,
        elsewhere_share=100 * elsewhere_inside / elsewhere_of,
        lent=lent_inside,
        lent_of=lent_of,
        lent_share=100 * lent_inside / lent_of,
    )


def intervals() -> str:
    """The tables of intervals and of kernels held out."""
    found = held_out(kinds())
    return INTERVALS.format(
        shipped="\n".join(_shipped()),
        without="\n".join(_without()),
        by_kind="\n".join(_by_kind(found)),
        whole="\n".join(_held([one for one in found if one.whole])),
        chips="\n".join(f"| {one.kind.kernel} | {one.chip} | {one.inside} of {one.kernels} |" for one in other_chips(kinds())),
        borrowed="\n".join(_borrowed(_lent())),
    )


def _lent() -> list[Borrowed]:
    """Kinds of several kernels, each in the interval that it would borrow."""
    return borrowing([kind for kind in kinds() if kind.kernels > 1])


def _shipped() -> list[str]:
    between, lines = between_networks(kinds()), []
    for kind in kinds():
        for chip in kind.chips:
            rows = [of_kind(kind, chip, us, between) for us in ENDS]
            cells = ["borrowed, see below" if row is None else _cell(row) for row in rows]
            own = kind.on(chip)
            lines.append(f"| {chip} | {kind.kernel} | {own.kernels} ({len(own.errors)}) | {' | '.join(cells)} |")
    return lines


def _cell(found: Interval) -> str:
    return _ends(found) + (f", of {_chips(found)}" if found.chips else "")


def _chips(found: Interval) -> str:
    return f"{len(found.chips)} chips" if len(found.chips) > 1 else "".join(found.chips)


def _without() -> list[str]:
    lines = []
    for name, op_type, grouped, library in UNMEASURED:
        chip = load_chip(name)
        found = interval(chip, op_type, ENDS[0], grouped=grouped, library=library)
        kernel = ErrorKind(chip.identity.arch, (op_type,), grouped, library).kernel
        lines.append(f"| {name} | {kernel} | {found.borrowed or '-'} | {_chips(found) or '-'} | {_ends(found)} |")
    return lines


def _ends(found: Interval) -> str:
    return f"{found.low_us:.0f} to {found.high_us:.0f}"


def shares(found: Sequence[HeldOut]) -> dict[tuple[ErrorKind, str], tuple[int, int, int, bool]]:
    """Count the kernels of each kind and chip: inside as shipped, inside with costs fitted without them, all; and say whether
    networks were left out.

    Kernels are left out with their network where there are others, else one by one.
    """
    sums: dict[tuple[ErrorKind, str], tuple[int, int, int, bool]] = {}
    for one in found:
        if one.whole or not any(other.whole for other in found if other.kind == one.kind):
            inside, refitted, kernels, _ = sums.get((one.kind, one.chip), (0, 0, 0, False))
            sums[one.kind, one.chip] = inside + one.inside, refitted + one.refitted, kernels + one.kernels, one.whole
    return dict(sorted(sums.items(), key=lambda item: (item[0][0].name, item[0][1])))


def _by_kind(found: Sequence[HeldOut]) -> list[str]:
    lines = []
    for (kind, chip), (inside, refitted, kernels, whole) in shares(found).items():
        left = "networks" if whole else "kernels of one network"
        percent = f"{100 * inside / kernels:.0f}" if kernels >= SOME else "-"
        lines.append(f"| {kind.kernel} | {chip} | {left} | {inside} of {kernels} | {percent} | {refitted} of {kernels} |")
    return lines


def _outside(found: Sequence[HeldOut]) -> str:
    """Return the kinds with enough kernels on a chip that miss the aim, as shipped and with costs fitted without the layer."""
    said = []
    for column in (0, 1):
        missed = [
            f"{kind.kernel} of {chip} ({100 * sums[column] / sums[2]:.0f} %)"
            for (kind, chip), sums in shares(found).items()
            if sums[2] >= SOME and not BAND[0] <= sums[column] / sums[2] <= BAND[1]
        ]
        said.append(f"all but {' and '.join(missed)} are" if missed else "all are")
    least, most = (f"{100 * end:.0f}" for end in BAND)
    return (
        f"Of the kinds with {SOME} kernels or more on a chip {said[0]} within {least} to {most} % as shipped; "
        f"with costs fitted without the layer {said[1]}."
    )


def _held(found: Sequence[HeldOut]) -> list[str]:
    return [f"| {one.network} | {one.chip} | {one.kind.kernel} | {one.inside} of {one.kernels} |" for one in found]


def _borrowed(found: Sequence[Borrowed]) -> list[str]:
    return [f"| {one.kind.name} | {one.nearest.name} | {one.inside} of {one.kernels} |" for one in found]
