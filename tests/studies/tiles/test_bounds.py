"""Bounds against the programs that they describe, and against what was simulated."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPE_INDEX
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.sync import SetFlag
from ascend_sim.kernel.program import Program
from ascend_sim.studies.tiles.kernel import CubeKernel
from tests.support.sampling import sampled
from tests.support.studies.searched import CHIPS, KERNELS, case, kernel, problems


def pick(draw: st.DataObject, found: CubeKernel) -> tuple[Any, Any]:
    """One tiling of the grid."""
    tilings = list(found.tilings())
    return tilings[draw.draw(st.integers(0, len(tilings) - 1))]


def made(name: str, chip: str, problem: dict[str, Any], l2: str = "warm") -> CubeKernel:
    """The kernel, where the chip's operator takes the problem."""
    try:
        return kernel(name, chip, l2, **problem)
    except SimError:  # the checks refuse it, or the gradient is a MatMul
        assume(False)
        raise


@sampled(8, 25)
@given(KERNELS, CHIPS, problems(), st.sampled_from(["warm", "cold"]), st.data())
def test_no_tiling_beats_its_bounds(name: str, chip: str, problem: dict[str, Any], l2: str, draw: st.DataObject) -> None:
    found = made(name, chip, problem, l2)
    fields, tiling = pick(draw, found)
    result = found.simulate(fields)
    check(found, fields, tiling, result["cycles"])
    assert not result["findings"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        (1, {"n": 1, "c_out": 20, "size": 13, "stride": 2}),
        (2, {"c_in": 20, "size": 9, "stride": 2, "pad": 0, "dtype": "float32"}),
        (1, {"n": 1, "c_in": 3, "c_out": 5, "size": 7, "k": 1, "stride": 2, "pad": 0}),  # parts without a tap
    ],
)
def test_no_split_kernel_beats_its_bounds(mode: int, problem: dict[str, Any]) -> None:
    found = kernel("grad_input", "ascend950pr_9589", **problem)
    tilings = list(islice(found.tilings({"kernelSplitMode": mode}), 200))
    for fields, tiling in tilings[:: len(tilings) // 2]:
        result = found.simulate(fields)
        assert result["tiling"]["kernelSplitMode"] == mode and not result["findings"]
        check(found, fields, tiling, result["cycles"])


@sampled(5, 15)
@given(CHIPS, problems(), st.data())
def test_no_tiling_in_strips_or_taps_beats_its_bounds(chip: str, problem: dict[str, Any], draw: st.DataObject) -> None:
    """And on the split architecture the work of a block is that of its program."""
    found = made("grad_weight", chip, problem)
    width = draw.draw(st.integers(1, found.inp.problem.w_out))
    cut = {"splitWo": width}
    if found.inp.layout.plain and draw.draw(st.booleans()):
        cut = {"isSplitKernelHW": 1}
    tilings = list(islice(found.tilings(cut), 100))
    fields, tiling = tilings[draw.draw(st.integers(0, len(tilings) - 1))]
    result = found.simulate(fields)
    assert cut.items() <= result["tiling"].items() and not result["findings"]
    check(found, fields, tiling, result["cycles"])
    if chip == "ascend910b3":
        _, task = found.launch(fields)
        block = draw.draw(st.integers(0, task.block_dim - 1))
        program = task.build(block)[0]
        for pipe, ours in counted(found, tiling, block).items():
            real = work_of(program, pipe)
            assert ours <= real * (1 + 1e-9)
            if pipe != "MTE2" and problem["pad"] < problem["k"]:  # else strips of padding, whose tiles of zeros are not counted
                assert np.isclose(ours, real, rtol=1e-9), pipe


@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(CHIPS, problems(), st.sampled_from(["warm", "cold"]), st.data())
def test_no_grad_input_in_strips_beats_its_bounds(chip: str, problem: dict[str, Any], l2: str, draw: st.DataObject) -> None:
    found = made("grad_input", chip, problem | {"size": draw.draw(st.integers(17, 36))}, l2)
    assume(found.inp.problem.w_in > 16)  # a 1x1 kernel with a stride works on the smaller map
    tilings = list(islice(found.tilings({"splitWi": 16, "kernelSplitMode": 0} if "950" in chip else {"splitWi": 16}), 200))
    fields, tiling = tilings[draw.draw(st.integers(0, len(tilings) - 1))]
    result = found.simulate(fields)
    assert result["tiling"]["splitWi"] == 16 and not result["findings"]
    check(found, fields, tiling, result["cycles"])


@pytest.mark.parametrize("fields", [{"loadB1Condition": 2}, {"loadB1Condition": 3, "splitWi": 16}], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_no_cut_kernel_beats_its_bounds(fields: dict[str, int], stride: int) -> None:
    found = kernel("grad_input", "ascend950pr_9589", c_in=20, size=19, stride=stride, dtype="float32", l2="cold")
    tilings = list(islice(found.tilings(fields), 200))
    for own, tiling in tilings[:: max(len(tilings) // 2, 1)]:
        result = found.simulate(own)
        assert fields.items() <= result["tiling"].items() and not result["findings"]
        check(found, own, tiling, result["cycles"])


def check(found: CubeKernel, fields: Any, tiling: Any, cycles: int) -> None:
    """Neither bound of a tiling is above the cycles that it takes."""
    bounds, block = found.bounds().with_block(tiling)
    assert max(bounds.values()) <= cycles
    assert found.sharper_bound(found.bounds(), fields, block) <= cycles


def counted(found: CubeKernel, tiling: Any, block: int) -> dict[str, float]:
    """Cycles of a block by pipe as the bounds count them."""
    work = found.bounds().work([tiling]).of_blocks(np.array([block]))
    return {"M": work.cube[0], "MTE1": work.mte1[0], "MTE2": work.mte2[0], "FIX": work.out[0]}


def work_of(program: Program, pipe: str) -> float:
    """Cycles on a pipe, or of the loads of an operand, with the shorter heads, row by row of the program."""
    table, total = program.table, 0.0
    for index in program.rows[:, 0].tolist():
        if table.pipes[index] == PIPE_INDEX.get(pipe) or table.instructions[index].label() == pipe != "":
            cost, access = table.costs[index], table.accesses[index]
            total += min(cost.head_first, cost.head_stream) + cost.work
            total += access.region.total / access.rate if access else 0.0
    return total


@settings(max_examples=25, deadline=None)
@given(KERNELS, problems(), st.data())
def test_the_work_of_a_block_is_that_of_its_program(name: str, problem: dict[str, Any], draw: st.DataObject) -> None:
    """The tile-by-tile description against the kernel itself, on the split architecture."""
    found = made(name, "ascend910b3", problem)
    fields, tiling = pick(draw, found)
    _, task = found.launch(fields)
    block = draw.draw(st.integers(0, task.block_dim - 1))
    program = task.build(block)[0]
    # Pixels of dx that no window covers, in the padding or behind the last one, make tiles of zeros: their few instructions
    # are not in the bound.
    uncovered = problem["pad"] > problem["k"] - 1 or (problem["size"] + 2 * problem["pad"] - problem["k"]) % problem["stride"]
    for pipe, ours in counted(found, tiling, block).items():
        real = work_of(program, pipe)
        assert ours <= real * (1 + 1e-9)
        held = pipe == "MTE2" and name == "grad_weight"  # what L1 holds from tile to tile is left out
        if not held and not uncovered:
            assert np.isclose(ours, real, rtol=1e-9), pipe


@pytest.mark.fast
@pytest.mark.parametrize("name", ["grad_input", "grad_weight"])
def test_planes_of_the_kernel_that_meet_padding_alone_are_no_work(name: str) -> None:
    """2 planes under 3 taps of depth, padded by 1: each plane meets 2 of them."""
    found = kernel(name, n=1, size=5, depth=2)
    fields, tiling = next(iter(found.tilings()))
    _, task = found.launch(fields)
    for block in range(task.block_dim):
        program = task.build(block)[0]
        assert counted(found, tiling, block)["M"] == pytest.approx(work_of(program, "M")) != 0


@settings(max_examples=10, deadline=None)
@given(KERNELS, problems(), st.data())
def test_the_sharper_bound_is_a_block_alone_but_for_the_heads_of_the_cube(
    name: str, problem: dict[str, Any], draw: st.DataObject
) -> None:
    found = made(name, "ascend910b3", problem)
    fields, _ = pick(draw, found)
    device, task = found.launch(fields)
    block = draw.draw(st.integers(0, task.block_dim - 1))
    bounds, heads = found.bounds(), found.chip.cube.head_first - found.chip.cube.head_stream
    runs = Engine(device, shared_gm=False).run([task]).programs
    (run,) = [run for run in runs if run.program.block == block and run.program.core_kind != "AIV"]
    if task.core_kind != "MIX":
        alone = found.sharper_bound(bounds, fields, block) - bounds.start(block)
        longest = run.finish - run.begin
        assert longest - heads * len(rows_on(run.program, "M")) <= alone <= longest


@pytest.mark.fast
@pytest.mark.parametrize("name", ["grad_input", "grad_weight"])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
def test_bounds_of_many_tilings_are_those_of_each_alone(name: str, chip: str) -> None:
    """Shared parts are worked out once for all tilings; alone, a tiling shares nothing."""
    found = kernel(name, chip, n=2, c_in=40, c_out=48, size=9, k=3, stride=1)
    tilings = [tiling for _, tiling in found.tilings()]
    least, blocks = found.bounds().least(tilings)
    assert len(set(least.tolist())) > 10
    for number in range(0, len(tilings), max(len(tilings) // 40, 1)):
        bounds, block = found.bounds().with_block(tilings[number])
        assert (max(bounds.values()), block) == (least[number], blocks[number])


def rows_on(program: Program, pipe: str) -> list[int]:
    """The instructions with values that a program issues to a pipe."""
    table = program.table
    return [
        index
        for index in program.rows[:, 0].tolist()
        if table.pipes[index] == PIPE_INDEX[pipe] and table.instructions[index].has_values
    ]


PIPES_OF_BOUNDS = {"cube": "M", "mte1": "MTE1", "mte2": "MTE2", "out": "FIX"}


@pytest.mark.fast
def test_bounds_of_one_tiling_by_hand() -> None:
    """A tiling of dX that waits for no buffer: pipe by pipe what a block's rows take; from HBM all of gradOutput, once."""
    found = kernel("grad_input", l2="cold", n=2, c_out=32)
    bounds = found.bounds()
    fields, tiling = next((f, t) for f, t in found.tilings() if t.cl0_buffers == t.al0_buffers == 2)
    told, block = bounds.with_block(tiling)
    program = found.launch(fields)[1].build(block)[0]
    for name, pipe in PIPES_OF_BOUNDS.items():
        assert told[name] - bounds.start(block) == pytest.approx(work_of(program, pipe), abs=1), name
    grad_output = 2 * 32 * 6 * 6 * 2
    assert told["HBM"] - bounds.start(0) == int(grad_output / found.chip.hbm_bytes_per_cycle())


@pytest.mark.fast
def test_the_block_with_the_most_work_bounds_a_tiling() -> None:
    """Four rows of each of two images are the first block's, one the last one's."""
    found = kernel("grad_input", n=2, size=5)
    _, tiling = next(iter(found.tilings({"coreNum": 2, "singleCoreM": 20})))
    bounds, block = found.bounds().with_block(tiling)
    work = {at: counted(found, tiling, at) for at in (0, 1)}
    assert block == 0 and work[0]["MTE1"] > work[1]["MTE1"] > 0
    assert bounds["mte1"] == found.bounds().start(0) + int(work[0]["MTE1"])


@pytest.mark.fast
def test_the_sharper_bound_gains_the_heads_of_a_cube_that_waits() -> None:
    """One product: the cube waits for its operands, and in a run it pays the longer head."""
    found = kernel("grad_input", n=1, size=4, k=1, pad=0)
    fields, _ = next(iter(found.tilings({"coreNum": 1})))
    device, task = found.launch(fields)
    (run,) = Engine(device, shared_gm=False).run([task]).programs
    alone = found.sharper_bound(found.bounds(), fields, 0) - found.bounds().start(0)
    cube = found.chip.cube
    assert len(rows_on(run.program, "M")) == 1
    assert run.finish - run.begin - alone == cube.head_first - cube.head_stream > 0


@pytest.mark.fast
def test_bytes_through_the_l2_bound_a_tiling_by_those_that_its_programs_read() -> None:
    found = kernel("grad_input", n=3, c_out=32)
    fields, tiling = next((f, t) for f, t in found.tilings() if t.bl1_buffers == 2)
    _, task = found.launch(fields)
    read = 0
    for block in range(task.block_dim):
        program = task.build(block)[0]
        read += sum(program.table.accesses[index].region.total for index in rows_on(program, "MTE2"))
    least = found.bounds().start(0) + int(read / found.chip.l2_read_bytes_per_cycle())
    assert found.bounds().of(tiling)["L2 read"] == least


@pytest.mark.fast
@pytest.mark.parametrize(
    ("buffer", "field", "pipes", "turn"),
    [
        ("L1-A", "al1Pbuffer", ("A", "MTE1"), "A1"),
        ("L1-B", "bl1Pbuffer", ("B", "MTE1"), "B1"),
        ("L0", "al0Pbuffer", ("MTE1", "M"), "L0"),
        ("L0C", "cl0Pbuffer", ("M", "FIX"), "L0C"),
    ],
)
@pytest.mark.parametrize("buffers", [1, 2])
def test_turns_of_a_buffer_are_those_of_its_flags(
    buffer: str, field: str, pipes: tuple[str, str], turn: str, buffers: int
) -> None:
    """A filled buffer is handed over by a flag and back by another; of two buffers one takes half of that at least."""
    found = kernel("grad_input", n=3, c_out=32, groups=2)  # groups: no unit flag
    fixed = {"al1Pbuffer": 1, "bl1Pbuffer": 1, "cl0Pbuffer": 1, "al0Pbuffer": 1, "bl0Pbuffer": 1}
    fixed |= {"baseM": 16, "baseN": 16, "coreNum": 1, field: buffers}
    fields, tiling = next(iter(found.tilings(fixed | ({"bl0Pbuffer": buffers} if buffer == "L0" else {}))))
    told, block = found.bounds().with_block(tiling)
    program = found.launch(fields)[1].build(block)[0]
    full = {flag for name, flag in program.flags.items() if name.startswith(f"{turn}[") and name.endswith("full")}
    rows = [program.table.instructions[index] for index in program.rows[:, 0].tolist()]
    times = sum(isinstance(one, SetFlag) and (one.source, one.destination, one.flag) in full for one in rows)
    there, back = (least_latency(program, pipe) + found.chip.sync.flag_latency for pipe in pipes)
    assert times > 2
    cycles = sum(work_of(program, pipe) for pipe in pipes) + times * there + (times - buffers) * back
    assert told[buffer] - found.bounds().start(block) == pytest.approx(cycles / buffers, abs=1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("problem", "base_k", "known"),
    [
        pytest.param({"n": 4}, 32, True, id="32 pixels and 4: the long steps all take one half"),
        pytest.param({"n": 4}, 16, False, id="16, 16 and 4: three steps, so tiles begin with either half"),
        pytest.param({"depth": 1}, 32, False, id="a tile in padding is one step"),
    ],
)
def test_steps_at_even_places_take_the_same_half_of_l0(problem: dict[str, Any], base_k: int, known: bool) -> None:
    found = kernel("grad_weight", c_in=32, **problem)
    fields, tiling = next(iter(found.tilings({"baseK": base_k, "singleCoreK": 36, "usedCoreNum": 1})))
    told, block = found.bounds().with_block(tiling)
    work = found.bounds().work([tiling]).of_blocks(np.array([block]))
    halves = steps_by_half(found.launch(fields)[1].build(block)[0])
    both = work.mte1[0] + work.cube[0]
    if known:
        assert halves == [work.first[0], both - work.first[0]]
        assert told["L0"] - found.bounds().start(block) > max(halves) > sum(halves) / 2
    else:
        assert work.first[0] == both / 2 <= max(halves)


def steps_by_half(program: Program) -> list[float]:
    """Cycles of MTE1 and M for what goes through each half of L0, by the place that a product reads."""
    halves: dict[int, float] = {}
    loads = 0.0
    for row in program.rows.tolist():
        one = program.table.instructions[row[0]]
        if not one.has_values or program.table.pipes[row[0]] not in (PIPE_INDEX["MTE1"], PIPE_INDEX["M"]):
            continue
        cost = program.table.costs[row[0]]
        loads += min(cost.head_first, cost.head_stream) + cost.work
        if isinstance(one, Mmad):
            halves[row[2]] = halves.get(row[2], 0.0) + loads
            loads = 0.0
    return [halves[place] for place in sorted(halves)]


def least_latency(program: Program, pipe: str) -> int:
    """Return the least latency of the instructions with values on a pipe, or of the loads of an operand."""
    return min(
        cost.latency
        for one, cost, at in zip(program.table.instructions, program.table.costs, program.table.pipes, strict=True)
        if one.has_values and (one.label() == pipe or at == PIPE_INDEX.get(pipe))
    )


@pytest.mark.fast
def test_a_unit_flag_has_tiles_leave_while_they_are_summed() -> None:
    """With one buffer of L0C the cube and the Fixpipe of the older operator take less than their sum."""
    found = kernel("grad_input", n=4, c_in=256, c_out=16, size=32, k=1, pad=0)
    fixed = {"cl0Pbuffer": 1, "baseM": 256, "baseN": 128, "coreNum": 1, "al1Pbuffer": 2, "bl1Pbuffer": 2}
    fields, tiling = next(iter(found.tilings(fixed)))
    work = found.bounds().work([tiling]).of_blocks(np.array([0]))
    cycles = found.simulate(fields)["cycles"]
    check(found, fields, tiling, cycles)
    assert cycles < found.bounds().start(0) + work.cube[0] + work.out[0]


@pytest.mark.fast
def test_bytes_of_dw_are_those_that_its_programs_write() -> None:
    """Four bytes a weight, once for each part of the images that a task adds up."""
    found = kernel("grad_weight", n=3, c_in=32)
    fields, tiling = next(iter(found.tilings()))
    _, task = found.launch(fields)
    written = 0
    for block in range(task.block_dim):
        program = task.build(block)[0]
        written += sum(program.table.accesses[index].region.total for index in rows_on(program, "FIX"))
    assert found.bounds().work([tiling]).written.tolist() == [written] and written > 0


@pytest.mark.fast
def test_columns_behind_the_last_strip_are_no_work() -> None:
    """40 columns in strips of 16: the bytes of dx go out, and of the heads one of each block's tile counts."""
    found = kernel("grad_input", n=1, size=40)
    fields, tiling = next(iter(found.tilings({"splitWi": 16})))
    _, task = found.launch(fields)
    for block in range(task.block_dim):
        program = task.build(block)[0]
        rows, table = rows_on(program, "FIX"), program.table
        moved = sum(table.accesses[index].region.total / table.accesses[index].rate for index in rows)
        head = table.costs[rows[0]].head_stream
        assert counted(found, tiling, block)["FIX"] == pytest.approx(moved + head, rel=1e-9)


@pytest.mark.fast
@pytest.mark.parametrize("stride", [(2, 1), (1, 2), (2, 2)])
def test_gradient_between_zeros_costs_what_its_copies_do(stride: tuple[int, int]) -> None:
    """Rows apart go in one copy for each block of channels, columns apart row by row."""
    chip = load_chip("ascend910b3")
    problem = case(n=1, size=9, c_out=32).model_copy(update={"stride": stride})
    found = CubeKernel.of(accept_case(problem, chip), chip, "grad_input", "warm")
    fields, tiling = next(iter(found.tilings()))
    program = found.launch(fields)[1].build(0)[0]
    assert counted(found, tiling, 0)["MTE2"] == pytest.approx(work_of(program, "MTE2"), rel=1e-9)


@pytest.mark.fast
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_all_of_the_gradient_comes_from_hbm_once(chip: str) -> None:
    found = kernel("grad_input", chip, l2="cold", n=3, c_out=32)
    tiling = next(iter(found.tilings()))[1]
    grad_output = 3 * 32 * 6 * 6 * 2
    least = found.bounds().of(tiling)["HBM"] - found.bounds().start(0)
    assert least == int(grad_output / found.chip.hbm_bytes_per_cycle())


@pytest.mark.fast
def test_what_tasks_of_several_images_read_of_both_maps() -> None:
    """Between the tiles of such tasks L1 holds nothing: neither more nor less than what the programs load."""
    found = kernel("grad_weight", n=4, c_in=32, c_out=32, size=8)
    fields, tiling = next((f, t) for f, t in found.tilings() if t.single_core_batch > 1)
    _, task = found.launch(fields)
    read = 0
    for block in range(task.block_dim):
        program = task.build(block)[0]
        read += sum(program.table.accesses[index].region.total for index in rows_on(program, "MTE2"))
    assert 0 < found.bounds().work([tiling]).read.tolist()[0] <= read
