"""The 910B's tiling of the older weight-gradient kernels: worked examples, a separate program, vendor rows, rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling, tiling_by_loads
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import fits
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from tests.support.ops.tiling_problems import BUFFERS, LOAD3D, RESNET, conv2d, problems
from tests.support.places import DATA

COSTS = cycle_costs("dav-2201")
TABLE = json.loads((DATA / "cache_tilings_910b.json").read_text())
OLDER = json.loads((DATA / "ut_tilings_910a.json").read_text())


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 24, hf32: bool = False, deep: bool = False) -> FilterProblem:
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


@pytest.mark.parametrize("row", TABLE["rows"], ids=range(len(TABLE["rows"])))
def test_a_separate_program_decides_the_same(row: dict[str, Any]) -> None:
    p = on_910b(ConvProblem(**row["problem"]), row["itemsize"], row["cores"], row["hf32"], row["volumetric"])
    found = decided(p)
    got = found.to_vendor() | {"cycles": found.cycles}
    assert {name: got[name] for name in row["fields"]} == row["fields"]


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


@pytest.mark.parametrize("problem", [patches(32), conv2d(2, 16, 16, 260, 65, 65)])
def test_the_3d_operator_refuses_to_cut_rows_or_to_gather(problem: ConvProblem) -> None:
    with pytest.raises(TilingError, match="the 3-D operator refuses to cut rows or to gather"):
        decided(on_910b(problem, deep=True))


def test_k_of_an_operand_is_lowered_only_to_what_l1_holds() -> None:
    """With 512 columns fewer pixels may touch a row more. Cut and cycles as a program that others wrote decides them."""
    problem = ConvProblem(1, 64, 32, 1, 1080, 512, 1, 1080, 512, 1, 3, 3, pad_up=1, pad_down=1, pad_left=1, pad_right=1)
    p = on_910b(problem, 4, 24, hf32=True)
    found = decided(p)
    assert fits(p, found.tile)
    assert (found.cuts.k, found.cuts.n, found.cycles) == (6, 4, 1_349_088)


# ---- rules ------------------------------------------------------------------------------------------------------------


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
