"""Writes tools/tuned_tilings.md, a section of docs/accuracy-tables.md: where the vendor's tuned 950 tilings land among ours.

Usage: python tools/tuned_tilings.py [SIMULATIONS]. Each kernel is searched with that many simulations, in the order of the
bounds; minutes to an hour on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.ops.kernels.cube.vendor import tuned_fields, tuned_rows
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.tilings import settable
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.report.files import atomic_write
from ascend_sim.runtime.workers import usable_cores
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.search import search

CHIP = "ascend950pr_9589"
HERE = Path(__file__).parent
SIMULATIONS = 24

HEAD = """## The vendor's tuned tilings of the 950 among ours

`tools/tuned_tilings.py` writes this section from {rows} tilings that the vendor tuned for the Ascend950PR_9589. Each kernel was
searched ([tiling-search.md](../docs/tiling-search.md)) with at most {limit} simulations in the order of the bounds, operands
in the L2; grad_weight deterministic, as the vendor's kernel there always is. "place" is that among the simulated ones, which
are the most promising: 1 would be the fastest. Where fewer than {all} stand there, the search came to its end, and nothing on
the grid beats the best found. "own choice" is what the simulator decides without this table, which it looks up first.

| kernel | input | weight | tuned baseM/K/N | cycles | place | of | best found | own choice |
|---|---|---|---|---|---|---|---|---|
"""


def main(limit: int) -> None:
    """Search every kernel and write the section."""
    rows = tuned_rows()
    lines, left_out = [], []
    for number, row in enumerate(rows, 1):
        what = f"{row['kernel']} | {_sizes(row['input'])} | {_sizes(row['weight'])}"
        try:
            lines.append(f"| {what} | {_line(row, limit)} |")
        except SimError as error:
            left_out.append(f"- {what.replace(' | ', ', ')}: {error}")
        print(f"{number} of {len(rows)}: {what}", file=sys.stderr)
    text = HEAD.format(rows=len(rows), limit=limit, all=limit + 2) + "\n".join(lines)
    text += "\n\nNot expressed by our kernels:\n\n" + "\n".join(left_out) + "\n"
    with atomic_write(HERE / "tuned_tilings.md") as file:
        file.write(text.encode())


def _line(row: Mapping[str, Any], limit: int) -> str:
    fields = tuned_fields(row)
    kernel = kernel_of(row)
    cycles = kernel.simulate(fields)["cycles"]  # first: it says what does not fit
    outcome = search(kernel, jobs=usable_cores(), limit=limit)
    faster = sum(result["cycles"] < cycles for result in outcome.results)
    block = "/".join(str(fields[name]) for name in ("baseM", "baseK", "baseN"))
    best, own = outcome.best["cycles"], own_choice(row, kernel)["cycles"]
    compared = " | ".join(f"{count:,} ({100 * (count / cycles - 1):+.1f} %)" for count in (best, own))
    return f"{block} | {cycles:,} | {faster + 1} | {len(outcome.results) + 1} simulated, {outcome.fit:,} fit | {compared}"


def own_choice(row: Mapping[str, Any], kernel: CubeKernel) -> Mapping[str, Any]:
    """Simulate the simulator's choice without the table of tuned tilings."""
    ask = GradInputQuestion if row["kernel"] == "grad_input" else GradWeightQuestion
    return kernel.simulate(settable(ask(kernel.inp, chip=kernel.chip).tiling(), kernel.inp))


def kernel_of(row: Mapping[str, Any]) -> CubeKernel:
    """The kernel of a tuned tiling, alone."""
    dtype = "float32" if row["dtype"] == "hf32" else row["dtype"]
    gradient = row["kernel"]
    flat = row["input"][2] == row["weight"][2] == 1  # as 2-D, whose pads may differ before and behind
    sizes = {name: [size for i, size in enumerate(row[name]) if not flat or i != 2] for name in ("input", "weight")}
    padding = row["padding"][2:] if flat else row["padding"][::2]
    case = ConvolutionBackwardCase.model_validate({
        "operator": "convolution_backward", "chip": CHIP, "conformance": "library",
        "input": {"shape": sizes["input"], "dtype": dtype}, "weight": {"shape": sizes["weight"], "dtype": dtype},
        "stride": row["stride"][flat:], "padding": padding, "cube_math_type": int(row["dtype"] == "hf32"),
        "output_mask": [gradient == "grad_input", gradient == "grad_weight", False],
    })  # fmt: skip
    chip = load_chip(CHIP)
    return CubeKernel.of(accept_case(case, chip, deterministic=gradient == "grad_weight"), chip, gradient)


def _sizes(sizes: list[int]) -> str:
    return "x".join(map(str, sizes))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SIMULATIONS)
