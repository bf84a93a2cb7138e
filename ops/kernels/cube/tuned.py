"""The vendor's tuned tilings, which come before any procedure: configs/tuned_tilings_950.yaml, looked up by exact match.

A row counts for its SoC and number of cores, and for a problem whose sizes, strides, pads, compute dtype and formats are its
own (ops-nn arch35, knowledge base first: stated).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import TilingError
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.yaml_file import load_shipped

Row = Mapping[str, Any]


@cache
def tuned_rows() -> tuple[Row, ...]:
    """Every row of the file, with "soc" and "cores"."""
    text = resources.files("ascend_sim.configs").joinpath("tuned_tilings_950.yaml").read_text(encoding="utf-8")
    file = load_shipped(text)
    return tuple({"soc": file["soc"], "cores": file["cores"], **row} for row in file["rows"])


def tuned_fields(row: Row) -> dict[str, int]:
    """The tuned fields as our kernels take them; TilingError for what they cannot express."""
    fields = dict(row["tuned"])
    if fields.pop("enableSplitK", 0):
        raise TilingError("sums of 16-bit results in segments of K (enableSplitK) are not written")
    if row["kernel"] == "grad_input":
        fields["kSegment"] = 0
    fields.pop("enableVecTrans", None)  # see `source_of`
    fields.pop("singleIterateDk", None)  # ours goes plane by plane; what that loads is what its steps say
    if "singleCoreBatchDout" in fields:
        together, images = fields.pop("singleCoreBatchDout"), problem_of(row).n * problem_of(row).d_out
        kind = fields.pop("streamkType")
        del fields["singleCoreK"]  # all of K, as deterministic tasks have here anyway
        fields |= {"singleCoreBatch": images, "streamKType": kind}
        if kind:
            fields["coreStreamK"] = images // together
    return fields


def source_of(row: Row) -> str:
    """Where the report says that a tiling is from: "stand-in" where the library turns the weights of grad_input first (the
    row's enableVecTrans), which our kernel does only where it is split.
    """
    fields = row["tuned"]
    return "stand-in" if fields.get("enableVecTrans") and not fields["kernelSplitMode"] else "vendor table"


def tuned_tiling(kernel: str, inp: TilingInput, dtype: str, chip: ChipSpec | None) -> tuple[dict[str, int], str] | None:
    """Fields of "grad_input" or "grad_weight" for a problem in compute dtype `dtype`, and their source; None where none is."""
    if chip is None or inp.layout is not PLANAR:
        return None
    for row in tuned_rows():
        key = (row["kernel"], row["soc"], row["cores"], row["dtype"])
        if key != (kernel, chip.identity.soc, inp.cores, dtype) or "weight_format" in row:
            continue
        if problem_of(row) != inp.problem:
            continue
        try:
            return tuned_fields(row), source_of(row)
        except TilingError:
            return None
    return None


def problem_of(row: Row) -> ConvProblem:
    """The problem that a row is for."""
    (n, c_in, *size), (c_out, _, *kernel) = row["input"], row["weight"]
    pads, stride = row["padding"], row["stride"]
    out = [(size[i] + pads[2 * i] + pads[2 * i + 1] - kernel[i]) // stride[i] + 1 for i in range(3)]
    behind = [(out[i] - 1) * stride[i] + kernel[i] - size[i] - pads[2 * i] for i in range(3)]
    problem = ConvProblem(n, c_in, c_out, *size, *out, *kernel, *stride)
    return replace(
        problem,
        pad_front=pads[0],
        pad_back=behind[0],
        pad_up=pads[2],
        pad_down=behind[1],
        pad_left=pads[4],
        pad_right=behind[2],
    )
