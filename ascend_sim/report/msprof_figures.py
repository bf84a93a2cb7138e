"""Figures of programs under the column names of the vendor's operator profiler (docs/msprof.md says what each one is).

    work = sum(map(WorkFigures.of, runs), WorkFigures())     # of one block, of one core or of a whole kernel
    figures(work, chip, "aic")["aic_cube_ratio"]

What the model does not know has no entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import BARRIER, CROSS_WAIT, LOCAL, PIPES, TRANSFER, WAIT
from ascend_sim.isa.cube import Mmad
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.roofline import PIPE_KEYS

Value = float | int | str
_Share = Callable[[float], float]

_GIB = 1 << 30  # the tool's GB: it divides by 1024^3 (msopprof, device_defs.h)
_KIB = 1 << 10
_PERCENT = 100.0
_US_DECIMALS = 4
_DECIMALS = 6
_VECTOR_DTYPES = {"float32": "fp32", "float16": "fp16", "int32": "int32", "int16": "int16"}
_PORTS = ("GM->L1", "L1->GM", "L0C->L1", "L0C->GM", "GM->UB", "UB->GM")
_ESTIMATED = ("L1->GM",)  # the vendor's column name says so


@mutable
class WorkFigures:
    """Work of some programs in figures that add up; `busy` and `waiting` (for flags and barriers) are cycles by pipe.

    `blocks` counts programs and `cycles` their spans from dispatch to end. `moved` is bytes by data path as the report counts
    them, `through` bytes by the pipe that moves them, `touched` bytes of L0A, L0B, L0C and UB that the cube and the vector unit
    read and write. `instructions` counts those that compute or move data, by pipe; `kinds` are cycles of cube and vector
    instructions by (pipe, dtype); `l2` counts lines by ("read" or "write", "hit" or "miss"). `group_conflicts` and
    `bank_conflicts` are the cycles that conflicts over bank groups and over banks took on V.
    """

    blocks: int = 0
    cycles: int = 0
    busy: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    through: Counter[str] = field(default_factory=Counter)
    touched: Counter[tuple[str, str]] = field(default_factory=Counter)
    l2: Counter[tuple[str, str]] = field(default_factory=Counter)
    cube_operations: int = 0
    group_conflicts: int = 0
    bank_conflicts: int = 0

    @classmethod
    def of(cls, run: ProgramRun) -> WorkFigures:
        """Return the figures of one program that ran."""
        program, table = run.program, run.program.table
        work = cls(blocks=1, cycles=run.finish - run.launch, busy=Counter(run.busy()))
        work.group_conflicts, work.bank_conflicts = program.bank_cycles().sum(axis=1).tolist()
        arguments, length = program.rows[:, 0], run.end - run.start
        count = len(table.instructions)
        times = np.bincount(arguments, minlength=count).tolist()
        occupied = np.bincount(arguments, weights=length, minlength=count).tolist()
        hits = np.bincount(arguments, weights=run.l2_hits, minlength=count).tolist()
        misses = np.bincount(arguments, weights=run.l2_misses, minlength=count).tolist()
        for index, instruction in enumerate(table.instructions):
            if not times[index]:
                continue
            pipe, kind = PIPES[table.pipes[index]], table.kinds[index]
            if kind in (WAIT, BARRIER, CROSS_WAIT):
                work.waiting[pipe] += int(occupied[index])
            if kind not in (LOCAL, TRANSFER):
                continue
            work.instructions[pipe] += times[index]
            if pipe in ("M", "V"):
                work.kinds[pipe, getattr(instruction, "dtype", "")] += int(occupied[index])
                for verb, regions in (("read", instruction.reads()), ("write", instruction.writes())):
                    for region in regions:
                        work.touched[verb, region.space] += times[index] * region.total
            else:
                work.through[pipe] += times[index] * bytes_of(table, index)
            if isinstance(instruction, Mmad):
                work.cube_operations += times[index] * 2 * instruction.m * instruction.k * instruction.n
            if instruction.path():
                work.moved[instruction.path()] += times[index] * bytes_of(table, index)
            access = table.accesses[index]
            if access is not None:
                direction = "read" if access.direction == "read" else "write"
                work.l2[direction, "hit"] += int(hits[index])
                work.l2[direction, "miss"] += int(misses[index])
        return work

    def __add__(self, other: WorkFigures) -> WorkFigures:
        return WorkFigures(*(getattr(self, name) + getattr(other, name) for name in vars(self)))


def figures(work: WorkFigures, chip: ChipSpec, core: str) -> dict[str, Value]:
    """Return {column: value} under the vendor's column names, most of which begin with `core` ("aic" or "aiv"); unknown ones
    are left out.

    Times and cycles are means over blocks, counts and bytes sums over them. Rates are GB of 1024^3 a second over the sum of the
    blocks' times, those of "active_bw" over the time in which the pipe was busy.
    """
    blocks, cycles = max(work.blocks, 1), max(work.cycles, 1)

    def us(total: float) -> float:
        return round(chip.us(total / blocks), _US_DECIMALS)

    def rate(total: float, during: float = cycles) -> float:
        return round(total / _GIB / (chip.us(during) * 1e-6), _DECIMALS) if during else 0.0

    def share(part: float, whole: float = cycles) -> float:
        return round(part / whole, _DECIMALS) if whole else 0.0

    found: dict[str, Value] = {f"{core}_time(us)": us(work.cycles), f"{core}_total_cycles": round(work.cycles / blocks)}
    for pipe, name in PIPE_KEYS.items():
        found[f"{core}_{name}_time(us)"] = us(work.busy[pipe])
        found[f"{core}_{name}_ratio"] = share(work.busy[pipe])
        found[f"{core}_{name}_wait_ratio"] = share(work.waiting[pipe])
        found[f"{core}_{name}_instructions"] = work.instructions[pipe]
        found[f"{core}_{name}_active_bw(GB/s)"] = rate(work.through[pipe], work.busy[pipe])
    found |= {f"{core}_{column}": value for column, value in _arithmetic(work, share).items()}
    from_gm = sum(size for path, size in work.moved.items() if path.startswith("GM->"))
    to_gm = sum(size for path, size in work.moved.items() if path.endswith("->GM"))
    from_l1 = sum(size for path, size in work.moved.items() if path.startswith("L1->"))
    to_l1 = sum(size for path, size in work.moved.items() if path.endswith("->L1"))
    rates = {
        "main_mem_read_bw": from_gm, "main_mem_write_bw": to_gm, "l1_read_bw": from_l1, "l1_write_bw": to_l1,
        "gm_to_ub_bw": work.moved["GM->UB"], "ub_to_gm_bw": work.moved["UB->GM"],
        "ub_write_bw_gm": work.moved["GM->UB"], "ub_read_bw_gm": work.moved["UB->GM"],
        "l0a_read_bw": work.touched["read", "L0A"], "l0b_read_bw": work.touched["read", "L0B"],
        "l0a_write_bw": work.moved["L1->L0A"], "l0b_write_bw": work.moved["L1->L0B"],
        "l0c_read_bw_cube": work.touched["read", "L0C"], "l0c_write_bw_cube": work.touched["write", "L0C"],
        "ub_read_bw_vector": work.touched["read", "UB"], "ub_write_bw_vector": work.touched["write", "UB"],
    }  # fmt: skip
    if chip.cores.coupled:
        rates["l0c_read_bw"] = work.moved["L0C->UB"]
    found |= {f"{core}_{column}(GB/s)": rate(size) for column, size in rates.items()}
    found |= _l2(work, core)
    found["read_main_memory_datas(KB)"] = round(from_gm / _KIB, _DECIMALS)
    found["write_main_memory_datas(KB)"] = round(to_gm / _KIB, _DECIMALS)
    for path in _PORTS:
        if path in chip.paths:
            column, suffix = path.replace("->", "_to_"), "(estimate)" if path in _ESTIMATED else ""
            port = chip.paths[path].bytes_per_cycle * cycles
            found[f"{column}_datas(KB){suffix}"] = round(work.moved[path] / _KIB, _DECIMALS)
            found[f"{column}_bw_usage_rate(%){suffix}"] = round(_PERCENT * work.moved[path] / port, _DECIMALS)
    return found


def _arithmetic(work: WorkFigures, share: _Share) -> dict[str, Value]:
    vector = dict.fromkeys((*_VECTOR_DTYPES.values(), "misc"), 0)
    for (pipe, dtype), cycles in work.kinds.items():
        if pipe == "V":
            vector[_VECTOR_DTYPES.get(dtype, "misc")] += cycles
    cube = work.instructions["M"]
    return {
        "cube_fp16_ratio": share(work.kinds["M", "float16"]),
        "cube_int8_ratio": 0.0,
        "cube_fp_ratio": share(work.busy["M"]),
        "cube_int_ratio": 0.0,
        "cube_fops": work.cube_operations,
        "cube_total_instr_number": cube,
        "cube_fp_instr_number": cube,
        "cube_int_instr_number": 0,
        **{f"vec_{name}_ratio": share(cycles) for name, cycles in vector.items()},
        "vec_bankgroup_cflt_ratio": share(work.group_conflicts),
        "vec_bank_cflt_ratio": share(work.bank_conflicts),
    }


def _l2(work: WorkFigures, core: str) -> dict[str, Value]:
    """Return L2's columns: lines found in it, lines brought in, and hit rates; all reads stand under the first read port."""
    counts = work.l2
    hits = {verb: counts[verb, "hit"] for verb in ("read", "write")}
    every = {verb: hits[verb] + counts[verb, "miss"] for verb in hits}
    hits["total"], every["total"] = sum(hits.values()), sum(every.values())
    rates: dict[str, Value] = {
        f"{core}_{verb}_hit_rate(%)": round(_PERCENT * hits[verb] / every[verb], _DECIMALS) for verb in hits if every[verb]
    }
    if f"{core}_total_hit_rate(%)" in rates:
        rates[f"{core}_l2_cache_hit_rate(%)"] = rates[f"{core}_total_hit_rate(%)"]
    return rates | {
        f"{core}_write_cache_hit": counts["write", "hit"],
        f"{core}_write_cache_miss_allocate": counts["write", "miss"],
        f"{core}_r0_read_cache_hit": counts["read", "hit"],
        f"{core}_r0_read_cache_miss_allocate": counts["read", "miss"],
    }
