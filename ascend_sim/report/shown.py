"""Base class of results that `print` shows as text and a notebook as HTML, both drawn by one function.

class Sweep(ShownResult):
    _drawn = "ascend_sim.studies.sweep.pages:render"       # render(result, console)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ascend_sim.report.columns import PIPE_WIDTH

if TYPE_CHECKING:
    from rich.console import Console


class ShownResult:
    """Base of results that `print` shows as text and a notebook as HTML.

    The function named in `_drawn`, "module:function", draws the result on a console, with the keywords `_options`; a notebook
    also shows, below, what the function named in `_more` draws. Functions are named, not imported, because a page imports the
    results of its study.
    """

    _drawn: ClassVar[str] = ""
    _more: ClassVar[str] = ""
    _options: ClassVar[Mapping[str, Any]] = {}
    _width: ClassVar[int] = PIPE_WIDTH

    def _draw(self, console: Console) -> None:
        _function(self._drawn)(self, console, **self._options)

    def _draw_all(self, console: Console) -> None:
        self._draw(console)
        if self._more:
            _function(self._more)(self, console)

    def __str__(self) -> str:
        from ascend_sim.report.printed import printed

        return printed(self._draw, self._width)

    def _repr_html_(self) -> str:
        """Return the drawn result as HTML, for notebooks."""
        from ascend_sim.report.printed import printed_html

        return printed_html(self._draw_all)


class LayersShown(ShownResult):
    """Base of results with the times of a network's or a model's layers, which `to_dict()` has under "layers"."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; each result implements it."""
        raise NotImplementedError


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
