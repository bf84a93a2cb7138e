"""LaTeX of the lessons as MathML, which browsers draw by themselves: no script and no network."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

_CODE = r"(?P<code>```.*?```|`[^`\n]+`)"
_PIECES = re.compile(_CODE + r"|\$\$(?P<block>[^$]+)\$\$|\$(?P<inline>[^$\s](?:[^$]*[^$\s])?)\$", re.DOTALL)


def in_mathml(markdown: str) -> str:
    """Return Markdown with `$...$` and `$$...$$` in MathML; code stays as it is."""
    return _PIECES.sub(_piece, markdown)


def _piece(found: re.Match[str]) -> str:
    if found["code"] is not None:
        return found["code"]
    if found["block"] is not None:
        return f"\n\n<div>{convert(found['block'].strip(), display='block')}</div>\n\n"
    return str(convert(found["inline"]))
