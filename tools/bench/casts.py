"""Speed of the array casts beside ml_dtypes and en_dtypes, on float32 normals: medians and ratios, in one run.

    python tools/bench/casts.py [--elements N] [--repeats R]

The casts are timed in turns, so that a busy machine slows all of them alike. en_dtypes is optional.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

from ascend_sim.numerics import cast, decode, encode, round_to

HIFLOAT8_GOAL, HF32_GOAL = 3.0, 0.35


def contenders(x: np.ndarray) -> dict[str, Callable[[], object]]:
    """Name -> call, rivals and own."""
    codes = encode(x, "hifloat8")
    calls: dict[str, Callable[[], object]] = {
        "ml_dtypes float32 -> bfloat16": lambda: x.astype(ml_dtypes.bfloat16),
        "ml_dtypes float32 -> e4m3fn": lambda: x.astype(ml_dtypes.float8_e4m3fn),
        "hf32 rne": lambda: round_to(x, "hf32", rounding="rne"),
        "hf32 rna": lambda: round_to(x, "hf32", rounding="rna"),
        "hf32 rtz": lambda: round_to(x, "hf32", rounding="rtz"),
        "hifloat8 encode round": lambda: encode(x, "hifloat8"),
        "hifloat8 encode round, saturating": lambda: encode(x, "hifloat8", saturate=True),
        "hifloat8 encode hybrid": lambda: encode(x, "hifloat8", "hybrid"),
        "hifloat8 decode": lambda: decode(codes, "hifloat8"),
        "float16 rint": lambda: cast(x, "float16"),
        "float16 trunc": lambda: cast(x, "float16", "trunc"),
        "bfloat16 rint": lambda: cast(x, "bfloat16"),
    }
    try:
        hifloat8 = importlib.import_module("en_dtypes").hifloat8
    except ImportError:
        print("en_dtypes is not installed (pip install en_dtypes==0.0.4): its rows and ratios are left out")
        return calls
    theirs = x.astype(hifloat8)
    calls["en_dtypes float32 -> hifloat8"] = lambda: x.astype(hifloat8)
    calls["en_dtypes hifloat8 -> float32"] = lambda: theirs.astype(np.float32)
    return calls


def measure(elements: int = 1 << 20, repeats: int = 15) -> dict[str, float]:
    """Median seconds of each cast."""
    calls = contenders(np.random.default_rng(0).standard_normal(elements).astype(np.float32))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 2:  # two warm-up turns
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    medians = measure(options.elements, options.repeats)
    for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
        print(f"{name:36} {seconds * 1e3:8.3f} ms {options.elements / seconds / 1e6:8.0f} M elements/s")
    print("\nSpeed ratios (higher is faster)")
    ratio = medians["ml_dtypes float32 -> bfloat16"] / medians["hf32 rne"]
    print(f"  hf32 rne / ml_dtypes bfloat16              {ratio:6.2f}  (goal {HF32_GOAL})")
    ratio = medians["ml_dtypes float32 -> e4m3fn"] / medians["hifloat8 encode round"]
    print(f"  hifloat8 encode / ml_dtypes e4m3fn         {ratio:6.2f}")
    rival = medians.get("en_dtypes float32 -> hifloat8")
    if rival is not None:
        print(f"  hifloat8 encode / en_dtypes hifloat8       {rival / medians['hifloat8 encode round']:6.2f}", end="")
        print(f"  (goal {HIFLOAT8_GOAL})")
        back = medians["en_dtypes hifloat8 -> float32"] / medians["hifloat8 decode"]
        print(f"  hifloat8 decode / en_dtypes hifloat8       {back:6.2f}")


if __name__ == "__main__":
    main()
