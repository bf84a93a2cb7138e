"""The store of searches: which search is which."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.errors import SimError
from ascend_sim.studies.tiles.store import store_of
from tests.support.studies.searched import kernel

SMALL = {"n": 2, "c_in": 16, "c_out": 32, "size": 5}


@pytest.mark.fast
def test_a_store_keeps_searches_apart(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    for other in (
        kernel("grad_input", **SMALL),
        kernel("grad_weight", **SMALL),
        kernel("grad_input", l2="cold", **SMALL),
        kernel("grad_input", chip="ascend910b4", **SMALL),
        kernel("grad_input", **SMALL | {"n": 3}),
    ):
        store = store_of(other, path)
        assert store.results() == {}
        store.add("x", {"cycles": 1})
        store.add("x", {"cycles": 2})
        store.close()
        assert store_of(other, path).results() == {"x": {"cycles": 1}}


@pytest.mark.fast
@pytest.mark.parametrize(
    "change",
    [
        {"deterministic": True},
        {"conformance": "library"},
        {"compute_dtype": "bfloat16"},
        {"rank": 5},
        {"routes": frozenset({"dilation_kernel"})},
        {"block_dim": {"grad_weight": 3}},
        {"tiling": {"grad_input": {"baseM": 32}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_search_is_another_one_by_every_part_of_its_identity(tmp_path: Path, change: dict[str, Any]) -> None:
    path, found = tmp_path / "results.sqlite", kernel("grad_weight", **SMALL)
    first = store_of(found, path)
    first.add("x", {"cycles": 1})
    first.close()
    other = replace(found, call=replace(found.call, **change))
    assert store_of(other, path).results() == {}
    assert store_of(found, path).results() == {"x": {"cycles": 1}}


@pytest.mark.fast
def test_a_search_in_a_call_is_another_one_by_the_kernels_before(tmp_path: Path) -> None:
    """Without the bias gradient its ReduceSum leaves nothing in the L2."""
    path, found = tmp_path / "results.sqlite", kernel("grad_weight", l2="call", **SMALL)
    store_of(found, path).add("x", {"cycles": 1})
    kept = {name: one for name, one in found.call.outputs.items() if name != "grad_bias"}
    assert len(kept) < len(found.call.outputs)
    assert store_of(replace(found, call=replace(found.call, outputs=kept)), path).results() == {}
    assert store_of(found, path).results() == {"x": {"cycles": 1}}


@pytest.mark.fast
def test_a_chip_of_the_same_name_with_other_numbers_is_another_search(tmp_path: Path) -> None:
    path, found = tmp_path / "results.sqlite", kernel("grad_weight", **SMALL)
    first = store_of(found, path)
    first.add("x", {"cycles": 1})
    first.close()
    slower = found.chip.model_copy(update={"clock": found.chip.clock.model_copy(update={"cube_mhz": 1})})
    assert store_of(replace(found, chip=slower), path).results() == {}


@pytest.mark.fast
def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("create table mine (id integer)")
    before = path.read_bytes()
    with pytest.raises(SimError, match="a database that ascend-sim did not write"):
        store_of(kernel("grad_input", **SMALL), path)
    assert path.read_bytes() == before
