"""The bits of a result where they must not depend on the host: with BLAS kernels made for different CPUs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ascend_sim.numerics.accumulate import add_chunks

RUN = """
import hashlib, json, numpy as np, ml_dtypes, ascend_sim
from threadpoolctl import threadpool_info
found = {"blas kernel": [one.get("architecture") for one in threadpool_info() if one["user_api"] == "blas"]}
rng = np.random.default_rng(3)
for dtype, number in (("float16", 0), ("bfloat16", 0), ("float32", 0), ("float32", 3)):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    tensors = [rng.standard_normal(s).astype(kind) for s in ((1, 24, 6, 7), (1, 20, 6, 7), (24, 20, 3, 3))]
    for model in ("chunk", "exact_group"):
        for mode in ("functional", "full"):
            result = ascend_sim.convolution_backward(
                *tensors, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, False),
                chip="ascend910b3", mode=mode, cube_math_type=number, accumulate=model, deterministic=True)
            digest = hashlib.sha256(result.grad_input.tobytes() + result.grad_weight.tobytes()).hexdigest()
            found[f"{dtype} {number} {model} {mode}"] = digest
left, right = (rng.standard_normal((64, 300)).astype(np.float32) for _ in "ab")
found["blas"] = hashlib.sha256((left @ right.T).tobytes()).hexdigest()
print(json.dumps(found))
"""


CPU = Path("/proc/cpuinfo")
WIDEST = "SkylakeX" if "avx512f" in (CPU.read_text() if CPU.exists() else "") else "Haswell"
"""OpenBLAS's kernel for the widest vectors that this host has; one that it has not ends in SIGILL."""


def on(core: str, threads: int) -> dict[str, str]:
    environment = os.environ | {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": str(threads)}
    ran = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels named here are of x86")
def test_chunk_and_exact_group_do_not_depend_on_the_hosts_blas() -> None:
    """Both modes, all compute dtypes; the plain matrix product beside them tells whether the host has two kernels to choose."""
    one, other = on(WIDEST, 1), on("Haswell" if WIDEST == "SkylakeX" else "Prescott", 2)
    if one.pop("blas kernel") == other.pop("blas kernel") or one.pop("blas") == other.pop("blas"):
        pytest.skip("this host's BLAS has one kernel for both")
    assert one == other and len(one) == 16
    for name in [name for name in one if name.endswith("functional")]:
        assert one[name] == one[name.replace("functional", "full")]


def test_chunks_are_added_in_the_order_of_k() -> None:
    """Against the same in Python floats, rounded by hand."""
    rng = np.random.default_rng(5)
    left, right = (rng.standard_normal((3, 37)).astype(np.float32) for _ in "ab")
    start = rng.standard_normal((3, 3)).astype(np.float32)
    expected = start.copy()
    for i, j in np.ndindex(3, 3):
        total = start[i, j]
        for first in range(0, 37, 16):
            partial = np.float32(float(left[i, first]) * float(right[j, first]))
            for k in range(first + 1, min(first + 16, 37)):
                partial = np.float32(float(partial) + float(np.float32(float(left[i, k]) * float(right[j, k]))))
            total = np.float32(float(total) + float(partial))
        expected[i, j] = total
    np.testing.assert_array_equal(add_chunks(start, left, right, 16), expected)
