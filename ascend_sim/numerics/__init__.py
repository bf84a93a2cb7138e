"""Ground floor: number formats, rounding and casts, error metrics and the verdict on values."""

from ascend_sim.numerics.casting import cast, decode, encode, round_to
from ascend_sim.numerics.formats import (
    CAST_OPTIONS,
    FORMATS,
    HF32_MANTISSA_BITS,
    Format,
    canonical,
    format_of,
    half_ulp,
    numpy_dtype,
    ulp,
)
from ascend_sim.numerics.hf32 import round_hf32
from ascend_sim.numerics.metrics import THRESHOLDS, Comparison, Threshold, compare, vendor_matched_ratio
from ascend_sim.numerics.verdict import Verdict, accumulation_bound, beyond_range, check_correct, rigorous_bound, rounded_bound

__all__ = [
    "CAST_OPTIONS",
    "FORMATS",
    "HF32_MANTISSA_BITS",
    "THRESHOLDS",
    "Comparison",
    "Format",
    "Threshold",
    "Verdict",
    "accumulation_bound",
    "beyond_range",
    "canonical",
    "cast",
    "check_correct",
    "compare",
    "decode",
    "encode",
    "format_of",
    "half_ulp",
    "numpy_dtype",
    "rigorous_bound",
    "round_hf32",
    "round_to",
    "rounded_bound",
    "ulp",
    "vendor_matched_ratio",
]
