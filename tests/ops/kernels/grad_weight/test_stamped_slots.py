"""The 950's tree over slots: its programs with stamps are those that are built row by row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.ops.stamped_kernels import kernel
from tests.support.ops.stamped_runs import difference_of
from tests.support.sampling import part_of_cases

CHIP = "ascend950pr_9589"


@part_of_cases(2)
@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tiles_whose_slots_are_added_up(dtype: str, depth: int) -> None:
    """Several in a task that cores of the 950 share; its vector cores meet over each, and most are the same stamps."""
    problem: dict[str, Any] = {"n": 1, "c_in": 32, "c_out": 64, "size": 14, "k": 3, "stride": 1, "pad": 1, "groups": 1}
    found = kernel("grad_weight", CHIP, problem | {"depth": depth, "dtype": dtype, "deterministic": False})
    fields = {"baseM": 16, "baseN": 16}  # nine tiles a task
    told, _ = difference_of(lambda: found.launch(fields)[1])
    assert not told, told
    task = found.launch(fields)[1]
    vectors = [program for block in range(task.block_dim) for program in task.build(block) if program.core_kind == "AIV"]
    loops = vectors[0].table.stamps.of_loops.items()
    written = [len(loop) for (*_, around), (loop, _) in loops if "AIV" in around]
    assert len(written) == len(vectors) and set(written) == {2}  # the first tile, and all others
