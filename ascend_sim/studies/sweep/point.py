"""One point of a sweep: a call on a chip, and its figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.calls.cases import call_case, specs_of
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import check_fits
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError, SimError, TilingError
from ascend_sim.frozen import frozen
from ascend_sim.host import one_thread
from ascend_sim.ops.case import make_tensors
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.verdicts.sums import sums_of
from ascend_sim.ops.verdicts.values import numbers, typed
from ascend_sim.options.run_options import CaseOptions
from ascend_sim.studies.pools import Failed
from ascend_sim.studies.store import code_digest
from ascend_sim.studies.tiles.command import kernels_of
from ascend_sim.studies.tiles.search import search

TRIED = 24
"""Simulations of a search at a point, for each cube kernel: few, so that a sweep ends; the most promising come first."""

LARGER_IS_BETTER = ("tflops", "efficiency")
"""Endings of the names of columns in which more is better; in all others less is."""


@frozen
class SweepPoint:
    """One call of a sweep: a case on a chip in mode "timing", or in "full" with values and errors; `tile` searches its
    tilings first. `library` is the version of the kernels, None the newest.
    """

    case: Case
    chip: ChipSpec
    mode: str = "timing"
    tile: bool = False
    library: str | None = None

    @property
    def name(self) -> str:
        """Return the cache key of a point, a SHA-256 of its fields and values, which decide its result.

        The chip that the case names does not count, and in mode "timing" no values; a file of values counts by its content, and
        is read each time (SimError if it cannot be). With `tile` the code of the search counts too.
        """
        said: dict[str, Any] = {
            "case": self.case.model_dump(mode="json", exclude={"chip"}),
            "chip": self.chip.model_dump(mode="json"),
            "mode": self.mode,
            "tile": self.tile and code_digest("studies.tiles"),
            "library": self.library,
        }
        if self.mode == "timing":
            del said["case"]["data"]
        elif self.case.data.file is not None:
            said["values"] = _digest(self.case.data.file)
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise SimError(f"{file}: {error.strerror or error}; a .npz file of tensors is needed") from None


def columns_of(operator_name: str, mode: str, tile: bool) -> list[str]:
    """Return the columns that `measure` can return for an operator, a mode, and with a search (`tile`) or without, in order."""
    operator = OPERATORS[operator_name]
    of_cube = ("l1", "l0c", "blocks", "efficiency", "bottleneck", "tiling")
    return [
        *("status", "reason", "us", "cycles"), *(f"{part}_us" for part in (*operator.layer_parts, "layout")), "l1",
        *(f"{kernel}_{figure}" for kernel in operator.cube_kernels for figure in of_cube),
        *("gm_bytes", "workspace", "tflops", "findings"),
        *((*(f"{name}_error" for name in operator.outputs), "error", "correct") if mode == "full" else ()),
        *(f"{kernel}_searched" for kernel in operator.cube_kernels if tile),
    ]  # fmt: skip


def measure(point: SweepPoint) -> dict[str, Any] | Failed:
    """Run a point's call and return its figures as plain data; a refused call has a "status" (None without a code) and a
    "reason".

    It returns Failed, which is not stored, for any other SimError (tensors beyond the HBM, an engine that cannot be used).

    "us" and "cycles" of the whole call, "X_us" of each output's kernel unless 0 and "layout_us" of those beside; of each cube
    kernel X "X_l1" and "X_l0c" (most bytes that a core held), "X_blocks", "X_efficiency" (of the cube's peak), "X_bottleneck",
    "X_tiling" (its fields), after a search "X_searched" (True if its tiling is used); "l1" the largest, "gm_bytes" moved to and
    from GM, "workspace" bytes, "tflops", "findings". With values "X_error" of each output (root of the mean squared error over
    that of the exact result's squares, float64 of the inputs; None where not finite), "error" the largest (None if one is
    None), and "correct".
    """
    case, chip = point.case, point.chip
    try:
        check_fits(case.tensors, chip)
        values: Mapping[str, Any] = specs_of(case) if point.mode == "timing" else make_tensors(case)
        tiling = searched_tilings(case, chip, point.library) if point.tile else None
        how = CaseOptions(chip=chip, library=point.library, mode=point.mode, timeline=False, probe=False, tiling=tiling)
        result = call_case(case, values, **how)
        found = {"status": 0, "reason": ""} | _times(point, result) | _errors(point, result, values)
        if tiling is None:
            return found
        names = OPERATORS[point.case.operator].cube_kernels
        return found | {f"{name}_searched": name in tiling for name in names if f"{name}_us" in found}
    except AclnnError as error:
        return {"status": int(error.status), "reason": error.message}
    except TilingError as error:
        return {"status": None, "reason": str(error)}
    except SimError as error:
        return Failed(str(error))


def searched_tilings(case: Case, chip: ChipSpec, library: str | None = None) -> dict[str, dict[str, int]]:
    """Return {cube kernel: fields} of the case, with the best tiling of a search of 24 simulations for each cube kernel that
    it makes faster.

    The case's own tilings alone where no kernel has fields. Raises AclnnError if the call is refused.
    """
    found = {name: dict(fields) for name, fields in case.tiling.items()}
    try:
        kernels = kernels_of(case, [chip], None, library=library)
    except AclnnError:
        raise
    except SimError:  # no kernel has fields
        return found
    for kernel in kernels:
        outcome = search(kernel, found.get(kernel.name, {}), limit=TRIED, top=1)
        if outcome.faster:
            found[kernel.name] = dict(outcome.best["fields"])
    return found


def _times(point: SweepPoint, result: Result) -> dict[str, Any]:
    operator, report = OPERATORS[point.case.operator], result.report
    assert report.total_us is not None
    makers = {launch: part for part, (launch, _) in operator.layer_parts.items()}
    us = dict.fromkeys((*makers.values(), "layout"), 0.0)
    found: dict[str, Any] = {"us": report.total_us, "cycles": round(report.total_us * point.chip.clock.cube_mhz)}
    cube: dict[str, Any] = {}
    moved = 0
    for kernel in report.kernels:
        us[makers.get(kernel["name"], "layout")] += kernel["task_us"]
        whole = {path: size for path, size in kernel["counts"]["bytes"].items() if ":" not in path}  # not its operands
        moved += sum(size for path, size in whole.items() if "GM" in path.split("->"))
        if kernel["name"] in operator.cube_kernels:
            name, buffers = kernel["name"], kernel["buffers"]
            cube |= {
                f"{name}_l1": buffers.get("L1", {}).get("peak_bytes", 0),
                f"{name}_l0c": buffers.get("L0C", {}).get("peak_bytes", 0),
                f"{name}_blocks": kernel["block_dim"],
                f"{name}_efficiency": kernel.get("cube_efficiency"),
                f"{name}_bottleneck": kernel["bottleneck_pipe"],
                f"{name}_tiling": ",".join(f"{field}={value}" for field, value in kernel["tiling"].items()),
            }
    found |= {f"{part}_us": round(value, 4) for part, value in us.items() if value or part == "layout"}
    macs = sum(report.problem["macs"].values())
    return {
        **found,
        "l1": max((size for name, size in cube.items() if name.endswith("_l1")), default=0),
        **cube,
        "gm_bytes": moved,
        "workspace": report.workspace_bytes,
        "tflops": round(2 * macs / report.total_us / 1e6, 4) if report.total_us else 0.0,
        "findings": len(report.findings),
    }


def _errors(point: SweepPoint, result: Result, values: Mapping[str, Any]) -> dict[str, Any]:
    if point.mode == "timing":
        return {}
    operator, call = OPERATORS[point.case.operator], result.call
    assert call is not None
    ours = operator.by_our_names(values)
    with one_thread(), np.errstate(invalid="ignore", over="ignore"):
        given = {name: numbers(ours[name], tensor.dtype) for name, tensor in call.inputs.items()}
        returned = {name: typed(codes, call.outputs[name].dtype) for name, codes in result.outputs.items()}
        inputs, outputs = (operator.in_problem_order(call, arrays) for arrays in (given, returned))
        found: dict[str, float | None] = {}
        for name, array in outputs.items():
            truth = sums_of(operator, call, name, inputs, inputs).total.reshape(array.shape)
            off = numbers(array, call.outputs[name].dtype).astype(np.float64) - truth
            square, whole = float((off**2).mean()), float((truth**2).mean())
            finite = np.isfinite(square) and np.isfinite(whole)
            found[f"{name}_error"] = (sqrt(square / whole) if whole else 0.0) if finite else None
    known = [error for error in found.values() if error is not None]
    return {**found, "error": max(known) if len(known) == len(found) else None, "correct": result.report.passed}
