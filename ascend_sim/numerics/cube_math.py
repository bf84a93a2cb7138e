"""Compute format of the cube: promotion of mixed inputs, and the effect of each cubeMathType."""

from __future__ import annotations

from ascend_sim.frozen import frozen

CUBE_MATH_TYPES = {0: "KEEP_DTYPE", 1: "ALLOW_FP32_DOWN_PRECISION", 2: "USE_FP16", 3: "USE_HF32"}
"""cubeMathType 0..3 -> its name in the documents."""

# CANN 8.1.RC1 promotion table (stated): float16 beside bfloat16 gives float32; 8-bit formats have no entries.
_PROMOTABLE = frozenset({"float32", "float16", "bfloat16"})


@frozen
class ComputeChoice:
    """Effect of one cubeMathType on one input dtype.

    `compute_dtype`: "float32", "hf32", "float16", "bfloat16", "hifloat8", "float8_e4m3fn", or None if refused. `status` is 0 or
    the code of the refusal; `warning` a sentence that the library logs without changing the status; `source` names the document
    of the entry.
    """

    compute_dtype: str | None
    status: int = 0
    warning: str | None = None
    source: str = ""


def promote(*dtypes: str) -> str | None:
    """Return the common dtype of all arguments, promoted one after the other; None without arguments, or once the vendor's
    table has no entry for a pair.

    Equal dtypes stay; any two different ones of float32, float16, bfloat16 give float32 (also float16 with bfloat16).
    """
    if not dtypes:
        return None
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if dtype == result:
            continue
        if dtype not in _PROMOTABLE or result not in _PROMOTABLE:
            return None
        result = "float32"
    return result
