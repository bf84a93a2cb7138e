"""Libraries are found again by what they were made of; compilers, and machines without one."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.ascend_c import compiler
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.function import cpp_kernel
from ascend_sim.errors import SimError
from ascend_sim.launching import empty, launch
from ascend_sim.shipped import CACHE_VARIABLE
from tests.support.ascend_c.kernels import made, needs_compiler, recorded, vector_kernel, written

KERNEL = vector_kernel("Duplicate(d, VALUE, 64);", tensors="x")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run to compile or link kernels."""
    found: list[list[str]] = []
    real = subprocess.run

    def run(command: list[str], *rest: Any, **more: Any) -> Any:
        if "-o" in command and "c++-header" not in command:
            found.append(command)
        return real(command, *rest, **more)

    monkeypatch.setattr(subprocess, "run", run)
    return found


@pytest.fixture
def asked_again() -> Iterator[None]:
    """The compiler is looked for anew, and again behind the test."""
    compiler.compiler.cache_clear()
    yield
    compiler.compiler.cache_clear()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a cache that is the test's own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a kernel with a header, which no other test has compiled."""
    (tmp_path / "value.h").write_text("constexpr float VALUE = 1;\n")
    return written(tmp_path, f'#include "value.h"\n{KERNEL}')


@needs_compiler
def test_the_same_files_are_compiled_once(file: Path, runs: list[list[str]]) -> None:
    one = cpp_kernel(file)._recorder(()).library
    assert len(runs) == 2, "compiled and linked"
    assert cpp_kernel(file)._recorder(()).library == one and len(runs) == 2


@needs_compiler
@pytest.mark.parametrize("changed", ("kernel.cpp", "value.h"))
def test_a_changed_file_is_compiled_again(file: Path, runs: list[list[str]], changed: str) -> None:
    cpp_kernel(file)
    path = file.with_name(changed)
    path.write_text(path.read_text() + "// more\n")
    cpp_kernel(file)
    assert len(runs) == 4


@needs_compiler
def test_other_options_are_other_libraries(file: Path, runs: list[list[str]]) -> None:
    libraries = {cpp_kernel(file, defines=defines)._recorder(()).library for defines in ((), ("MORE",), {"MORE": 2})}
    assert len(libraries) == 3 and len(runs) == 6


@needs_compiler
@pytest.mark.usefixtures("empty_cache")
def test_a_spoiled_cache_is_made_anew(file: Path, runs: list[list[str]]) -> None:
    library = cpp_kernel(file)._recorder(()).library
    for manifest in library.parent.glob("*.json"):
        manifest.write_text("{")
    cpp_kernel(file)
    library.unlink()
    cpp_kernel(file)
    assert len(runs) == 6 and library.is_file()


@needs_compiler
def test_a_loop_without_end_and_without_calls_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C++ lets a compiler take it out."""
    monkeypatch.setattr(compiler, "FLAGS", tuple(one.replace("-O0", "-O1") for one in compiler.FLAGS))
    written(file.parent, vector_kernel("while (n) n |= 1;", tensors="x", numbers="uint32_t n"))
    with pytest.raises(SimError, match=r"the kernel did not end within 1 s"):
        launch(cpp_kernel(file, seconds=1), 1, empty(64, "float32"), n=1)


@needs_compiler
@pytest.mark.usefixtures("empty_cache")
def test_the_api_is_compiled_once_for_all_kernels(file: Path, runs: list[list[str]]) -> None:
    folder = cpp_kernel(file)._recorder(()).library.parent
    (precompiled,) = folder.glob("*.pch")
    time = precompiled.stat().st_mtime_ns
    other = written(file.parent, KERNEL.replace("VALUE", "2"), "other.cpp")
    cpp_kernel(other)
    assert precompiled.stat().st_mtime_ns == time and all(one[-1] == str(precompiled) for one in (runs[0], runs[2]))
    cpp_kernel(file, defines=("MORE",))
    assert runs[4][-1] == str(precompiled)
    file.with_name("kernel_operator.h").write_text("#include <kernel_operator.h>\n#define MINE 3\n")
    cpp_kernel(written(file.parent, KERNEL.replace("VALUE", "MINE"), "mine.cpp"))
    assert len(runs) == 8 and not any("-include-pch" in one for one in runs[6:])


@needs_compiler
@pytest.mark.usefixtures("empty_cache")
def test_a_spoiled_precompiled_header_is_left_out(file: Path, runs: list[list[str]]) -> None:
    folder = cpp_kernel(file)._recorder(()).library.parent
    next(folder.glob("*.pch")).write_text("no header")
    file.write_text(file.read_text() + "// more\n")
    assert cpp_kernel(file)._recorder(()).library.is_file()
    assert len(runs) == 5 and "-include-pch" in runs[2] and "-include-pch" not in runs[3]


@needs_compiler
@pytest.mark.parametrize(("before", "times"), [("// a comment // of two\n/* and\n more */\n", 1), ("#define BEFORE\n", 2)])
def test_a_broken_kernel_is_compiled_again_if_code_stands_before_the_api(
    file: Path, runs: list[list[str]], before: str, times: int
) -> None:
    file.write_text(f"{before}{file.read_text()}int n = nothing;\n")
    with pytest.raises(CompileError, match="undeclared identifier 'nothing'"):
        cpp_kernel(file)._recorder(())
    assert ["-include-pch" in one for one in runs] == 2 * [True, False][:times]


@needs_compiler
@pytest.mark.parametrize("macro", ("N=4", "T=4", "x=4", "size=4", "I=4", "dst = 4", "given", "F(n)=n+2", "TILING_KEY_VAR=4"))
def test_macros_of_the_command_are_macros_of_the_kernel_alone(tmp_path: Path, runs: list[list[str]], macro: str) -> None:
    """Headers here have parameters of these names."""
    name, given, _ = macro.partition("=")
    value = name.strip().replace("(n)", "(2)")
    text = f"#ifndef {name.strip()[:1] if '(' in name else name}\n#error unknown\n#endif\n"
    kernel = made(tmp_path, text + vector_kernel(f"Duplicate(a, (float){value}, 64);", tensors="y"), defines=[macro])
    (filled,) = [one for one in recorded(kernel, 1 << 40).shapes if len(one) > 5]
    assert np.uint32(filled[2]).view(np.float32) == (4 if given else 1)
    assert len(runs) == 2 and "-include-pch" in runs[0]


@needs_compiler
def test_an_error_is_that_of_the_kernel_where_a_macro_has_a_name_of_the_headers(file: Path) -> None:
    file.write_text(f"#define BEFORE\n{file.read_text()}int n = T + nothing;\n")
    with pytest.raises(CompileError, match=r"^\S*kernel.cpp:8: error: use of undeclared identifier 'nothing'\n"):
        cpp_kernel(file, defines={"T": 4})


@pytest.mark.parametrize("macro", ("", "=3", "3x=3", "a-b=3", "defined=3", "asim=3", "V(x=3", "V=3\n#error x", "V=3 \\"))
def test_a_macro_that_is_none_is_refused_in_one_line(tmp_path: Path, macro: str) -> None:
    with pytest.raises(SimError) as caught:
        made(tmp_path, vector_kernel("", tensors="y"), defines=["W=2", macro])
    assert str(caught.value).startswith(f"define {macro!r}: give NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE, ")


@needs_compiler
def test_macros_of_the_command_are_those_of_a_users_api_too(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "kernel_operator.h").write_text(
        "#if MINE != 4\n#error unknown\n#endif\n#include <../include/kernel_operator.h>\n"
    )
    kernel = made(tmp_path, vector_kernel("", tensors="y"), include=[tmp_path / "own"], defines={"MINE": 4})
    assert not recorded(kernel, 1 << 40).how


@needs_compiler
@pytest.mark.usefixtures("empty_cache")
def test_many_compile_at_the_same_time(file: Path) -> None:
    code = f"""
import ascend_sim
from ascend_sim.ascend_c import compiler
compiler.FLAGS = {compiler.FLAGS}
print(ascend_sim.cpp_kernel({str(file)!r})._recorder(()).library)
"""
    with ThreadPoolExecutor() as pool:
        processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        own = list(pool.map(lambda _: str(cpp_kernel(file)._recorder(()).library), range(4)))
    found = {*own, *(one.communicate()[0].strip() for one in processes)}
    assert len(found) == 1
    left = [one for one in Path(own[0]).parent.iterdir() if one.suffix not in (".so", ".json", ".pch", ".headers")]
    assert not left, "no scratch folder stays"


@pytest.mark.usefixtures("asked_again")
def test_a_machine_without_a_compiler_is_told_the_extra(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        SimError, match=r"the extra ascendc brings one \(pip install '\.\[ascendc\]', .*\), or install clang\+\+$"
    ):
        cpp_kernel(file)


@pytest.mark.usefixtures("asked_again")
@pytest.mark.parametrize(("version", "taken"), [("16.0.6", False), ("17.0.1", True)])
def test_a_clang_is_new_enough_or_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, taken: bool) -> None:
    clang = tmp_path / "clang++"
    clang.write_text(f"#!/bin/sh\necho 'Debian clang version {version} (1)'\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: str(clang))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    if taken:
        assert compiler.compiler().compile == (str(clang),)
    else:
        with pytest.raises(SimError, match="the clang\\+\\+ of this machine is older than 17"):
            compiler.compiler()


@pytest.mark.usefixtures("asked_again")
@pytest.mark.parametrize(("versions", "taken"), [((14, 16), None), ((16, 19, 17), 19), ((9, 100), 100)])
def test_the_newest_clang_that_a_system_names_by_version_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, versions: tuple[int, ...], taken: int | None
) -> None:
    for version in (*versions, "format", "19.bak"):
        (tmp_path / f"clang++-{version}").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    if taken is None:
        with pytest.raises(SimError, match="need a compiler: the extra ascendc"):
            compiler.compiler()
    else:
        assert compiler.compiler().compile == (str(tmp_path / f"clang++-{taken}"),)
