"""The walk of one element as a page: one self-contained HTML file with step, back and a slider.

The page holds what the run left (`explain_data`) as JSON; `explain.html` beside this module draws it.
"""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.flow import CONSTANT
from ascend_sim.engine.follow import ItemStep, Multiplication, SumPart
from ascend_sim.engine.replay import Row
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.ops.convolution.formula import like, places
from ascend_sim.ops.verdicts.values import numbers
from ascend_sim.report.columns import counted
from ascend_sim.studies.explain.formula_text import formula_lines
from ascend_sim.studies.explain.run import Explanation
from ascend_sim.studies.explain.text import (
    about,
    box,
    element,
    explain_page,
    gemm_lines,
    origins_of_load,
    pipe_of,
    real_products,
    result_lines,
    side_box,
    tensor_of,
    times,
)

_MOST_MMADS = 600
"""Mmads of all the parts on a page; a part beyond stays in the text."""
_MOST_BOXES = 8000
_AROUND = 4
"""Cycles shown on each side of a step outside the cube, as a multiple of its length."""
_FLOW = ("MTE2", "MTE1", "M", "V", "FIX", "MTE3")
"""Pipes in the order in which data pass them."""
_SMALL = 64
"""Pixels of a plane whose numbers are shown, where there are few planes."""
_FEW_PLANES = 4
_TILE_BYTES = 1 << 20
Array = NDArray[Any]


def explain_html(explanation: Explanation) -> str:
    """Return the page as one HTML text that loads nothing from elsewhere.

    Raises SimError for an element that no Mmad added to.
    """
    if not explanation.parts:
        raise SimError(f"{element(explanation)}: no mmad adds to it, so a page has no steps to show; print the text instead")
    template = files("ascend_sim.studies.explain").joinpath("explain.html").read_text(encoding="utf-8")
    data = json.dumps(explain_data(explanation), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return template.replace("{{title}}", element(explanation)).replace("{{data}}", data)


def explain_data(explanation: Explanation) -> dict[str, Any]:
    """Return everything that the page shows as plain values for JSON: texts, maps of the tensors, parts of the sum, steps to
    the output.

    "parts" has the first part, and the further ones as long as all have 600 mmads at most; "allParts" counts every part.
    """
    shown: list[SumPart] = []
    for part in explanation.parts:
        if shown and sum(len(p.mmads) for p in (*shown, part)) > _MOST_MMADS:
            break
        shown.append(part)
    maps = {side: _Map(explanation, side) for side in ("left", "right", "out")}
    steps = [_outer_step(explanation, step) for step in explanation.way if isinstance(step, ItemStep)]
    return {
        "element": element(explanation),
        "about": about(explanation),
        "caption": _caption(explanation),
        "formula": formula_lines(explanation),
        "gemm": gemm_lines(explanation),
        "result": result_lines(explanation),
        "text": explain_page(explanation),
        "value": _finite(explanation.value),
        "reference": _finite(explanation.reference),
        "maps": {side: entry.to_dict() for side, entry in maps.items()},
        "parts": [_part(explanation, part, maps) for part in shown],
        "allParts": len(explanation.parts),
        "steps": steps,
    }


def _caption(explanation: Explanation) -> str:
    """Return three sentences: what the page follows, what its steps are, and how to take them."""
    mmads = sum(len(part.mmads) for part in explanation.parts)
    return (
        f"This page follows one number, {element(explanation)}, through the chip. Its operands come to the buffer L1; then "
        f"{counted(mmads, 'mmad')} (instructions of the cube) will add products to the sum in the buffer L0C, which at last "
        "leaves for GM, the global memory. Press step or an arrow key, and everything below shows that moment."
    )


def _finite(value: float | np.floating[Any]) -> float | str:
    """Return the number as a float; an infinity or NaN, which JSON lacks, as text."""
    return float(value) if np.isfinite(value) else str(float(value))


# -- maps of the tensors -----------------------------------------------------------------------------------------------


class _Map:
    """Drawing of one of the three tensors ("left", "right", "out") as planes of rows x columns, with only the planes that
    the element needs.

    A small map, whose element needs at most four planes of at most 64 pixels, has a plane with numbers for each channel; in a
    larger one all channels share a plane.
    """

    def __init__(self, explanation: Explanation, side: str) -> None:
        self.explanation, self.side = explanation, side
        terms, call = explanation.formula, explanation.call
        p = call.problem
        self.tensor = {"left": terms.left_name, "right": terms.right_name, "out": explanation.tensor}[side]
        stored = self.stored = like(call, self.tensor)
        shaped = explanation.result.outputs if side == "out" else explanation.operands
        self.shape = shaped[self.tensor].shape
        self.rows, self.columns = (p.k_h, p.k_w) if stored == "weight" else call.volume(stored)[3:]
        flat = {"left": terms.left, "right": terms.right}.get(side)
        if flat is None:
            flat = np.asarray([np.ravel_multi_index(explanation.index, self.shape)])
        first, second, third, *_ = self.places(flat)
        keys: list[tuple[int, ...]] = sorted(set(zip(first.tolist(), second.tolist(), third.tolist(), strict=True)))
        self.numbers = self.rows * self.columns <= _SMALL and len(keys) <= _FEW_PLANES
        if not self.numbers:  # all channels on top of each other
            keys = sorted({self.key(*key) for key in keys})
        self.planes = {key: number for number, key in enumerate(keys)}

    def key(self, first: int, second: int, third: int) -> tuple[int, ...]:
        """Return the key of the plane in which a position is drawn, from its first three coordinates: n, c, d, or co, ci, kd of
        a weight.

        In a small map the key is all three. In a larger one it is (n, d), and (kd,) for a weight.
        """
        if self.numbers:
            return first, second, third
        return (third,) if self.stored == "weight" else (first, third)

    def places(self, flat: Array) -> tuple[Array, ...]:
        """Return the positions of flat indices into the tensor: arrays n, c, d, h, w; of a weight co, ci, kd, kh, kw."""
        return places(self.explanation.call, self.tensor, self.shape, flat)

    def cells(self, flat: Array) -> list[int]:
        """Return the distinct cells of flat indices as [plane, row, column, plane, row, column, ...]; cells in no plane of
        the map are left out.
        """
        first, second, third, row, column = self.places(flat)
        found = {
            (self.planes[key], r, c)
            for a, b, d, r, c in zip(*(x.tolist() for x in (first, second, third, row, column)), strict=True)
            if (key := self.key(a, b, d)) in self.planes
        }
        return [value for cell in sorted(found) for value in cell]

    def area(self, flat: Array) -> list[int]:
        """Return [top, left, bottom, right], inclusive, of the box around the cells of flat indices, of which there is at least
        one; planes do not count.
        """
        _, _, _, row, column = self.places(flat)
        return [int(row.min()), int(column.min()), int(row.max()), int(column.max())]

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain values: name, shape, sizes, planes with label and (small maps) numbers, and the cells of
        the element (None but for the output).
        """
        shown = []
        weight = self.stored == "weight"
        channels = ("ci", "co") if self.explanation.call.y == "input" else ("co", "ci")
        whole = (*channels, "kd") if weight else ("n", "c", "d")
        names = whole if self.numbers else whole[2:] if weight else whole[::2]
        for key in self.planes:
            deep = max(self.places(np.asarray([np.prod(self.shape) - 1]))[2].tolist()) > 0
            label = ", ".join(f"{n} {i}" for n, i in zip(names, key, strict=True) if deep or n not in ("d", "kd"))
            shown.append({"label": label, "values": self._values(key) if self.numbers else None})
        return {
            "tensor": self.explanation.name(self.tensor),
            "shape": list(self.shape),
            "rows": self.rows,
            "columns": self.columns,
            "planes": shown,
            "element": self.cells(np.asarray([np.ravel_multi_index(self.explanation.index, self.shape)]))
            if self.side == "out"
            else None,
        }

    def _values(self, key: tuple[int, ...]) -> list[str]:
        """Return the numbers of a plane as texts, row by row."""
        result = self.explanation.result
        if self.side == "out":
            array = numbers(result.outputs[self.tensor], result.dtypes[self.tensor])
        else:
            array = self.explanation.operands[self.tensor]
        flat = np.arange(array.size)
        first, second, third, row, column = self.places(flat)
        here = np.flatnonzero((first == key[0]) & (second == key[1]) & (third == key[2]))
        order = here[np.lexsort((column[here], row[here]))]
        return [f"{float(value):.3g}" for value in array.reshape(-1)[flat[order]]]


# -- one part ----------------------------------------------------------------------------------------------------------


def _part(explanation: Explanation, part: SumPart, maps: dict[str, _Map]) -> dict[str, Any]:
    run = explanation.provenance.programs[part.owner]
    loads = sorted({load.row for m in part.mmads for side in (m.left, m.right) for load in side.l1_loads})
    followed = {row[1] for row in loads}
    for mmad in part.mmads:
        followed |= {mmad.row[1], *(load.row[1] for side in (mmad.left, mmad.right) for load in side.loads)}
    out = next(
        step for step in explanation.way if isinstance(step, ItemStep) and any(source is part for source in step.sources)
    )
    followed.add(out.row[1])
    rows = np.asarray(sorted(followed))
    begin, end = int(run.start[rows].min()), int(run.retire[rows].max())
    first = int(run.start[part.mmads[0].row[1]])
    window = max(begin, 2 * first - end), end  # earlier rows are shown only if the element needs them
    tiles, tile = _tiles(part)
    most = 64 if sum(len(real_products(m)) for m in part.mmads) <= 4000 else 12  # products that each mmad shows
    return {
        "owner": part.owner,
        "where": f"{run.program.where} on core {run.core}",
        "window": window,
        "loads": [_load(explanation, row, maps) for row in loads],
        "mmads": {"list": [_mmad(explanation, m, maps, loads, most) for m in part.mmads], "tile": tile, "tiles": tiles},
        "out": _step(explanation, out),
        "buffers": _buffers(explanation, part, window, followed),
        "timeline": _timeline(explanation, part.owner, window, followed),
    }


def _load(explanation: Explanation, row: Row, maps: dict[str, _Map]) -> dict[str, Any]:
    instruction = explanation.provenance.instruction(row)
    origins = origins_of_load(explanation, row)
    real = origins[origins != CONSTANT]
    found = tensor_of(explanation, int(real[0])) if len(real) else None
    side, area = None, None
    if found is not None:
        name, base = found
        side = next(s for s in ("left", "right") if maps[s].tensor == name)
        area = maps[side].area((real - base) // explanation.itemsize(name))
    return {
        "time": times(explanation, row),
        "pipe": pipe_of(explanation, row),
        "name": instruction.name,
        "what": box(explanation, origins),
        "side": side,
        "area": area,
        "bytes": instruction.writes()[0].total,
        "address": explanation.provenance.address(row, "dst", "L1"),
    }


def _mmad(explanation: Explanation, mmad: Multiplication, maps: dict[str, _Map], loads: list[Row], most: int) -> dict[str, Any]:
    real = real_products(mmad)
    instruction = explanation.provenance.instruction(mmad.row)
    sides = {}
    for side, given in (("left", mmad.left), ("right", mmad.right)):
        flat, loaded = explanation.indices(given, real), [times(explanation, load.row) for load in given.loads]
        sides[side] = {
            "cells": maps[side].cells(flat) if len(flat) else [],
            "box": side_box(explanation, given, real),
            "bytes": [int(given.addresses.min()), int(given.addresses.max())],
            "time": [min(loaded)[0], max(end for _, end in loaded)],
            "loads": [loads.index(load.row) for load in given.l1_loads],
            "names": [explanation.subscript(maps[side].tensor, i) for i in flat[:most].tolist()],
            "values": [f"{v:.5g}" for v in given.values[real[:most]].tolist()],
        }
    return {
        "time": times(explanation, mmad.row),
        "size": [getattr(instruction, name) for name in ("m", "k", "n")],
        "place": [mmad.m, mmad.n],
        "accumulate": getattr(instruction, "accumulate", False),
        "products": len(real),
        "each": [f"{v:.5g}" for v in mmad.products[real[:most]].tolist()],
        "sum": f"{float(mmad.products.sum()):.9g}",
        "partial": f"{float(mmad.partial):.9g}",
        "number": _finite(mmad.partial),
        "bits": f"0x{int(mmad.partial.view(np.uint32)):08X}",
        **sides,
    }


def _tiles(part: SumPart) -> tuple[str, dict[str, Any]]:
    """Return the L0C tile after every mmad as base64 of signed bytes, scaled so that the largest magnitude is 127, and a dict
    of "rows", "columns", "step", "peak" (that magnitude), and the element's "row" and "column".

    An infinity or NaN becomes 0. Tiles too large for a page keep every "step"-th row and column, the element's among them.
    Where some tile was not kept, the text is "" and all numbers but "step" (1) are 0.
    """
    first = part.mmads[0]
    kept = [m.tile for m in part.mmads if m.tile is not None]
    if len(kept) < len(part.mmads):
        return "", {"rows": 0, "columns": 0, "step": 1, "peak": 0.0, "row": 0, "column": 0}
    step = 1
    while kept[0][::step, ::step].size * len(kept) > _TILE_BYTES:
        step += 1
    stack = np.stack([tile[first.m % step :: step, first.n % step :: step] for tile in kept])
    finite = np.where(np.isfinite(stack), stack, 0)
    peak = float(np.abs(finite).max()) or 1.0
    codes = np.rint(finite * (127 / peak)).astype(np.int8)
    tile = {"rows": stack.shape[1], "columns": stack.shape[2], "step": step, "peak": peak,
            "row": first.m // step, "column": first.n // step}  # fmt: skip
    return base64.b64encode(codes.tobytes()).decode(), tile


def _step(explanation: Explanation, step: ItemStep) -> dict[str, Any]:
    instruction = explanation.provenance.instruction(step.row)
    run = explanation.provenance.programs[step.row[0]]
    return {
        "time": times(explanation, step.row),
        "name": instruction.name,
        "adds": instruction.atomic,
        "kernel": explanation.task(step.row).name,
        "where": f"{run.program.where} on core {run.core}",
        "pipe": pipe_of(explanation, step.row),
        "space": step.space,
        "dtype": step.dtype,
        "value": f"{step.value:.9g}",
        "bits": f"0x{step.bits:X}",
    }


def _outer_step(explanation: Explanation, step: ItemStep) -> dict[str, Any]:
    """Return a step on the way to the output with its program as "owner", and the pipes of that program around it as
    "window" and "timeline".
    """
    start, end = times(explanation, step.row)
    around = _AROUND * max(end - start, 1)
    window = start - around, end + around
    timeline = _timeline(explanation, step.row[0], window, {step.row[1]})
    return {**_step(explanation, step), "owner": step.row[0], "window": window, "timeline": timeline}


def _in_window(explanation: Explanation, owner: int, window: tuple[int, int], followed: set[int]) -> list[int]:
    """Return the sorted row numbers of the instructions of program `owner` that the page draws: all of `followed`, and of
    those that write something within `window` (first and last cycle) the first 8,000.
    """
    run = explanation.provenance.programs[owner]
    works = np.asarray([bool(i.writes()) for i in run.program.table.instructions], np.bool_)[run.program.rows[:, 0]]
    inside = np.flatnonzero((run.start <= window[1]) & (run.end >= window[0]) & works).tolist()
    return sorted({*inside[:_MOST_BOXES], *followed})


def _buffers(explanation: Explanation, part: SumPart, window: tuple[int, int], followed: set[int]) -> list[dict[str, Any]]:
    """Return a dict for each on-chip buffer that is written in the window, from L1 on: name, capacity, and "writes".

    A write is [first byte, end of the last byte, start, retirement, 1 if the element needs it].
    """
    run = explanation.provenance.programs[part.owner]
    writes: dict[str, list[list[int]]] = {}
    for row in _in_window(explanation, part.owner, window, followed):
        for region in explanation.provenance.instruction((part.owner, row)).writes():
            if region.space != "GM":
                low = int(run.program.rows[row, 1]) + region.offset
                high = int(run.program.rows[row, 1]) + region.extent
                times = int(run.start[row]), int(run.retire[row])
                writes.setdefault(region.space, []).append([low, high, *times, int(row in followed)])
    order = [name for name in ("L1", "L0A", "L0B", "L0C", "UB") if name in writes]
    sizes: dict[str, int] = {str(name): size for name, size in explanation.chip.buffers.items()}
    return [{"name": name, "capacity": sizes[name], "writes": writes[name]} for name in order]


def _timeline(explanation: Explanation, owner: int, window: tuple[int, int], followed: set[int]) -> dict[str, Any]:
    """Return {"pipes": [[number, name], ...], "labels", "boxes"} of program `owner` in the window.

    A box is [pipe, start, end of occupancy, index of its label, 1 if the element needs it].
    """
    run = explanation.provenance.programs[owner]
    pipe = run.program.per_row("pipe")
    labels: dict[str, int] = {}
    boxes = []
    for row in _in_window(explanation, owner, window, followed):
        instruction = explanation.provenance.instruction((owner, row))
        label = labels.setdefault(_label(instruction), len(labels))
        boxes.append([int(pipe[row]), int(run.start[row]), int(run.end[row]), label, int(row in followed)])
    used = {PIPES[entry[0]] for entry in boxes}
    return {"pipes": [[PIPES.index(name), name] for name in _FLOW if name in used], "labels": list(labels), "boxes": boxes}


def _label(instruction: Any) -> str:
    """Return an instruction in a few words: an mmad with sizes and dtype, any other with its path and bytes."""
    if instruction.name == "mmad":
        return f"mmad {instruction.m} x {instruction.k} x {instruction.n}, {instruction.dtype}"
    path = instruction.path() or instruction.writes()[0].space
    return f"{instruction.name} {path}, {instruction.writes()[0].total:,} bytes"
