"""Rows left out of a fit: how much of the agreement is the fitting's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accuracy_parts.rows import B2, DW, DX, FIRST, simulated_of
from ascend_sim.studies.validate.run import RowComparison

LEFT_OUT = """## Rows left out of a fit

Every cost that these kernels fitted is fitted again without a layer (both gradients, all batches; of whole calls and vector
kernels one shape), which is then predicted with it, each cost within half and twice what ships. "as shipped" has costs that
saw the row, "left out" has none that did. Only costs are left out: for operators under "in-sample all the same" a rule was
chosen with these rows in view. So this is a lower bound. Products are left out.

{refitted}

The same with two corrections of predicted task times of convolutions, fitted to the least mean of abs(log(predicted /
measured)): a constant, and a constant with a factor. Means of the sizes of errors, percent. All rows of a chip come from one
network, so "chip out" is also the network left out.

| chip | facts | rows | layers | shipped | constant: fit | layer out | and a factor: fit | layer out | batch out | chip out |
|---|---|---|---|---|---|---|---|---|---|---|"""


def left_out(compared: Sequence[RowComparison], facts: str) -> list[str]:
    """A line for each chip with convolution rows that are compared with the aims."""
    both = {chip: [one for one in simulated_of(compared, chip, (DX, DW)) if not one.row.series] for chip in (B2, FIRST)}
    everywhere = [one for rows in both.values() for one in rows]
    pooled = np.array([(one.prediction.task_us, one.row.duration_us) for one in everywhere]).T
    chips = np.array([one.row.kernel.chip for one in everywhere])
    factors_of = (np.ones(1), np.geomspace(0.6, 1.6, 101))
    lines = []
    for chip, rows in both.items():
        times = pooled[:, chips == chip]
        layers = np.unique([_shape_of(one) for one in rows], return_inverse=True)[1]
        batches = np.array([one.row.kernel["N"] for one in rows])
        everything = np.zeros(len(rows), int)
        cells = [_percent(times[0], times[1])]
        for factors in factors_of:
            cells += [_fit_error(times, everything, factors), _fit_error(times, layers, factors)]
        shown = [f"{cell:.1f}" for cell in cells]
        shown.append(f"{_fit_error(times, batches, factors):.1f}" if len(set(batches)) > 1 else "one batch only")
        constant, factor = _correction(pooled[:, chips != chip], factors)
        shown.append(f"{_percent(np.maximum(factor * times[0] + constant, 0.01), times[1]):.1f}")
        lines.append(f"| {chip} | {facts} | {len(rows)} | {len(set(layers))} | " + " | ".join(shown) + " |")
    return lines


def _shape_of(one: RowComparison) -> str:
    return str([(name, size) for name, size in one.row.kernel.sizes if name not in ("N", "block_dim")])


def _percent(predicted: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> float:
    return float(100 * np.abs(predicted / measured - 1).mean())


def _fit_error(times: np.ndarray[Any, Any], group: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> float:
    """Mean error of rows, each corrected by a fit on the rows of other groups; of one group: by a fit on all."""
    names = np.unique(group)
    corrected = np.empty(times.shape[1])
    for name in names:
        mine = group == name
        constant, factor = _correction(times[:, ~mine if len(names) > 1 else mine], factors)
        corrected[mine] = np.maximum(factor * times[0, mine] + constant, 0.01)
    return _percent(corrected, times[1])


def _correction(times: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Constant in us and factor with the least loss; no time may become negative."""
    constants = np.linspace(-20, 20, 401)[:, None, None]
    total = np.maximum(factors[None, :, None] * times[0] + constants, 0.01)
    loss = np.abs(np.log(total / times[1])).mean(axis=2)
    place = np.unravel_index(int(np.argmin(loss)), loss.shape)
    return float(constants[place[0], 0, 0]), float(factors[place[1]])
