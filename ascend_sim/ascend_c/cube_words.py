"""Translation of the words that only a cube core has into steps of one instruction each."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ascend_sim.ascend_c.words import FORMATS, WORDS, atomic_of, check_fields, items_of, parts_of
from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, BIAS_UNIT, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.bias import LoadBias
from ascend_sim.isa.cube import Fixpipe, FixpipeExtreme, FixpipeNd, FixpipeNdExtreme, FixpipeUnitFlag, Mmad
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, Fill
from ascend_sim.kernel.described import Key
from ascend_sim.numerics.integers import storage

SCALES_UNIT = 128
"""Bytes in which copies to the Fixpipe buffer, and places of scales in it, are counted (recorded words)."""
_HF32, _HF32_TRUNCATES = 46, 47
"""Bits of CTRL (asim/cube.h)."""
_NONE, _F16, _VREQ8, _REQ8, _VDEQF16, _DEQF16, _BF16, _VQUANT8, _QUANT8 = 0, 1, 4, 5, 6, 7, 16, 23, 24
"""Modes of the Fixpipe (asim/cube_types.h, QuantMode_t)."""
_MODES = {
    _NONE: ("float32", ("float32",)), _F16: ("float32", ("float16",)), _BF16: ("float32", ("bfloat16",)),
    _REQ8: ("int32", ("int8", "uint8")), _VREQ8: ("int32", ("int8", "uint8")),
    _QUANT8: ("float32", ("int8", "uint8")), _VQUANT8: ("float32", ("int8", "uint8")),
    _DEQF16: ("int32", ("float16",)), _VDEQF16: ("int32", ("float16",)),
}  # fmt: skip
_BY_COLUMN = (_VREQ8, _VDEQF16, _VQUANT8)
_SIGN_OF_INT8 = 1 << 14
"""Bit 46 of a scale word, here counted from bit 32: a result of one byte is signed (public documentation of deqScalar)."""


class WordStep(NamedTuple):
    """One instruction of a word: its key in the instruction table, and its operands' offsets in bytes from the word's
    addresses.
    """

    key: Key
    dst: int = 0
    src0: int = 0
    src1: int = 0


Fields = dict[str, int]
Steps = Sequence[WordStep]


def _format(name: str, number: int, allowed: Sequence[str]) -> str:
    """Return the number format with a recorded `number`. Raises SimError, about the word `name`, unless it is in `allowed`."""
    found = FORMATS[number] if 0 <= number < len(FORMATS) else ""
    if found not in allowed:
        raise SimError(f"{name}: elements of {found or 'no number format'}; {', '.join(allowed)} are possible")
    return found


def _itemsize(name: str, number: int) -> int:
    return storage(_format(name, number, FORMATS[1:])).itemsize


def _positive(name: str, counts: Mapping[str, int]) -> None:
    """Raise SimError for a count below 1; `counts` has the vendor's parameter names."""
    for what, count in counts.items():
        if count < 1:
            raise SimError(f"{name}: {what} = {count}; allowed is 1 or more")


def _increasing(name: str, f: Fields) -> None:
    """Raise SimError for a load whose addresses decrease (addrMode), which is not simulated."""
    mode = f["addr_mode" if "addr_mode" in f else "addr_cal_mode"]
    if mode:
        raise SimError(f"{name}: addrMode {mode} is not simulated; 0 (addresses grow) is")


def _to_l1(name: str, f: Fields, chip: ChipSpec) -> Steps:
    _positive(name, {"blockCount": f["n_burst"], "blockLen": f["len_burst"]})
    size, count = f["len_burst"] * BLOCK_BYTES, f["n_burst"]
    steps = (size + f["src_gap"] * BLOCK_BYTES, size + f["dst_gap"] * BLOCK_BYTES) if count > 1 else (0, 0)
    return [WordStep((DataCopy, "GM", "L1", size, count, *steps, "", ""))]


def _bias(name: str, f: Fields, chip: ChipSpec) -> Steps:
    _positive(name, {"blockCount": f["n_burst"], "blockLen": f["len_burst"]})
    wide = ("float16",) if f["conv_control"] else ("float32", "int32")
    dtype = _format(name, f["format"], wide)
    size = f["len_burst"] * BIAS_UNIT
    count = size // storage(dtype).itemsize
    there = size * (2 if f["conv_control"] else 1) + f["dst_gap"] * BIAS_UNIT
    return [
        WordStep((LoadBias, count, dtype), number * there, number * (size + f["src_gap"] * BLOCK_BYTES))
        for number in range(f["n_burst"])
    ]


def _scales(name: str, f: Fields, chip: ChipSpec) -> Steps:
    _positive(name, {"blockLen": f["len_burst"]})
    if f["n_burst"] != 1:
        raise SimError(f"{name}: {f['n_burst']} pieces to the Fixpipe buffer are not simulated; 1 is")
    return [WordStep((DataCopy, "L1", "FB", f["len_burst"] * SCALES_UNIT, 1, 0, 0, "", ""))]


def _nd2nz(name: str, f: Fields, chip: ChipSpec) -> Steps:
    size, rows, columns, matrices = items_of(name), f["n_value"], f["d_value"], f["nd_num"]
    _positive(name, {"ndNum": matrices, "nValue": rows, "dValue": columns})
    step = f["dst_nz_n_stride"] if rows > 1 else 1
    _positive(name, {"dstNzNStride": step})
    key = DataCopyNd2Nz, rows, columns, size, f["src_d_value"] * size, f["dst_nz_c0_stride"], "", step
    steps = f["dst_nz_matrix_stride"] * size, f["src_nd_matrix_stride"] * size
    return [WordStep(key, *(number * step for step in steps)) for number in range(matrices)]


def _fractals_of_gm(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the step of a load of whole fractals from GM to L1, L0A or L0B: a DataCopy. Raises SimError for decreasing
    addresses (addrMode) and for repeatTimes below 1.
    """
    _increasing(name, f)
    _positive(name, {"repeatTimes": f["repeat"]})
    steps = (f["src_stride"] * FRACTAL_BYTES, (f["dst_gap"] + 1) * FRACTAL_BYTES) if f["repeat"] > 1 else (0, 0)
    key = DataCopy, "GM", WORDS[name].spaces[0], FRACTAL_BYTES, f["repeat"], *steps, "", ""
    return [WordStep(key, src0=f["base_idx"] * FRACTAL_BYTES)]


def _fractals(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the step of a load of fractals from L1 to L0A or L0B: a LoadData2D. Raises SimError for decreasing addresses
    (addrMode), for repeatTimes below 1, and for a transposition of elements that are not 2 bytes wide.
    """
    _increasing(name, f)
    _positive(name, {"repeatTimes": f["repeat"]})
    strides = (f["src_stride"], f["dst_gap"] + 1) if f["repeat"] > 1 else (1, 1)
    size, turned = _itemsize(name, f["format"]), bool(f["transpose"])
    if turned and size != 2:
        raise SimError(f"{name}: ifTranspose turns elements of 2 bytes, not of {size}")
    key = LoadData2D, WORDS[name].spaces[0], size, f["repeat"], strides[0], turned, strides[1], 1
    return [WordStep(key, src0=f["base_idx"] * FRACTAL_BYTES)]


def _squares(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the step of a word that loads and transposes squares, a LoadData2D. Raises SimError for decreasing addresses
    (addrMode) and for repeatTimes below 1.
    """
    _increasing(name, f)
    _positive(name, {"repeatTimes": f["repeat"]})
    size = _itemsize(name, f["format"])
    fractals = LoadData2D("L0A", size, 1, transpose=True).fractals
    strides = (f["src_stride"] * fractals, f["dst_gap"] + 1) if f["repeat"] > 1 else (fractals, fractals)
    key = LoadData2D, WORDS[name].spaces[0], size, f["repeat"], strides[0], True, strides[1], f["dst_frac_gap"] + 1
    return [WordStep(key, src0=f["index_id"] * fractals * FRACTAL_BYTES)]


def _img2col(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the load_data_3d step of a word; fields that are wider than the instruction's are cut to it, as the public API
    packs them; none for a map, an extent or a filter of 0.

    Raises SimError for an unknown map, boundaries, a stride of 0 and an output without rows or columns.
    """
    packed = f["fmatrix_b" if f["f_matrix_ctrl"] else "fmatrix"]
    if packed == -1:
        side = "FMATRIX_RIGHT" if f["f_matrix_ctrl"] else "FMATRIX_LEFT"
        raise SimError(f"{name}: no map is known; SetFmatrix with {side} says its height, width and padding")
    if f["l1_3d_size"]:
        raise SimError(f"{name}: SetLoadDataBoundary({f['l1_3d_size']}) is not simulated; 0 is")
    width, height, left, right, top, bottom = parts_of(name, "fmatrix", packed).values()
    k_extent, m_extent, k_start, m_start = (f[one] & 0xFFFF for one in ("k_extension", "m_extension", "k_start", "m_start"))
    step_w, step_h, far_w, far_h = (f[one] & 0xFF for one in ("stride_w", "stride_h", "dilation_w", "dilation_h"))
    taps_w = f["filter_w"] & 0xFF | (f["filter_size_w"] & 1) << 8
    taps_h = f["filter_h"] & 0xFF | (f["filter_size_h"] & 1) << 8
    if not all((width, height, f["channel_size"], k_extent, m_extent, taps_w, taps_h)):
        return ()
    _positive(name, {"strideW": step_w, "strideH": step_h})
    out_h = (height + top + bottom - far_h * (taps_h - 1) - 1) // step_h + 1
    out_w = (width + left + right - far_w * (taps_w - 1) - 1) // step_w + 1
    _positive(name, {"rows of the output": out_h, "columns of the output": out_w})
    size, turned = _itemsize(name, f["format"]), bool(f["transpose"] & 1)
    kernel = taps_h, taps_w, step_h, step_w, far_h, far_w, top, left, out_h, out_w
    rows = m_start, m_extent, k_start, k_extent
    padding = f["padding"] & (1 << 8 * size) - 1 if left or right or top or bottom else 0
    step = LoadData3D, WORDS[name].spaces[0], size, height, width, *kernel, *rows, turned, 1, 0, 0, padding
    return [WordStep(step)]


def _constant(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the steps that fill a buffer with a constant: several where there are gaps, none for 0 times. Blocks have 32 bytes
    in L1, else 512.

    A call that names no blocks fills one each time in L0A or L0B, and nothing in L1.
    """
    constant = _bits(_format(name, f["format"], FORMATS[1:]), f["value"])
    place = WORDS[name].spaces[0]
    times, blocks, gap = parts_of(name, "config", f["config"]).values()
    unit = BLOCK_BYTES if place == "L1" else FRACTAL_BYTES
    blocks = blocks or int(place != "L1")
    if not (times and blocks):
        return ()
    if not gap:
        return [WordStep((Fill, place, times * blocks * unit, *constant))]
    return [WordStep((Fill, place, blocks * unit, *constant), number * (blocks + gap) * unit) for number in range(times)]


def _bits(dtype: str, scalar: int) -> tuple[int, int]:
    """Return (bits, bytes) of a constant; the word has floats of two bytes as the bits of a float32."""
    size = storage(dtype).itemsize
    if dtype in ("float16", "bfloat16"):
        single = np.array([scalar & 0xFFFFFFFF], np.uint32).view(np.float32)
        return int(single.astype(storage(dtype)).view(np.uint16)[0]), size
    return scalar & (1 << 8 * size) - 1, size


def _product(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the step of a product, an Mmad, with HF32 by the control register and bias from the bias table. Raises SimError
    for formats and modes that are not simulated, and for m, n or k below 1.
    """
    dtype = _format("Mmad", f["source"], ("float16", "bfloat16", "float32", "int8"))
    if f["source"] != f["target"]:
        raise SimError(f"Mmad: operands of {dtype} and {FORMATS[f['target']]}; both must have one format")
    _format("Mmad, result", f["format"], ("int32",) if dtype == "int8" else ("float32",))
    _positive("Mmad", {"m": f["m"], "n": f["n"], "k": f["k"]})
    if f["k_direction_align"] and dtype == "float32" and ceil_div(f["k"], 8) % 2:
        raise SimError(f"Mmad: kDirectionAlign with k = {f['k']} is not simulated; k rounded up to 8 must be a multiple of 16")
    bits = 0
    if dtype == "float32" and f["ctrl"] >> _HF32 & 1:
        if f["ctrl"] >> _HF32_TRUNCATES & 1:
            raise SimError("Mmad: SetHF32TransMode(true) is not simulated; false (nearest even) is")
        dtype, bits = "hf32", int(chip.cube.hf32_mantissa_bits or 0)
    from_bias, from_zero = f["c_matrix_source"], f["c_matrix_init_val"]
    bias = max(f["bias"], 0) if from_bias and not from_zero else -1
    if f["bias"] >= 0 and not from_bias and not from_zero:
        raise SimError("Mmad: a bias in L0C is not simulated; one in the bias table (C2) is")
    accumulate = not from_zero and not from_bias
    return [WordStep((Mmad, f["m"], f["k"], f["n"], dtype, accumulate, bits, f["m"] == 1, bias))]


def _arithmetic(f: Fields, source: str) -> Quantisation | None:
    """Return the arithmetic of a Fixpipe word as a Quantisation; None without ReLU and without a scale, of the word or by
    column.

    Raises SimError for unsupported modes.
    """
    mode, relu, packed = f["quant_pre"], f["relu_pre"], f["quant_scale"]
    if relu > 1:
        raise SimError(f"Fixpipe: reluPre {relu} is not simulated; 0 and 1 (ReLU) are")
    scale = 0.0
    if mode in (_REQ8, _DEQF16, _QUANT8):
        if packed >> 32 not in (0, _SIGN_OF_INT8):
            raise SimError(f"Fixpipe: deqScalar {packed:#x} has an offset, which is not simulated")
        scale = float(struct.unpack("<f", struct.pack("<I", packed & 0xFFFFFFFF))[0])
        if not scale:
            raise SimError("Fixpipe: deqScalar is 0; a scale other than 0 is allowed")
    by_column = mode in _BY_COLUMN
    if not (scale or by_column or relu):
        return None
    return Quantisation(source, scale, by_column, bool(relu))


def _drain(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the steps of a Fixpipe word: one store in blocks, or to GM one for each matrix in rows. Raises SimError for
    formats and modes that are not simulated, for mSize or nSize below 1, and for distances of matrices that are too wide.
    """
    to_l1, mode = name == "copy_matrix_cc_to_cbuf", f["quant_pre"]
    if to_l1 and mode == _NONE:
        raise SimError("Fixpipe to L1: quantPre NoQuant; L1 takes numbers of 1 and 2 bytes (public documentation)")
    if to_l1 and f["unit_flag"]:
        raise SimError(f"Fixpipe to L1: unitFlag {f['unit_flag']} is not simulated; 0 is")
    if mode not in _MODES:
        raise SimError(f"Fixpipe: quantPre {mode} is not simulated; {', '.join(map(str, _MODES))} are")
    source, targets = _MODES[mode]
    if mode == _NONE and FORMATS[f["source"]] == "int32":
        source, targets = "int32", ("int32",)
    _format("Fixpipe, source", f["source"], (source,))
    dtype = _format("Fixpipe, output", f["format"], targets)
    if mode in (_REQ8, _QUANT8):
        dtype = "int8" if f["quant_scale"] >> 32 & _SIGN_OF_INT8 else "uint8"
    added, keep = ("", "") if to_l1 else atomic_of(f["atomic"])
    if added and added != dtype:
        raise SimError(f"Fixpipe: an atomic operation on {added} and an output of {dtype}; both must have one format")
    pre, size = _arithmetic(f, source), storage(dtype).itemsize
    place = (f["fpc"] >> 8 & 0xFF) * SCALES_UNIT if mode in _BY_COLUMN else 0
    m, n, padded, atomic, more = f["m_size"], f["n_size"], f["src_stride"], bool(added), (keep,) if keep else ()
    _positive("Fixpipe", {"mSize": m, "nSize": n})
    if not f["nz2nd_en"]:
        c0 = BLOCK_BYTES if size == 1 else FRACTAL // 2 if f["channel_split"] and dtype == "float32" else FRACTAL
        if keep and f["unit_flag"]:
            raise SimError("Fixpipe: unitFlag with SetAtomicMax or SetAtomicMin is not simulated")
        kind = FixpipeExtreme if keep else FixpipeUnitFlag if f["unit_flag"] else Fixpipe
        kind = FixpipeToL1 if to_l1 else kind
        fields = m, n, padded, dtype, c0, f["dst_stride"] * BLOCK_BYTES, atomic, pre, *more
        return [WordStep((kind, *fields), src1=place)]
    parts = parts_of(name, "nd_para", f["nd_para"])
    matrices, src_step, dst_step = parts.values()
    if matrices > 1:
        check_fields(name, parts)
    key = (FixpipeNdExtreme if keep else FixpipeNd), m, n, padded, dtype, f["dst_stride"] * size, atomic, pre, *more
    return [
        WordStep(key, number * dst_step * size, number * src_step * ACCUMULATOR_FRACTAL_BYTES, place)
        for number in range(matrices)
    ]


CUBE_MAKERS: dict[str, Callable[[str, Fields, ChipSpec], Steps]] = {
    "copy_gm_to_cbuf": _to_l1,
    "copy_cbuf_to_bt": _bias,
    "copy_cbuf_to_fbuf": _scales,
    **{name: _nd2nz for name in WORDS if name.startswith("copy_gm_to_cbuf_multi_nd2nz")},
    **dict.fromkeys(("load_gm_to_cbuf", "load_gm_to_ca", "load_gm_to_cb"), _fractals_of_gm),
    **dict.fromkeys(("load_cbuf_to_ca", "load_cbuf_to_cb"), _fractals),
    **dict.fromkeys(("load_cbuf_to_ca_transpose", "load_cbuf_to_cb_transpose"), _squares),
    **dict.fromkeys(("img2colv2_cbuf_to_ca", "img2colv2_cbuf_to_cb"), _img2col),
    **dict.fromkeys(("create_ca_matrix", "create_cb_matrix", "create_cbuf_matrix", "create_cbuf_matrix_bf16"), _constant),
    "mad": _product,
    **dict.fromkeys(("copy_matrix_cc_to_gm", "copy_matrix_cc_to_cbuf"), _drain),
}
"""Word that only a cube core has -> function (name, fields, chip) that returns its steps."""
