"""The guessed rule on blocks of the first 910: its errors, where it jumps, and its predictions for layers without rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from accuracy_parts.rows import DW, DX, FIRST, simulated_of
from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.ops.kernels.grad_weight.procedures import images_first
from ascend_sim.report.report import Report, RunFacts
from ascend_sim.runtime import Device
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.launches import LAUNCHES
from ascend_sim.studies.validate.pages import spearman
from ascend_sim.studies.validate.run import RowComparison, compare, simulate

GUESSED = """## Blocks of the first 910

`images_first` takes the measured number of blocks in {right} of {of} rows of dW. Rows of dW with more images than cores,
dealt out to 32 blocks (the cores of the 910A) and without that to the cores that there are; us with the blocks:

{table}

{sums}

Change in time for one image more, over all {layers} layers of dW in ResNet-50 ({dx_layers} of dX), and one layer in us with the
blocks:

| chip | kernel | images | least | median | most | {example} |
|---|---|---|---|---|---|---|
{jumps}

Layers of other networks, without measured rows: {others}.

Rules without such a jump on the same rows (mean of sizes of errors and rank over the 56 rows, then dW by batch). A cost that
all ways of splitting share was tried as well; it did worse than the rule in two of three cases.

| blocks of dW | 56 rows: mean % | rank | batch 16 | batch 32 | batch 64 |
|---|---|---|---|---|---|
{rules}"""
WITHOUT: dict[str, Callable[[int, int], int]] = {
    "32 for any number of images": lambda images, cores: images_first.tiled_for(),
    "all cores for any number of images": lambda images, cores: cores,
}
"""Rules without a jump: the number of blocks for images and cores."""
JUMPS = ((FIRST, 15), (FIRST, 30), ("ascend910a", 16), ("ascend910a", 32))
"""Chip, and the images after which the rule changes over."""
EXAMPLE = (128, 128, 28, 3, 1)
OTHERS = {DX: ((3, 32, 299, 3, 2), (96, 96, 112, 3, 2)), DW: ((448, 384, 8, 3, 1), (288, 384, 17, 3, 2))}
"""Layers of Inception and MobileNet V2: channels, size of the square map, of the kernel, stride."""


def guessed(compared: Sequence[RowComparison]) -> str:
    """Rows of dW with more images than cores, with the rule and without it, and the means of both over all rows of a batch."""
    cores = load_chip(FIRST).cores.aic
    ruled = simulated_of(compared, FIRST, (DW, DX))
    with mock.patch.object(images_first, "tiled_for", lambda: cores):
        plain = compare([one.row for one in ruled], jobs=1)
    lines = ["| batch | layer | measured | with 32 | error % | without | error % |", "|" + "---|" * 7]
    for one, other in zip(ruled, plain, strict=True):
        kernel = one.row.kernel
        if kernel.op_type == DW and kernel["N"] > cores:
            cells = [str(kernel["N"]), _layer(kernel), f"{one.row.duration_us:.1f} ({one.row.cells['block_dim']})"]
            for found in (one, other):
                cells += [f"{found.prediction.task_us:.1f} ({found.prediction.blocks})", f"{100 * found.error:+.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    sums = [
        f"{name}: {_figures(with_rule)} with the rule, {_figures(without)} without."
        for name, with_rule, without in (
            ("The 56 rows of batch 16 and 64", *([o for o in rows if not o.row.series] for rows in (ruled, plain))),
            ("The 19 of batch 32", *([o for o in rows if o.row.series] for rows in (ruled, plain))),
        )
    ]
    of_dw = [one for one in ruled if one.row.kernel.op_type == DW]
    layers = {op: _of_batch_16(ruled, op) for op in (DW, DX)}
    return GUESSED.format(
        table="\n".join(lines),
        sums=" ".join(sums),
        right=sum(one.row.cells["block_dim"] == str(one.prediction.blocks) for one in of_dw),
        of=len(of_dw),
        layers=len(layers[DW]),
        dx_layers=len(layers[DX]),
        example=next(_layer(kernel) for kernel in layers[DW] if _sizes(kernel) == EXAMPLE),
        jumps="\n".join(jumps(layers)),
        others="; ".join(_others(layers)),
        rules="\n".join(_rules(ruled)),
    )


def jumps(layers: dict[str, Sequence[MeasuredKernel]]) -> Iterator[str]:
    """A line for each kernel and place where the rule changes over."""
    for chip, images in JUMPS:
        for op_type, kernels in layers.items():
            times = {kernel: [simulate(_as(kernel, chip, N=number)) for number in (images, images + 1)] for kernel in kernels}
            steps = sorted(after.task_us / before.task_us - 1 for before, after in times.values())
            shown = [f"{100 * step:+.0f} %" for step in (steps[0], float(np.median(steps)), steps[-1])]
            example = next((found for kernel, found in times.items() if _sizes(kernel) == EXAMPLE), None)
            said = " to ".join(f"{one.task_us:.1f} ({one.blocks})" for one in example) if example else "-"
            kind = "dW" if op_type == DW else "dX"
            yield f"| {chip} | {kind} | {images} to {images + 1} | {' | '.join(shown)} | {said} |"


def _others(layers: dict[str, Sequence[MeasuredKernel]]) -> Iterator[str]:
    """Yield the times of batch 8, 16 and 32 of `OTHERS` on the first 910."""
    for op_type, sizes in OTHERS.items():
        for channels_in, channels_out, size, window, stride in sizes:
            out = (size - window) // stride + 1 if stride > 1 and size % 2 else (size - 1) // stride + 1
            pad = (out - 1) * stride + window - size
            both = {
                "Hi": size, "Ho": out, "kh": window, "stride_h": stride, "pad_h_total": pad,
                "Wi": size, "Wo": out, "kw": window, "stride_w": stride, "pad_w_total": pad,
            }  # fmt: skip
            kernel = _as(layers[op_type][0], FIRST, Ci=channels_in, Co=channels_out, **both)
            times = ", ".join(f"{simulate(_as(kernel, FIRST, N=images)).task_us:.1f}" for images in (8, 16, 32))
            yield f"{'dW' if op_type == DW else 'dX'} of {_layer(kernel)} takes {times} us at batch 8, 16, 32"


def _of_batch_16(ruled: Sequence[RowComparison], op_type: str) -> list[MeasuredKernel]:
    return [one.row.kernel for one in ruled if one.row.kernel.op_type == op_type and one.row.kernel["N"] == 16]


def _sizes(kernel: MeasuredKernel) -> tuple[int, ...]:
    return tuple(kernel[name] for name in ("Ci", "Co", "Hi", "kh", "stride_h"))


def _as(kernel: MeasuredKernel, chip: str, **sizes: int) -> MeasuredKernel:
    """Another kernel: on `chip`, with some sizes changed."""
    return replace(kernel, chip=chip, sizes=tuple((name, sizes.get(name, size)) for name, size in kernel.sizes))


def _layer(kernel: MeasuredKernel) -> str:
    stride = f" stride {kernel['stride_h']}" if kernel["stride_h"] > 1 else ""
    return f"{kernel['Ci']} -> {kernel['Co']}, {kernel['Hi']}x{kernel['Wi']}, {kernel['kh']}x{kernel['kw']}{stride}"


def _rules(ruled: Sequence[RowComparison]) -> Iterator[str]:
    """The rule and those without a jump."""
    yield f"| `images_first` | {_of_rule(ruled)} |"
    for name, blocks in WITHOUT.items():
        with mock.patch.object(images_first, "blocks_of", blocks):
            yield f"| {name} | {_of_rule(compare([one.row for one in ruled], jobs=1))} |"


def _of_rule(found: Sequence[RowComparison]) -> str:
    both = [one for one in found if not one.row.series]
    cells = [_mean(both), f"{_rank(both):.3f}"]
    of_dw = [one for one in found if one.row.kernel.op_type == DW]
    return " | ".join(cells + [_mean([one for one in of_dw if one.row.kernel["N"] == batch]) for batch in (16, 32, 64)])


def _mean(found: Sequence[RowComparison]) -> str:
    return f"{100 * np.mean([abs(one.error) for one in found]):.1f}"


def _rank(found: Sequence[RowComparison]) -> float:
    rank = spearman([one.prediction.task_us for one in found], [one.row.duration_us for one in found])
    return rank or 0.0


def _figures(found: Sequence[RowComparison]) -> str:
    bias = 100 * np.mean([one.error for one in found])
    return f"mean {_mean(found)} %, bias {bias:+.1f} %, rank {_rank(found):.3f}"


# ---- layers without rows -------------------------------------------------------------------------------------------

UNSEEN = (
    (DX, 128, 256, 80, 1, 1), (DX, 128, 256, 20, 1, 1), (DX, 256, 128, 40, 1, 1), (DX, 1280, 448, 8, 1, 1),
    (DX, 2048, 320, 8, 1, 1), (DX, 128, 128, 56, 3, 2), (DW, 128, 128, 56, 3, 2), (DW, 128, 256, 80, 1, 1),
    (DW, 448, 384, 8, 3, 1),
)  # fmt: skip
"""Operator, channels of input and output, map, kernel and stride of layers of other networks."""


def unseen(compared: Sequence[RowComparison]) -> str:
    """Return the table of predictions for `UNSEEN`, batch 16, with intervals and the longest core over its roofline."""
    lines = ["| kernel | layer | us | interval | over the roofline |", "|---|---|---|---|---|"]
    for op_type, c_in, c_out, side, k, stride in UNSEEN:
        out = -(-side // stride)
        sizes = {
            "N": 16, "Ci": c_in, "Co": c_out, "Hi": side, "Wi": side, "Ho": out, "Wo": out, "kh": k, "kw": k,
            "stride_h": stride, "stride_w": stride, "pad_h_total": k - 1, "pad_w_total": k - 1,
        }  # fmt: skip
        kernel = _as(_of_batch_16(compared, op_type)[0], FIRST, **sizes)
        found = reported(kernel)
        ends = f"{found['interval']['low_us']:.0f} to {found['interval']['high_us']:.0f}"
        over = found["core_cycles_max"] / found["roofline"]["cycles"][found["roofline"]["bound_by"]]
        kind = "dW" if op_type == DW else "dX"
        lines.append(f"| {kind} | {_layer(kernel)} | {found['task_us']:.0f} | {ends} | {over:.2f} |")
    return "\n".join(lines)


def reported(kernel: MeasuredKernel) -> dict[str, Any]:
    """A report's row of a kernel that runs alone."""
    chip = load_chip(kernel.chip)
    device = Device(chip, with_values=False)
    tasks, inputs = LAUNCHES[kernel.op_type].tasks(kernel, chip, device)
    for tensor in inputs:
        device.warm(tensor)
    facts = RunFacts(chip)
    timeline = Engine(device).run(tasks, keep=False, on_program=facts.add)
    (found,) = Report.build(chip, timeline, tasks, facts, l2="warm").kernels
    return dict(found)
