"""The C interface built once a session, and a compiler to use it with."""

import os
import shlex
import shutil
import subprocess

import pytest

from ascend_sim.acl.c.build import build_c, compile_flags
from tests.support.acl.toolkit_calls import LINKABLE, compiler_call


@pytest.fixture(scope="session")
def toolkit(tmp_path_factory):
    """The folder that `ascend-sim c --build` writes."""
    pytest.importorskip("cffi")
    if not shutil.which("gcc") or not shutil.which("g++"):
        pytest.skip("no gcc and g++")
    chosen = os.environ.get("CC", "gcc")
    if subprocess.run([*shlex.split(chosen), "--version"], stdout=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"CC={chosen} is no compiler")
    if not LINKABLE:
        pytest.skip("this Python has no headers or no shared library")
    folder = tmp_path_factory.mktemp("toolkit") / "ascend sim"  # a space, as users have them
    build_c(folder)
    return folder


@pytest.fixture(scope="session")
def compiled(toolkit, tmp_path_factory):
    """Compiles a source file (C or C++ by its name) to a program; the same one is compiled once."""
    programs = {}

    def compile_one(source, *flags):
        key = (source, *flags)
        if key not in programs:
            target = tmp_path_factory.mktemp("programs") / source.stem
            compiler = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++"]
            programs[key] = compiler_call(compiler, source, target, [*flags, *compile_flags(toolkit)])
        return programs[key]

    return compile_one
