"""The vendor's tilings in `configs/`: open procedures by their names, tuned tilings and exact shapes by exact match.

`tilings.yaml` names a procedure for an architecture and a kernel: it is a file in the kernel's `procedures` that ends in a
PROCEDURE. A row of `tuned_tilings_950.yaml`, which comes before any procedure, counts for its SoC and number of cores, and for
a problem whose sizes, strides, pads, compute dtype and formats are its own (ops-nn arch35, knowledge base first: stated).
`exact_shapes_910b.yaml` lists problems for which the 910B's library has tilings of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.kernels.cube.ladder import STATED, Refusal, Rung
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.shipped import read_config

T = TypeVar("T", bound=ConvTiling)


class Procedure(NamedTuple, Generic[T]):
    """Tiling procedure of the vendor: `covers(problem)` is True for problems that it decides, `decide(question)`
    returns the tiling.

    `decide` raises TilingError where the procedure does not cover the problem, or where the vendor refuses.
    """

    covers: Callable[[TilingInput], bool]
    decide: Callable[[Any], T]


@cache
def open_procedures() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return architecture -> kernel -> entry of the vendor's open procedure: its name, source, mark and numbers."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = read_config("tilings.yaml")
    return found


def _line(chip: ChipSpec | None, kernel: str) -> Mapping[str, Any]:
    """Return the entry of `open_procedures` for a chip (None: dav-2201) and a kernel; {} where there is none."""
    return open_procedures().get("dav-2201" if chip is None else chip.identity.arch, {}).get(kernel, {})


def procedure_for(chip: ChipSpec | None, kernel: str) -> str | None:
    """Return the name of the open procedure that a chip (None: dav-2201) has for a kernel or operator; None for none."""
    return _line(chip, kernel).get("procedure")


def procedure_mark(chip: ChipSpec | None, kernel: str) -> str:
    """Return the mark ("stated", ...) of the open procedure that a chip (None: dav-2201) has for a kernel: how certain
    it is that the library uses it. KeyError where there is no procedure.
    """
    return str(_line(chip, kernel)["mark"])


def procedure_of(chip: ChipSpec | None, kernel: str) -> Procedure[Any] | None:
    """Return the open procedure that a chip's architecture has for a kernel, imported; None where there is none."""
    name = procedure_for(chip, kernel)
    return None if name is None else procedure_named(kernel, name)


def procedure_named(kernel: str, name: str) -> Procedure[Any]:
    """Import and return the procedure in file `name` of the kernel's folder `procedures`."""
    found: Procedure[Any] = import_module(f"ascend_sim.ops.kernels.{kernel}.procedures.{name}").PROCEDURE
    return found


# ---- tuned tilings --------------------------------------------------------------------------------------------------


Row = Mapping[str, Any]


@cache
def tuned_rows() -> tuple[Row, ...]:
    """Return every row of configs/tuned_tilings_950.yaml, each with the file's "soc" and "cores"."""
    file = read_config("tuned_tilings_950.yaml")
    return tuple({"soc": file["soc"], "cores": file["cores"], **row} for row in file["rows"])


def tuned_fields(row: Row) -> dict[str, int]:
    """Return the tuned fields of a row by the names and with the values that our kernels take; fields that these lack are left
    out. Raises TilingError for a row with enableSplitK.
    """
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
    """Return the `tiling_source` of a tuned row: "vendor table", or "stand-in" where our kernel differs.

    It differs where the library transposes the weights of grad_input first (the row's enableVecTrans), which our kernel
    does only where the kernel is split.
    """
    fields = row["tuned"]
    return "stand-in" if fields.get("enableVecTrans") and not fields["kernelSplitMode"] else "vendor table"


def tuned_tiling(kernel: str, q: Any) -> Any:
    """Return the tiling of the table's row for a question to "grad_input" or "grad_weight", its fields applied like a user's; a
    refusal without one. The question must have a chip.

    A row fits if kernel, SoC, cores, dtype and problem are equal; rows with a weight format are left out. Raises TilingError
    for a row that our kernel cannot run.
    """
    assert q.chip is not None
    for row in tuned_rows():
        key = (row["kernel"], row["soc"], row["cores"], row["dtype"])
        if key != (kernel, q.chip.identity.soc, q.inp.cores, q.dtype) or "weight_format" in row:
            continue
        if problem_of(row) == q.inp.problem:
            return type(q)(q.inp, tuned_fields(row), q.chip).tiling().but(source=source_of(row))
    return Refusal("no row of configs/tuned_tilings_950.yaml has this problem")


def problem_of(row: Row) -> ConvProblem:
    """Return the problem of a tuned row, with exact trailing padding; all rows have dilation 1 and one group."""
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


# ---- exact shapes ---------------------------------------------------------------------------------------------------


Key = tuple[object, ...]


@cache
def exact_shapes() -> frozenset[Key]:
    """Return the keys of all problems for which the 910B's library has an exact tiling, read once.

    A key is (kernel, SoC, item size, images, then tuples of channel blocks, input, output, kernel, stride, dilation, padding).
    """
    sizes = ("blocks", "input", "output", "window", "stride", "dilation", "padding")
    return frozenset(
        (row["kernel"], row["soc"], row["itemsize"], row["images"], *(tuple(row[name]) for name in sizes))
        for row in read_config("exact_shapes_910b.yaml")["rows"]
    )


def has_exact_shape(kernel: str, inp: TilingInput, chip: ChipSpec | None) -> bool:
    """Return True if the 910B's library has a tiling for exactly this problem; False without a chip, or with groups."""
    p = inp.problem
    if chip is None or p.groups > 1:
        return False
    sizes = (
        (ceil_div(p.c_in, inp.c0), ceil_div(p.c_out, inp.c0)),
        (p.d_in, p.h_in, p.w_in),
        (p.d_out, p.h_out, p.w_out),
        (p.k_d, p.k_h, p.k_w),
        (p.stride_d, p.stride_h, p.stride_w),
        (p.dilation_d, p.dilation_h, p.dilation_w),
        (p.pad_front, p.pad_back, p.pad_up, p.pad_down, p.pad_left, p.pad_right),
    )
    return (kernel, chip.identity.soc, inp.itemsize, p.n, *sizes) in exact_shapes()


def exact_shape(kernel: str) -> Rung[Any, Any]:
    """Return the rung that refuses problems for which the library has an exact tiling, which our kernel cannot run.

    It applies only if the user gives no field; its refusal is `closed`.
    """
    refusal = Refusal("the library has a tiling for exactly this problem, which our kernel cannot run", closed=True)
    return Rung(
        "exact shape", STATED, lambda q: q.free and has_exact_shape(kernel, q.inp, q.chip), lambda _: refusal, explains=False
    )
