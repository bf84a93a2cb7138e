"""Scalar stores whose lines of the data cache no row writes back: a remark, for nobody states what the program's end does."""

from __future__ import annotations

import pytest

import ascend_sim as asim
from ascend_sim.check.cached_lines import STAYS
from ascend_sim.cli.verdict import verdict_of

LINE = 16


@asim.kernel_function(core=("AIV", "AI_CORE"))
def store(k: asim.Kernel, y: asim.Tensor, z: asim.Tensor, *, clean: str) -> None:
    if clean == "before":
        k.clean_data_cache()
    for number in range(2 * LINE):
        k.scalar_store(y[number : number + 1], number)
    k.scalar_store(z[:1], 1)
    if clean == "all":
        k.clean_data_cache()
    if clean in ("y", "first"):
        k.clean_data_cache(y[:1])
    if clean == "y":
        k.clean_data_cache(y[LINE + 3 : LINE + 4])


def remarks(clean: str, chip: str = "ascend910b3") -> list[str]:
    report = asim.check_kernel(
        store, 1, asim.empty(2 * LINE, "float32"), asim.empty(1, "float32"), chip=chip, tools="initcheck", clean=clean
    )
    assert report.passed
    assert [one for one in verdict_of(report.to_dict())["unknown"] if one.startswith(STAYS)] == report.remarks
    return report.remarks


STORES = {"y": "k.scalar_store(y[number : number + 1], number)", "z": "k.scalar_store(z[:1], 1)"}


@pytest.mark.parametrize(("clean", "left"), [("none", "yz"), ("before", "yz"), ("first", "yz"), ("y", "z"), ("all", "")])
def test_stores_that_stay_in_the_cache_are_a_remark(clean: str, left: str) -> None:
    found = remarks(clean)
    assert len(found) == bool(left)
    for name, call in STORES.items():
        assert (call in " ".join(found)) == (name in left)


def test_a_chip_that_cannot_write_lines_back_has_no_remark() -> None:
    assert remarks("none", "ascend910a") == []
