"""The MatMul kernel: values against numpy, cycles on paper, tilings, and what every wait is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import DeadlockError, SimError, TilingError
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul, estimated_cycles, matmul_tiles
from tests.support.ops.matmul_runs import run
from tests.support.sampling import sampled

CHIPS = ("ascend910b3", "ascend950pr_9599")
DTYPES = ("float16", "bfloat16", "float32", "hf32")


@st.composite
def matmuls(draw: st.DrawFn) -> MatMulProblem:
    """Small problems; sizes are whole fractals, parts of one, or both."""
    m, n, k = (draw(st.integers(1, 3) | st.integers(1, 70) | st.sampled_from([16, 64, 130])) for _ in range(3))
    dtype = draw(st.sampled_from(DTYPES))
    storage = "float32" if dtype == "hf32" else dtype
    flags = [draw(st.booleans()) for _ in range(3)]
    return MatMulProblem(m, n, k, dtype, draw(st.sampled_from([storage, "float32"])), draw(st.integers(1, 2)), *flags)


@st.composite
def tilings(draw: st.DrawFn) -> dict[str, int]:
    """The user's fields: small blocks, one L1 step a multiple of the other, one or two buffers of everything."""
    few, more = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    steps = draw(st.permutations([few, few * more]))
    fields = {name: 16 * draw(st.integers(1, 3)) for name in ("baseM", "baseN", "baseK")}
    fields |= {"stepKa": steps[0], "stepKb": steps[1]}
    fields |= {name: draw(st.integers(1, 2)) for name in ("dbL0C", "al1Pbuffer", "bl1Pbuffer")}
    fields |= {"singleCoreM": fields["baseM"] * draw(st.integers(1, 2)), "usedCoreNum": draw(st.integers(1, 4))}
    return draw(st.sampled_from([{}, fields]))


@settings(max_examples=60, deadline=None)
@given(matmuls(), tilings(), st.sampled_from(CHIPS), st.sampled_from(["full", "functional"]))
@example(MatMulProblem(1, 20, 70), {}, CHIPS[0], "functional")
@example(MatMulProblem(1, 20, 70), {}, CHIPS[1], "functional")
def test_the_product_is_exact_and_nothing_is_found(
    problem: MatMulProblem, tiling: dict[str, int], chip: str, mode: str
) -> None:
    """Whatever shape, layout, dtype and tiling; reads of bytes that nobody wrote would be findings."""
    result, expected, outcome = run(problem, chip, mode, tiling)
    np.testing.assert_array_equal(result, expected)
    assert outcome.findings == []


@sampled(50, 200)
@given(matmuls(), tilings())
def test_tiles_cover_the_product_once(problem: MatMulProblem, fields: dict[str, int]) -> None:
    chip = load_chip("ascend910b3")
    tiling = choose_matmul(problem, chip, fields)
    written = np.zeros((problem.batch, problem.m, problem.n), np.int64)
    for block in range(tiling.block_dim):
        for t in matmul_tiles(tiling, problem, block):
            written[t.batch, t.m : t.m + t.m_count, t.n : t.n + t.n_count] += 1
    assert (written == 1).all()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("chip", "base", "loads", "busy"),
    [
        # asc-devkit, 8192^3 in fp16: MTE1 is busy 430 cycles for each Mmad of 522 on A2, 333.5 of 1033.2 on the 950PR.
        ("ascend910b1", (128, 256), {"load_data_3d": 1, "load_data_2d": 4}, (430, 522)),
        ("ascend950pr_9589", (256, 256), {"load_data_3d": 2}, (334, 1033)),
    ],
)
def test_the_inner_loop_is_that_of_the_published_sample(
    chip: str, base: tuple[int, int], loads: dict[str, int], busy: tuple[int, int]
) -> None:
    problem = MatMulProblem(*base, 2048, "float16", "float32")
    tiling = choose_matmul(problem, load_chip(chip), {"baseM": base[0], "baseN": base[1]})
    assert (tiling.base_k, tiling.step_ka, tiling.step_kb) == (64, 4, 4)  # K blocks of 512 bytes: whole L2 lines
    _, _, outcome = run(problem, chip, "full", {"baseM": base[0], "baseN": base[1]})
    assert outcome.timeline is not None
    (program,) = outcome.timeline.programs
    kinds = program.program.rows[:, 0]
    names = Counter(program.program.table.instructions[kind].name for kind in kinds)
    steps = 2048 // 64
    assert {name: count // steps for name, count in names.items() if name.startswith("load_")} == loads
    pipes = program.busy()
    assert pipes["MTE1"] / steps == pytest.approx(busy[0], abs=1)
    assert pipes["M"] / steps == pytest.approx(busy[1], abs=12)  # up to a longer head where the cube had to wait


@pytest.mark.fast
def test_large_products_take_the_published_block_and_few_cores_where_more_are_no_faster() -> None:
    chip = load_chip("ascend910b3")  # 20 cores
    large = choose_matmul(MatMulProblem(4096, 4096, 4096), chip)
    assert (large.base_m, large.base_n, large.base_k, large.source) == (128, 256, 64, "stand-in")
    # Measured: 4096 x 512 x 8192 in bf16 ran on 16 of 20 cores.
    fewer = choose_matmul(MatMulProblem(4096, 512, 8192, "bfloat16", "bfloat16", transpose_a=True), chip)
    assert fewer.block_dim == 16


@pytest.mark.fast
@pytest.mark.parametrize("fields", [{"baseM": 256}, {"baseN": 512}, {"baseK": 32}, {"dbL0C": 2}, {"al1Pbuffer": 1}])
def test_what_the_user_leaves_out_follows(fields: dict[str, int]) -> None:
    tiling = choose_matmul(MatMulProblem(1024, 1024, 1024), load_chip("ascend910b3"), fields)  # checks what fits
    assert fields.items() <= tiling.to_vendor().items() and tiling.source == "manual"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baseM": 100}, "baseM = 100 is not a multiple of 16"),
        ({"baseM": 0}, "baseM = 0; allowed: a whole number, 1 or more"),
        ({"baseM": 256, "baseN": 256}, r"L0C: baseM\*baseN\*4\*dbL0C = 262144 bytes; ascend910b3 has 131072"),
        ({"baseM": 128, "baseN": 256, "baseK": 128}, "L0B: "),
        ({"stepKa": 64, "baseM": 128, "baseK": 64}, "L1: "),
        ({"baseM": 128, "baseN": 128, "stepKa": 8, "stepKb": 8}, "L1: .* = 1048576 bytes; ascend910b3 has 524288"),
        ({"stepKa": 2, "stepKb": 3}, "one must be a multiple of the other"),
        ({"dbL0C": 3}, "dbL0C = 3; allowed are 1 and 2"),
        ({"coreNum": 3}, r"field coreNum; did you mean usedCoreNum\?; this gradient is a MatMul, allowed: baseM, baseK, baseN"),
    ],
)
def test_tilings_that_cannot_run_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(TilingError, match=message):
        choose_matmul(MatMulProblem(1024, 1024, 4096), load_chip("ascend910b3"), fields)


@pytest.mark.fast
def test_no_block_is_estimated_much_faster_than_the_one_that_is_taken() -> None:
    """The largest of the blocks within 5 % of the fastest is taken; 128 x 256 would keep one core at it, 48 x 256 three."""
    chip, problem = load_chip("ascend910b3"), MatMulProblem(128, 256, 4096)
    taken = choose_matmul(problem, chip)
    sides = [(16 * m, 16 * n) for m in (1, 2, 3, 4, 8) for n in (4, 8, 16)]
    cycles = {
        side: estimated_cycles(choose_matmul(problem, chip, {"baseM": side[0], "baseN": side[1]}), problem, chip)
        for side in sides
    }
    assert (taken.base_m, taken.base_n) == (48, 256)
    assert min(cycles.values()) < cycles[48, 256] <= 1.05 * min(cycles.values()) < cycles[128, 256]


@pytest.mark.fast
def test_steps_of_k_stay_within_the_field_of_load3d() -> None:
    chip = load_chip("ascend910b3")
    load3d = chip.load3d.model_copy(update={"limits": chip.load3d.limits.model_copy(update={"k_extent": 128})})
    tiling = choose_matmul(MatMulProblem(256, 256, 4096), chip.model_copy(update={"load3d": load3d}))
    assert tiling.step_ka * tiling.base_k == tiling.step_kb * tiling.base_k == 128


def test_architectures_without_the_kernel_say_so() -> None:
    with pytest.raises(SimError, match=r"no kernel for ascend910a \(dav-1001\); there is one for dav-2201, dav-3510"):
        choose_matmul(MatMulProblem(16, 16, 16), load_chip("ascend910a"))


# -- waits: as in test_disarmed_waits --------------------------------------------------------------------------------------

SLOW = 20_000
PARTS = ("nothing", "M", "latency", "MTE1", "MTE2", "FIX")
BUFFERS = ("dbL0A", "dbL0B", "dbL0C", "al1Pbuffer", "bl1Pbuffer")
BLOCK = {"baseM": 32, "baseN": 32, "baseK": 16, "usedCoreNum": 1}
PROBLEM = MatMulProblem(96, 96, 96, "float16", "float32")
WAITS = {
    "A more often": (PROBLEM, BLOCK | dict.fromkeys(BUFFERS, 2) | {"stepKa": 1, "stepKb": 2}),
    "B more often": (PROBLEM, BLOCK | dict.fromkeys(BUFFERS, 2) | {"stepKa": 2, "stepKb": 1}),
    "single buffers": (PROBLEM, BLOCK | dict.fromkeys(BUFFERS, 1) | {"stepKa": 1, "stepKb": 2}),
    "single buffers, B more often": (PROBLEM, BLOCK | dict.fromkeys(BUFFERS, 1) | {"stepKa": 2, "stepKb": 1}),
}


@cache
def slow(part: str) -> ChipSpec:
    """A 910B3 with one slow part: a pipe, "latency" (what GM and fills write comes late), or nothing."""
    chip = load_chip("ascend910b3")
    paths = dict(chip.paths)
    for key, path in chip.paths.items():
        if part == "latency" and key.startswith(("GM->", "FILL->")):
            paths[key] = path.model_copy(update={"latency": SLOW})
        elif path.pipe == part:
            paths[key] = path.model_copy(update={"head": SLOW})
    changes: dict[str, Any] = {"paths": paths}
    if part == "M":
        changes["cube"] = chip.cube.model_copy(update={"head_first": SLOW, "head_stream": SLOW})
    if part == "FIX" and chip.fixpipe is not None:
        changes["fixpipe"] = chip.fixpipe.model_copy(update={"head": SLOW})
    if part == "MTE1":
        changes["load3d"] = chip.load3d.model_copy(update={"head": SLOW})
    return chip.model_copy(update=changes)


def goes_wrong(case: tuple[MatMulProblem, dict[str, int]], disarm: tuple[str, ...] = ()) -> bool:
    """Return True if a run on any of the chips gives a wrong product, a finding or a deadlock."""
    for part in PARTS:
        try:
            result, expected, outcome = run(case[0], slow(part), "full", case[1], disarm)
        except DeadlockError:
            return True
        if outcome.findings or not np.array_equal(result, expected):
            return True
    return False


def waits(case: tuple[MatMulProblem, dict[str, int]]) -> set[str]:
    """Flags that the program waits for."""
    _, _, outcome = run(case[0], slow("nothing"), "full", case[1])
    program = outcome.timeline.programs[0].program
    used = {program.table.instructions[i] for i in np.unique(program.rows[:, 0])}
    waited = {(i.source, i.destination, i.flag) for i in used if isinstance(i, WaitFlag)}
    return {name for name, key in program.flags.items() if key in waited}


@pytest.mark.parametrize("name", WAITS)
def test_nothing_goes_wrong_with_every_wait_armed(name: str) -> None:
    assert not goes_wrong(WAITS[name])


def test_every_wait_matters() -> None:
    names = {name: waits(case) for name, case in WAITS.items()}
    flags = sorted(set.union(*names.values()))
    assert len(flags) == 16  # full and free of two buffers each of A1, B1, L0 and L0C
    useless = [flag for flag in flags if not any(goes_wrong(WAITS[name], (flag,)) for name in WAITS if flag in names[name])]
    assert useless == []


def test_the_barrier_behind_the_zeros_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """B stored [N, K] with an N that is not a whole fractal: MTE2 writes zeros, then B over them."""
    ragged = (replace(PROBLEM, n=40, transpose_b=True), {})
    assert not goes_wrong(ragged)
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None)
    assert goes_wrong(ragged)
