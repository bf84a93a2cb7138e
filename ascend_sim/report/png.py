"""Pictures as PNG files, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.report.files import atomic_write


def check_png(path: str | Path, option: str = "--plot") -> None:
    """Raise SimError if no PNG can be written at `path`: another ending, no folder, no matplotlib; `option` is named in the
    message.
    """
    if Path(path).suffix.lower() != ".png":
        raise SimError(f"{option} {path}: give a file that ends in .png")
    if not Path(path).parent.is_dir():
        raise SimError(f"{option} {path}: there is no folder {Path(path).parent}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise SimError(f"{option} needs matplotlib, which is not installed: pip install matplotlib") from None


def png_figure(path: str | Path, width: float, height: float) -> Any:
    """Return an empty figure of matplotlib, sizes in inches, for a picture at `path`. Raises SimError as `check_png`."""
    check_png(path)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_png(figure: Any, path: str | Path) -> None:
    """Write a figure as PNG, 120 dots per inch. Raises SimError where the file cannot be written."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
