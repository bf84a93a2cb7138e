"""The entries of a C++ file: its kernel functions and the names of their parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from os.path import normpath
from pathlib import Path

from ascend_sim.ascend_c.confinement import JUDGED
from ascend_sim.errors import SimError, why_no_file
from ascend_sim.frozen import frozen
from ascend_sim.kernel.inspection import shown_file

SUFFIXES = (".cpp", ".cc", ".cxx", ".asc")
"""Suffixes of files that hold C++ kernels."""
OF_CPP = (*SUFFIXES, ".h", ".hh", ".hpp", ".inc")
"""Suffixes of the files that a judged kernel may include and name: expected outputs are in others."""
_ENTRY = re.compile(
    r"(?P<before>(?:\[\[[^\]]*\]\]\s*)*)\b__global__\b"
    r"(?P<between>(?:[^;{}()]|\[\[[^\]]*\]\]|\b__\w+__\s*\((?:[^()]|\([^()]*\))*\))*?)"
    r"\bvoid\s+(?:__\w+__\s+)*(?P<name>\w+)\s*\("
)
_CORES = re.compile(r"\b(?:__(?P<one>vector|cube)__|(?:__mix__|bisheng::core_ratio)\s*\((?P<mix>[^()]*)\))")
"""Cores of an entry, in its declaration: `__vector__`, `__cube__`, or `__mix__(cube cores, vector cores)`, which may also be
written `[[bisheng::core_ratio(cube cores, vector cores)]]`.
"""
_KINDS = {"vector": "AIV", "cube": "AIC", "0,1": "AIV", "1,0": "AIC", "1,1": "MIX_1_1", "1,2": "MIX"}
_TEMPLATE = re.compile(r"\btemplate\s*<[^;{}]*>[\w\s]*$")
_SCOPE = re.compile(r"\bnamespace\b\s*(?P<name>[\w:]*)\s*\{|[{}]")
_LONGEST_TEMPLATE = 2000
"""Most letters before an entry among which its template's parameters are looked for."""
_NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<value>(?:\\\n|[^\n])*\b__global__\b(?:\\\n|[^\n])*)", re.MULTILINE
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<](?P<name>[^">\n]+)[">]', re.MULTILINE)
_BETWEEN = "\n\f\n"
"""Separator of the texts of files; none of them has a form feed."""


@frozen
class KernelEntry:
    """One kernel function of a file: its name, its line and the names of its parameters."""

    name: str
    line: int
    parameters: tuple[str, ...]
    scope: str = ""
    """Namespaces around it, each with "::" behind."""
    cores: str = ""
    """Kind of cores in its declaration: "AIV", "AIC", "MIX", "MIX_1_1", "?" for others; "" without one."""
    is_template: bool = False


def entries(path: Path, include: Sequence[Path] = ()) -> list[KernelEntry]:
    """Return the kernels defined in a file (`__global__ ... void`), in order; declarations do not count.

    `__global__` may stand in a macro of the file or of a header of the user's that it includes, from its folder or from a
    folder of `include`. Raises SimError for a missing or unreadable file.
    """
    plain = _plain(path, include)
    listed: list[KernelEntry] = []
    for match in _ENTRY.finditer(plain):
        end = _closing(plain, match.end())
        behind = plain[end + 1 :].lstrip()
        if behind.startswith("{"):  # a declaration alone ends with a semicolon
            line = plain.count("\n", 0, match.start("name")) + 1
            before, parameters = plain[: match.start()], _names(plain[match.end() : end])
            is_template = _TEMPLATE.search(before, max(0, len(before) - _LONGEST_TEMPLATE)) is not None
            listed.append(
                KernelEntry(
                    match["name"], line, parameters, _scope(before), _cores(match["before"] + match["between"]), is_template
                )
            )
    return listed


def _scope(text: str) -> str:
    """Return the named namespaces that are open at the end of a text, each with "::" behind."""
    opened: list[str] = []
    for match in _SCOPE.finditer(text):
        if match[0] != "}":
            opened.append(match["name"] or "")
        elif opened:
            opened.pop()
    return "".join(f"{name}::" for name in opened if name)


def _cores(declared: str) -> str:
    """Return the kind of cores that the words around `__global__` name (`KernelEntry.cores`)."""
    found = _CORES.search(declared)
    return "" if found is None else _KINDS.get(found["one"] or re.sub(r"\s", "", found["mix"]), "?")


def refused_in_judge(file: str | Path) -> str:
    """Return the error of a file that a judged kernel includes or names (`#line`), though it is not C++; "" for others."""
    if JUDGED not in os.environ or (path := Path(file).resolve()).suffix in OF_CPP:
        return ""
    return f"error: a judged kernel brings in {path.name}; allowed are {', '.join(OF_CPP)}"


def choose(path: Path, name: str | None, include: Sequence[Path] = ()) -> tuple[str, KernelEntry]:
    """Return (C++ name, entry) of the kernel `name`, or for None of the file's only kernel; `include` as in `entries`.

    The name of a template has its arguments: scale<half>. Raises SimError, with the names of all, if none fits or there are
    several, and for a template without arguments.
    """
    there = entries(path, include)
    if not there:
        begins = 'no kernel; one begins with extern "C" __global__ __aicore__ void NAME('
        raise SimError(f"{shown_file(str(path))}: {begins}")
    listed = ", ".join(dict.fromkeys(one.name for one in there))
    if name is None:
        if len({one.name for one in there}) > 1:
            raise SimError(f"{shown_file(str(path))}: several kernels; give one of {listed}")
        name = there[0].name
    for one in there:
        if one.is_template and one.name == name:
            where = f"{shown_file(str(path))}:{one.line}"
            raise SimError(f"{where}: kernel {name} is a template; give its arguments, as in {name}<half>")
        scope, _, plain = name.partition("<")[0].strip().rpartition("::")
        if one.name == plain:
            return name if scope else one.scope + name, one
    raise SimError(f"{shown_file(str(path))}: no kernel {name!r}; give one of {listed}")


def _plain(path: Path, include: Sequence[Path]) -> str:
    """Return a file's text with blanks for comments, strings and characters, and with macros that hold `__global__` replaced by
    what they stand for.

    Every line stays where it is. Raises SimError for a missing or unreadable file.
    """
    if not path.is_file():
        raise SimError(f"{path}: {why_no_file(path)}; give a C++ file with a kernel")
    try:
        texts = included(path.absolute(), include)
    except OSError as error:
        raise SimError(f"{path}: cannot be read: {error.strerror or error}") from None
    plain = _BETWEEN.join(_NOISE.sub(_blank, text) for text in texts.values())
    while (macro := _MACRO.search(plain)) is not None:
        name, value = macro["name"], macro["value"].replace("\\\n", " ")
        plain = plain[: macro.start()] + _blank(macro) + plain[macro.end() :]
        if value.startswith("("):
            plain = _with_calls(plain, name, value)
        else:
            plain = re.sub(rf"\b{name}\b", value.replace("\\", r"\\"), plain)
    return plain.rpartition(_BETWEEN)[2]


def _with_calls(text: str, name: str, macro: str) -> str:
    """Return a text with each call of the macro `name` replaced by what it stands for and as many ends of lines as it had.

    `macro` is the definition behind the name: "(PARAMETERS) BODY".
    """
    end = _closing(macro, 1)
    parameters, body = [one.strip() for one in macro[1:end].split(",")], macro[end + 1 :]
    pieces, begin = [], 0
    for call in re.finditer(rf"(?<!define )\b{name}\s*\(", text):  # `#else` may define it once more
        end = _closing(text, call.end())
        values = dict(zip(parameters, map(str.strip, _parts(text[call.end() : end])), strict=False))
        said = "".join(values.get(word, word) for word in re.split(r"(\w+)", body))
        pieces += [text[begin : call.start()], re.sub(r"\s*##\s*", "", said), "\n" * text.count("\n", call.start(), end)]
        begin = end + 1
    return "".join([*pieces, text[begin:]])


def included(path: Path, include: Sequence[Path]) -> dict[Path, str]:
    """Return the texts of the headers that a file includes from its folder or `include`, of those that they include, and last
    its own, by their paths. Raises OSError for a file that cannot be read.
    """
    texts: dict[Path, str] = {}
    _add_included(path, include, texts)
    return texts


def _add_included(path: Path, include: Sequence[Path], texts: dict[Path, str]) -> None:
    """Add a file's text to `texts`, behind those of the headers that it includes (`included`) and that are not there yet."""
    text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\f", " ")
    texts[path] = ""  # a header that includes itself ends here
    for match in _INCLUDE.finditer(text):
        there = [Path(normpath(folder / match["name"])) for folder in (path.parent, *include)]
        for header in [one for one in there if one.is_file()][:1]:
            if header not in texts:
                _add_included(header, include, texts)
    del texts[path]
    texts[path] = text


def _blank(match: re.Match[str]) -> str:
    """Return spaces and ends of lines in place of what was found."""
    return re.sub(r"[^\n]", " ", match[0])


def _closing(text: str, begin: int) -> int:
    """Return the index of the parenthesis that closes the one opened just before `begin`; the text's length without one."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return len(text)


def _names(parameters: str) -> tuple[str, ...]:
    """Return the name of each parameter, the last word of its declaration; "argumentN" for one without a name, "NAME_N" for one
    that repeats a name, where N is its number from 0.
    """
    if parameters.strip() in ("", "void"):
        return ()
    found: list[str] = []
    for number, one in enumerate(_parts(parameters)):
        words = re.findall(r"\w+", one.partition("=")[0])
        name = words[-1] if len(words) > 1 else f"argument{number}"
        found.append(name if name not in found else f"{name}_{number}")
    return tuple(found)


def _parts(text: str) -> Sequence[str]:
    """Return the pieces of a text between commas that stand in no () and no <>."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]
