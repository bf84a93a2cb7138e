"""The picture of the page: predicted against measured times of all measured kernels, as configs/measurements/errors.yaml has
them, a panel for each architecture.
"""

from __future__ import annotations

import hashlib
import math
from importlib import resources
from pathlib import Path

from matplotlib.figure import Figure

from ascend_sim.report.certainty import ErrorKind, kinds
from ascend_sim.report.files import atomic_write

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "accuracy.png"
TEXT = """![Predicted against measured times of kernels, a panel for each architecture](images/accuracy.png)

Distinct kernels, sizes only, as shipped, repeats averaged: dav-1001 is the first 910, dav-2201 are 910B and 910_93,
dav-3510 is the 950."""
"""Markdown of the picture on the page."""
WITHIN = 1.25


def points(kind: ErrorKind) -> list[tuple[float, float]]:
    """(measured us, predicted us) of a kind's kernels."""
    return [(one.us * math.exp(one.error), one.us) for found in kind.errors.values() for one in found]


def digest() -> str:
    """Return a digest of the rows that the picture shows; it is written into the picture, so that a stale one is found."""
    rows = resources.files("ascend_sim.configs").joinpath("measurements/errors.yaml").read_bytes()
    return hashlib.sha256(rows).hexdigest()[:16]


def draw(path: Path = PICTURE) -> None:
    """Write the picture as a PNG."""
    found = kinds()
    architectures = sorted({kind.arch for kind in found})
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, len(architectures), sharex=True, sharey=True, squeeze=False)[0]
    colours: dict[str, str] = {}
    for panel, arch in zip(panels, architectures, strict=True):
        here = [kind for kind in found if kind.arch == arch]
        for kind in here:
            name = "MatMul" if "MatMul" in kind.op_types else kind.op_types[0]
            label = f"{name}, grouped" if kind.grouped else name
            colour = colours.setdefault(label, f"C{len(colours) % 10}")
            measured, predicted = zip(*points(kind), strict=True)
            panel.scatter(measured, predicted, s=18, alpha=0.75, linewidths=0, color=colour, label=label)
        count = sum(len(points(kind)) for kind in here)
        panel.set(title=f"{arch}: {count} kernels", xscale="log", yscale="log", xlabel="measured us")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("predicted us")
    times = [time for kind in found for pair in points(kind) for time in pair]
    ends = min(times) / 1.4, max(times) * 1.4
    for panel in panels:
        panel.plot(ends, ends, color="black", linewidth=0.8)
        for factor in (1 / WITHIN, WITHIN):
            panel.plot(ends, [end * factor for end in ends], color="grey", linewidth=0.6, linestyle="--")
        panel.legend(fontsize="x-small", loc="upper left")
    figure.suptitle(f"Task time, predicted against measured (dashed: a factor of {WITHIN:g})", fontsize="medium")
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=100, metadata={"Source": f"errors.yaml {digest()}"})
