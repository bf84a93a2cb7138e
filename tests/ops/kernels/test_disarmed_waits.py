"""Every wait of the cube kernels matters: without it a result is wrong, a finding is recorded or the run deadlocks.

A wait is disarmed by its flag's name (it takes the flag down but holds nothing), a barrier or a cross-core wait by not
issuing it. Which timing shows the mistake depends on which side is late, so each runs on chips with one slow part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from ascend_sim import Result
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine import watch as watch_module
from ascend_sim.engine.choice import VARIABLE
from ascend_sim.engine.compiled import library
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, FixpipeUnitFlag
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.ops.kernels.grad_weight import ladder
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling
from tests.support.engine.machine import columns
from tests.support.ops.conv_problems import Array, CallAttributes, operands, same_bits
from tests.support.sampling import part_of_cases, sample

SLOW = 20_000
"""Cycles; longer than anything else that a small kernel does between two waits."""


@cache
def slow(part: str, name: str = "ascend910b3") -> ChipSpec:
    """A small chip with one slow part: a pipe, "latency" (what GM and fills write comes late), or nothing."""
    chip = load_chip(name)
    direct = "950" in name
    cores, late = (4, 5 * SLOW) if direct else (2, SLOW)  # a tree over slots has two levels; its cube begins late
    changes: dict[str, Any] = {
        "cores": chip.cores.model_copy(update={"aic": cores, "aiv": 2 * cores}),
        "buffers": chip.buffers | {"UB": 32768},  # so that the vector cores need several rounds
        "paths": _slow_paths(chip, part, late),
    }
    if part == "M":
        changes["cube"] = chip.cube.model_copy(update={"head_first": late, "head_stream": late})
    if part == "V":
        changes["vector"] = chip.vector.model_copy(update={"head": float(late)})
    if part == "FIX" and chip.fixpipe is not None:
        changes["fixpipe"] = chip.fixpipe.model_copy(update={"head": SLOW})
    if part == "MTE1" and chip.load3d is not None:
        changes["load3d"] = chip.load3d.model_copy(update={"head": late})
    return chip.model_copy(update=changes)


def _slow_paths(chip: ChipSpec, part: str, late: int) -> dict[str, Any]:
    paths = dict(chip.paths)
    for key, path in chip.paths.items():
        if part == "latency" and key.startswith(("GM->", "FILL->")):
            paths[key] = path.model_copy(update={"latency": late})
        elif path.pipe == part:
            paths[key] = path.model_copy(update={"head": late})
    return paths


class DisarmedCase:
    """One cube kernel on one problem with one tiling. Its operands are small whole numbers, so that fp32 sums are exact
    in any order and atomics too have one right answer.
    """

    def __init__(
        self,
        problem: CallAttributes,
        tiling: dict[str, int] | None = None,
        block_dim: int | None = 1,
        dtype: str = "float16",
        deterministic: bool = False,
    ) -> None:
        self.problem, self.tiling, self.block_dim = problem, tiling or {}, block_dim
        self.dtype, self.deterministic = dtype, deterministic
        self.parts = (*CUBE, "V", "MTE3") if deterministic else CUBE

    chip = "ascend910b3"
    library: str | None = None

    def of(self, kernel: str) -> DisarmedCase:
        self.kernel = kernel
        return self

    @cached_property
    def own(self) -> dict[str, Array]:
        values = operands(self.problem, self.dtype)
        return {name: np.rint(2 * array.astype(np.float32)).astype(array.dtype) for name, array in values.items()}

    @cached_property
    def known(self) -> Array:
        gradient, findings, _ = self.run(slow("nothing", self.chip), mode="functional")
        assert findings == []
        return gradient

    def run(self, chip: ChipSpec, disarm: Sequence[str] = (), mode: str = "full") -> tuple[Array, list[Any], Result]:
        """The gradient, what was found, and all that the call returned."""
        result = self.problem.run(
            self.own,
            (self.kernel == "grad_input", self.kernel == "grad_weight", False),
            chip=chip,
            mode=mode,
            tiling={self.kernel: self.tiling} if self.tiling else None,
            block_dim={self.kernel: self.block_dim} if self.block_dim else None,
            deterministic=self.deterministic,
            disarm={self.kernel: disarm},
            library=self.library,
        )
        return result.outputs[self.kernel], list(result.report.findings), result

    @cached_property
    def waits(self) -> dict[str, str]:
        """The flags that the kernel's programs wait for: name -> the pipe that sets it."""
        found: dict[str, str] = {}
        for program, instructions in self.programs:
            waited = {(i.source, i.destination, i.flag) for i in instructions if isinstance(i, WaitFlag)}
            found |= {name: key[0] for name, key in program.flags.items() if key in waited}
        return found

    @cached_property
    def programs(self) -> list[tuple[Program, set[Instruction]]]:
        """The kernel's programs and the instructions of each."""
        _, _, result = self.run(slow("nothing", self.chip))
        assert result.timeline is not None
        own = [run.program for run in result.timeline.programs if result.tasks[run.task].name == self.kernel]
        return [(program, {program.table.instructions[i] for i in np.unique(program.rows[:, 0])}) for program in own]

    def goes_wrong(self, disarm: Sequence[str] = (), parts: Sequence[str] = ()) -> bool:
        """Return True if a run on any of the chips shows it in one of the three ways."""
        for part in parts or self.parts:
            try:
                gradient, findings, _ = self.run(slow(part, self.chip), disarm)
            except DeadlockError:
                return True
            if findings or not same_bits(gradient, self.known):
                return True
        return False

    def shows(self, flag: str, anywhere: bool) -> bool:
        """Return True if disarming a flag's waits shows, on the chip whose slow pipe sets it or anywhere."""
        likely = {"MTE2": ("latency",)}.get(self.waits[flag], (self.waits[flag],))
        return self.goes_wrong([flag], self.parts if anywhere else likely)


class OlderCase(DisarmedCase):
    """grad_weight by the library's older kernel, with fields of its tile changed."""

    def __init__(self, problem: CallAttributes, tile: dict[str, int] | None = None, dtype: str = "float16") -> None:
        super().__init__(problem, None, None, dtype)
        self.tile = tile or {}

    def of(self, kernel: str) -> DisarmedCase:
        return super().of("grad_weight")

    def run(self, chip: ChipSpec, disarm: Sequence[str] = (), mode: str = "full") -> tuple[Array, list[Any], Result]:
        def changed(*arguments: Any) -> CacheTiling:
            tiling = cache_tiling(*arguments)
            return replace(tiling, tile=tiling.tile._replace(**self.tile))

        with mock.patch.object(ladder, "cache_tiling", changed):
            return super().run(chip, disarm, mode)


class DirectCase(DisarmedCase):
    """grad_weight of the 950, by a version of its library."""

    chip = "ascend950pr_9589"

    def __init__(self, problem: CallAttributes, tiling: dict[str, int], library: str | None = None) -> None:
        super().__init__(problem, tiling, None, deterministic=True)
        self.library = library

    def of(self, kernel: str) -> DisarmedCase:
        return super().of("grad_weight")


CUBE = ("nothing", "M", "latency", "MTE1", "MTE2", "FIX")
DOUBLE = {"al1Pbuffer": 2, "bl1Pbuffer": 2, "al0Pbuffer": 2, "bl0Pbuffer": 2, "cl0Pbuffer": 2}
SINGLE = dict.fromkeys(DOUBLE, 1)
LAYER = CallAttributes(1, 32, 64, (8, 8))
BLOCK = {"baseM": 32, "baseN": 16, "baseK": 48}
TWICE, ONCE = (dict.fromkeys(("db_al1", "db_bl1", "db_l0c"), count) for count in (2, 1))
PIXELS = {"baseM": 32, "baseN": 48, "baseK": 16}
POINTS = CallAttributes(1, 32, 32, (5, 11), (1, 1), (1, 1), (0, 0, 0, 0))
LONG_ROWS = CallAttributes(1, 4, 16, (33, 1040), (8, 16), (8, 16), (0, 0, 0, 0))
"""A block sums over two rows of gradOutput in five pieces each: L1 has no room for the 16 rows that 65 pixels need."""
A_OFTEN, B_OFTEN = ({"k_l0": 1, "k_al1": a, "k_bl1": 3 - a, "m_l0": 1, "n_l0": 1} | TWICE for a in (1, 2))
WAYS = {
    "rows stepped over": CallAttributes(1, 32, 32, (15, 16), (1, 3), (2, 1), (0, 0, 1, 1)),
    "a signal": CallAttributes(1, 16, 32, (1, 160), (1, 3), (1, 1), (0, 0, 1, 1)),
    "a point": POINTS,
    "a gather": CallAttributes(1, 32, 32, (4, 452), (2, 2), (1, 64), (1, 1, 1, 1)),
}
"""Ways to the input that load it otherwise than whole rows by load3d, each with its own loops of loads."""
CASES = {
    "grad_input": {
        # A alone is loaded for some base steps, B alone for others; else the wait for one covers the other.
        "A more often": DisarmedCase(LAYER, BLOCK | DOUBLE | {"stepKa": 3, "stepKb": 6}),
        "B more often": DisarmedCase(LAYER, BLOCK | DOUBLE | {"stepKa": 6, "stepKb": 3}),
        "single buffers": DisarmedCase(LAYER, BLOCK | SINGLE | {"stepKa": 3, "stepKb": 6}),
        "single buffers, B more often": DisarmedCase(LAYER, BLOCK | SINGLE | {"stepKa": 6, "stepKb": 3}),
        "stride 2": DisarmedCase(replace(LAYER, c_out=32, stride=(2, 2)), BLOCK),
        "fp32": DisarmedCase(replace(LAYER, c_out=32), {"baseM": 32, "baseN": 16}, dtype="float32"),
        "vendor tiling": DisarmedCase(replace(LAYER, n=4), block_dim=None),
        "strips": DisarmedCase(replace(LAYER, size=(2, 40)), BLOCK | {"splitWi": 32}),
    },
    "grad_weight": {
        "A more often": DisarmedCase(LAYER, PIXELS | DOUBLE | {"stepKa": 1, "stepKb": 2}),
        "B more often": DisarmedCase(LAYER, PIXELS | DOUBLE | {"stepKa": 2, "stepKb": 1}),
        "single buffers": DisarmedCase(LAYER, PIXELS | SINGLE | {"stepKa": 1, "stepKb": 2}),
        "single buffers, B more often": DisarmedCase(LAYER, PIXELS | SINGLE | {"stepKa": 2, "stepKb": 1}),
        "vendor tiling": DisarmedCase(replace(LAYER, n=4), block_dim=None),
        "strips": DisarmedCase(CallAttributes(1, 16, 32, (3, 24)), PIXELS | DOUBLE | {"splitWo": 16, "stepKa": 1, "stepKb": 1}),
        "StreamK by rows": DisarmedCase(CallAttributes(1, 32, 128, (9, 16)), {"singleCoreN": 288}, None, deterministic=True),
        "StreamK by images": DisarmedCase(CallAttributes(3, 48, 16, (8, 8)), {"baseN": 144}, None, deterministic=True),
    },
    "grad_weight, 950": {
        "A more often": DirectCase(LAYER, PIXELS | DOUBLE | {"stepKa": 1, "stepKb": 2}),
        "B more often": DirectCase(LAYER, PIXELS | DOUBLE | {"stepKa": 2, "stepKb": 1}),
        "single buffers": DirectCase(LAYER, PIXELS | SINGLE | {"stepKa": 1, "stepKb": 2}),
        "single buffers, B more often": DirectCase(LAYER, PIXELS | SINGLE | {"stepKa": 2, "stepKb": 1}),
        "nothing ahead": DirectCase(replace(LAYER, n=2), PIXELS | DOUBLE | {"stepKa": 1, "stepKb": 1}, "9.0.0"),
        "shared by images": DirectCase(CallAttributes(7, 16, 16, (8, 8)), {"baseN": 144}),
    },
    "grad_weight, older kernel": {
        "A more often": OlderCase(LAYER, {"k_l0": 1, "k_al1": 1, "k_bl1": 2, "n_l0": 1} | TWICE),
        "B more often": OlderCase(LAYER, {"k_l0": 1, "k_al1": 2, "k_bl1": 1, "n_l0": 3} | TWICE),
        "single buffers": OlderCase(LAYER, {"k_l0": 1, "k_al1": 1, "k_bl1": 2, "n_l0": 3} | ONCE),
        "single buffers, B more often": OlderCase(LAYER, {"k_l0": 1, "k_al1": 2, "k_bl1": 1, "n_l0": 3} | ONCE),
        "its own tiling": OlderCase(replace(LAYER, n=4)),
        "signal": OlderCase(CallAttributes(2, 16, 32, (1, 80), (1, 3), (1, 1), (0, 0, 1, 1))),
        "a point": OlderCase(POINTS, {"k_l0": 1, "k_al1": 1, "k_bl1": 2, "n_l0": 1} | TWICE),
    },
    "grad_weight, older kernel, 32-bit": {
        "A more often": OlderCase(LAYER, {"k_l0": 2, "k_al1": 2, "k_bl1": 4, "n_l0": 1} | TWICE, "float32"),
        "B more often": OlderCase(LAYER, {"k_l0": 2, "k_al1": 4, "k_bl1": 2, "n_l0": 3} | TWICE, "float32"),
    },
    # Without a unit flag: cube and Fixpipe hand a tile over by flags like any others.
    "grad_weight, pieces of rows": {
        "A more often": OlderCase(LONG_ROWS, {"k_al1": 1, "k_bl1": 2, "n_l0": 64} | TWICE),
        "B more often": OlderCase(LONG_ROWS, {"k_al1": 2, "k_bl1": 1, "n_l0": 32} | TWICE),
    },
}
CASES |= {
    f"grad_weight, {way}": {"A more often": OlderCase(problem, A_OFTEN), "B more often": OlderCase(problem, B_OFTEN)}
    for way, problem in WAYS.items()
}
COVERED = {
    "grad_weight": ["L0[2] spare", *(f"clearing[{i}]" for i in range(3))],
    "grad_weight, older kernel, 32-bit": [
        f"L0{side}[{i}] {state}" for side, state in (("A", "full"), ("B", "free")) for i in (0, 1)
    ],
}
"""Waits that cannot matter by themselves.

grad_weight: those of the vendor's deterministic kernel, which has them (stated). A TPipe raises three flags M -> MTE1 and takes
them at its end, used or not. "L0[2] spare" has no third half of L0 to guard. "clearing" are the flags of the first TPipe, which
multiplies nothing between two barriers of all pipes.

32-bit: a step fills L0A, then L0B: where both have flags of their own, L0B is full only after L0A, and L0A free with L0B.
"""
EACH = [(kernel, name) for kernel, cases in CASES.items() for name in cases]


@part_of_cases(4)
@pytest.mark.parametrize(("kernel", "name"), EACH)
def test_nothing_goes_wrong_with_every_wait_armed(kernel: str, name: str) -> None:
    case = CASES[kernel][name].of(kernel)
    assert not case.goes_wrong(parts=Random(f"{kernel}, {name}").sample(case.parts, sample(2, len(case.parts))))


@part_of_cases(4)
@pytest.mark.parametrize("kernel", CASES)
def test_every_wait_matters(kernel: str) -> None:
    """Under some tiling: where A and B are loaded together, the wait for one of them covers the other."""
    cases = [case.of(kernel) for case in CASES[kernel].values()]
    names = sorted({name for case in cases for name in case.waits})
    assert len(names) > 15
    useless = [
        name
        for name in names
        if not any(case.shows(name, anywhere) for anywhere in (False, True) for case in cases if name in case.waits)
    ]
    assert useless == COVERED.get(kernel, [])


def outcome(engine: str, case: DisarmedCase, part: str, flag: str) -> dict[str, Any]:
    """All that a run without a wait leaves behind; numpy finds what SimPy's columns show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, engine)
        try:
            gradient, _, result = case.run(slow(part, case.chip), [flag])
        except DeadlockError as error:
            return {"deadlock": str(error)}
    assert result.timeline is not None
    told = watch_module.watched(result.timeline)
    return {
        "gradient": gradient.tobytes(),
        "findings": [(one.task, one.text) for one in told.findings],
        "totals": told.of_task,
        "columns": columns(result.timeline),
        "HBM": [run.hbm_bytes.tolist() for run in result.timeline.programs],
        "report": replace(result.report, verdicts={}).to_dict(statements=False),
    }


@part_of_cases(0, "grad_input", "older kernel, 32-bit", "a gather")
@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
@pytest.mark.parametrize("kernel", CASES)
def test_without_a_wait_both_engines_do_the_same(kernel: str) -> None:
    """Kernels whose pipes meet in one place, too early: random programs of the engine's tests have few such findings."""
    random, wrong = Random(kernel), 0
    for case in CASES[kernel].values():
        case.of(kernel)
        local, cross = sorted(case.waits), sorted({n for one, _ in case.programs for n in one.table.cross_flag_names()})
        flags = [*random.sample(local, min(len(local), sample(3, 100))), *random.sample(cross, min(len(cross), sample(1, 100)))]
        for flag in flags:
            part = random.choice(case.parts)
            expected, found = (outcome(engine, case, part, flag) for engine in ("simpy", "compiled"))
            assert list(found) == list(expected)
            for what, value in expected.items():
                assert found[what] == value, (what, part, flag)
            wrong += bool(expected.get("findings") or "deadlock" in expected)
    assert wrong


@pytest.mark.parametrize("state", ["full", "free"])
def test_a_covered_wait_and_the_one_that_covers_it_matter(state: str) -> None:
    """The one that covers matters by itself (above); here what is covered no longer holds anything when it is gone."""
    kernel = "grad_weight, older kernel, 32-bit"
    case = next(iter(CASES[kernel].values())).of(kernel)
    for i in (0, 1):
        assert case.goes_wrong([f"L0A[{i}] {state}", f"L0B[{i}] {state}"])


@pytest.mark.parametrize(
    ("way", "told"), list(zip(WAYS, ("load3d, stride_h read", "load3d, conv1d", "load2d", "dma"), strict=True))
)
def test_each_way_is_the_one_that_is_meant(way: str, told: str) -> None:
    _, _, result = CASES[f"grad_weight, {way}"]["A more often"].of("grad_weight").run(slow("nothing"))
    (kernel,) = (one for one in result.report.kernels if one["name"] == "grad_weight")
    assert kernel["input_load"] == told


def test_pieces_of_rows_have_no_unit_flag() -> None:
    """Whole rows do (the schedule of the library's kernel: stated), so that pieces need cases of their own."""
    pieces, rows = (CASES["grad_weight, pieces of rows"]["B more often"], CASES["grad_weight, older kernel"]["B more often"])
    for case, unit_flag in ((pieces, False), (rows, True)):
        drains = [i for _, found in case.of("grad_weight").programs for i in found if isinstance(i, Fixpipe)]
        assert drains and all(isinstance(i, FixpipeUnitFlag) == unit_flag for i in drains)


@pytest.mark.parametrize(("flag", "waiting"), [(0, "every cube for all others"), (1, "the vector cores for their cube")])
@pytest.mark.parametrize("name", ["StreamK by rows", "StreamK by images"])
def test_every_cross_core_wait_matters(name: str, flag: int, waiting: str) -> None:
    case = CASES["grad_weight"][name].of("grad_weight")
    assert case.known.size
    assert case.goes_wrong([f"cross-core {flag}"]), waiting


@part_of_cases(7)
@pytest.mark.parametrize("library", ["9.0.0", "2026-08"])
@pytest.mark.parametrize(
    "flag", ["all vectors", "dW cleared", "slots cleared", "a level", "all cubes", "cube to vector", "slots read"]
)
def test_every_wait_between_the_950s_cores_matters(flag: str, library: str) -> None:
    """A task shared by four cores has a tree of two levels; the last core has half as many images."""
    shared = DirectCase(CallAttributes(7, 16, 16, (8, 8)), {"baseN": 144}, library)
    # In four pieces, of which the last core adds up one of its own and of the core before, which comes later.
    quarters = DirectCase(CallAttributes(7, 16, 64, (8, 8)), {"baseN": 144, "cl0Pbuffer": 1}, library)
    # Two tasks of two tiles, each of two cores: the second one has no part in the tree and clears its slot again.
    rounds = DirectCase(
        CallAttributes(4, 32, 32, (8, 8)), {"baseM": 16, "baseN": 144, "singleCoreM": 32, "singleCoreN": 144}, library
    )
    # Four tasks of their own; the vector cores of the last block have less of dW to clear than the others.
    whole = DirectCase(CallAttributes(1, 60, 12, (8, 8)), {"baseN": 144}, library)
    number, case = {
        "all cubes": (0, quarters),
        "cube to vector": (1, shared),
        "all vectors": (2, whole),
        "dW cleared": (3, whole),
        "slots cleared": (4, shared),
        "a level": (5, shared),
        "slots read": (6, rounds),
    }[flag]
    assert not case.of("grad_weight").goes_wrong()
    assert case.goes_wrong([f"cross-core {number}"])


def test_the_barrier_behind_the_zeros_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stride 2: MTE2 writes zeros, then gradOutput between them."""
    case = CASES["grad_input"]["stride 2"].of("grad_input")
    assert case.known.size
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None)
    assert case.goes_wrong()


def test_the_barrier_behind_the_zeros_of_runs_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both operands' buffers are zeros before the first pixels come, because the last fractal of a run has only seven."""
    case = OlderCase(POINTS).of("grad_weight")
    assert case.known.size
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None)
    assert case.goes_wrong()


def test_the_barrier_behind_the_zeros_of_a_gather_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stride that load3d has no field for: MTE2 writes zeros for the padding, then the pixels that taps meet."""
    case = OlderCase(CallAttributes(1, 16, 16, (66, 66), (2, 2), (64, 64), (1, 1, 1, 1))).of("grad_weight")
    assert not case.goes_wrong()
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None)
    assert case.goes_wrong()


def test_a_lost_set_is_refused_when_the_program_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other half of a pair: without its set a wait could never end."""
    case = CASES["grad_input"]["A more often"].of("grad_input")
    original = KernelBuilder.set_flag
    monkeypatch.setattr(KernelBuilder, "set_flag", lambda self, flag: 0 if flag.name == "L0C[1] full" else original(self, flag))
    with pytest.raises(SimError, match=r"flag 'L0C\[1\] full' .* is waited for more often than set; waits without a set: \d+"):
        case.run(slow("nothing"))
