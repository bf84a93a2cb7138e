"""L1 filled up around a tile: more K of B and of A, in one buffer each; with all of K more tiles along N or M.

Source: host tiling of Conv2DBackpropFilter (NPUKernelBench 6b84216, cube_util.cc l.283-384: stated; for a gather and for
pieces of rows: derived).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cuts import largest_divisor
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.held import a1_bytes, b1_bytes, channel_blocks, fits
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.problem.divisors import divisors
from ascend_sim.ops.problem.sizes import ceil_div


def k_steps(p: FilterProblem, share: Share, tile: Tile) -> int:
    """Steps of K that a core's images have: tiles of `k_l0`, rows where a row is cut."""
    return share.k if p.load is Load.SPLIT_W else share.k // tile.k_l0


def with_k_of_b(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """The tile with as much K of B as L1 has room for beside A."""
    room = p.l1_bytes - a1_bytes(p, tile)
    most = k_steps(p, share, tile)
    times = largest_divisor(most, _steps_in(p, share, tile, room, most))
    while b1_bytes(p, tile._replace(k_bl1=times * tile.k_l0)) > room:
        times = largest_divisor(most, times - 1)
    return tile._replace(k_bl1=times * tile.k_l0)


def _steps_in(p: FilterProblem, share: Share, tile: Tile, room: int, most: int) -> int:
    """Steps of K whose input might fit `room` bytes; at least one."""
    problem = p.problem
    if p.load is Load.DMA:
        return max(min(room // b1_bytes(p, tile._replace(k_bl1=tile.k_l0)), most), 1)
    line = channel_blocks(p, tile.n_bl1 * tile.n_l0) * FRACTAL * p.itemsize  # one column of a row
    if p.conv1d:
        columns = room // line
        units = share.k
        if columns <= problem.w_in:
            units = _quotient(_quotient(columns - p.kw_dilated, problem.stride_w) + 1, p.k0)
        return max(min(_quotient(units, tile.k_l0), most), 1)
    width = p.columns(tile.k_l0 * p.k0) if p.load is Load.SPLIT_W else problem.w_in
    rows = _quotient(room // (width * line) - p.kh_dilated, p.stride_h) + 1
    if rows <= 0:
        return most
    if p.load is Load.SPLIT_W:
        return min(rows, most)
    return max(min(ceil_div(rows * problem.w_out, p.k0) // tile.k_l0, most), 1)


def _quotient(number: int, divisor: int) -> int:
    """The host's division, which rounds towards zero."""
    return number // divisor if number >= 0 else -(-number // divisor)


def with_k_of_a(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """The tile with as much K of A as L1 has room for beside B."""
    room = p.l1_bytes - b1_bytes(p, tile)
    step = a1_bytes(p, tile._replace(k_al1=tile.k_l0))
    return tile._replace(k_al1=largest_divisor(k_steps(p, share, tile), room // step) * tile.k_l0)


def with_more_n(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Where L1 has all of B's K of the only image: as many tiles along N as fit, and as load3d can count."""
    if share.batch != 1 or tile.k_bl1 != share.k:
        return tile
    tile = tile._replace(n_bl1=1)
    most = ceil_div(share.n_held, tile.n_l0)
    room = p.l1_bytes - tile.db_al1 * a1_bytes(p, tile)
    fitting = min(room // (tile.db_bl1 * b1_bytes(p, tile)), most)
    if p.load is Load.LOAD3D:
        fitting = min(fitting, p.load3d.k_extent // (tile.n_l0 * FRACTAL))
    return tile._replace(n_bl1=largest_divisor(most, fitting))


def with_more_m(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Likewise along M."""
    if share.batch != 1 or tile.k_al1 != share.k:
        return tile
    tile = tile._replace(m_al1=1)
    most = ceil_div(share.m, tile.m_l0)
    room = p.l1_bytes - tile.db_bl1 * b1_bytes(p, tile)
    return tile._replace(m_al1=largest_divisor(most, min(room // (tile.db_al1 * a1_bytes(p, tile)), most)))


def one_divides_other(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """K of the operand that has more of it lowered until one is a multiple of the other, all of K is of it, and L1 holds both:
    fewer pixels may touch a row more.
    """
    steps, small, large = k_steps(p, share, tile), *sorted((tile.k_al1, tile.k_bl1))
    if large % small == 0:
        return tile
    name = "k_al1" if tile.k_al1 > tile.k_bl1 else "k_bl1"
    for count in reversed(divisors(steps, large // tile.k_l0)):
        k = count * tile.k_l0
        lowered = tile._replace(**{name: k})
        if not (k % small and small % k) and fits(p, lowered):
            return lowered
    return tile
