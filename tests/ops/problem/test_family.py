"""The family of a chip: found in one place, by what the chip has."""

from __future__ import annotations

import pytest

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, COUPLED, PLAIN_SPLIT, family_of
from tests.support.places import ROOT

pytestmark = pytest.mark.fast

FAMILIES = {"dav-1001": COUPLED, "dav-2002": COUPLED, "dav-2201": BLOCKED_SPLIT, "dav-3510": PLAIN_SPLIT}

DATA_BY_ARCHITECTURE = {
    "ops/kernels/cube/vendor.py",  # configs/tilings.yaml
    "ops/kernels/grad_weight/procedures/cache_tiling/search.py",  # configs/cache_tiling.yaml
    "ops/kernels/grad_weight/ladder.py",  # the same
    "ops/kernels/matmul/tiling.py",  # configs/matmul.yaml
}
"""Where an architecture is the key of a table in `configs/`."""


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_belongs_to_the_family_of_its_architecture(name: str) -> None:
    chip = load_chip(name)
    assert family_of(chip) is FAMILIES[chip.identity.arch]
    assert family_of(chip).core_kind in chip.cores.kinds


def test_nobody_else_finds_it_out() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "ops").rglob("*.py"))}
    assert {path for path, text in sources.items() if "cores.coupled" in text} == {"ops/problem/family.py"}
    assert {path for path, text in sources.items() if "identity.arch" in text} == DATA_BY_ARCHITECTURE
