"""Pictures as PNG files, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError


def png_figure(path: str | Path) -> Any:
    """matplotlib's class of figures, for a picture at `path`; SimError where it is missing or the path is not a .png."""
    if Path(path).suffix.lower() != ".png":
        raise SimError(f"--plot {path}: give a file that ends in .png")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SimError("--plot needs matplotlib, which is not installed: pip install matplotlib") from None
    return Figure
