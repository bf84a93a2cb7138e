"""How sure a time is: the intervals that reports give, and whether held-out kernels lie in them."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.report.certainty import ENOUGH, LEVEL, LONG_US, Kind, between_networks, kinds, of_errors
from ascend_sim.studies.validate.held_out import HeldOut, held_out

SURE = """## How sure a time is

Reports, pages and totals of `run-network` give each kernel's time with an interval: {level:.0f} % of the kernels of its
kind (architecture, operator, grouped or not, version of the library; shorter or longer than {long} us where {enough} were
measured) are expected in it. It is made of `configs/measurements/errors.yaml` (`tools/measured_errors.py`): told nothing
and, but for products, with costs that were fitted without the kernel's layer. What networks have of their own is pooled
over all kinds, so that a kind which was measured in one network is not taken for surer than it is
(`ascend_sim/report/certainty.py`). A kind without measured rows has no interval, and reports say so. Bounds of a total are
sums, as if all errors went the same way.

| architecture | kernel | kernels of (networks) | 50 us, interval | 500 us, interval |
|---|---|---|---|---|
{shipped}

Held out: all rows of a network or run are left out, its kernels are predicted and compared with intervals from the others.
{inside} of {kernels} kernels, {share:.0f} %, lie inside; the aim is 70 to 90 %. Runs of ResNet-50 with other batches count
as networks here. Costs were fitted again without a layer, not without a network, and tilings were written with all rows in
view, so on networks of another kind errors are larger.

| network or run | architecture | kernel | inside |
|---|---|---|---|
{whole}

Kinds that were measured in one network alone, one kernel left out at a time; as their intervals allow for other networks,
more lie inside:

| network | architecture | kernel | inside |
|---|---|---|---|
{single}"""

ENDS = (50.0, 500.0)
"""Predicted us for which the table has the interval."""


def name_of(kind: Kind) -> str:
    """A kind's kernel in words."""
    name = "MatMul" if "MatMul" in kind.op_types else ", ".join(kind.op_types)
    return name + (", grouped" if kind.grouped else "") + (f", library {kind.library}" if kind.library else "")


def sure() -> str:
    """The section of the page."""
    found = held_out(kinds())
    whole = [one for one in found if one.whole]
    inside, kernels = sum(one.inside for one in whole), sum(one.kernels for one in whole)
    return SURE.format(
        level=100 * LEVEL,
        long=LONG_US,
        enough=ENOUGH,
        shipped="\n".join(_shipped()),
        inside=inside,
        kernels=kernels,
        share=100 * inside / kernels,
        whole="\n".join(_held(whole)),
        single="\n".join(_held([one for one in found if not one.whole])),
    )


def _shipped() -> list[str]:
    between, lines = between_networks(kinds()), []
    for kind in kinds():
        rows = [of_errors(kind.errors, us, between) for us in ENDS]
        cells = ["one kernel, no interval" if row is None else f"{row.low_us:.0f} to {row.high_us:.0f}" for row in rows]
        measured = f"{sum(map(len, kind.errors.values()))} ({len(kind.errors)})"
        lines.append(f"| {kind.arch} | {name_of(kind)} | {measured} | {' | '.join(cells)} |")
    return lines


def _held(found: Sequence[HeldOut]) -> list[str]:
    return [
        f"| {one.network} | {one.kind.arch} | {name_of(one.kind)} | {one.inside} of {one.kernels} |" for one in found
    ]
