"""Conversion of grad_input's tiles to NCDHW on dav-2201, whose Fixpipe cannot write it: through a slot in GM and a vector core.

The cube core casts a finished tile to a slot of its own in the workspace, [channel blocks][pixels][C0]; the first vector core
of its block copies it to UB, transposes it and stores the rows of its channels. Two flags between the cores hand the slot over,
one tile at a time; the second vector core only answers (ops-nn arch22, conv3d_backprop_input_v2: stated).
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_parts
from ascend_sim.ops.kernels.grad_input.tiles import DataTile, numbered, runs
from ascend_sim.ops.kernels.vector.common import buffer_queue, padded
from ascend_sim.ops.kernels.vector.trans_data import LIST_INSTRUCTIONS, ROWS_AT_ONCE
from ascend_sim.ops.layouts.layout import ChannelPlace
from ascend_sim.ops.layouts.planar import PlanarMap
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput

GRAD_INPUT, SLOTS = 2, 3
"""GM slots of the kernel's last two tensors."""
_WRITTEN, _READ = 5, 6
"""Cross-core flags: the cube core has filled the slot; the vector cores have emptied it (numbers: stated)."""


def slots_bytes(tiling: GradInputTiling, chip: ChipSpec) -> int:
    """Return the bytes of the workspace for the slots: those of L0C for every block (stated)."""
    return tiling.block_dim * chip.buffers["L0C"]


class Slot:
    """Slot of a cube core in the workspace, from the cube core's side: wait until empty, fill it, flag that it is full."""

    def __init__(self, k: KernelBuilder, tiling: GradInputTiling, inp: TilingInput) -> None:
        self._k, self._used = k, False
        k.carry(self, "_used")
        self._address = gm_operand(SLOTS, _slot_offset(tiling, inp, k.block))

    def acquire(self) -> int:
        """Append the wait until the vector cores have emptied the slot, except before its first use; return its GM address."""
        self._emptied()
        return self._address

    def publish(self) -> None:
        """Append the flag to the vector cores that the slot is full, behind the store of a tile to it."""
        self._k.cross_core_set(_WRITTEN, 2, "FIX")
        self._used = True

    def close(self) -> None:
        """Append the wait that takes the vector cores' last flag, at the end of the program."""
        self._emptied()

    def _emptied(self) -> None:
        """Append the wait until the vector cores have emptied the slot; nothing before its first use."""
        if self._used:
            self._k.cross_core_wait(_READ, 2, "FIX")


def turn_program(k: KernelBuilder, call: CubeCall, tiling: GradInputTiling, tiles: Sequence[DataTile]) -> Program:
    """Return a vector core's program: a block's first one turns each tile from slot to NCDHW, the second answers the flags."""
    inp, p = call.inp, call.inp.problem
    itemsize, parts = inp.itemsize, tiling_parts(tiling, inp)
    dx = PlanarMap(p.c_in, (p.d_in, p.h_in, p.w_in), itemsize)
    source = gm_operand(SLOTS, _slot_offset(tiling, inp, k.block))
    half = k.chip.buffers["UB"] // 2 // BLOCK_BYTES * BLOCK_BYTES
    if k.sub_block == 0:
        incoming = buffer_queue(k, "tile", "MTE2", "V", half, 1)
        outgoing = buffer_queue(k, "turned", "V", "MTE3", half, 1)
    for (_, tile), batch in k.stamped(numbered(tiles), "turn", k.block):
        k.cross_core_wait(_WRITTEN, 2, "MTE2")
        if k.sub_block == 0:
            blocks, span, pitch = tile.n_count // inp.c0, tile.m_count * BLOCK_BYTES, padded(tile.m_count * itemsize)
            k.data_copy("GM", "UB", incoming.acquire(), source, blocks * span)
            incoming.publish()
        k.cross_core_set(_READ, 2, "MTE2")
        if k.sub_block:
            continue
        k.scalar_wait("V")
        k.scalar(ceil_div(tile.n_count, ROWS_AT_ONCE) * LIST_INSTRUCTIONS * k.issue_cycles)
        taken, turned = incoming.take(), outgoing.acquire()
        layout = TurnLayout(pitch, repeats=blocks, plain_step=inp.c0 * pitch, block_step=span)
        k.transpose_blocks(turned, taken, False, itemsize, inp.c0, tile.m_count, layout)
        incoming.release()
        outgoing.publish()
        task, channel = tile.task, tile.task.group * inp.cin_g + tile.n
        channels = min(tile.n_count, call.group_channels(task.group, p.c_in, inp.cin_g) - tile.n)
        turned = outgoing.take()
        for start, pixel, pixels in runs(parts[task.part], p.w_in, tile.m, tile.m_count):
            target = gm_operand(GRAD_INPUT, dx.offset(ChannelPlace(batch, channel, task.depth), pixel))
            k.copy_rows(
                "UB->GM", target, turned + start * itemsize, pixels * itemsize, CopyLoop(channels, pitch, dx.channel_stride)
            )
        outgoing.release()
    if k.sub_block == 0:
        incoming.close()
        outgoing.close()
    return k.finish()


def _slot_offset(tiling: GradInputTiling, inp: TilingInput, block: int) -> int:
    """Return the byte offset of a block's slot in the workspace."""
    return block * tiling.base_m * tiling.base_n * inp.itemsize
