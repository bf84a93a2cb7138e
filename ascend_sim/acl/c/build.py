"""Writes headers and libraries to a folder that looks like the vendor's toolkit: include/ and lib64/."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import redirect_stdout
from enum import IntEnum
from io import StringIO
from pathlib import Path

from ascend_sim.acl import enums
from ascend_sim.acl.c.prototypes import FUNCTIONS, Function
from ascend_sim.errors import SimError
from ascend_sim.keywords import near_names
from ascend_sim.report.files import atomic_write

_INCLUDES = {
    "acl/acl_base.h": ("<stdbool.h>", "<stddef.h>", "<stdint.h>"),
    "acl/acl_rt.h": ('"acl/acl_base.h"',),
    "acl/acl.h": ('"acl/acl_base.h"', '"acl/acl_rt.h"'),
    "aclnn/acl_meta.h": ('"acl/acl_base.h"',),
    "aclnn/aclnn_base.h": ('"aclnn/acl_meta.h"',),
    "aclnnop/aclnn_convolution_backward.h": ('"aclnn/aclnn_base.h"',),
}
"""The #include lines of each header; a header stands after those that it includes."""

_TYPEDEFS = {
    "acl/acl_base.h": (
        "typedef int aclError;", "typedef void *aclrtStream;", "typedef void *aclrtEvent;", "typedef void *aclrtContext;",
    ),
    "aclnn/acl_meta.h": (
        "typedef int32_t aclnnStatus;", "typedef struct aclTensor aclTensor;", "typedef struct aclIntArray aclIntArray;",
        "typedef struct aclBoolArray aclBoolArray;", "typedef struct aclOpExecutor aclOpExecutor;",
    ),
}  # fmt: skip
_ENUMS: dict[str, tuple[type[IntEnum], ...]] = {
    "acl/acl_base.h": (enums.aclDataType, enums.aclFormat),
    "acl/acl_rt.h": (
        enums.aclrtMemMallocPolicy,
        enums.aclrtMemcpyKind,
        enums.aclrtMemAttr,
        enums.aclSysParamOpt,
        enums.aclrtEventRecordedStatus,
    ),
    "aclnnop/aclnn_convolution_backward.h": (enums.CubeMathType,),
}
_CODES = {"acl/acl_base.h": ("ACL_SUCCESS", "ACL_ERROR_"), "aclnn/aclnn_base.h": ("ACLNN_",)}
"""Prefixes of the codes that each header declares."""

_WIDTH = 100


def _enum(kind: type[IntEnum]) -> str:
    members = "".join(f"    {name} = {int(value)},\n" for name, value in kind.__members__.items())
    return f"typedef enum {{\n{members}}} {kind.__name__};"


def _types(header: str) -> str:
    return "\n".join((*_TYPEDEFS.get(header, ()), *map(_enum, _ENUMS.get(header, ()))))


TYPES = "\n".join(filter(None, map(_types, _INCLUDES)))
"""C declarations of all typedefs and enumerations of all headers, as one text."""


def _prototype(function: Function) -> str:
    """Return the C declaration of a function; in one of more than 100 characters each parameter, the first too, stands on a
    line of its own, indented by 4, and `);` follows the last.
    """
    text = str(function)
    return text if len(text) <= _WIDTH else text.replace("(", "(\n    ").replace(", ", ",\n    ")


def _header(header: str) -> str:
    guard = "ASCEND_SIM_" + "".join(c if c.isalnum() else "_" for c in header).upper()
    codes = [name for name in enums.__all__ if name.startswith(_CODES.get(header, ())) and header in _CODES]
    parts = [
        "/* Written by `ascend-sim c`: the C interface of ascend-sim; docs/acl.md of the project describes it. */",
        f"#ifndef {guard}\n#define {guard}",
        "\n".join(f"#include {name}" for name in _INCLUDES[header]),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        _types(header),
        "\n".join(f"static const int {name} = {getattr(enums, name)};" for name in codes),
        "\n".join(_prototype(function) for function in FUNCTIONS.values() if function.header == header),
        "#ifdef __cplusplus\n}\n#endif",
        "#endif",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def headers() -> dict[str, str]:
    """Return the text of every header by its path below the folder that a compiler gets with -I."""
    return {header: _header(header) for header in _INCLUDES}


LIBRARY = "libascendcl.so"
OTHER_NAMES = ("libnnopbase.so", "libopapi.so", "libopapi_nn.so", "libopapi_math.so")
"""Further libraries that programs link with; here all are one library."""

_SOURCE = """
#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void ascend_sim_end(void);

/* cffi would go on and let every function return 0, which means success. */
static void ascend_sim_cannot_start(const char *why)
{
    fprintf(stderr, "%s: cannot start ascend-sim: %s\\n", LIBRARY, why);
    fflush(stderr);
    _exit(127);
}

/* Called by cffi in place of Py_InitializeEx: the Python that built the library, with the packages that it has. */
void ascend_sim_start_python(int install_signal_handlers)
{
    PyPreConfig before;
    PyConfig config;
    PyStatus status;
    PyPreConfig_InitPythonConfig(&before);
    before.parse_argv = 0;
    before.coerce_c_locale = 0; /* the program's locale is its own affair */
    status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status)) {
        ascend_sim_cannot_start(status.err_msg);
    }
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.configure_c_stdio = 0;
    config.install_signal_handlers = install_signal_handlers;
    status = PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        ascend_sim_cannot_start(status.err_msg);
    }
    if (PyImport_ImportModule("_cffi_backend") == NULL) {
        ascend_sim_cannot_start("there is no cffi in the environment of " PYTHON);
    }
}

static void end_if_python_lives(void)
{
    if (Py_IsInitialized()) {
        ascend_sim_end();
    }
}

static int ascend_sim_watch_exit(void)
{
    return atexit(end_if_python_lives);
}
"""

_START = """
try:
    from _ascendcl import ffi, lib
    from ascend_sim.acl.c.shim import install
    install(ffi, lib)
except BaseException as error:
    lib.ascend_sim_cannot_start(f"{type(error).__name__}: {error}".encode(errors="replace"))
"""
"""Python code that runs when the library starts Python."""


@near_names
def build_c(folder: str | Path) -> list[Path]:
    """Write headers to `folder`/include and libraries to `folder`/lib64, over files of the same names; return the paths
    written.

    Raises SimError without cffi, a C compiler, or a Python that can be linked with, and where a file cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise SimError(f"--build {folder}: there is a file of that name; give a folder")
    with tempfile.TemporaryDirectory() as scratch:
        built = _compile(Path(scratch))
        written = []
        try:
            for name, text in headers().items():
                written.append(folder / "include" / name)
                written[-1].parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(written[-1]) as file:
                    file.write(text.encode())
            libraries = folder / "lib64"
            libraries.mkdir(exist_ok=True)
            written.append(libraries / LIBRARY)
            with atomic_write(written[-1]) as file:
                file.write(built.read_bytes())
            for name in OTHER_NAMES:
                written.append(libraries / name)
                written[-1].unlink(missing_ok=True)
                written[-1].symlink_to(LIBRARY)
        except OSError as error:
            raise SimError(f"--build {folder}: cannot write there: {error.strerror or error}") from None
    return written


def compile_flags(folder: Path) -> list[str]:
    """Return the g++ flags (include path, library path and rpath, -l) for the headers and libraries that `build_c` wrote to
    `folder`. Raises SimError if libascendcl.so is not there.
    """
    libraries = folder.absolute() / "lib64"
    if not (libraries / LIBRARY).is_file():
        raise SimError(f"{folder}: no {LIBRARY} is there; `ascend-sim c --build {folder}` writes it")
    return [
        f"-I{folder.absolute() / 'include'}",
        f"-L{libraries}",
        f"-Wl,-rpath,{libraries}",
        "-lascendcl",
        "-lnnopbase",
        "-lopapi",
    ]


def _compile(scratch: Path) -> Path:
    """Compile headers and generated C source in the folder `scratch` and return the path of the shared library.

    Raises SimError without cffi, a C compiler or a Python that can be linked with, and with the compiler's first error line.
    """
    compiler = _compiler()
    _write_source(scratch / "ascendcl.c")
    for name, text in headers().items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    built = scratch / LIBRARY
    command = [*compiler, "-shared", "-fPIC", "-O2", f"-I{scratch}", f"-I{sysconfig.get_path('include')}"]
    command.append("-DPy_InitializeEx=ascend_sim_start_python")  # what cffi calls, and what it gets
    command += [str(scratch / "ascendcl.c"), "-o", str(built), f"-Wl,-soname,{LIBRARY}", *_python_library()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line or "cannot find" in line]
        reason = (lines or done.stderr.splitlines() or ["it says nothing"])[0].strip()
        raise SimError(f"{compiler[0]} cannot build {LIBRARY}: {reason}")
    return built


def _compiler() -> list[str]:
    """Return the words of the C compiler's command: $CC, else cc, gcc or clang, else the one that built Python.

    Raises SimError if none is found.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang", sysconfig.get_config_var("CC")):
        words = shlex.split(name or "")
        if words and shutil.which(words[0]):
            return words
    raise SimError("no C compiler: `ascend-sim c --build` needs one (cc, gcc or clang; or name it in the variable CC)")


def _write_source(path: Path) -> None:
    """Write the C source of the library to `path`: cffi embeds Python and the functions of `prototypes.FUNCTIONS`.

    Raises SimError without cffi.
    """
    try:
        import cffi
    except ImportError:
        raise SimError("`ascend-sim c` needs cffi, which is not installed: pip install cffi") from None
    ffi = cffi.FFI()
    ffi.cdef(TYPES)
    ffi.cdef("int ascend_sim_watch_exit(void); void ascend_sim_cannot_start(const char *why);")
    ffi.embedding_api("\n".join(map(str, FUNCTIONS.values())) + "\nvoid ascend_sim_end(void);")
    names = f"#define LIBRARY {_quoted(LIBRARY)}\n#define PYTHON {_quoted(sys.executable)}\n"
    ffi.set_source("_ascendcl", names + _SOURCE)
    ffi.embedding_init_code(_START)
    with redirect_stdout(StringIO()):  # it tells which file it writes
        ffi.emit_c_code(str(path))


def _quoted(text: str) -> str:
    """Return `text` as a C string literal with its quotes."""
    return json.dumps(text, ensure_ascii=False)


def _python_library() -> list[str]:
    """Return the linker flags for this Python's shared library.

    Raises SimError if Python has no headers or no shared library.
    """
    header = Path(sysconfig.get_path("include")) / "Python.h"
    name, folder = sysconfig.get_config_var("LDLIBRARY") or "", sysconfig.get_config_var("LIBDIR") or ""
    version = sysconfig.get_config_var("LDVERSION")
    if not header.is_file():
        raise SimError(f"{header} is missing: the C interface needs Python's headers (Debian and Ubuntu: python3-dev)")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise SimError(f"{sys.executable} has no shared library ({name}): the C interface needs a Python built with one")
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{version}"]
