"""Accesses that overlap, found byte by byte."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.values import Finding
from ascend_sim.isa.base import PIPES, Instruction
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import TurnLayout
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, gm_operand
from tests.support.engine.machine import KIB

SIZES = (8 * KIB, 8 * KIB)


_COLUMN = {"dst": 1, "src0": 2, "src1": 3}


Pair = tuple[str, tuple[int, int], tuple[int, int]]
"""Space, and the (block, row) of the two instructions, in order."""


def ordered_by(one: Instruction) -> str:
    """Name of the unit that orders a row: "L2" for additions, "cube" for products of ten fractals or more; "" for none."""
    if isinstance(one, Mmad) and -(-one.m // 16) * -(-one.n // 16) >= 10:
        return "cube"
    return "L2" if one.atomic else ""


def accesses(run: ProgramRun, bases: list[int]) -> list[tuple[str, tuple[int, int], str, set[int], bool, str, int, int]]:
    """Space, (block, row), pipe, bytes, writes, who orders it, start, retirement of everything that a program touches."""
    found = []
    for row, view in enumerate(run.program):
        for writes, regions in ((False, view.instruction.reads()), (True, view.instruction.writes())):
            for region in regions:
                address = int(run.program.rows[row, _COLUMN[region.operand]])
                if region.space == "GM":
                    address = bases[address >> SLOT_SHIFT] + (address & OFFSET_MASK)
                touched = {
                    address + region.offset + p * region.plane_stride + r * region.row_stride + byte
                    for p in range(region.planes)
                    for r in range(region.rows)
                    for byte in range(region.row_bytes)
                }
                entry = (region.space, (run.program.block, row), view.pipe, touched, writes, ordered_by(view.instruction))
                found.append((*entry, int(run.start[row]), int(run.retire[row])))
    return found


def brute_force(runs: list[ProgramRun], bases: list[int]) -> set[Pair]:
    pairs: set[Pair] = set()
    everything = [access for run in runs for access in accesses(run, bases)]
    for one, other in combinations(everything, 2):
        (space, a, pipe_a, bytes_a, writes_a, order_a, start_a, retire_a) = one
        (space_b, b, pipe_b, bytes_b, writes_b, order_b, start_b, retire_b) = other
        if space != space_b or a == b or (space != "GM" and a[0] != b[0]):
            continue
        if not (writes_a or writes_b) or (order_a and order_a == order_b):
            continue
        if not (start_a < retire_b and start_b < retire_a and bytes_a & bytes_b):
            continue
        if a[0] == b[0] and pipe_a == pipe_b:
            first_writes = writes_a if a[1] < b[1] else writes_b
            if not first_writes:
                continue  # a pipe reads before it overwrites
        pairs.add((space, *sorted((a, b))))  # type: ignore[arg-type]
    return pairs


_TEXT = re.compile(
    r"block (\d+) \w+: (\w+) (\d+) .* (writes|reads) (\w+) bytes (\d+) to (\d+) from cycle (\d+), "
    r"while block (\d+) \w+ (\w+) (\d+) .* (writes|reads) them until cycle (\d+)"
)


def said(findings: list[Finding]) -> set[Pair]:
    pairs = set()
    for finding in findings:
        assert finding.kind == "hazard"
        match = _TEXT.fullmatch(finding.text)
        assert match is not None, finding.text
        late, early = (int(match[1]), int(match[3])), (int(match[9]), int(match[11]))
        assert {match[2], match[10]} <= set(PIPES)
        pairs.add((match[5], *sorted((late, early))))
    return pairs  # type: ignore[return-value]


Action = tuple[str, int, int, int, int]


actions = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "out", "add", "zero", "rows", "turn", "atomic", "barrier", "all", "sync"]),
        st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(1, 3),
    ),
    min_size=1, max_size=9,
)  # fmt: skip


def vector_writer(todo: list[Action]) -> Any:
    """Writes instructions whose bytes meet those of others; operands of one vector instruction are the same or apart."""

    def write(k: KernelBuilder) -> None:
        for verb, a, b, c, n in todo:
            if verb == "in":
                k.data_copy("GM", "UB", a * 64, gm_operand(0, b * 96), 32 * n, 1 + c % 3, 32 * n + 64, 128)
            elif verb == "out":
                k.data_copy("UB", "GM", gm_operand(b % 2, b * 96), a * 64, 48, n, 96, 64 + 16 * c)
            elif verb == "atomic":
                k.data_copy("UB", "GM", gm_operand(1, b * 64), a * 64, 64, atomic_add="float32")
            elif verb == "add":
                k.vector_binary("add", a * 96, b * 96, c * 96, "float16", 16 * n)
            elif verb == "zero":
                k.vector_duplicate(a * 32, "float16", 20 * n)
            elif verb == "rows":
                k.reduce_rows(a * 32, 384 + b * 32, n, 4, 96)
            elif verb == "turn":
                k.transpose_blocks(a * 32, 384 + b * 32, bool(c % 2), 2, n, 3, TurnLayout(64, 64))
            elif verb == "barrier":
                k.pipe_barrier(("V", "MTE2", "MTE3")[a % 3])
            elif verb == "all":
                k.pipe_barrier("ALL")
            else:
                pipes = ("MTE2", "V", "MTE3")
                flag = k.flag(pipes[a % 3], pipes[(a + 1 + b % 2) % 3], f"{a % 3} {b % 2}")
                k.set_flag(flag)
                k.wait_flag(flag)

    return write
