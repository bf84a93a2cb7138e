"""`ascend-sim c --build DIR` and `ascend-sim c --compile-flags [DIR]`: the C interface for C and C++ programs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.options import command
from ascend_sim.errors import SimError

HOME = "ASCEND_HOME_PATH"
"""Environment variable with the folder of the vendor's toolkit; the build files of many programs read it."""


@command(
    alone={"--compile-flags": f"${HOME}"},
    epilog="Example:  ascend-sim c --build acl && g++ main.cpp $(ascend-sim c --compile-flags acl) && ./a.out",
)
def c(
    build: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write headers and libraries to this folder (include/, lib64/).")
    ] = None,
    compile_flags: Annotated[
        str | None, typer.Option(metavar="[DIR]", help=f"Print what a compiler needs to use such a folder; default: ${HOME}.")
    ] = None,
) -> None:
    """Build the C interface, the vendor's names for C and C++ programs on a simulated chip, or print what a compiler needs to
    use it.
    """
    from ascend_sim.acl.c import build as library

    with errors(as_json=False):
        if (build is None) == (compile_flags is None):
            raise SimError("c: give one of --build DIR and --compile-flags DIR")
        if compile_flags is not None:
            folder = os.environ.get(HOME, "") if compile_flags == f"${HOME}" else compile_flags
            if not folder:
                raise SimError(f"c: --compile-flags without a folder takes the one in {HOME}, which is not set")
            print(shlex.join(library.compile_flags(Path(folder))))
        elif build is not None:
            for path in library.build_c(build):
                print(path)
