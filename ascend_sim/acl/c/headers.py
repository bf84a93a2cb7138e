"""The headers that C and C++ programs include, written from the enumerations and the table of functions."""

from __future__ import annotations

from enum import IntEnum

from ascend_sim.acl import enums
from ascend_sim.acl.c.prototypes import FUNCTIONS, Function

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
    """Return the C declaration of a function; one of more than 100 characters is broken after each parameter."""
    text = str(function)
    return text if len(text) <= _WIDTH else text.replace("(", "(\n    ").replace(", ", ",\n    ")


def _header(header: str) -> str:
    guard = "ASCEND_SIM_" + "".join(c if c.isalnum() else "_" for c in header).upper()
    codes = [name for name in enums.__all__ if name.startswith(_CODES.get(header, ())) and header in _CODES]
    parts = [
        "/* Written by `ascend-sim c`: the C interface of ascend-sim; docs/acl.md of the project tells what it does. */",
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
