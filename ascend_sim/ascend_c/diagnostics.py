"""Compiler errors as the user reads them: file and line of the user's own code, one line for each error, then the line
of code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from linecache import getline, getlines
from pathlib import Path

from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.headers import is_public
from ascend_sim.ascend_c.names import REFUSED, SIMULATED
from ascend_sim.ascend_c.source import entries, refused_in_judge
from ascend_sim.kernel.inspection import shown_file

_SAID = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>(?:fatal )?error|note): (?P<text>.*)$")
_NAMES = re.compile(r"'(?:[\w:]*::)?(\w+)'")
_ASSERTION = re.compile(r"static assertion failed due to requirement '(.*?)': (.*)")
_SYMBOL = re.compile(r"undefined symbol: (?:_ZN?K?)?(\w+)")
_OF_HEAP = re.compile(r"undefined symbol: _Z(?:n[wa]|d[la]|NK?St|St)")
"""Start of the names of operator new and delete, and of functions of the standard library."""
_HEAP = r"\bnew\b|\bdelete\b|\bstd::(?!is_|numeric_limits)\w+"
_NO_HEAP = "a kernel has no heap; new, delete and containers of the standard library are not possible"
_MISSING = re.compile(r"'([\w./]+)' file not found")
_DELETED = re.compile(r"call to deleted (?:member )?function '(\w+)'")
"""The error of a form of a call that the headers name and do not simulate (`= delete`)."""
_FLAG = re.compile(r" \[-W[\w,+-]*\]$")
"""End of the error of a warning's kind, which names the compiler's flag for it."""
_CANDIDATE = re.compile(r"candidate .*?(?:ignored|not viable): (.*)")
_MASK = re.compile(r"'(?:asim::)?\w*Mask' \(aka 'MaskOf<[^']*>'\)")
"""Type of a mask in the reason of a form that does not fit (vector.h)."""
_TOO_MANY = "Site'"
"""Part of the reason of a form that fits but for one argument too many: there stands the line (tensor.h, ASIM_SITE)."""
_OVERLOADED = re.compile(r"no overload of '(\w+)' matching")
"""Reason of the error of an entry that is one of several functions of its name."""
_OF_PROJECT = re.compile(r"(?:ORIG_)?DTYPE_\w+|FORMAT_\w+")
"""Macros by which the build of an operator's project names the types and formats of its tensors."""
_OF_API = re.compile(r"^(?:use of undeclared identifier|unknown type name|no template named) '[A-Z]")
"""Error of an unknown name that begins as the API's do."""
_REFUSAL = " is not simulated ("
_IN_STUB = ("templates must have C++ linkage", "templates cannot be declared inside of a local class")
"""Errors in the text behind the user's file (function.py, _stub) where a function of the file has no end."""
_UNCLOSED = ": error: expected '}'"
_UNENDED = ("error: unterminated", "missing terminating")
"""Parts of the errors of a comment, a directive or a constant without an end, which swallows the text behind it."""
_BEGINNING = "a kernel's file begins with"
"""Part of the error of a file that lacks one of its first two lines: it makes all others."""
_MOST = 10
"""Most errors that are shown."""
_WIDE = 400
"""Most letters of a line that are shown."""
_LONG = 60
"""Letters of a requirement of our headers from which it is left out: types of a whole library stand in it."""
_UNKNOWN = ("undeclared", "no member named", "no template named", "unknown type name", "does not refer to a", "no type named")


def shown_errors(said: str, ours: Sequence[Path], sources: Sequence[Path] = ()) -> str:
    """Return the errors in a compiler's output as text, each at its innermost line outside the folders `ours`.

    Errors without such a line are shown only if there are no others; that of an entry that shares its name is at its line in
    `sources`. A line has one error, for its first makes others; at most 10 are shown. Errors that make others elsewhere (a
    missing first line, a comment without an end, a call that is not simulated, a missing brace) stand alone. In a judge, a file
    that is not C++ is the only error. If no error can be read, the last line of the output is given.
    """
    found: dict[tuple[str, str], str] = {}
    others: dict[str, None] = {}
    groups: list[list[re.Match[str]]] = []
    for line in said.splitlines():
        match = _SAID.match(line)
        if match is not None and match["kind"] != "note":
            groups.append([match])
        elif match is not None and groups:
            groups[-1].append(match)
    for group in groups:
        named = [one["file"] for one in group if not lies_in(one["file"], ours)]
        if refused := next(filter(None, map(refused_in_judge, named)), ""):
            return f"{shown_file(str(sources[0]))}: {refused}"  # its text could be an expected output
        place = next((one for one in group if not lies_in(one["file"], ours)), None)
        text = _text(group[0]["text"])
        if text.startswith("no matching"):
            text += _reason(group[1:])
        if place is None:
            others.setdefault(_shared_name(text, sources) or f"the kernel cannot be compiled: {text}")
            continue
        text = _beginning(text, place["file"]) or text
        code = getline(place["file"], int(place["line"])).strip()
        where = f"{shown_file(place['file'])}:{place['line']}"
        told_of = f"{where}: error: {text[:_WIDE]}" + (f"\n    {code[:_WIDE]}" if code else "")
        if _REFUSAL in text:
            found[place["file"], place["line"]] = told_of
        found.setdefault((place["file"], place["line"]), told_of)
    causes = (
        [one for one in found.values() if cause in one] for cause in (_BEGINNING, *_UNENDED, _REFUSAL, _UNCLOSED, "")
    )  # each makes further errors of those behind it
    shown_errors = next((some for some in causes if some), [*others])
    if shown_errors and _BEGINNING in shown_errors[0]:
        return shown_errors[0]
    listed = shown_errors[:_MOST]
    if not listed:
        lines = said.strip().splitlines()
        return f"the compiler ended without an error that can be read: {lines[-1] if lines else 'nothing said'}"
    if len(shown_errors) > _MOST:
        listed.append(f"and {len(shown_errors) - _MOST} further errors")
    return "\n".join(listed)


def undefined(said: str, sources: Sequence[Path]) -> CompileError | None:
    """Return the error for a function without a definition that a loader names, at its first line in `sources`; for new, delete
    and the standard library it says that a kernel has no heap. None for other errors, and for a name in none of `sources`.
    """
    found = _SYMBOL.search(said)
    name = rest = found[1] if found is not None else ""
    of_heap = _OF_HEAP.search(said) is not None
    while (length := re.match(r"\d+", rest)) is not None:  # each name stands behind its length
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    for source in sources if name else ():
        for number, line in enumerate(source.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if re.search(_HEAP if of_heap else rf"\b{re.escape(name)}\b", line):
                why = _NO_HEAP if of_heap else f"{name} is declared and has no definition"
                return CompileError(f"{shown_file(str(source))}:{number}: error: {why}\n    {line.strip()}")
    return None


def _shared_name(text: str, sources: Sequence[Path]) -> str:
    """Return the error of an entry that is one of several functions of its name; "" for any other error."""
    found = _OVERLOADED.search(text)
    name = found[1] if found is not None else ""
    for source in sources if name else ():
        for entry in entries(source):
            if entry.name == name:
                why = f"several functions are named {name}, as in the C library; give the kernel another name"
                return f"{shown_file(str(source))}:{entry.line}: error: {why}\n    {getline(str(source), entry.line).strip()}"
    return ""


def lies_in(file: str | Path, folders: Sequence[Path]) -> bool:
    """Return True if a file lies in one of `folders`, which have no links; ".." and links in its own name are followed."""
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in folders)


def _beginning(text: str, file: str) -> str:
    """Return the error text that replaces the compiler's error `text` if that has an unknown name which a missing first line of
    the source `file` would declare; "" otherwise.

    That line is an #include (the file has none) for `__global__` or `__aicore__`, `using namespace AscendC;` for a name of the
    API.
    """
    unknown = {*_NAMES.findall(text)} if any(word in text for word in _UNKNOWN) and "no member" not in text else set()
    lines = [line.strip() for line in getlines(file)]
    if unknown & {"__global__", "__aicore__"} and not any(line.startswith("#include") for line in lines):
        return f'{min(unknown)} is unknown; {_BEGINNING} #include "kernel_operator.h"'
    if unknown & {name for names in SIMULATED.values() for name in names} and "using namespace AscendC;" not in lines:
        return f"{min(unknown)} is unknown; {_BEGINNING} using namespace AscendC; or write AscendC::{min(unknown)}"
    return ""


def _reason(notes: Sequence[re.Match[str]]) -> str:
    """Return, in brackets, why the first form of a call with as many arguments does not fit, else how many a longer form takes.

    Return "" if no note says it, or one argument is too many for a form.
    """
    reasons = [one[1] for note in notes if (one := _CANDIDATE.match(note["text"])) is not None]
    fits = any(_TOO_MANY in one for one in reasons)
    found = next((one for one in reasons if not fits and "requires" not in one), "")
    if not found and not fits:
        found = next((one for one in reasons if "at least" in one), "")
    found = _MASK.sub("a mask, 'uint64_t[]' or a number of elements,", found)
    return f" ({found.replace('asim::', '').replace('_Float16', 'half').replace('__bf16', 'bfloat16_t')})" if found else ""


def _text(said: str) -> str:
    """Return an error's text in the user's terms, without our namespace and the compiler's flags; a sentence for a call that is
    not simulated, a macro of the build, assembly, tiling data without a structure, and a function without an end.
    """
    if "'asim_tiling_default'" in said:
        return (
            "GET_TILING_DATA: of which structure? REGISTER_TILING_DEFAULT(Structure) in the file says it; in an operator's "
            "project the build does, by the host's BEGIN_TILING_DATA_DEF"
        )
    if "inline assembly is disabled" in said:
        return "assembly is not simulated; use calls of the API"
    if said in _IN_STUB:
        return "expected '}': a function, or a block in it, has no end"
    assertion = _ASSERTION.match(said.replace("asim::", ""))
    if assertion is not None:
        requirement, why = assertion.groups()
        return why if len(requirement) > _LONG else f"{why} ({requirement})"
    deleted = _DELETED.match(said)
    if deleted is not None:
        return f"{deleted[1]}{_REFUSAL}with these arguments); docs/ascend-c.md lists what is"
    missing = _MISSING.match(said)
    if missing is not None and is_public(missing[1]):
        return f"{missing[1]}{_REFUSAL}no call of this header is); docs/ascend-c.md lists what is"
    if any(word in said for word in _UNKNOWN):
        for name in _NAMES.findall(said):
            if name in REFUSED:
                return f"{name}{_REFUSAL}{REFUSED[name]}); docs/ascend-c.md lists what is"
            if _OF_PROJECT.match(name):
                return f"{name} is unknown: an operator's project defines it; give --define {name}=VALUE (defines= in Python)"
        if _OF_API.match(said):
            return f"{said}; docs/ascend-c.md lists the API's names that are known"
    return _FLAG.sub("", said.replace("asim::", ""))
