"""Rows left out of a fit: how much of the agreement is the fitting's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accuracy_parts.rows import B2, DW, DX, FIRST, simulated_of
from ascend_sim.studies.validate.run import RowComparison

LEFT_OUT = """## Rows left out of a fit

How much of the agreement is the fitting's? For the kernels below every cost that they fitted is fitted again without a
layer (both gradients, all batches; of whole calls and vector kernels one shape), which is then predicted with it: "as
shipped" has costs that saw the row, "left out" has none that did, each within half and twice what ships. Told nothing; the
intervals of the [next section](#how-sure-a-time-is) are as wide as the larger of both asks for. Only costs are left out: of
operators under "in-sample all the same" a rule was chosen with these very rows in view ("structure"
[above](#task-time-by-chip-and-operator)), so that nothing here says how they do on rows that it has not seen. Tilings and
kernels were written with all of these rows in view, so this is a lower bound of the error on a new network. "left out" may be
the less of both: it is fitted to the other rows of its kernels alone, and what ships to other sources as well. Products
(`matmul.csv`) are not fitted again, for some take minutes: costs saw the series that say so above.

{refitted}

The same with two corrections of the predicted task times of convolutions, fitted to the least mean of abs(log(predicted /
measured)): a constant, which is what the fitted launch and start-up costs add to every launch, and a constant with a
factor, which stands for all rates together. Means of the sizes of errors, percent; the predictions that are corrected are
those that ship, whose costs saw all rows. All rows of a chip come from one network (AlexNet on the 910B2, ResNet-50 on the
first 910), so "chip out" is also the network left out. `tools/calibrate.py` does the same with any cost of a chip file and
any rows. With two layers (910B2) a fit on one says little about the other: the costs there are as good as these two layers,
no better.

| chip | told | rows | layers | shipped | constant: fit | layer out | and a factor: fit | layer out | batch out | chip out |
|---|---|---|---|---|---|---|---|---|---|---|"""


def left_out(compared: Sequence[RowComparison], told: str) -> list[str]:
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
        lines.append(f"| {chip} | {told} | {len(rows)} | {len(set(layers))} | " + " | ".join(shown) + " |")
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
