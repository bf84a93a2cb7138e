"""A problem on one chip: the input of every tiling procedure of a cube kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.chip.sections import Load3dLimits
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, Family
from ascend_sim.ops.problem.layout import BLOCKED, Layout
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.walk import WHOLE_ROWS, Walk


@frozen
class TilingInput:
    """A problem on one chip, the input of tiling procedures.

    `buffers` holds the bytes of "L1", "L0A", "L0B", "L0C" and "UB"; `itemsize` is 2 (fp16, bf16), 4 (fp32, hf32) or 1 (8-bit)
    bytes; `load3d` has the largest values of that instruction's fields. `family` is the chip's family of kernels,
    `layout` the layout of their tensors. Groups are merged so that channels of a real group fill whole blocks (ops-nn
    group merge: stated); in a plain layout, where a group may begin at any channel, they need not be (`merged` False).
    `group_unit` is the input channels of a block that merged groups fill, 0 for C0.

    `walk` is the order in which grad_weight goes over gradOutput. If that is not by whole rows, `problem` is not the
    call's but the one that stands for it: strips stacked in one map, or taps as kernel planes (`grad_weight.parts`).
    """

    problem: ConvProblem
    itemsize: int
    cores: int
    buffers: Mapping[str, int] = field(hash=False)
    l2_bytes: int
    load3d: Load3dLimits = field(hash=False, kw_only=True)
    deterministic: bool = False
    layout: Layout = BLOCKED
    merged: bool = True
    group_unit: int = 0
    family: Family = BLOCKED_SPLIT
    walk: Walk = WHOLE_ROWS

    @cached_property
    def c0(self) -> int:
        """Return the number of channels in one 32-byte block: 16 (16-bit), 8 (32-bit) or 32 (8-bit)."""
        return BLOCK_BYTES // self.itemsize

    @cached_property
    def unit(self) -> int:
        """Return the unit of a base block's sides: 16, or 32 with 8-bit operands, which are transposed in squares of 32."""
        return max(FRACTAL, self.c0)

    @cached_property
    def group_extension(self) -> int:
        """Return how many groups are merged into one: the fewest whose input channels fill whole blocks (`group_unit`) and
        whose output channels whole fractals, at most all groups; 1 unless `merged`.
        """
        groups = self.problem.groups
        if not self.merged:
            return 1
        cin, cout = self.problem.c_in // groups, self.problem.c_out // groups
        unit = self.group_unit or self.c0
        return min(math.lcm(math.lcm(cin, unit) // cin, math.lcm(cout, FRACTAL) // cout), groups)

    @cached_property
    def real_groups(self) -> int:
        """Return the number of real groups; the last one may hold fewer groups than the others."""
        return ceil_div(self.problem.groups, self.group_extension)

    @cached_property
    def cin_g(self) -> int:
        """Return the input channels of one real group, without padding; the last real group may have fewer."""
        return self.group_extension * self.problem.c_in // self.problem.groups

    @cached_property
    def cout_g(self) -> int:
        """Return the output channels of one real group, without padding; the last real group may have fewer."""
        return self.group_extension * self.problem.c_out // self.problem.groups

    @cached_property
    def cin1(self) -> int:
        """Return the number of C0 blocks of input channels of one real group."""
        return ceil_div(self.cin_g, self.c0)

    @cached_property
    def n0(self) -> int:
        """Return the input channels of one block of dW's columns: C0, or `unit` (whole fractals) where dW is plain.

        A plain dW leaves L0C a fractal of columns at a time, which are channels of one tap (ops-nn, arch35: stated).
        """
        return self.unit if self.layout.plain else self.c0

    @cached_property
    def n1(self) -> int:
        """Return the number of blocks of `n0` channels that the input channels of one real group need, the last perhaps not
        full; columns of dW are counted by them.
        """
        return ceil_div(self.cin_g, self.n0)

    @cached_property
    def cout_padded(self) -> int:
        """Return the output channels of one real group, rounded up to `unit` (for 32-bit: to pairs of C0 blocks)."""
        return ceil_to(self.cout_g, self.unit)

    @cached_property
    def taps(self) -> int:
        """Return the number of positions in one kernel plane, k_h * k_w."""
        return self.problem.k_h * self.problem.k_w

    @cached_property
    def depth_dilated(self) -> bool:
        """Return True if the kernel has several planes that lie apart; one plane is never dilated (inferred: a unit test)."""
        return self.problem.dilation_d > 1 and self.problem.k_d > 1

    @cached_property
    def images(self) -> int:
        """Return the number of gradOutput planes (depths of all images) that grad_weight sums over, N * D_out."""
        return self.problem.n * self.problem.d_out
