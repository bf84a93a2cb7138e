"""Small programs and single instructions."""

from __future__ import annotations

from collections.abc import Sequence

from accuracy_parts.markdown import programs_markdown
from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.launches import MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors, blind, blind_line, group_by
from ascend_sim.studies.validate.run import RowComparison

A2 = "ascend910b1"

DISAGREE = "sources disagree"
"""The series of programs whose sources contradict each other."""

PROGRAMS = """## Small programs

Streams out of GM by all cores (row size, alignment, L2 hits), single transfers and a vector add, given their own sizes and
cores: `configs/measurements/microbench.csv` has the rows and their sources, [measured-bandwidth.md](measured-bandwidth.md)
the figures behind some of them. A row that "sets a cost" was used to fit one. For the loads into L0A and L0B the sources
disagree (msKPP has 2 cycles a transfer beside its data, the GEMM sample 22 a LoadData; the chip files follow the sample).

{table}

{blind}. With the {all_programs} for which sources disagree, which set none either: {with_all}.
Largest misses: the step of GM->L1 at 4 KB ({step} %); 64 rows of 128 bytes into UB on A2 ({rows_of_128} %); the vector
add without bypass on A2 by all cores ({add} %). L0C->GM takes the larger of 80 cycles and its data, where a sum stands here:
{drain} % at {drain_kb} KB. On the 950 streams of one 128-byte row an instruction take {in_step} cycles an instruction, measured
{measured}."""


POINTS = """## Single instructions and transfers

Published cycles of vector tile operations (`configs/measurements/points/`, hw-native-sys/pto-isa), precision 1 - abs(error).
The aim is a median of 0.92 for each architecture. Costs were fitted on points of the same source. Far off on dav-2201: fp16
Exp and Sqrt, Divs, Sel, int16 Add and Mul. On dav-3510: conversions of ten short rows."""


def figures(compared: Sequence[RowComparison]) -> dict[str, str]:
    """Return the figures of single rows for PROGRAMS."""
    by_path = {
        (one.row.kernel.chip, one.row.kernel.label("path"), one.row.kernel.get("nbytes", 0)): one
        for one in compared
        if one.row.kernel.op_type == "DataCopy"
    }
    narrow = {
        (one.row.kernel.chip, one.row.kernel["tile_m"]): one
        for one in compared
        if (one.row.kernel.op_type, one.row.kernel.label("path")) == ("DataCopyStream", "GM->UB")
        and (one.row.kernel["tile_n"], one.row.cells["what"]) == (64, "aligned")
    }
    adds = [
        one.error
        for one in compared
        if (one.row.kernel.chip, one.row.kernel.op_type) == (A2, "VectorAdd")
        and one.row.kernel["block_dim"] > 1
        and not one.row.kernel["bypass"]
    ]
    drains = [one for (chip, path, _), one in by_path.items() if (chip, path) == (A2, "L0C->GM")]
    longest = max(drains, key=lambda one: one.error)
    row = narrow["ascend950pr_9589", 1]
    kernel = row.row.kernel
    instructions = kernel["M"] * -(-kernel["N"] // kernel["tile_n"]) / kernel["block_dim"]
    cycles = load_chip(kernel.chip).clock.cube_mhz / instructions
    return {
        "step": f"{100 * by_path[A2, 'GM->L1', 4096].error:+.0f}",
        "rows_of_128": f"{100 * narrow[A2, 64].error:+.0f}",
        "add": f"{100 * min(adds):+.0f} to {100 * max(adds):+.0f}",
        "drain": f"{100 * longest.error:+.0f}",
        "drain_kb": f"{longest.row.kernel['nbytes'] / 1024:.0f}",
        "in_step": f"{row.prediction.task_us * cycles:.0f}",
        "measured": f"{row.row.duration_us * cycles:.0f}",
    }


def programs(compared: Sequence[RowComparison]) -> str:
    """The section of small programs."""
    of = [one for one in compared if one.row.kernel.op_type in MICROBENCHMARKS]
    errors = blind(of)
    assert errors is not None
    doubted = [one for one in of if one.row.series == DISAGREE and not one.prediction.skipped]
    none_set = [one for one in of if one.row.series in ("", DISAGREE) and not one.prediction.skipped]
    every = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in none_set])
    assert every is not None
    return PROGRAMS.format(
        **figures(of),
        table=programs_markdown(group_by(of)),
        blind=blind_line(errors),
        all_programs=len(doubted),
        with_all=f"{every.rows} rows, median error {every.median:.1f} %, worst {every.worst:+.0f} %",
    )
