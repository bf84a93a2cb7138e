"""Pages of single layers beside the page of a network or a model: their names, and links to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

__all__ = ["folder_of", "linked", "page_name"]


def folder_of(page: str | Path) -> Path:
    """Return the folder of the layers' pages: "model-layers" beside "model.html"."""
    return Path(page).with_name(f"{Path(page).stem}-layers")


def page_name(layer: str) -> str:
    """Return the file name of a layer's page, without characters that a file system or a link treats specially."""
    return re.sub(r"[^\w.-]", "_", layer) + ".html"


def linked(layer: str, links: Mapping[str, str]) -> str:
    """Return a layer's name as HTML, as a link if it has a page."""
    name = escape(layer)
    return f'<a href="{escape(links[layer])}">{name}</a>' if layer in links else name
