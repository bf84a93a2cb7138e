"""Pictures as PNG files, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError


def png_figure(path: str | Path) -> Any:
    """Return matplotlib's class Figure for a picture at `path`.

    Raises SimError without matplotlib or for a path other than .png.
    """
    if Path(path).suffix.lower() != ".png":
        raise SimError(f"--plot {path}: give a file that ends in .png")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SimError("--plot needs matplotlib, which is not installed: pip install matplotlib") from None
    return Figure
