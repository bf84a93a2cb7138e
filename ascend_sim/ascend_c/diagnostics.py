"""Compiler errors as the user reads them: file and line of the user's own code, one line for each error, then the line
of code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from linecache import getline
from pathlib import Path

from ascend_sim.ascend_c.errors import shown
from ascend_sim.ascend_c.headers import is_public
from ascend_sim.ascend_c.names import REFUSED

_SAID = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>(?:fatal )?error|note): (?P<text>.*)$")
_NAMES = re.compile(r"'(?:[\w:]*::)?(\w+)'")
_MISSING = re.compile(r"'([\w./]+)' file not found")
_REFUSAL = " is not simulated ("
_MOST = 10
"""Most errors that are shown."""
_UNKNOWN = (
    "undeclared",
    "no member named",
    "no template named",
    "unknown type name",
    "does not refer to a",
    "no type named",
)


def told(said: str, ours: Sequence[Path]) -> str:
    """Return the errors in a compiler's output as text, each at its innermost line outside the folders `ours`.

    Errors without such a line are shown only if there are no others. At most 10 are shown.
    """
    found: dict[str, None] = {}
    others: dict[str, None] = {}
    groups: list[list[re.Match[str]]] = []
    for line in said.splitlines():
        match = _SAID.match(line)
        if match is not None and match["kind"] != "note":
            groups.append([match])
        elif match is not None and groups:
            groups[-1].append(match)
    for group in groups:
        place = next((one for one in group if not _is_ours(one["file"], ours)), None)
        text = _text(group[0]["text"])
        if place is None:
            others.setdefault(f"the kernel cannot be compiled: {text}")
            continue
        code = getline(place["file"], int(place["line"])).strip()
        where = f"{shown(place['file'])}:{place['line']}"
        found.setdefault(f"{where}: error: {text}" + (f"\n    {code}" if code else ""))
    found = {one: None for one in found if _REFUSAL in one} or found  # a name that is missing makes further errors
    found = found or others  # an error of the user's makes further ones where the entry is called
    listed = list(found)[:_MOST]
    if not listed:
        lines = said.strip().splitlines()
        return f"the compiler ended without an error that can be read: {lines[-1] if lines else 'nothing said'}"
    if len(found) > _MOST:
        listed.append(f"and {len(found) - _MOST} further errors")
    return "\n".join(listed)


def _is_ours(file: str, ours: Sequence[Path]) -> bool:
    path = Path(file)
    return any(path.is_relative_to(folder) for folder in ours)


def _text(said: str) -> str:
    """Return the text of an error; for a call of the API that is not simulated, a sentence that says so."""
    if "'asim_tiling_default'" in said:
        return (
            "GET_TILING_DATA: of which structure? REGISTER_TILING_DEFAULT(Structure) in the file says it; in an operator's "
            "project the build does, by the host's BEGIN_TILING_DATA_DEF"
        )
    missing = _MISSING.match(said)
    if missing is not None and is_public(missing[1]):
        return f"{missing[1]}{_REFUSAL}no call of this header is); docs/ascend-c.md lists what is"
    if any(word in said for word in _UNKNOWN):
        for name in _NAMES.findall(said):
            if name in REFUSED:
                return f"{name}{_REFUSAL}{REFUSED[name]}); docs/ascend-c.md lists what is"
    return said.replace("asim::", "")
