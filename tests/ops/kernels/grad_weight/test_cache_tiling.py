"""The 910B's tiling of the older weight-gradient kernels: worked examples, a separate program, vendor rows, rules."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA
from tiling_problems import BUFFERS, LOAD3D, RESNET, conv2d, problems
from tiling_problems import on_910b as tiling_input

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import CycleModel, cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, CacheTiling, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import (
    DIMS,
    base_template,
    cache_tiling,
    tiling_by_loads,
)
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import cut_counts, fits, share_of
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import task_count
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div

COSTS = cycle_costs("dav-2201")
TABLE = json.loads((DATA / "cache_tilings_910b.json").read_text())
OLDER = json.loads((DATA / "ut_tilings_910a.json").read_text())
VENDOR = {row["name"]: row for row in json.loads((DATA / "ut_tilings_arch22.json").read_text())["rows"]}


def on_910b(
    problem: ConvProblem, itemsize: int = 2, cores: int = 24, hf32: bool = False, deep: bool = False
) -> FilterProblem:
    return FilterProblem(problem, itemsize, cores, BUFFERS["L1"], BUFFERS["L0A"], BUFFERS["L0C"], LOAD3D, hf32, deep)


def decided(p: FilterProblem) -> CacheTiling:
    return cache_tiling(p, COSTS)


def same_kernel(c_in: int, c_out: int, size: int, kernel: int) -> ConvProblem:
    return conv2d(32, c_in, c_out, size, kernel, pad=kernel // 2)


# Cuts of batch, M, K, N; tile of L0 as M, K, N; K of A and B in L1; buffers of A, B, L0C; cycles.
WORKED = [
    (RESNET, 2, False, 20, (1, 1, 10, 2), (4, 2, 18), (20, 20), (2, 2, 1), 73184),
    (RESNET, 2, False, 24, (2, 1, 6, 2), (4, 3, 18), (33, 33), (2, 2, 1), 55072),
    (same_kernel(192, 384, 13, 3), 4, True, 24, (1, 4, 3, 2), (6, 2, 18), (8, 8), (2, 2, 1), 228960),
    (same_kernel(192, 384, 13, 3), 4, False, 24, (1, 6, 1, 4), (4, 2, 27), (22, 22), (2, 2, 1), 320800),
    (same_kernel(384, 256, 13, 3), 4, True, 24, (2, 2, 3, 2), (8, 4, 12), (8, 8), (2, 2, 1), 365472),
    (same_kernel(256, 256, 13, 3), 4, True, 24, (4, 2, 3, 1), (8, 4, 16), (8, 8), (2, 2, 1), 200016),
    (same_kernel(64, 192, 27, 5), 4, True, 24, (2, 1, 6, 2), (12, 4, 10), (16, 16), (2, 2, 1), 334400),
    (same_kernel(64, 192, 27, 5), 4, False, 24, (1, 1, 12, 2), (12, 4, 10), (8, 8), (2, 2, 1), 641600),
]


@pytest.mark.parametrize(("problem", "itemsize", "hf32", "cores", "cuts", "l0", "k_l1", "buffers", "cycles"), WORKED)
def test_worked_examples(
    problem: ConvProblem,
    itemsize: int,
    hf32: bool,
    cores: int,
    cuts: tuple[int, ...],
    l0: tuple[int, ...],
    k_l1: tuple[int, ...],
    buffers: tuple[int, ...],
    cycles: int,
) -> None:
    found = decided(on_910b(problem, itemsize, cores, hf32))
    tile = found.tile
    assert found.cuts[:4] == cuts
    assert (tile.m_l0, tile.k_l0, tile.n_l0) == l0
    assert (tile.k_al1, tile.k_bl1) == k_l1
    assert (tile.db_al1, tile.db_bl1, tile.db_l0c) == buffers
    assert found.cycles == cycles


def test_the_costs_of_the_resnet_tile_by_hand() -> None:
    p = on_910b(RESNET, cores=20)
    model, tile = CycleModel(p, COSTS), Tile(m_l0=4, k_l0=2, n_l0=18, k_al1=20, k_bl1=20)
    assert model.mmad(tile) == 4 * 2 * 18 + 20
    assert model.to_l0a(tile) == 20 + 4 + 16
    assert model.to_l0b(tile) == 42 + 144  # 36 fractals of 512 bytes at 128 B/cycle: no change of rows within 16 pixels
    assert model.to_l1_a(tile) == 300 + 426  # 4 * 20 fractals at 96 B/cycle
    assert model.to_l1_b(tile) == 300 + 384  # 9 rows, 2 blocks, 56 pixels = 3 packets of 512 bytes and one of 256
    assert model.way_out(tile) == 72 * 4 + 72 * 8


@pytest.mark.parametrize("row", TABLE["rows"], ids=range(len(TABLE["rows"])))
def test_a_separate_program_decides_the_same(row: dict[str, Any]) -> None:
    p = on_910b(ConvProblem(**row["problem"]), row["itemsize"], row["cores"], row["hf32"], row["volumetric"])
    found = decided(p)
    got = found.to_vendor() | {"cycles": found.cycles}
    assert {name: got[name] for name in row["fields"]} == row["fields"]


BASE_ROWS = {name: row["base_template"] for name, row in VENDOR.items() if "base_template" in row}


@pytest.mark.parametrize("name", BASE_ROWS)
def test_the_base_template_of_the_v2_kernel(name: str) -> None:
    row = VENDOR[name]
    p = on_910b(ConvProblem(**row["problem"]), row["itemsize"], row["cores"], deep=True)
    expected = dict.fromkeys(DIMS, 1) | BASE_ROWS[name]
    got = base_template(p, decided(p))
    assert {field: got[field] for field in expected} == expected


@pytest.mark.parametrize("name", BASE_ROWS)
def test_the_v2_kernel_runs_what_the_base_template_says(name: str) -> None:
    row = VENDOR[name]
    dtype = {4: "float32", 2: "float16"}[row["itemsize"]]
    chip = load_chip({24: "ascend910b2", 20: "ascend910b3"}[row["cores"]])
    inp = tiling_input(ConvProblem(**row["problem"]), row["itemsize"], row["cores"])
    tiling = GradWeightQuestion(inp, chip=chip, dtype=dtype).tiling()
    known = {field: value for field, value in BASE_ROWS[name].items() if field in tiling.to_vendor()}
    assert len(known) >= 6
    assert {field: tiling.to_vendor()[field] for field in known} == known
    assert tiling.single_core_m == BASE_ROWS[name].get("singleCoreCout", tiling.single_core_m)
    assert tiling.single_core_k == min(
        BASE_ROWS[name]["singleCoreHo"] * inp.problem.w_out, inp.problem.h_out * inp.problem.w_out
    )
    own_cuts = math.prod(BASE_ROWS[name].get(dim, 1) for dim in DIMS) == task_count(tiling, inp)
    own = own_cuts and not has_exact_shape("grad_weight", inp, chip)
    assert tiling.source == ("vendor procedure" if own else "stand-in")


# ---- how the input is read -------------------------------------------------------------------------------------------


def patches(size: int, c_out: int = 768, images: int = 32) -> ConvProblem:
    return conv2d(images, 3, c_out, 224, size, size)


@pytest.mark.parametrize(
    ("problem", "itemsize", "load"),
    [
        (RESNET, 2, Load.LOAD3D),
        (conv2d(8, 64, 128, 28, 1), 2, Load.LOAD2D),
        (conv2d(8, 64, 128, 28, 1), 4, Load.LOAD3D),  # fp32 is turned on the way
        (conv2d(8, 64, 128, 28, 1, pad=1), 2, Load.LOAD3D),
        (patches(16), 2, Load.LOAD3D),  # 48 rows of 224 columns are 344,064 bytes
        (patches(16), 4, Load.SPLIT_W),  # 16 rows are 229,376 bytes, 48 do not fit
        (patches(32), 4, Load.DMA),  # the linear embedding
        (conv2d(8, 4, 64, 224, 32, 32), 2, Load.SPLIT_W),
        (conv2d(2, 16, 16, 260, 65, 65), 2, Load.DMA),  # stride 65 is no stride of load3d
    ],
)
def test_how_the_input_is_read(problem: ConvProblem, itemsize: int, load: Load) -> None:
    p = on_910b(problem, itemsize)
    assert p.load is load
    found = decided(p)
    assert fits(p, found.tile)
    if load in (Load.SPLIT_W, Load.DMA):
        assert (found.attach_a, found.attach_b) == (Attach.PART, Attach.PART)


def test_the_linear_embedding_may_have_a_block_for_every_image() -> None:
    assert on_910b(patches(32, images=64)).most_blocks == 64
    assert on_910b(patches(32, images=8)).most_blocks == 24
    assert on_910b(patches(16, images=64), 4).most_blocks == 24


def test_rows_that_a_flat_kernel_steps_over_are_not_read() -> None:
    p = on_910b(conv2d(4, 32, 32, 56, 1, 2))
    assert (p.skips_rows, p.h_in, p.stride_h) == (True, 28, 1)
    assert not on_910b(conv2d(4, 32, 32, 56, 1, 2, pad=1)).skips_rows
    assert not on_910b(conv2d(4, 32, 32, 56, 1, 2), deep=True).skips_rows


@pytest.mark.parametrize("problem", [patches(32), conv2d(2, 16, 16, 260, 65, 65)])
def test_the_3d_operator_refuses_to_cut_rows_or_to_gather(problem: ConvProblem) -> None:
    with pytest.raises(TilingError, match="the 3-D operator refuses to cut rows or to gather"):
        decided(on_910b(problem, deep=True))


def test_k_of_an_operand_is_lowered_only_to_what_l1_holds() -> None:
    """Of 512 columns, fewer pixels may touch a row more. Cut and cycles as a program that others wrote decides them."""
    problem = ConvProblem(1, 64, 32, 1, 1080, 512, 1, 1080, 512, 1, 3, 3, pad_up=1, pad_down=1, pad_left=1, pad_right=1)
    p = on_910b(problem, 4, 24, hf32=True)
    found = decided(p)
    assert fits(p, found.tile)
    assert (found.cuts.k, found.cuts.n, found.cycles) == (6, 4, 1_349_088)


# ---- rules ------------------------------------------------------------------------------------------------------------


def test_cuts_by_hand() -> None:
    assert cut_counts(13, 24) == (1, 2, 3, 4, 6, 8, 12, 13)  # below 16: its own divisors and the cores'
    assert cut_counts(36, 20) == (1, 2, 3, 4, 5, 6, 9, 10, 12, 18, 20)
    assert cut_counts(17, 20) == (1, 2, 4, 5, 8, 10, 16)  # 17 is cut as 32
    assert share_of(21, 2, 24) == 12  # the even half, 11, is a prime, of which no tile could be made
    assert share_of(36, 4, 24) == 9


@given(problems(), st.sampled_from((2, 4)), st.booleans(), st.sampled_from((1, 20, 24)), st.booleans())
def test_what_is_decided_can_be_run(problem: ConvProblem, itemsize: int, hf32: bool, cores: int, deep: bool) -> None:
    deep = deep or problem.d_in > 1 or problem.k_d > 1 or problem.d_out > 1
    p = on_910b(problem, itemsize, cores, hf32, deep)
    try:
        found = decided(p)
    except TilingError:
        return
    cuts, share, tile = found.cuts, found.share, found.tile
    assert cuts.blocks <= p.most_blocks
    assert tile.m_l0 * tile.k_l0 <= 64 and tile.k_l0 * tile.n_l0 <= 64  # half of L0A, of L0B
    assert tile.m_l0 * tile.n_l0 * tile.db_l0c <= 128
    assert tile.k_l0 % p.least_k == 0 or p.load is Load.SPLIT_W
    assert tile.k_al1 % tile.k_l0 == tile.k_bl1 % tile.k_l0 == 0
    assert max(tile.k_al1, tile.k_bl1) % min(tile.k_al1, tile.k_bl1) == 0
    assert share.m * cuts.m >= p.m
    assert share.k * cuts.k >= p.k
    assert share.n * cuts.n * cuts.planes >= p.cin1 * p.taps * problem.k_d
    assert ceil_div(share.n_tile, tile.n_l0) * tile.n_l0 == share.n_tile
    if not p.conv1d:
        assert fits(p, tile)


@pytest.mark.parametrize("row", OLDER["grad_weight_rows"], ids=lambda row: row["name"])
def test_the_910as_rows_of_an_older_version_are_not_met(row: dict[str, Any]) -> None:
    """Its tiler of 2022 cuts K into divisors; that of now, by loads, cuts every row over cores in another way: a stand-in."""
    chip, sizes, fields = load_chip("ascend910a"), OLDER["buffers"], row["fields"]
    problem = ConvProblem(**row["problem"])
    p = FilterProblem(problem, 2, row["cores"], sizes["L1"], sizes["L0A"], sizes["L0C"], chip.load3d.limits)
    tiling = tiling_by_loads(p)
    got, cuts = tiling.to_vendor(), ("batch_dim", "m_dim", "k_dim", "n_dim")
    assert p.k % fields["k_dim"] == 0
    assert {name: got[name] for name in cuts} != {name: fields[name] for name in cuts}
    assert tiling.cuts.blocks <= row["cores"] and fits(p, tiling.tile)
    assert tiling.source == "stand-in"
