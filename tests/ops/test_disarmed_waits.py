"""Every wait of the cube kernels matters: without it a result is wrong, a finding is recorded or the run deadlocks.

A wait is disarmed by its flag's name (it takes the flag down but holds nothing), a barrier or a cross-core wait by not
issuing it. Which timing shows the mistake depends on which side is late, so each runs on chips with one slow part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from conv_problems import Array, Mask, Problem, operands, same_bits

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.deadlock import DeadlockError
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.builder import KernelBuilder

SLOW = 20_000
"""Cycles; longer than anything else that a small kernel does between two waits."""


def _slow_paths(chip: ChipSpec, **cycles: int) -> dict[str, Any]:
    """`paths` with other heads; keys as in PIPES below."""
    return {key: path.model_copy(update={"head": cycles[path.pipe]}) if path.pipe in cycles else path
            for key, path in chip.paths.items()}  # fmt: skip


@cache
def slow(part: str) -> ChipSpec:
    """The chip with one slow part: a pipe, or GM as the pipes see it ("latency": transfers retire late)."""
    chip = load_chip("ascend910b3")
    if part == "M":
        return chip.model_copy(update={"cube": chip.cube.model_copy(update={"head_first": SLOW, "head_stream": SLOW})})
    if part == "FIX":
        return chip.model_copy(update={"fixpipe": chip.fixpipe.model_copy(update={"head": SLOW})})  # type: ignore[union-attr]
    if part == "V":
        return chip.model_copy(update={"vector": chip.vector.model_copy(update={"head": float(SLOW)})})
    if part == "latency":
        late = {k: p.model_copy(update={"latency": SLOW}) if k.startswith("GM->") else p for k, p in chip.paths.items()}
        return chip.model_copy(update={"paths": late})
    changes: dict[str, Any] = {"paths": _slow_paths(chip, **{part: SLOW})}
    if part == "MTE1":
        changes["load3d"] = chip.load3d.model_copy(update={"head": SLOW})  # type: ignore[union-attr]
    return chip.model_copy(update=changes)


class Case:
    """One cube kernel on one problem, whose result and waits are known."""

    def __init__(
        self, kernel: str, problem: Problem, tiling: dict[str, int], parts: Sequence[str], block_dim: int | None = None,
        dtype: str = "float16", deterministic: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.problem, self.parts = kernel, problem, parts
        self.mask: Mask = (kernel == "grad_input", kernel == "grad_weight", False)
        self.options: dict[str, Any] = {
            "tiling": {kernel: tiling} if tiling else None,
            "block_dim": {kernel: block_dim} if block_dim else None,
            "deterministic": deterministic,
        }
        # Small whole numbers: sums are exact in any order, so that atomics too have one right answer.
        self.own = {name: np.rint(2 * array).astype(array.dtype) for name, array in operands(problem, dtype).items()}

    def run(self, chip: ChipSpec, disarm: Sequence[str] = (), mode: str = "full") -> tuple[Array, list[Any], Any]:
        options = self.options | {"disarm": {self.kernel: disarm}}
        result = self.problem.run(self.own, self.mask, chip=chip, mode=mode, **options)
        return result.gradients[self.kernel], result.report.to_dict()["findings"], result

    @property
    def known(self) -> Array:
        if not hasattr(self, "_known"):
            self._known, findings, _ = self.run(load_chip("ascend910b3"), mode="functional")
            assert findings == []
        return self._known

    def waits(self) -> list[str]:
        """Names of the flags that the kernel's programs wait for."""
        _, _, result = self.run(load_chip("ascend910b3"))
        found = set()
        for run in result.timeline.programs:
            if result.tasks[run.task].name == self.kernel:
                instructions = {run.program.table.instructions[i] for i in np.unique(run.program.rows[:, 0])}
                waited = {(i.source, i.destination, i.flag) for i in instructions if isinstance(i, WaitFlag)}
                found |= {name for name, key in run.program.flags.items() if key in waited}
        return sorted(found)

    def shows(self, disarm: Sequence[str]) -> bool:
        """Whether a run on any of the chips goes wrong in one of the three ways."""
        for part in self.parts:
            try:
                values, findings, _ = self.run(slow(part), disarm)
            except DeadlockError:
                return True
            if findings or not same_bits(values, self.known):
                return True
        return False


CUBE = ("M", "latency", "MTE1", "MTE2", "FIX")
LAYER = Problem(2, 32, 64, (8, 8))
CASES = {
    "grad_input": Case(
        "grad_input", LAYER, {"baseM": 16, "baseN": 16, "baseK": 48, "stepKa": 3, "stepKb": 3, "cl0Pbuffer": 2}, CUBE, 1
    ),
    "grad_input, single buffers": Case(
        "grad_input", LAYER,
        {"baseM": 32, "baseN": 32, "baseK": 48, "stepKa": 3, "stepKb": 3, "al1Pbuffer": 1, "bl1Pbuffer": 1,
         "al0Pbuffer": 1, "bl0Pbuffer": 1, "cl0Pbuffer": 1},
        CUBE, 1,
    ),
    "grad_input, stride 2": Case(
        "grad_input", Problem(2, 16, 32, (8, 8), stride=(2, 2)), {"baseM": 32, "baseN": 16}, CUBE, 1
    ),
    "grad_input, fp32": Case("grad_input", LAYER, {"baseM": 32, "baseN": 32}, CUBE, 1, "float32"),
    "grad_weight": Case(
        "grad_weight", LAYER, {"baseM": 32, "baseN": 48, "baseK": 16, "stepKa": 2, "stepKb": 2, "cl0Pbuffer": 2}, CUBE, 1
    ),
    "grad_weight, single buffers": Case(
        "grad_weight", LAYER,
        {"baseM": 32, "baseN": 48, "baseK": 16, "stepKa": 2, "stepKb": 2, "al1Pbuffer": 1, "bl1Pbuffer": 1,
         "al0Pbuffer": 1, "bl0Pbuffer": 1, "cl0Pbuffer": 1},
        CUBE, 1,
    ),
    "grad_weight, deterministic": Case(
        "grad_weight", Problem(2, 64, 64, (24, 24)), {}, (*CUBE, "V", "MTE3"), deterministic=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_with_every_wait_armed(name: str) -> None:
    case = CASES[name]
    for part in case.parts:
        values, findings, _ = case.run(slow(part))
        assert findings == [] and same_bits(values, case.known), part


@pytest.mark.parametrize("name", CASES)
def test_every_wait_matters(name: str) -> None:
    case = CASES[name]
    names = case.waits()
    assert names
    assert [flag for flag in names if not case.shows([flag])] == []
