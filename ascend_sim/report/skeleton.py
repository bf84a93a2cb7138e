"""Skeleton of pages with figures: a frame with script, style and figures inside, and the figures by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import import_module, resources
from typing import Any

from ascend_sim.errors import SimError


def check_plotly() -> None:
    """Raise SimError, which names the package to install, if Plotly is missing."""
    try:
        import_module("plotly")
    except ImportError:
        raise SimError("--html needs Plotly, which is not installed: pip install plotly") from None


class Figures:
    """Collection of a page's figures, each with a number; `add` returns the HTML element in which one is drawn."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, figure: Any, identity: str, name: str, *, time: str = "") -> str:
        """Add a Plotly figure and return its HTML element, whose id is `identity`; screen readers say `name`.

        Figures of one `time` always show the same cycles.
        """
        self._texts.append(figure.to_json())
        follows = f' data-time="{time}"' if time else ""
        return (
            f'<div class="figure" role="figure" aria-label="{escape(name)}" id="{identity}" '
            f'data-figure="{len(self._texts) - 1}"{follows} style="height:{figure.layout.height}px"></div>'
        )

    def __len__(self) -> int:
        return len(self._texts)

    def text(self) -> str:
        """Return all figures as a JSON list that is safe inside a page's script."""
        return in_script(f"[{','.join(self._texts)}]")


def framed(title: str, parts: Sequence[str], figures: Figures, blocks: Any = None) -> str:
    """Return the text of a whole HTML page made of `parts`, which loads nothing from elsewhere. With figures Plotly must be
    installed.

    `blocks` is what `timeline.js` draws (`packed.PackedBlocks`, or a list of several runs'), for a page that has elements of
    class "blocks".
    """
    scripts, drawing = [], ""
    if blocks is not None:
        data = in_script(json.dumps(blocks, separators=(",", ":")))
        scripts = [f'<script type="application/json" id="blocks">{data}</script>', f"<script>\n{_own('timeline.js')}</script>"]
    if figures:
        from plotly.offline import get_plotlyjs

        drawing = f"<script>{get_plotlyjs()}</script>\n"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>\n{_own('page.css')}</style>",
            f"{drawing}</head>\n<body>\n<main>",
            *(part for part in parts if part),
            f'</main>\n<script type="application/json" id="figures">{figures.text()}</script>',
            *scripts,
            f"<script>\n{_own('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def in_script(text: str) -> str:
    """Return JSON that is safe in a page's script: "<" is escaped, so that no name can end the script or begin a comment."""
    return text.replace("<", "\\u003c")


def _own(name: str) -> str:
    return resources.files("ascend_sim.report").joinpath(name).read_text(encoding="utf-8")
