"""Pages of single layers beside the page of a network or a model: their names, and links to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path


def folder_of(page: str | Path) -> Path:
    """Return the path of the folder for the pages of layers: "model-layers" beside "model.html"."""
    return Path(page).with_name(f"{Path(page).stem}-layers")


def page_name(layer: str) -> str:
    """Return the file name of a layer's page: its name with "_" for all but letters, digits, "_", "." and "-", and ".html"."""
    return re.sub(r"[^\w.-]", "_", layer) + ".html"


def linked(layer: str, links: Mapping[str, str]) -> str:
    """Return a layer's name as HTML: a link if `links` has its page, else plain text."""
    name = escape(layer)
    return f'<a href="{escape(links[layer])}">{name}</a>' if layer in links else name
