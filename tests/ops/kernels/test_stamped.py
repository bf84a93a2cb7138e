"""Stamped programs are those that are built row by row: over tilings, over calls of every chip family, and with mistakes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ascend_sim
from ascend_sim import SimError, TensorSpec
from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.inspection import Notes, inspect
from ascend_sim.kernel.operands import TilePiece
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import Moving, Stamps
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.tbe import walks
from ascend_sim.ops.kernels.grad_weight.tbe.walks import TbeWalks
from ascend_sim.ops.kernels.tilings import settable
from tests.support.kernel.unit_flags import product_into
from tests.support.ops.stamped_kernels import kernel
from tests.support.ops.stamped_runs import built, difference, difference_of, repeated, row_by_row
from tests.support.sampling import part_of_cases, sampled

TOOL = Path(__file__).parents[3] / "tools" / "freeze_calls.py"
CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")
OF_8_BITS = (("grad_input", "hifloat8"), ("grad_input", "float8_e4m3fn"), ("grad_weight", "hifloat8"))


# -- the space of tilings ------------------------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Small problems of many images: volumes, maps and signals."""
    groups, k = draw(st.sampled_from([1, 1, 1, 2])), draw(st.integers(1, 3))
    return {
        "n": draw(st.integers(2, 9)),
        "c_in": groups * draw(st.sampled_from([3, 16, 40])),
        "c_out": groups * draw(st.sampled_from([5, 16, 48])),
        "size": draw(st.integers(3, 12)),
        "k": k,
        "stride": draw(st.integers(1, 2)),
        "pad": draw(st.integers(0, k)),
        "groups": groups,
        "depth": draw(st.sampled_from([0, 0, 3])),
        "signal": draw(st.sampled_from([0, 0, 0, 50, 1000])),
        "dtype": draw(st.sampled_from(["float16", "float32"])),
        "deterministic": draw(st.booleans()),
        "cube_math_type": draw(st.sampled_from([0, 1])),  # fp32 as it is, or hf32
    }


def eight_bit(name: str, dtype: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The problem in an 8-bit type, which gradWeight has of one group alone."""
    p = problem | {"dtype": dtype, "cube_math_type": 0}
    if name == "grad_weight":
        p |= {"groups": 1, "c_in": p["c_in"] // p["groups"], "c_out": p["c_out"] // p["groups"]}
    return p


def check_tiling(name: str, chip: str, problem: dict[str, Any], cut: bool, draw: st.DataObject) -> None:
    found = kernel(name, chip, problem)
    fixed: dict[str, int] = {}
    if cut:
        width = draw.draw(st.integers(1, found.inp.problem.w_out))
        choices: list[dict[str, int]] = [{"splitWo": width}, {"isSplitKernelHW": 1}]
        if name == "grad_input":
            choices = [{"splitWi": width}, {"kernelSplitMode": 1}, {"kernelSplitMode": 2}]
        fixed = draw.draw(st.sampled_from(choices))
    fixed |= draw.draw(st.sampled_from([{}, {}, {"blockDim": 2}]))
    try:
        space = list(found.grid(fixed))  # all of it: the first ones share most of their fields
        assume(space)
        fields = settable(space[draw.draw(st.integers(0, len(space) - 1))], found.inp)
        task = found.launch(fields)[1]
    except SimError:  # fields that this chip or problem cannot have
        assume(False)
        raise
    with inspect() if draw.draw(st.booleans()) else nullcontext():
        with row_by_row():
            plain = built(task)
        assert not difference(plain, built(found.launch(fields)[1]))


@sampled(5, 15)
@given(st.sampled_from(["grad_input", "grad_weight"]), st.sampled_from(CHIPS), problems(), st.booleans(), st.data())
def test_any_tiling(name: str, chip: str, problem: dict[str, Any], cut: bool, draw: st.DataObject) -> None:
    check_tiling(name, chip, problem, cut, draw)


@pytest.mark.parametrize(("name", "dtype"), OF_8_BITS)
@settings(max_examples=8, deadline=None)
@given(problems(), st.booleans(), st.data())
def test_any_tiling_of_8_bits(name: str, dtype: str, problem: dict[str, Any], cut: bool, draw: st.DataObject) -> None:
    check_tiling(name, CHIPS[3], eight_bit(name, dtype, problem), cut, draw)


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parts_that_vector_cores_put_together(dtype: str, split: int) -> None:
    """Each block has slots of its own, which its vector cores read."""
    problem = {"n": 2, "c_in": 16, "c_out": 32, "size": 8, "k": 3, "stride": 2, "pad": 1, "groups": 1, "depth": 0}
    found = kernel("grad_input", CHIPS[3], problem | {"dtype": dtype, "deterministic": False})
    fields, _ = next(found.tilings({"kernelSplitMode": split, "blockDim": 2}))
    told, _ = difference_of(lambda: found.launch(fields)[1])
    assert not told, fields


@part_of_cases(3)
@pytest.mark.parametrize("dtype", ["float16", "float32", "hifloat8"])
def test_taps_that_see_strips_of_other_widths(dtype: str) -> None:
    """One after the other of the same rows, which they count otherwise, in the tilings that share a tile's sum."""
    problem = {"n": 2, "c_in": 3, "c_out": 48, "size": 3, "k": 3, "stride": 1, "pad": 1, "groups": 1, "depth": 3}
    found = kernel("grad_weight", CHIPS[3], problem | {"dtype": dtype, "deterministic": False})
    for fields, _ in islice(found.tilings({"isSplitKernelHW": 1}), 0, 24, 3):
        told, _ = difference_of(lambda: found.launch(fields)[1])  # noqa: B023
        assert not told, fields


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), OF_8_BITS)
@settings(max_examples=300, deadline=None)
@given(problems(), st.booleans(), st.data())
def test_many_tilings_of_8_bits(name: str, dtype: str, problem: dict[str, Any], cut: bool, draw: st.DataObject) -> None:
    check_tiling(name, CHIPS[3], eight_bit(name, dtype, problem), cut, draw)


@pytest.mark.parametrize("chip", CHIPS[:3])
def test_tiles_of_other_channels_are_the_same_stamps(chip: str) -> None:
    """Where the last ones are as many; the rows of both are compared with plain ones elsewhere."""
    problem: dict[str, Any] = {"n": 2, "c_out": 32, "size": 9, "k": 3, "stride": 1, "pad": 1, "groups": 1, "depth": 0}
    problem |= {"dtype": "float16", "deterministic": False}
    counts = []
    for channels in (64, 128, 120):
        found = kernel("grad_input", chip, problem | {"c_in": channels})
        fields, _ = next(found.tilings({"baseN": 16, "blockDim": 1}))
        programs = built(found.launch(fields)[1])
        counts.append(len(programs[0].table.stamps.known))
    assert counts[0] == counts[1] < counts[2], fields


def test_tiles_of_one_buffer_each_are_one_stamp() -> None:
    """The first tile, those behind it and the last one, with which the program ends: without a bias nothing alternates."""
    problem = {"n": 8, "c_in": 16, "c_out": 32, "size": 9, "k": 3, "stride": 1, "pad": 1, "groups": 1, "depth": 0}
    found = kernel("grad_input", "ascend910b3", problem | {"dtype": "float16", "deterministic": False})
    fields, _ = next(found.tilings({"blockDim": 1, "al1Pbuffer": 1, "bl1Pbuffer": 1, "cl0Pbuffer": 1}))
    program = built(found.launch(fields)[1])[0]
    assert len(program.table.stamps.known) == 3 < len(program.sheet.which), fields


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(["grad_input", "grad_weight"]), st.sampled_from(CHIPS), problems(), st.booleans(), st.data())
def test_many_tilings(name: str, chip: str, problem: dict[str, Any], cut: bool, draw: st.DataObject) -> None:
    check_tiling(name, chip, problem, cut, draw)


# -- calls ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def freezer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def larger(call: dict[str, Any], index: int) -> dict[str, Any]:
    """The call with more images and fewer blocks, so that much repeats."""
    random = Random(index)
    axis, maps = (1, ("self", "input")) if call["operator"] == "conv_tbc_backward" else (0, ("grad_output", "input"))
    images = random.choice((3, 4, 7, 9))
    for name in maps:
        call[name] = [images if i == axis else size for i, size in enumerate(call[name])]
    if random.random() < 0.5 and "block_dim" not in call["options"]:
        call["options"]["block_dim"] = random.choice((1, 2, 3))
    return call


def programs(freezer: ModuleType, call: dict[str, Any]) -> list[Program]:
    timeline = freezer.run(call, "timing").timeline
    return [run.program for run in sorted(timeline.programs, key=lambda run: (run.task, run.program.block))]


def check_calls(freezer: ModuleType, indices: range) -> Counter[str]:
    """Random calls of `indices`; what was seen: calls by chip family, repeated rows as "rows"."""
    seen: Counter[str] = Counter()
    for index in indices:
        call = larger(freezer.make_call(index), index)
        with inspect() if index % 2 else nullcontext():
            try:
                stamped = programs(freezer, call)
            except SimError:
                with row_by_row(), pytest.raises(SimError):  # and not because of the stamps
                    programs(freezer, call)
                continue
            with row_by_row():
                assert not difference(programs(freezer, call), stamped), freezer.describe(call)
        seen[f"family {index % len(freezer.FAMILIES)}"] += 1
        seen["rows"] += repeated(stamped)
    return seen


def test_random_calls(freezer: ModuleType) -> None:
    seen = check_calls(freezer, range(1000, 1012))
    assert len(seen) == len(freezer.FAMILIES) + 1 and seen["rows"] > 500


@pytest.mark.slow
def test_many_random_calls(freezer: ModuleType) -> None:
    seen = check_calls(freezer, range(2000, 2600))
    assert min(seen.values()) > 60


@pytest.mark.parametrize(("chip", "transposed"), [("ascend910b3", False), ("ascend310p3", False), ("ascend950pr_9589", True)])
def test_forward_calls(chip: str, transposed: bool) -> None:
    shapes = (6, 24, 9, 13), ((24, 40, 3, 2) if transposed else (40, 24, 3, 2))
    tensors = [TensorSpec(shape, "float16") for shape in (*shapes, (40,))]

    blocks = 2 if transposed else None  # the kernel of a plain convolution takes no fields

    def run() -> list[Program]:
        result = ascend_sim.convolution(
            *tensors, (2, 1), (1, 1), (1, 1), transposed, (0, 0), 1, chip=chip, mode="timing", block_dim=blocks
        )
        return [run.program for run in sorted(result.timeline.programs, key=lambda run: (run.task, run.program.block))]

    stamped = run()
    with row_by_row():
        assert not difference(run(), stamped)
    assert repeated(stamped) > 0.2 * sum(map(len, stamped))


def weight_gradient(chip: str, problem: dict[str, Any], spans: tuple[int, int]) -> list[Program]:
    """The programs of a call for dW whose L0 gets a unit of K at a time, and L1 `spans` of them of both operands."""
    p = problem
    volume = (p["signal"],) if p["signal"] else (*([p["depth"]] if p["depth"] else []), p["size"], p["size"] + 2)
    axes = len(volume)
    out = tuple((size + 2 * p["pad"] - p["k"]) // p["stride"] + 1 for size in volume)
    weight = p["c_out"], p["c_in"] // p["groups"], *[p["k"]] * axes
    shapes = (p["n"], p["c_out"], *out), (p["n"], p["c_in"], *volume), weight
    made = TbeWalks.__init__

    def of_small_steps(self: TbeWalks, call: CubeCall, p: FilterProblem, tiling: CacheTiling) -> None:
        tile = tiling.tile._replace(k_l0=1, k_al1=spans[0], k_bl1=spans[1])
        made(self, call, p, replace(tiling, tile=tile))

    with patch.object(walks, "FEW", 1), patch.object(TbeWalks, "__init__", of_small_steps):
        result = ascend_sim.convolution_backward(
            *[TensorSpec(shape, p["dtype"]) for shape in shapes],
            *(None, [p["stride"]] * axes, [p["pad"]] * axes, [1] * axes, False, [0] * axes, p["groups"]),
            (False, True, False), chip=chip, mode="timing", deterministic=p["deterministic"],
        )  # fmt: skip
    names = [task.task.name for task in result.timeline.tasks]
    return [run.program for run in result.timeline.programs if names[run.task].startswith("grad_weight")]


def check_walks(chip: str, problem: dict[str, Any], larger: int, short: int, long: int, input_first: bool) -> None:
    """L1 holds `short` units of K of one operand, and `long` times as many of the other."""
    p = problem | {"n": min(problem["n"], 3), "size": max(larger * problem["size"], problem["k"])}
    if chip != "ascend910b3":  # others know neither
        p |= {"dtype": "float16", "depth": 0}
    if p["depth"]:
        p |= {"depth": max(p["depth"], p["k"])}
    spans = (short, short * long) if input_first else (short * long, short)
    stamped = weight_gradient(chip, p, spans)
    with row_by_row():
        assert not difference(weight_gradient(chip, p, spans), stamped)


SMALL_STEPS = st.tuples(
    st.sampled_from(CHIPS[:3]), problems(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans()
)


@sampled(5, 15)
@given(SMALL_STEPS)
def test_walks_in_parts(case: tuple[Any, ...]) -> None:
    """Walks are cut as those over many steps are; here all walks over more than one."""
    check_walks(*case)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(SMALL_STEPS)
def test_many_walks_in_parts(case: tuple[Any, ...]) -> None:
    check_walks(*case)


@pytest.mark.parametrize("layer", [{"signal": 9000, "k": 5}, {"signal": 18000, "stride": 2}, {"size": 94, "stride": 2}])
def test_long_walks_are_few_stamps(layer: dict[str, int]) -> None:
    """Later parts of a signal or a map repeat stamps that were written before."""
    problem: dict[str, Any] = {"n": 1, "c_in": 16, "c_out": 16, "k": 3, "stride": 1, "pad": 1, "groups": 1}
    problem |= {"depth": 0, "signal": 0, "dtype": "float16", "deterministic": False} | layer
    programs = weight_gradient("ascend910b3", problem, (3, 3))
    stamps = programs[0].table.stamps.known
    assert sum(len(stamp.rows) for stamp in stamps) < 0.4 * sum(map(len, programs))


# -- mistakes are found ----------------------------------------------------------------------------------------------------


def some_differences() -> str:
    """The first difference among kernels in which buffers, operands and sums go from tile to tile in several phases."""
    layer = {"c_in": 40, "c_out": 48, "k": 3, "stride": 1, "pad": 1, "groups": 1, "depth": 0, "dtype": "float16"}
    cases: list[tuple[str, str, bool, dict[str, int]]] = [
        ("grad_input", "ascend910b3", True, {"blockDim": 4}),
        ("grad_weight", "ascend910b3", True, {"blockDim": 4}),
        ("grad_weight", "ascend910a", False, {"blockDim": 4, "singleCoreBatch": 4}),
    ]
    for name, chip, deterministic, fixed in cases:
        found = kernel(name, chip, {**layer, "n": 8, "size": 9, "deterministic": deterministic})
        for fields, _ in islice(found.tilings(fixed), 0, 40, 20):
            told, _ = difference_of(lambda: found.launch(fields)[1])  # noqa: B023
            if told:
                return told
    return ""


def test_without_a_mistake_nothing_differs() -> None:
    assert not some_differences()


def forgetting(kind: type, *forgotten: str) -> Any:
    """`KernelBuilder.carry` without some attributes of a class."""
    carry = KernelBuilder.carry

    def some(self: KernelBuilder, owner: object, *names: str) -> None:
        carry(self, owner, *(name for name in names if not (isinstance(owner, kind) and name in forgotten)))

    return some


COUNTERS = ("_acquired", "_published", "_taken", "_released")
ALONG, PUT = Moving.along, Sheet.put
MISTAKES: dict[str, tuple[type, str, Any]] = {
    "addresses off by one": (Moving, "along", lambda axis, axes: ALONG(axis, axes) + 1),
    "steps twice as long": (Moving, "along", lambda axis, axes: ALONG(axis, axes) * 2),
    "tiles off by one": (Sheet, "put", lambda self, stamp, where, tile: PUT(self, stamp, where, tile + 1)),
    "phase without the next buffer": (KernelBuilder, "carry", forgetting(BufferQueue, *COUNTERS)),
    "phase without what L1 holds": (KernelBuilder, "carry", forgetting(HeldOperand, "_held")),
    "phase without whether a sum has begun": (KernelBuilder, "carry", forgetting(CubePipeline, "_begun")),
    "phase that does not move": (Stamps, "moved", lambda self, number, by: number),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MISTAKES[mistake])
    try:
        told = some_differences()
    except SimError as error:  # such a program cannot be finished
        told = str(error)
    assert told


def test_lines_of_a_stamp_that_are_off_by_a_row_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Notes.add

    def late(self: Notes) -> None:
        """The line of a row is that of the row before it."""
        add(self)
        if self.rows[-1] and len(self.rows) % 3 == 0:
            self.rows[-1] -= 1

    with inspect():
        assert not some_differences()
        monkeypatch.setattr(Notes, "add", late)
        assert some_differences().endswith("other lines, or other pieces of buffers")


# -- the unit flag ---------------------------------------------------------------------------------------------------------


def unit_flag_rows(stamping: bool) -> list[Any]:
    """Products and drains of two heights in many orders, piece by piece of each tile."""
    k = KernelBuilder(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [1 << 20])
    k.stamping = stamping
    tiles, random = UnitFlagTiles(k, "L0C", [0, 1 << 15]), Random(1)
    pieces = []
    for i in range(60):
        height, drained = random.choices((64, 64, 32), k=2)
        pieces += [(("acquire", 0), i), (("mmad", height), i), (("drain", drained), i)]
    for (step, m), i in k.stamped(pieces, "tiles"):
        if step == "acquire":
            tiles.acquire()
        elif step == "mmad":
            product_into(k, tiles, tiles.filling, (m, 16, 16), False)
        else:
            tiles.drain(gm_operand(0, i * 4096), TilePiece(m, 16, m), "float32", 16, m * 64)
    tiles.close()
    return [(str(row.instruction), row.dst, row.src0, row.src1, row.tile) for row in k.finish()]


def test_stamped_unit_flags() -> None:
    plain = unit_flag_rows(False)
    assert unit_flag_rows(True) == plain
    assert len({row[0] for row in plain if row[0].startswith("WaitUnitFlag")}) > 6


@pytest.mark.parametrize("forgotten", ["_waits", "_last", "_drains"])
def test_a_unit_flag_that_forgets_is_found(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = unit_flag_rows(False)
    monkeypatch.setattr(KernelBuilder, "carry", forgetting(UnitFlagTiles, forgotten))
    try:
        assert unit_flag_rows(True) != plain
    except SimError as error:
        assert "L0C" in str(error)
