"""The C++ compiler of kernels, and a cache of compiled libraries by their content.

The compiler is clang++ if it is new enough, else that of the package `ziglang` (the extra `ascendc`), else a clang++-NN. A
library is found again by the compiler, flags, this package's headers and the contents of all user files from which it was made.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from ascend_sim.ascend_c.confinement import JUDGED
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.headers import FORWARD, PUBLIC, write_headers
from ascend_sim.ascend_c.source import OF_CPP, included, refused_in_judge
from ascend_sim.ascend_c.words import header
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.shipped import cache_folder

HEADERS = Path(__file__).with_name("include")
OLDEST_CLANG = 17
"""Oldest usable major version of clang: the first that computes with bfloat16 (__bf16) on x86-64."""
FLAGS = (
    "-std=c++17",
    "-O1",
    "-Xclang",
    "-O1",
    "-g0",
    "-fPIC",
    "-Werror=invalid-pp-token",
    "-Wno-missing-template-arg-list-after-template-kw",
    "-fno-sanitize=all",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-finite-loops",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-gnu-inline-asm",
    "-fno-spell-checking",
    "-fno-color-diagnostics",
    "-fno-caret-diagnostics",
    "-ftemplate-backtrace-limit=0",
    "-ferror-limit=50",
    "-D__CCE_AICORE__=220",
    "-D__NPU_ARCH__=2201",
)
"""Flags for compiling kernels; the macros name the machine, as the vendor's compiler does. zig makes -O2 of -O1, and debugging
information of its own, unless the flags of clang itself say otherwise. Assembly could bring files of the machine into a
library, also assembly from macros of the C library."""
CORE_FLAGS = {"AIC": ("-D__DAV_C220_CUBE__=1", "-D__DAV_CUBE__=1"), "AIV": ("-D__DAV_C220_VEC__=1", "-D__DAV_VEC__=1")}
"""Kind of core -> macros that name it for the kernel."""
ANY_PROCESSOR = "-mcpu=baseline"
"""Flag of zig, which else compiles for this processor. An instruction of AVX512_BF16 makes subnormals 0, and a cached library
would run on no older processor."""

_OF_SYSTEM = tuple(Path(one) for one in ("/usr/include", "/usr/lib", "/usr/local/include"))
"""Folders of a system's headers."""


@frozen
class Compiler:
    """The commands that compile and link, a text that identifies the compiler in cache keys, and folders of its headers."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    identity: str
    headers: tuple[Path, ...]


@cache
def compiler() -> Compiler:
    """Return the compiler of this machine: clang++ if new enough, else zig's, else the newest clang++-NN as Debian names it.

    Raises SimError, with the extra to install, without one. Cached.
    """
    found = shutil.which("clang++")
    if found and _version(found) >= OLDEST_CLANG:
        return _clang(found)
    spec = importlib.util.find_spec("ziglang")
    zig = Path(spec.origin).with_name("zig") if spec is not None and spec.origin else None
    if zig is not None and zig.is_file():
        link = (str(zig), "ld.lld", "-shared", "--no-dependent-libraries")
        return Compiler((str(zig), "c++", ANY_PROCESSOR), link, _identity(str(zig)), (zig.parent,))
    named = [one for folder in os.get_exec_path() for one in Path(folder).glob("clang++-*") if one.name[8:].isdigit()]
    newest = max(named, key=lambda one: int(one.name[8:]), default=None)
    if newest is not None and int(newest.name[8:]) >= OLDEST_CLANG:
        return _clang(str(newest))
    old = f" (the clang++ of this machine is older than {OLDEST_CLANG})" if found else ""
    extra = "the extra ascendc brings one (pip install '.[ascendc]', which is pip install ziglang)"
    raise SimError(f"Ascend C kernels need a compiler{old}: {extra}, or install clang++")


def _clang(command: str) -> Compiler:
    return Compiler((command,), (command, "-shared", "-nostdlib"), _identity(command), _OF_SYSTEM)


def _version(command: str) -> int:
    try:
        said = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return 0
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0


def _identity(command: str) -> str:
    """Return a text of a compiler's path, size and time, which changes when the compiler does."""
    there = os.stat(command)
    return f"{command} {there.st_size} {there.st_mtime_ns}"


def library(
    sources: Sequence[Path], stub: str, include: Sequence[Path] = (), defines: Sequence[str] = (), core: str = "AIV"
) -> Path:
    """Return the path of the shared library of a kernel for a kind of core, from the cache or compiled now.

    `stub`, the C++ of the entry, is appended to the first source; the other sources are compiled beside it. `defines` are
    macros, NAME or NAME=VALUE. Raises CompileError with the compiler's errors, SimError without a compiler or a folder for the
    cache.
    """
    chosen = compiler()
    ours = [*FLAGS, *CORE_FLAGS[core], f"-I{HEADERS}"]
    asked = [*map(str, include), "", *defines, "", *ours]
    judged = os.environ.get(JUDGED, "")
    key = _hash(chosen.identity, _headers(), header(), FORWARD, *PUBLIC, stub, judged, *asked, *map(str, sources))
    folder = cache_folder() / "kernels"
    folder.mkdir(exist_ok=True)
    manifest = folder / f"{key}.json"
    kept = _kept(manifest, folder)
    if kept is not None:
        return kept
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{os.getpid()}.") as scratch:
        headers = _generated(folder)
        ours.append(f"-I{headers}")
        precompiled = _precompiled(chosen, ours, folder)
        made, used = _compiled(chosen, sources, stub, include, defines, ours, Path(scratch), precompiled)
        name = f"{_hash(key, *sorted(used), *used.values())}.so"
        if not (folder / name).exists():
            os.replace(made, folder / name)
        (Path(scratch) / "manifest").write_text(json.dumps({"library": name, "files": used}))
        os.replace(Path(scratch) / "manifest", manifest)
    return folder / name


def _kept(manifest: Path, folder: Path) -> Path | None:
    """Return the library that a manifest names; None if it is missing or a file from which it was made has changed."""
    try:
        told_of = json.loads(manifest.read_text())
        for path, content in told_of["files"].items():
            if _hash(Path(path).read_bytes()) != content:
                return None
        found = folder / str(told_of["library"])
        return found if found.is_file() else None
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _generated(folder: Path) -> Path:
    """Return the folder of generated headers in `folder`, which is written if it is missing."""
    found = folder / f"{_hash(header(), FORWARD, *PUBLIC)}.headers"
    if not found.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "headers"
            write_headers(made)
            (made / "asim").mkdir()
            (made / "asim" / "words.h").write_text(header())
            with suppress(OSError):  # another process was first
                os.rename(made, found)
    return found


def _precompiled(chosen: Compiler, options: Sequence[str], folder: Path) -> Path | None:
    """Return the precompiled kernel_operator.h for `options` in `folder`, made if it is missing; None if that fails."""
    found = folder / f"{_hash(chosen.identity, _headers(), *options)}.pch"
    if not found.is_file():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "made.pch"
            command = [*chosen.compile, *options, *_PRECOMPILE, str(HEADERS / API), "-o", str(made)]
            _run(command)
            with suppress(OSError):
                os.replace(made, found)
    return found if found.is_file() else None


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(cache_folder() / "zig"))
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def _compiled(
    chosen: Compiler,
    sources: Sequence[Path],
    stub: str,
    include: Sequence[Path],
    defines: Sequence[str],
    ours: Sequence[str],
    scratch: Path,
    precompiled: Path | None,
) -> tuple[Path, dict[str, str]]:
    """Compile and link in the folder `scratch`; return (path of the library, {user's file: digest of its content}).

    Raises CompileError. Launches by host code are removed from the sources before. A file is compiled with counts of its scalar
    code, if that fails without. One that includes the API is compiled with the `precompiled` one, and the macros of `defines`
    come behind it. If that fails, it is compiled again without, unless it begins with that header.
    """
    from ascend_sim.ascend_c.counted import UNCOUNTED, overlay  # a library in the cache needs none of these
    from ascend_sim.ascend_c.diagnostics import lies_in, shown_errors

    objects, used = [], {}
    known = [one.resolve() for one in (scratch.parent, HEADERS, *chosen.headers)]
    plain = [_without_launches(one, scratch / f"plain{number}.cpp") for number, one in enumerate(sources)]
    (scratch / "entry.cpp").write_text(f'#include "{plain[0]}"\n{stub}', encoding="utf-8", errors="surrogateescape")
    options = [*(f"-I{folder}" for folder in include), *ours]
    for source in sources:
        used[str(source)] = _hash(source.read_bytes())
        options.append(f"-iquote{source.parent}")
    own_api = _has_api(include)  # of a whole library, whose files are not counted
    texts = [included(one, [] if own_api else include) for one in sources]
    counted = [*plain, *(path for found in texts for path in found if path not in sources)]
    counts = overlay(counted, scratch)
    (scratch / "macros.h").write_text("".join(map(_definition, defines)))
    for number, source in enumerate([scratch / "entry.cpp", *plain[1:]]):
        made, rules = scratch / f"{number}.o", scratch / f"{number}.d"
        command = [*chosen.compile, *options, "-MD", "-MF", str(rules), "-c", str(source), "-o", str(made)]
        user = sources[number]
        uses = any(re.search(_API, text) for text in texts[number].values()) and not own_api and not _has_api([user.parent])
        if uses and defines:
            command += ["-include", API, "-include", str(scratch / "macros.h")]
        else:
            command += [f"-D{one}" for one in defines]
        begins = re.match(_API_FIRST, texts[number][user]) is not None
        done = _tried([*command, *counts], precompiled if uses else None, begins)
        if not done.returncode and not own_api:
            there = {one.resolve() for one in counted}
            headers = [one for one in _prerequisites(rules.read_text()) if one.suffix in OF_CPP and one.resolve() not in there]
            if hidden := [one for one in headers if not lies_in(one, [*known, *_OF_SYSTEM])]:  # only the compiler finds them
                counted += hidden
                counts = overlay(counted, scratch)
                done = _tried([*command, *counts], precompiled if uses else None, begins)
        if done.returncode:
            done = _tried([*command, *UNCOUNTED], precompiled if uses else None, begins)
        if done.returncode or not made.exists():
            raise CompileError(shown_errors(done.stderr, known, sources))
        objects.append(str(made))
        for path in _prerequisites(rules.read_text()):
            if not lies_in(path, known):
                used[str(path)] = _hash(path.read_bytes())
                if refused := refused_in_judge(path):
                    raise CompileError(f"{user}: {refused}")
    made = scratch / "kernel.so"
    done = _run([*chosen.link, "-o", str(made), *objects])
    if done.returncode or not made.exists():
        said = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise CompileError(f"{sources[0]}: cannot be linked: {said}")
    if JUDGED in os.environ and _runs_when_loaded(made.read_bytes()):
        raise CompileError(
            f"{sources[0]}: error: a judged kernel has code that runs as its library is loaded; global variables may begin as "
            f"constants alone"
        )
    return made, used


def _tried(command: Sequence[str], precompiled: Path | None, begins: bool) -> subprocess.CompletedProcess[str]:
    """Compile with the precompiled header, if there is one. If that fails, compile again without, unless the file `begins` with
    the API and no error names the precompiled header.
    """
    if precompiled is not None:
        done = _run([*command, "-include-pch", str(precompiled)])
        if not done.returncode or (begins and not _NO_HEADER.search(done.stderr)):
            return done
    return _run(command)


def _runs_when_loaded(library: bytes) -> bool:
    """Return True if a library (ELF of 64 bits) names functions or libraries that its loader calls, or symbols that are chosen
    as it is loaded; also if it has more sections than its head can count.
    """
    tables, size, count = struct.unpack_from("<Q10xHH", library, 40)
    for number in range(count):
        kind, offset, length = struct.unpack_from("<4xI16xQQ", library, tables + number * size)
        content = library[offset : offset + length]
        if kind == _DYNAMIC and any(tag in _CALLED for tag, _ in struct.iter_unpack("<qQ", content)):
            return True
        if kind == _SYMBOLS and any(one & 15 == _CHOSEN for one in content[4::24]):
            return True
    return not count


_SYMBOLS, _DYNAMIC = 2, 6
"""Kinds of sections (SHT_SYMTAB, SHT_DYNAMIC)."""
_CALLED = (1, 12, 25, 32)
"""Tags of what a loader calls or loads: DT_NEEDED, DT_INIT, DT_INIT_ARRAY, DT_PREINIT_ARRAY."""
_CHOSEN = 10
"""Type of a symbol whose resolver a loader calls (STT_GNU_IFUNC): `ifunc`, and a function for several processors."""
API = "kernel_operator.h"
"""The header with the whole API, which is precompiled."""
_INCLUDE = rf'#\s*include\s*["<](?:{"|".join(map(re.escape, (API, *PUBLIC)))})[">]'
_API = rf"(?m)^\s*{_INCLUDE}"
_API_FIRST = rf"(?:\s++|//[^\n]*+|/\*(?s:.*?)\*/)*+{_INCLUDE}"
"""Beginning of a file whose errors are the same with the precompiled header: nothing but comments stands before the API.

This pattern and the one above are long; `re` compiles them when a file is compiled.
"""
_NO_HEADER = re.compile("(?i)PCH|precompiled")
"""Words of the errors of a precompiled header that is spoiled or of another compiler."""
_PRECOMPILE = ("-Xclang", "-fno-pch-timestamp", "-Xclang", "-fpch-instantiate-templates", "-x", "c++-header")
_LAUNCH = re.compile(r"\b\w+\s*(?:<[^<>;]*>\s*)?<<<[^;]*?>>>\s*\(")


def _has_api(folders: Sequence[Path]) -> bool:
    """Return True if one of `folders` has an API header of the user's own, which takes the place of this package's."""
    return any((folder / API).exists() for folder in folders)


def _definition(macro: str) -> str:
    """Return the directives that define NAME=VALUE, or NAME as 1, anew."""
    name, given, value = macro.partition("=")
    return f"#undef {name.partition('(')[0]}\n#define {name} {value if given else 1}\n"


def _without_launches(source: Path, copy: Path) -> Path:
    """Return `source`; or `copy`, written without launches NAME<<<...>>>(...), line by line, if it has any or `#include` cannot
    name it.
    """
    text = source.read_text(encoding="utf-8-sig", errors="surrogateescape")
    if "<<<" not in text and not {*str(source)} & {*'"\\\n'}:
        return source
    quiet = _LAUNCH.sub(lambda match: "asim::launched(" + "\n" * match[0].count("\n"), text)
    copy.write_text(
        f"#line 1 {json.dumps(str(source), ensure_ascii=False)}\n{quiet}", encoding="utf-8", errors="surrogateescape"
    )
    return copy


def _prerequisites(rules: str) -> list[Path]:
    """Return the absolute paths of the files that a compiler's dependency rule for `make` lists."""
    _, _, listed = rules.replace("\\\n", " ").partition(": ")
    names = re.findall(r"(?:\\[ #]|\S)+", listed)
    return [Path(re.sub(r"\\([ #])", r"\1", one).replace("$$", "$")).absolute() for one in names]


@cache
def _headers() -> str:
    """Return a digest of this package's headers, and of the module that adds counts to the user's files. Cached."""
    counting = Path(__file__).with_name("counted.py")
    return _hash(*[path.read_bytes() for path in (*sorted(HEADERS.rglob("*.h")), counting)])


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
