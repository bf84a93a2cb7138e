"""Public headers of the Ascend C API whose calls are simulated: each stands for kernel_operator.h, which declares all of them.

The names are those of the folders of headers of asc-devkit: basic_api, adv_api and, in older versions of the toolkit, lib.
"""

from __future__ import annotations

from pathlib import Path

OF_LIBRARY = ("lib/", "adv_api/")
"""Folders of the library's headers, from which kernels include them."""
OF_BASICS = ("", "basic_api/")
"""Folders of the other headers."""

_LIBRARY = {
    "": "matmul_intf kernel_api",
    "matmul/": "matmul matmul_intf tiling",
    "matrix/matmul/": "matmul tiling",
    "activation/": "gelu sigmoid silu simplesoftmax softmax swish",
    "index/": "arithprogression",
    "math/": "ceil cos erf floor log power round sign sin tanh trunc",
    "normalization/": "layernorm rmsnorm",
    "pad/": "broadcast",
    "quantization/": "ascend_dequant",
    "reduce/": "mean reduce sum",
}
_BASICS = "kernel_basic_intf kernel_common kernel_cube_intf kernel_tensor kernel_tpipe kernel_type kernel_vec_intf"
_STRUCTURES = "binary brcb data_copy fixpipe gather mm transpose unary"
_OPERATORS = (
    "atomic block_sync cache common data_copy determine_compute_sync fixpipe list_tensor mm scalar set_atomic sys_var "
    "vec_binary vec_binary_scalar vec_brcb vec_cmpsel vec_createvecindex vec_duplicate vec_gather vec_gather_mask vec_reduce "
    "vec_ternary_scalar vec_transpose vec_unary vec_vconv"
)

PUBLIC = (
    "kernel_tiling/kernel_tiling.h",
    *(f"{folder}{part}{name}.h" for folder in OF_LIBRARY for part, names in _LIBRARY.items() for name in names.split()),
    *(
        f"{folder}{name}.h"
        for folder in OF_BASICS
        for name in (
            *_BASICS.split(),
            "kernel_operator_intf",
            *(f"kernel_struct_{name}" for name in _STRUCTURES.split()),
            *(f"kernel_operator_{name}_intf" for name in _OPERATORS.split()),
        )
    ),
)
"""Names by which kernels may include the API, kernel_operator.h apart."""
FORWARD = '#include "kernel_operator.h"\n'


def write_headers(folder: Path) -> None:
    """Write the public headers, which only include kernel_operator.h, to a folder, made if needed."""
    for name in PUBLIC:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FORWARD)


def is_public(name: str) -> bool:
    """Return True if a header's name begins as only the API's do, with a folder of the API or "kernel_operator_"; the API need
    not have it.
    """
    return name.startswith((*OF_LIBRARY, "basic_api/", "kernel_operator_"))
