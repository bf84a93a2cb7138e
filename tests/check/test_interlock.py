"""Products that follow each other on a tile of L0C: a small one needs a barrier, in runs and in `check`."""

from __future__ import annotations

import pytest

import ascend_sim as asim

CHIPS = ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"]


@asim.kernel_function(core=("AIC", "AI_CORE"))
def twice(k, *, n, barrier):  # type: ignore[no-untyped-def]
    """Two products of `n` fractals into one tile of L0C."""
    filled, loaded = k.flag("MTE2", "MTE1", "filled"), k.flag("MTE1", "M", "loaded")
    k.fill("L1", 0, 512 * n)
    k.set_flag(filled)
    k.wait_flag(filled)
    k.load_data_2d("L0A", 0, 0, 2, 1)
    k.load_data_2d("L0B", 0, 0, 2, n)
    k.set_flag(loaded)
    k.wait_flag(loaded)
    for step in range(2):
        if step and barrier:
            k.pipe_barrier("M")
        k.mmad(0, 0, 0, 16, 16, 16 * n, "float16", accumulate=step > 0)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize(("n", "barrier", "found"), [(9, False, True), (9, True, False), (10, False, False), (1, False, True)])
def test_ten_fractals_interlock(chip: str, engine: str, n: int, barrier: bool, found: bool) -> None:
    told = asim.check_kernel(twice, 1, n=n, barrier=barrier, chip=chip).findings
    assert bool(told) == found, told
    run = asim.launch(twice, 1, n=n, barrier=barrier, chip=chip, engine=engine, check=False)
    assert any(one.kind == "hazard" for one in run.findings) == found


def test_the_remedy_is_told() -> None:
    (one,) = asim.check_kernel(twice, 1, n=9, barrier=False).findings
    assert "pipe_barrier('M') between them would order them" in str(one) and "test_interlock.py" in str(one)
