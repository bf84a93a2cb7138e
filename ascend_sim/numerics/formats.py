"""The number formats of the Ascend machines, as data: one commented entry each.

A format is a ladder of values. In the binade [2^e, 2^(e+1)) the rungs are 2^(e - m) apart, where m is the number of
mantissa bits that the format keeps there; below its smallest exponent the spacing stays what it is. IEEE-like formats
keep the same m everywhere, hifloat8 keeps fewer bits the further e is from 0. That one rule, `quantum_exponent`, serves
rounding, ULPs and the verdict on values alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypedDict, Unpack

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen


@frozen
class Format:
    """One number format: layout, range, special codes, storage, and the source of these.

    `mantissa_bits` counts stored bits (the leading 1 is implicit). `min_exponent` is the lowest exponent whose spacing still
    shrinks, `max_exponent` that of the largest finite value. `taper` lists (largest |e|, mantissa bits) where the mantissa
    depends on the exponent. `top_is_special`: at `max_exponent` the highest mantissa is inf or NaN, not a number. `roundings`
    are the vector unit's cast modes to the format (hf32: names of its rounding); the first is the default.
    """

    name: str
    aliases: tuple[str, ...]
    bits: int
    exponent_bits: int
    mantissa_bits: int
    min_exponent: int
    max_exponent: int
    storage: np.dtype[Any]
    roundings: tuple[str, ...]
    layout: str
    specials: tuple[str, ...]
    source: str
    has_infinity: bool = True
    has_negative_zero: bool = True
    top_is_special: bool = False
    taper: tuple[tuple[int, int], ...] = ()

    @property
    def bias(self) -> int | None:
        """Return the number that is added to an exponent to store it; None for hifloat8, whose exponent is sign-magnitude."""
        return None if self.taper else 1 - self.min_exponent

    def mantissa_bits_at(self, exponent: int) -> int:
        """Return the stored mantissa bits in the binade [2^exponent, 2^(exponent+1)); 0 beyond the taper."""
        if not self.taper:
            return self.mantissa_bits
        return next((bits for reach, bits in self.taper if abs(exponent) <= reach), 0)

    def quantum_exponent(self, exponent: int) -> int:
        """Return e such that values in the binade [2^exponent, 2^(exponent+1)) are 2^e apart; constant below the smallest
        exponent and above the largest.
        """
        clamped = min(max(exponent, self.min_exponent), self.max_exponent)
        return clamped - self.mantissa_bits_at(clamped)

    @property
    def max_finite(self) -> float:
        """Return the largest finite value."""
        kept = self.mantissa_bits_at(self.max_exponent)
        units = 2 ** (kept + 1) - 1 - self.top_is_special
        return float(units) * 2.0 ** (self.max_exponent - kept)

    @property
    def overflow_threshold(self) -> float:
        """Return the magnitude above which rounding to nearest overflows: half a step above the largest finite value."""
        return self.max_finite + 2.0 ** (self.quantum_exponent(self.max_exponent) - 1)

    @property
    def overflows_at_threshold(self) -> bool:
        """Return True if `overflow_threshold` itself, a tie, overflows; False in e4m3fn, where the largest value is even."""
        return self.roundings[0] == "round" or not self.top_is_special

    def overflows(self, magnitude: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return True where a magnitude overflows when it is rounded to nearest; False for NaN."""
        threshold = self.overflow_threshold
        return np.greater_equal(magnitude, threshold) if self.overflows_at_threshold else np.greater(magnitude, threshold)

    @property
    def smallest(self) -> float:
        """Return the smallest positive value."""
        return 2.0 ** self.quantum_exponent(self.min_exponent)

    @property
    def smallest_normal(self) -> float:
        """Return the smallest normal value; smaller ones are evenly spaced, or in hifloat8 have no mantissa bits."""
        return 2.0 ** (-self.taper[-1][0] if self.taper else self.min_exponent)


_VECTOR_CAST = "AscendC API, precision_conversion.md and the memory-vector Cast.md tables (stated)"
_FLOAT8_SOURCE = f"OCP 8-bit floating point specification; modes and saturation: {_VECTOR_CAST}"

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        # IEEE binary32: what L0C accumulates in, and the cube's full-precision operand on the 910B and 950.
        Format(
            name="float32",
            aliases=("fp32", "float", "single", "f32", "FLOAT"),
            bits=32,
            exponent_bits=8,
            mantissa_bits=23,
            min_exponent=-126,
            max_exponent=127,
            storage=np.dtype(np.float32),
            roundings=("none", "rint"),
            layout="S EEEEEEEE MMMMMMMMMMMMMMMMMMMMMMM",
            specials=("+-0", "+-inf: E all ones, M = 0", "NaN: E all ones, M != 0"),
            source="IEEE 754 binary32",
        ),
        # IEEE binary16: the operand every product has; on the 910 and 310P the only one of the cube.
        Format(
            name="float16",
            aliases=("fp16", "half", "f16", "FLOAT16"),
            bits=16,
            exponent_bits=5,
            mantissa_bits=10,
            min_exponent=-14,
            max_exponent=15,
            storage=np.dtype(np.float16),
            roundings=("rint", "floor", "ceil", "round", "trunc", "odd", "none"),
            layout="S EEEEE MMMMMMMMMM",
            specials=("+-0", "+-inf: E all ones, M = 0", "NaN: E all ones, M != 0"),
            source=f"IEEE 754 binary16; cast modes: {_VECTOR_CAST}",
        ),
        # The upper half of a float32: its range, 8 bits of significand. From the 910B on.
        Format(
            name="bfloat16",
            aliases=("bf16", "BFLOAT16"),
            bits=16,
            exponent_bits=8,
            mantissa_bits=7,
            min_exponent=-126,
            max_exponent=127,
            storage=np.dtype(ml_dtypes.bfloat16),
            roundings=("rint", "floor", "ceil", "round", "trunc"),
            layout="S EEEEEEEE MMMMMMM",
            specials=("+-0", "+-inf: E all ones, M = 0", "NaN: E all ones, M != 0"),
            source=f"upper 16 bits of IEEE 754 binary32; cast modes: {_VECTOR_CAST}",
        ),
        # Not a storage format: what the cube makes of a float32 operand at L0A / L0B when HF32 is switched on.
        # 11 mantissa bits on the 910B and 910_93 (the low 12 bits of the float32 dropped), 10 on the 950 (low 13).
        Format(
            name="hf32",
            aliases=("hfloat32", "hifloat32", "HiFLOAT32"),
            bits=20,
            exponent_bits=8,
            mantissa_bits=11,
            min_exponent=-126,
            max_exponent=127,
            storage=np.dtype(np.float32),
            roundings=("rne", "rna", "rnz", "rtz"),
            layout="S EEEEEEEE MMMMMMMMMMM (000000000000, held as float32)",
            specials=("as float32; subnormals, NaN payload and the carry of the largest value to inf: assumed",),
            source="asc-devkit, Mmad key features, HF32.md; ATC page of --allow_hf32 (stated); tie rule inferred",
        ),
        # OCP E4M3: no infinity, one NaN pattern per sign, so that 448 is still a number. 950 only.
        Format(
            name="float8_e4m3fn",
            aliases=("fp8_e4m3fn", "fp8_e4m3", "e4m3fn", "e4m3", "FLOAT8_E4M3FN"),
            bits=8,
            exponent_bits=4,
            mantissa_bits=3,
            min_exponent=-6,
            max_exponent=8,
            storage=np.dtype(ml_dtypes.float8_e4m3fn),
            roundings=("rint",),
            layout="S EEEE MMM",
            specials=("+-0", "no infinity: overflow becomes NaN", "NaN: 0x7F, 0xFF"),
            source=_FLOAT8_SOURCE,
            has_infinity=False,
            top_is_special=True,
        ),
        # OCP E5M2: the upper half of a float16. 950 only.
        Format(
            name="float8_e5m2",
            aliases=("fp8_e5m2", "e5m2", "FLOAT8_E5M2"),
            bits=8,
            exponent_bits=5,
            mantissa_bits=2,
            min_exponent=-14,
            max_exponent=15,
            storage=np.dtype(ml_dtypes.float8_e5m2),
            roundings=("rint",),
            layout="S EEEEE MM",
            specials=("+-0", "+-inf: 0x7C, 0xFC", "NaN: E all ones, M != 0"),
            source=_FLOAT8_SOURCE,
        ),
        # Huawei's tapered 8-bit format: a prefix of 2 to 4 bits says how the rest divides into exponent and mantissa,
        # so values near 1 get 3 bits of mantissa and far ones get range. One zero, one NaN, 950 only.
        Format(
            name="hifloat8",
            aliases=("hif8", "hi_float8", "hifloat8_t", "HIFLOAT8"),
            bits=8,
            exponent_bits=4,
            mantissa_bits=3,
            min_exponent=-22,
            max_exponent=15,
            storage=np.dtype(np.uint8),
            roundings=("round", "hybrid"),
            layout="S D.. E.. M..  (D 2-4 bits, E 0-4 bits, M 1-3 bits)",
            specials=("0x00: zero, the only one", "0x80: NaN, the only one", "0x6F: +inf", "0xEF: -inf"),
            source="asc-devkit, built-in data types, table 6, and Reg Cast.md (stated); arXiv 2409.16626",
            has_negative_zero=False,
            top_is_special=True,
            taper=((3, 3), (7, 2), (15, 1)),
        ),
    )
}

HF32_MANTISSA_BITS = (11, 10)
"""Mantissa bits of hf32 on the 910B and 910_93, and on the 950 (asc-devkit HF32.md, stated)."""

_NAMES = {alias.lower(): name for name, entry in FORMATS.items() for alias in (name, *entry.aliases)}


def canonical(name_or_dtype: object) -> str:
    """Return the project's name of a format from a `Format`, any of its names (in any case) or a numpy / ml_dtypes dtype.

    Raises `SimError` for another.
    """
    if isinstance(name_or_dtype, Format):
        return name_or_dtype.name
    name = name_or_dtype
    if not isinstance(name, str):
        try:
            name = np.dtype(name).name  # type: ignore[call-overload]
        except TypeError:
            name = repr(name_or_dtype)
    found = _NAMES.get(str(name).lower())
    if found is None:
        begun = dict.fromkeys(full for alias, full in _NAMES.items() if name and alias.startswith(str(name).lower()))
        hint = f"; did you mean {' or '.join(begun)}?" if begun else ""
        raise SimError(f"no number format {name!r} on these machines{hint}; known: {', '.join(FORMATS)}")
    return found


def format_of(name_or_dtype: object, mantissa_bits: int | None = None) -> Format:
    """Return the `Format` of a name or dtype; `mantissa_bits` chooses between the two widths of hf32 (None: 11, or that of a
    given Format).

    Raises SimError for an unknown name, and for `mantissa_bits` that the format cannot have.
    """
    if isinstance(name_or_dtype, Format) and mantissa_bits is None:
        return name_or_dtype
    found = FORMATS[canonical(name_or_dtype)]
    if mantissa_bits is None or mantissa_bits == found.mantissa_bits:
        return found
    if found.name != "hf32" or mantissa_bits not in HF32_MANTISSA_BITS:
        raise SimError(f"mantissa_bits={mantissa_bits} for {found.name}: only hf32 has a choice, 11 (910B, 910_93) or 10 (950)")
    dropped = 23 - mantissa_bits
    layout = f"S EEEEEEEE {'M' * mantissa_bits} ({'0' * dropped}, held as float32)"
    return replace(found, mantissa_bits=mantissa_bits, bits=9 + mantissa_bits, layout=layout)


def numpy_dtype(name: object) -> np.dtype[Any]:
    """Return the dtype that holds arrays of a format: ml_dtypes for bfloat16 and fp8, float32 for hf32, uint8 for hifloat8.

    Raises SimError for an unknown format.
    """
    return format_of(name).storage


def ulp(x: npt.ArrayLike, fmt: object, mantissa_bits: int | None = None) -> npt.NDArray[np.float64]:
    """Return the spacing of a format at |x|, elementwise: the gap from the value at or below |x| to the next one above.

    Below the smallest exponent that is the smallest positive value (also at 0), beyond the largest finite value the spacing of
    the top binade; NaN gives NaN. float64, shape of `x`. `mantissa_bits` is for hf32. Raises SimError for an unknown format,
    and for `mantissa_bits` that it cannot have.
    """
    entry = format_of(fmt, mantissa_bits)
    magnitude = np.abs(np.asarray(x, dtype=np.float64))
    # The exponent field of the float64: 0 and its subnormals come out low, inf and NaN high; both are clamped.
    exponent = np.clip((magnitude.view(np.int64) >> 52) - 1023, entry.min_exponent, entry.max_exponent)
    if entry.taper:
        exponents = range(entry.min_exponent, entry.max_exponent + 1)
        spacing = np.array([2.0 ** entry.quantum_exponent(e) for e in exponents])[exponent - entry.min_exponent]
    else:
        spacing = (exponent + (1023 - entry.mantissa_bits) << 52).view(np.float64)  # always a normal float64
    return np.where(np.isnan(magnitude), np.nan, spacing)


def half_ulp(x: npt.ArrayLike, fmt: object, mantissa_bits: int | None = None) -> npt.NDArray[np.float64]:
    """Return half of `ulp`, elementwise: the most that rounding to nearest can move a value near x."""
    return 0.5 * ulp(x, fmt, mantissa_bits)


_SAME_RULE = {"rne": "rint", "rna": "round", "rtz": "trunc", "none": "rint"}


def rounding_mode(fmt: Format, rounding: str | None) -> str:
    """Return the canonical rounding mode of a format ("rne" and "CAST_RINT" are "rint"); for None the format's first.

    Raises SimError for a mode that the format lacks.
    """
    if rounding is None:
        rounding = fmt.roundings[0]
    asked = str(rounding).lower().removeprefix("cast_")
    own = {_SAME_RULE.get(mode, mode) for mode in fmt.roundings}
    mode = _SAME_RULE.get(asked, asked)
    if mode not in own or (asked == "none" and asked not in fmt.roundings):
        raise SimError(f"rounding {rounding!r} towards {fmt.name}: it has {', '.join(fmt.roundings)} ({fmt.source})")
    return mode


CAST_OPTIONS = {
    # CAST_HYBRID compares frac >= thr, so that an exact value whose thr is 0 moves up: literally so in the vendor's
    # text ("up"); "keep" leaves exact values alone. What the hardware does is unknown.
    "hybrid_exact": ("up", "keep"),
    # From 40960 to 49152 the text of CAST_HYBRID may still keep 32768 ("rule"), the vendor's golden scripts say inf.
    "hybrid_overflow": ("rule", "inf"),
    # Casting (448, 464] to e4m3fn: the overflow test on the rounded value gives 448, as ml_dtypes does ("rounded"); on
    # the given value it gives NaN, as the vendor's text reads ("given"). What the hardware does is unknown.
    "e4m3_overflow": ("rounded", "given"),
}
"""Cast option -> its values, the first is the default: open questions about casts (asc-devkit, Cast.md; marks above)."""


class CastOptions(TypedDict, total=False):
    """Keywords of a cast on which sources disagree; values and defaults are those of `CAST_OPTIONS`."""

    hybrid_exact: str
    hybrid_overflow: str
    e4m3_overflow: str


def all_options(options: CastOptions) -> CastOptions:
    """Return the options of a cast, with defaults for those left out.

    Raises TypeError for another name, SimError for another value.
    """
    for name in options:
        if name not in CAST_OPTIONS:
            raise TypeError(f"a cast got an unexpected keyword argument {name!r}")
    check_options(**options)
    return CastOptions(**{name: values[0] for name, values in CAST_OPTIONS.items()} | options)  # type: ignore[typeddict-item]


def check_options(**options: Unpack[CastOptions]) -> None:
    """Raise a `SimError` for a cast option whose value is not one of `CAST_OPTIONS`; names must be known (`all_options`)."""
    for name, value in options.items():
        if value not in CAST_OPTIONS[name]:
            raise SimError(f"{name}={value!r}: allowed are {', '.join(map(repr, CAST_OPTIONS[name]))}")
