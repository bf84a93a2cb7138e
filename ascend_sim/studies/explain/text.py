"""One element of an output as text: the formula, the matrix product, the tile, its mmads, and its path to the output."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import FRACTAL_BYTES
from ascend_sim.engine.flow import CONSTANT, flow_of
from ascend_sim.engine.follow import ItemStep, MmadOperand, Multiplication, SumPart
from ascend_sim.engine.replay import Row
from ascend_sim.isa.base import PIPES
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.vector import VectorBinary
from ascend_sim.numerics import format_of, ulp
from ascend_sim.report.columns import columns, counted, middle_out
from ascend_sim.report.grid import say
from ascend_sim.report.ladder import ladder_words
from ascend_sim.studies.explain.formula_text import MOST_PRODUCTS, formula_lines
from ascend_sim.studies.explain.run import Explanation

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PARTS, _MOST_MMADS, _MOST_LOADS = 2, 12, 12
_PART_HEAD = ("core", "cycles", "mmads", "products", "last partial sum")
Array = NDArray[Any]


def explain_page(explanation: Explanation, width: int | None = None) -> str:
    """Return the whole explanation as text: formula, matrix product, cube, way to the output, result. Tables of loads, Mmads
    and steps keep within `width` (None: any width).

    Of four parts of the sum or more, at most two are shown in full: the first that multiply numbers of the caller, or the first
    of all if none does. The others form a table, whose middle is left out if it is long.
    """
    value, reference = explanation.value, explanation.reference
    error = _error(value - reference, reference, explanation.output.dtype)
    head = [f"{element(explanation)} = {_number(value)}   float64 {reference:.12g}: {error}", about(explanation)]
    sections = [("", head), ("1. The formula", formula_lines(explanation)), ("2. As a matrix product", gemm_lines(explanation))]
    inner = None if width is None else width - 2
    parts = explanation.parts
    shown = parts
    if len(parts) > _MOST_PARTS + 1:
        shown = (parts_with_products(explanation) or parts)[:_MOST_PARTS]
    for number, part in enumerate(shown):
        which = "" if len(parts) == 1 else f", part {parts.index(part) + 1} of {len(parts)}"
        sections.append((f"{3 + number}. The cube{which}", part_lines(explanation, part, inner)))
    if others := [part for part in parts if part not in shown]:
        rows = [_PART_HEAD, *middle_out(others, _MOST_MMADS, partial(_part_row, explanation))]
        told = f"the other {len(others)} parts, in the order in which they were added"
        sections[-1][1].extend(["", told, *(f"  {line}" for line in columns(rows, ">>>>>"))])
    sections.append((f"{3 + len(shown)}. The way out", out_lines(explanation, inner)))
    sections.append((f"{4 + len(shown)}. The result", result_lines(explanation)))
    text = []
    for title, lines in sections:
        text += [*(["", title] if title else []), *(f"  {line}".rstrip() if title else line for line in lines)]
    return "\n".join(text) + "\n"


def draw_explanation(explanation: Explanation, console: Console) -> None:
    """Print the whole explanation on a console."""
    say(console, explain_page(explanation, console.width).rstrip("\n"), indent="    ")


def element(explanation: Explanation) -> str:
    """Return the followed element's name, "grad_input[0, 3, 5, 5]"."""
    return f"{explanation.tensor}[{', '.join(map(str, explanation.index))}]"


def about(explanation: Explanation) -> str:
    """Return one line with operator, chip, compute dtype and dtype of the output."""
    call = explanation.call
    computed = explanation.operator.computed_in(call, explanation.tensor)
    return f"{call.operator} on {explanation.chip.name}, computed in {computed}, returned in {explanation.output.dtype}"


# -- the matrix product ------------------------------------------------------------------------------------------------


def gemm_lines(explanation: Explanation) -> list[str]:
    """Return lines on the sizes M, K and N of the product, the element's row and column, and the kernel with its tiling, the
    rungs that chose it, and surrogates in its time.
    """
    call, place = explanation.call, explanation.formula.place
    p = call.problem
    c_in, c_out = p.c_in // p.groups, p.c_out // p.groups
    taps, plane = p.k_d * p.k_h * p.k_w, p.k_h * p.k_w
    group = "" if p.groups == 1 else " of a group"
    if explanation.formula.kind == "filter":
        co, ci, kd, kh, kw = place
        y, x = explanation.name(call.y), explanation.name(call.x)
        images = p.n * p.d_out
        rows = [
            ("M", f"{c_out:,}", f"channels of {y}{group}"),
            ("K", f"{images * p.h_out * p.w_out:,}", f"pixels of {y}: {counted(images, 'map')} of {p.h_out} x {p.w_out}"),
            ("N", f"{c_in * taps:,}", f"columns of im2col({x}): {counted(c_in, 'channel')}{group} x {counted(taps, 'tap')}"),
        ]
        here = f"the element is row {co % c_out}, and column channel {ci}, tap {(kd * p.k_h + kh) * p.k_w + kw}"
    else:
        n, c, d, h, w = place
        height, width = (p.h_out, p.w_out) if call.forward else (p.h_in, p.w_in)
        out, inner = (c_out, c_in) if call.forward else (c_in, c_out)
        source, made = explanation.name(call.maps.read), explanation.tensor
        columns_of = f"columns of im2col({source}): {counted(inner, 'channel')}{group} x {counted(taps, 'tap')}"
        if not call.forward and max(p.stride_h, p.stride_w) > 1:
            columns_of += f", {_stride_words(explanation)}"
        rows = [
            ("M", f"{height * width:,}", f"pixels of {made}, {height} x {width}, for each image"),
            ("K", f"{inner * taps:,}", columns_of),
            ("N", f"{out:,}", f"channels of {made}{group}"),
        ]
        depth = f", depth {d}" if p.d_in * p.d_out > 1 else ""
        here = f"the element is row {h * width + w} of image {n}{depth}, column {c % out}"
    if p.k_d > 1:
        here += f" (K in planes of {plane} taps)"
    product = explanation.operator.matrix_product(call, explanation.tensor)
    if product is not None:
        rows = [(letter, f"{count:,}", what) for letter, count, what in product.sizes]
        here = f"a product of matrices as they lie in memory, without im2col: {product.why}"
    lines = [f"{explanation.tensor}[M, N] = left[M, K] x right[K, N]", *columns(rows, " >"), here]
    task = next((explanation.task(part.mmads[0].row) for part in explanation.parts), None)
    if task is not None:
        fields = ", ".join(f"{name} {value}" for name, value in task.info["tiling"].items() if name.startswith("base"))
        blocks, source = counted(task.block_dim, "block"), task.info["tiling_source"]
        source += f"; input by {task.info['input_load']}" if "input_load" in task.info else ""
        tiles = f", in tiles of {fields}" if fields else ""
        lines.append(f"computed by {task.op_type} in {blocks}{tiles} ({source})")
        if "ladder" in task.info:
            lines.append(f"this tiling by {ladder_words(task.info['ladder'])}")
        for name, what in task.info.get("surrogates", {}).items():
            lines.append(f"its time has a surrogate of what is not built: {name}, {what}")
    return lines


def _stride_words(explanation: Explanation) -> str:
    """Return a text on a stride, by the tiling's kernelSplitMode: zeros inserted (0, and without a field), the kernel split
    (1), or the kernel split along rows and zeros inserted along columns (any other).
    """
    tasks = (explanation.task(part.mmads[0].row) for part in explanation.parts if part.mmads)
    mode = next((task.info["tiling"].get("kernelSplitMode", 0) for task in tasks), 0)
    if mode == 1:
        return "the kernel split by the stride"
    return "the kernel split by the stride of rows, zeros inserted for columns" if mode else "zeros inserted for the stride"


# -- the cube ----------------------------------------------------------------------------------------------------------


def part_lines(explanation: Explanation, part: SumPart, width: int | None = None) -> list[str]:
    """Return the lines on one L0C tile: its core, the loads to L1, and every mmad with the partial sum of the element after it.

    Tables are at most `width` wide (None: any width), long ones cut in the middle. The tile's products are written out
    if there are at most 24.
    """
    first = part.mmads[0]
    run = explanation.provenance.programs[part.owner]
    mmad = explanation.provenance.instruction(first.row)
    assert isinstance(mmad, Mmad)
    tile = int(run.program.rows[first.row[1], 4])
    lines = [
        f"{run.program.where} on core {run.core}, its tile {tile}: {mmad.m} x {mmad.n} at L0C+"
        f"{explanation.provenance.address(first.row, 'dst', 'L0C'):#x}; the element is row {first.m}, column {first.n}, "
        f"L0C+{part.address:#x}",
        "",
    ]
    inner = None if width is None else width - 2
    loads = sorted({load.row for m in part.mmads for side in (m.left, m.right) for load in side.l1_loads})
    rows = middle_out(loads, _MOST_LOADS, partial(_load_row, explanation))
    lines += ["to L1", *(f"  {line}" for line in columns(rows, ">", inner))] if rows else []
    if not rows:
        lines.append("nothing is brought to L1: this tile meets padding alone, and the cube multiplies zeros by zeros")
    window = _window(explanation, part)
    lines += ["", *window] if window else []
    model = explanation.result.report.problem["accumulate"]
    lines += ["", f"through L0A and L0B into L0C: {counted(len(part.mmads), 'mmad')}, float32 sums (model {model})"]
    head = (
        "mmad",
        "cycles",
        "k",
        "L0A fractals: left row",
        "L0B fractals: right column",
        "products",
        "their sum",
        "L0C then",
        "bits",
    )
    table = [head, *middle_out([*enumerate(part.mmads)], _MOST_MMADS, partial(_mmad_row, explanation))]
    lines += [f"  {line}" for line in columns(table, ">>>  >>>>", inner)]
    if 0 < sum(len(real_products(m)) for m in part.mmads) <= MOST_PRODUCTS:
        lines += ["", "what they multiply (the zeros left out)"]
        for number, m in enumerate(part.mmads):
            lines += [f"  mmad {number}: {text}" for text in _as_multiplied(explanation, m)]
    return lines


def _load_row(explanation: Explanation, row: Row) -> tuple[str, ...]:
    """Return a table row of a load: cycles, pipe, instruction, the caller's numbers that it loads ("zeros" for
    none), bytes, destination.
    """
    instruction = explanation.provenance.instruction(row)
    targets = instruction.writes()
    space, total = targets[0].space, sum(target.total for target in targets)
    address = explanation.provenance.address(row, "dst", space)
    return (
        _cycles(explanation, row),
        pipe_of(explanation, row),
        instruction.name,
        box(explanation, origins_of_load(explanation, row)),
        f"{total:,} bytes",
        f"{space}+{address:#x}",
    )


def origins_of_load(explanation: Explanation, row: Row) -> Array:
    """Return for every element that a load reads the GM byte of the caller's number it stems from, CONSTANT if from none;
    empty for a load that reads nothing.
    """
    provenance = explanation.provenance
    instruction = provenance.instruction(row)
    if not instruction.reads():
        return np.zeros(0, np.int64)
    flow = flow_of(instruction, explanation.chip)
    region = instruction.reads()[0]
    source = flow.source[flow.source != CONSTANT]
    return provenance.origins(row, region.space, source + provenance.address(row, region.operand, region.space))


def tensor_of(explanation: Explanation, origin: int) -> tuple[str, int] | None:
    """Return (name, GM address of its first byte) of the caller's input tensor that holds the GM byte `origin`; None if none
    does.
    """
    for task in explanation.provenance.tasks:
        for tensor in task.tensors:
            if tensor.name in explanation.operands and tensor.base <= origin < tensor.base + tensor.size:
                return tensor.name, tensor.base
    return None


def box(explanation: Explanation, origins: Array) -> str:
    """Return the box of the caller's numbers at GM bytes `origins`, all of one tensor, as text, "weight[0..15, 0..31, 0..2]";
    "zeros" for none.
    """
    real = origins[origins != CONSTANT]
    found = tensor_of(explanation, int(real[0])) if len(real) else None
    if found is None:
        return "zeros"
    name, base = found
    array = explanation.operands[name]
    places = np.unravel_index((real - base) // explanation.itemsize(name), array.shape)
    return f"{explanation.name(name)}[{', '.join(_span(axis) for axis in places)}]"


def _span(numbers: Array) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low}..{high}"


def _window(explanation: Explanation, part: SumPart) -> list[str]:
    """Return lines on the map's pixels and the windows that load_data_3d takes from L1 for the element's first mmad.

    [] for a matrix product without im2col, and where no load_data_3d loads the operand.
    """
    if explanation.operator.matrix_product(explanation.call, explanation.tensor) is not None:
        return []
    side = part.mmads[0].right if explanation.formula.kind == "filter" else part.mmads[0].left
    for load in side.loads:
        i = explanation.provenance.instruction(load.row)
        if isinstance(i, LoadData3D):
            return [
                f"load_data_3d to {i.destination} sees {i.height} x {i.width} pixels in L1 and zeros around them "
                f"({i.pad_top} above, {i.pad_left} to the left),",
                f"and takes windows of {i.k_h} x {i.k_w} (stride {i.stride_h} x {i.stride_w}, dilation {i.dilation_h} x "
                f"{i.dilation_w}): rows {i.m_start}..{i.m_start + i.m_extent - 1}, "
                f"columns {i.k_start}..{i.k_start + i.k_extent - 1} of the matrix, for mmad 0",
            ]
    return []


def parts_with_products(explanation: Explanation) -> list[SumPart]:
    """Return the parts of the sum that multiply two of the caller's numbers somewhere; the others multiply padding alone."""
    return [part for part in explanation.parts if any(len(real_products(mmad)) for mmad in part.mmads)]


def real_products(mmad: Multiplication) -> Array:
    """Return the indices of an mmad's products whose factors both are numbers of the caller, no constants such as padding."""
    return np.flatnonzero((mmad.left.origins != CONSTANT) & (mmad.right.origins != CONSTANT))


def _mmad_row(explanation: Explanation, numbered: tuple[int, Multiplication]) -> tuple[str, ...]:
    number, mmad = numbered
    real = real_products(mmad)
    return (
        str(number),
        _cycles(explanation, mmad.row),
        str(len(mmad.left.addresses)),
        _side(explanation, mmad.left, real),
        _side(explanation, mmad.right, real),
        f"{len(real):,}",
        _number(mmad.products.sum()),
        _number(mmad.partial),
        f"0x{int(mmad.partial.view(np.uint32)):08X}",
    )


def _side(explanation: Explanation, operand: MmadOperand, real: Array) -> str:
    """Return text on one operand of an mmad: its fractals in L0, and the caller's numbers in them."""
    fractals = operand.addresses // FRACTAL_BYTES
    return f"{_span(fractals)}: {side_box(explanation, operand, real)}"


def side_box(explanation: Explanation, operand: MmadOperand, real: Array) -> str:
    """Return as text the box of the caller's numbers on one side of an mmad in its products `real`; of all products if
    `real` is empty.
    """
    return box(explanation, operand.origins[real] if len(real) else operand.origins)


def _as_multiplied(explanation: Explanation, mmad: Multiplication) -> Iterable[str]:
    terms, real = explanation.formula, real_products(mmad)
    names = [
        [explanation.subscript(tensor, i) for i in explanation.indices(side, real).tolist()]
        for tensor, side in ((terms.left_name, mmad.left), (terms.right_name, mmad.right))
    ]
    values = zip(*names, mmad.left.values[real].tolist(), mmad.right.values[real].tolist(), strict=True)
    rows = [(left, f"{a:.6g}", "x", right, f"{b:.6g}", "=", f"{a * b:.6g}") for left, right, a, b in values]
    return columns(rows, " >  >")


def _part_row(explanation: Explanation, part: SumPart) -> tuple[str, ...]:
    last = part.mmads[-1]
    count = sum(len(real_products(m)) for m in part.mmads)
    core = str(explanation.provenance.programs[part.owner].core)
    return core, _cycles(explanation, last.row), str(len(part.mmads)), f"{count:,}", _number(last.partial)


# -- the way out -------------------------------------------------------------------------------------------------------


def out_lines(explanation: Explanation, width: int | None = None) -> list[str]:
    """Return a table of the instructions after the cube, each with its destination and the element's value and bits there; at
    most `width` wide (None: any width), cut in the middle if long.
    """
    head = ("cycles", "pipe", "instruction", "kernel", "to", "format", "value", "bits")
    steps = [step for step in explanation.way if isinstance(step, ItemStep)]
    return columns([head, *middle_out(steps, 3 * _MOST_MMADS, partial(_step_row, explanation))], ">", width)


def _step_row(explanation: Explanation, step: ItemStep) -> tuple[str, ...]:
    instruction = explanation.provenance.instruction(step.row)
    where = f"{step.space}+{step.address:#x}"
    if step.space == "GM":
        where = next(
            f"{tensor.name}+{step.address - tensor.base:#x}"
            for tensor in explanation.task(step.row).tensors
            if tensor.base <= step.address < tensor.base + tensor.size
        )
    what = instruction.name
    if instruction.atomic:
        what += ", adds"
    elif isinstance(instruction, VectorBinary):
        what += f", {instruction.operation}"
    digits = format_of(step.dtype).bits // 4
    return (
        _cycles(explanation, step.row),
        pipe_of(explanation, step.row),
        what,
        explanation.task(step.row).name,
        where,
        step.dtype,
        _number(step.value),
        f"0x{step.bits:0{digits}X}",
    )


# -- the result --------------------------------------------------------------------------------------------------------


def result_lines(explanation: Explanation) -> list[str]:
    """Return lines with the value that the call returned, the float64 sum with its error, and whether the cube multiplied
    the formula's numbers.

    The sum of the caller's unrounded numbers has its line only where it differs.
    """
    value, reference, unrounded = explanation.value, explanation.reference, explanation.unrounded
    dtype = explanation.output.dtype
    rows = [("the call returned", _number(value), "")]
    rows.append(("float64, numbers as the cube sees them", f"{reference:.12g}", _error(value - reference, reference, dtype)))
    if unrounded != reference:
        rows.append(("float64, the caller's numbers", f"{unrounded:.12g}", _error(value - unrounded, unrounded, dtype)))
    return [*columns(rows, " >"), "", _agreement(explanation)]


def _agreement(explanation: Explanation) -> str:
    """Return the sentence that says if the run multiplied the numbers of the formula."""
    if not explanation.agrees:
        return "the numbers that the cube multiplied are NOT those of the formula"
    if len(explanation.formula.left):
        return "the numbers that the cube multiplied are those of the formula, each product once"
    if explanation.parts:
        return "the formula has no products, and the cube added only products with zeros"
    return "the formula has no products, and no mmad added to this element"


def _error(error: float, reference: float, dtype: str) -> str:
    step = float(ulp(np.asarray(reference), dtype)) if np.isfinite(reference) else np.nan
    return f"error {error:.3g}, {error / step:.3g} ULP of {dtype}" if error else "equal"


# -- small things ------------------------------------------------------------------------------------------------------


def times(explanation: Explanation, row: Row) -> list[int]:
    """Return [start, retirement] of an instruction in cycles."""
    run = explanation.provenance.programs[row[0]]
    return [int(run.start[row[1]]), int(run.retire[row[1]])]


def _cycles(explanation: Explanation, row: Row) -> str:
    return "-".join(f"{cycle:,}" for cycle in times(explanation, row))


def pipe_of(explanation: Explanation, row: Row) -> str:
    """Return the pipe of an instruction."""
    return PIPES[int(explanation.provenance.programs[row[0]].program.per_row("pipe")[row[1]])]


def _number(value: float | np.floating[Any]) -> str:
    return f"{float(value):.9g}"
