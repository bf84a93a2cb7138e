"""The status of a call, restated a second time: one function per operator and profile, written from the documents alone.

Plain code in the order of the sources, with no rule, no table and no helper of the package, so that a slip in one of the two
shows as a difference (`test_restated.py`). Products are the documents' names; "wide" ones have the fp32 cube.
"""

from __future__ import annotations

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall

OK, NULL, INVALID, INNER = 0, 161001, 161002, 561103
FP16_CUBE, A2_A3, REGBASE = ("310P", "910"), ("910B", "910_93"), ("910_95",)
EIGHT = ("hifloat8", "float8_e4m3fn")
PLAIN = ("float32", "float16", "bfloat16")


def _promoted(*dtypes: str) -> str | None:
    """None where 8-bit dtypes mix: the vendor's table has no entry."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    return "float32" if set(dtypes) <= set(PLAIN) else None


def _given(*tensors: TensorArg | None) -> list[TensorArg]:
    return [tensor for tensor in tensors if tensor is not None]


def _empty(tensor: TensorArg) -> bool:
    return 0 in tensor.shape


def library_conv(call: ConvBackwardCall, product: str, deterministic: bool) -> int:
    """Sections 1.1 to 1.3 of the library's checks, step by step, with what its kernels refuse behind them."""
    go, x, w = call.grad_output, call.input, call.weight
    stride, pad, dil, extra, mask = call.stride, call.padding, call.dilation, call.output_padding, call.output_mask
    gi, gw, gb = call.grad_input, call.grad_weight, call.grad_bias
    if None in (go, x, w, stride, pad, dil, extra, mask) or len(mask) != 3:  # steps 1, 2
        return NULL
    if any(wanted and out is None for wanted, out in zip(mask, (gi, gw, gb), strict=True)):  # 3
        return NULL
    everything = _given(go, x, w, gi, gw, gb)
    if any(size < 0 for tensor in everything for size in tensor.shape):
        return INVALID
    dtypes = {"float32", "float16"} | ({"bfloat16"} if product not in FP16_CUBE else set())  # 4
    if product in REGBASE:
        dtypes |= {"hifloat8"} | (set() if call.transposed else {"float8_e4m3fn"})
    if any(tensor.dtype not in dtypes for tensor in everything):
        return INVALID
    if product in REGBASE:  # 4b
        if (gi and gi.dtype != x.dtype) or (gb and gb.dtype != go.dtype):
            return INVALID
        if gw and w.dtype not in EIGHT and gw.dtype != w.dtype:
            return INVALID
        if _library_eight_bit(call):  # 5
            return INVALID
    for tensor in _given(go, x, w, gi, gw):  # 6
        if tensor.format not in {3: ("ND", "NCL"), 4: ("NCHW",), 5: ("NCDHW",)}.get(len(tensor.shape), ()):
            return INVALID
    if gb and product not in FP16_CUBE and not call.transposed and gb.format != "ND":  # 7
        return INVALID
    if min(stride, default=1) < 1 or min(pad, default=0) < 0 or min(dil, default=1) < 1:  # 8
        return INVALID
    rank = len(x.shape)
    if call.transposed:  # 9
        if min(extra, default=0) < 0:
            return INVALID
        if rank == 5 and any(e >= s for e, s in zip(extra, stride, strict=False)):
            return INVALID
    elif any(extra):
        return INVALID
    if call.groups < 1 or not 0 <= call.cube_math_type <= 3:  # 10, 11
        return INVALID
    promoted = _promoted(go.dtype, x.dtype, w.dtype)
    if product in FP16_CUBE and promoted == "float32" and call.cube_math_type in (0, 3):
        return INVALID
    first, second = (go, x) if call.transposed else (x, go)
    if product in FP16_CUBE or not (_empty(x) or _empty(w)):  # 12
        if any(len(tensor.shape) != rank for tensor in _given(go, w, gi, gw)) or _empty(go) or _empty(w):  # 13
            return INVALID
        if (gi and gi.shape != x.shape) or (gw and gw.shape != w.shape) or (gb and gb.shape != go.shape[1:2]):
            return INVALID
        if _library_lengths(rank, stride, dil, pad, extra):  # 14
            return INVALID
        if second.shape[1] != w.shape[0] or w.shape[1] == 0 or first.shape[1] % w.shape[1]:  # 15
            return INVALID
        if first.shape[1] // w.shape[1] != call.groups:
            return INVALID
        depthwise = product not in REGBASE and first.shape[1] == call.groups
        if depthwise and (second.shape[1] < call.groups or second.shape[1] % call.groups):
            return INVALID
        if rank == 5 and not _convolves(first, second, w, stride, dil, [(p, p) for p in pad]):  # 16
            return INVALID
    if product in FP16_CUBE and deterministic and mask[1] and call.groups > 1 and rank == 5:  # 17
        return INVALID
    if _empty(go) or _empty(x) or _empty(w):  # 18
        return _library_empty(call, product)
    if product in FP16_CUBE and rank == 5:  # 19
        return INVALID
    pads = [(pad[0], pad[1]), (pad[2], pad[3])] if rank == 4 and len(pad) == 4 else [(p, p) for p in pad]
    if product in A2_A3 and mask[1] and call.groups > 1 and gw.dtype == "float32":  # 20
        narrow = call.cube_math_type == 2 or promoted in ("float16", "bfloat16")
        if narrow and rank == 5:
            return INVALID
        reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dil, strict=True)]
        valid = all(max(low, high) < r for (low, high), r in zip(pads, reach, strict=True))
        if narrow and deterministic and not mask[0] and valid:
            return INNER
    if mask[0] or mask[1]:  # 21
        if go.shape[0] != x.shape[0] or w.shape[0] % call.groups:
            return INNER
        if not _convolves(first, second, w, stride, dil, pads):
            return INNER
    if mask[2] and go.dtype in EIGHT:
        return INNER
    return OK


def _library_eight_bit(call: ConvBackwardCall) -> bool:
    """Section 1.3: whether the 8-bit rules refuse the call."""
    go, x, w, gi, gw, gb = (
        call.grad_output, call.input, call.weight, call.grad_input, call.grad_weight, call.grad_bias
    )  # fmt: skip
    mask = call.output_mask
    if not (mask[0] or mask[1]):
        return False
    both = not (call.transposed and mask[0]) and gi and gw
    if both and any(tensor.dtype in EIGHT for tensor in _given(go, x, w, gi, gw, gb)):
        return True
    if mask[0]:
        for dtype in EIGHT:
            having = [tensor.dtype == dtype for tensor in _given(go, x, w, gi, gb)]
            if any(having) and not all(having):
                return True
    if mask[1]:
        used = [tensor.dtype for tensor in _given(go, x, w, gb)]
        if "float8_e4m3fn" in used:
            return True
        if "hifloat8" in used:
            if set(used) != {"hifloat8"} or gw.dtype != "float32":
                return True
            if (call.transposed and any(call.output_padding)) or call.groups != 1:
                return True
    return False


def _library_lengths(rank: int, stride: tuple, dil: tuple, pad: tuple, extra: tuple) -> bool:
    wide = (rank - 2, 4) if rank == 4 else (rank - 2,)
    return not (len(stride) == len(dil) == rank - 2 and len(pad) in wide and len(extra) in wide)


def _library_empty(call: ConvBackwardCall, product: str) -> int:
    """Section 1.2."""
    go, x, w, mask = call.grad_output, call.input, call.weight, call.output_mask
    if mask[2]:
        wanted = w.shape[1] * call.groups if call.transposed else go.shape[1]
        if call.bias_sizes is None or len(call.bias_sizes) != 1 or call.bias_sizes[0] != wanted:
            return INVALID
    if mask[0] and not (len(x.shape) > 2 and 0 in x.shape[:2]):
        return INVALID
    if product in FP16_CUBE:
        return OK
    if _library_lengths(len(x.shape), call.stride, call.dilation, call.padding, call.output_padding):
        return INVALID
    if w.shape[0] % call.groups:
        return INVALID
    first = go if call.transposed else x
    counted = not (call.transposed and x.shape[0] == 0) and (first.shape[1] != 0 or w.shape[1] != 0)
    if counted and (w.shape[1] == 0 or first.shape[1] % w.shape[1] or first.shape[1] // w.shape[1] != call.groups):
        return INVALID
    if call.transposed:
        return OK if w.shape[0] > 0 and w.shape[0] == x.shape[1] else INVALID
    for size, k, d, p in zip(x.shape[2:], w.shape[2:], call.dilation, call.padding, strict=False):
        if size + 2 * p < (k - 1) * d + 1:
            return INVALID
    return OK


def _convolves(
    first: TensorArg, second: TensorArg, weight: TensorArg, stride: tuple, dil: tuple, pads: list[tuple[int, int]]
) -> bool:
    for a, b, k, s, d, (low, high) in zip(first.shape[2:], second.shape[2:], weight.shape[2:], stride, dil, pads, strict=True):
        if a + low + high < (k - 1) * d + 1 or (a + low + high - (k - 1) * d - 1) // s + 1 != b:
            return False
    return True


def documented_conv(call: ConvBackwardCall, product: str) -> int:
    """000 and 003 with the rulings; every refusal of a value is 161002, so the order matters for null pointers alone."""
    go, x, w, mask = call.grad_output, call.input, call.weight, call.output_mask
    stride, pad, dil, extra = call.stride, call.padding, call.dilation, call.output_padding
    gi, gw, gb, groups = call.grad_input, call.grad_weight, call.grad_bias, call.groups
    if None in (go, x, w, call.bias_sizes, stride, pad, dil, extra, mask):  # ruling 5
        return NULL
    if len(mask) != 3 or gi is None or gw is None or (mask[2] and gb is None):
        return NULL
    everything = _given(go, x, w, gi, gw, gb)
    rank, axes = len(x.shape), len(x.shape) - 2
    allowed = {"float32", "float16"} if product in FP16_CUBE else set(PLAIN)
    if product in REGBASE:  # ruling 10
        allowed |= {"hifloat8"} | (set() if call.transposed else {"float8_e4m3fn"})
    if any(tensor.dtype not in allowed for tensor in everything):
        return INVALID
    if gi.dtype != x.dtype or (gb and gb.dtype != go.dtype):  # ruling 4
        return INVALID
    if gw.dtype != w.dtype and not (product in REGBASE and w.dtype in EIGHT):
        return INVALID
    if product in REGBASE and _library_eight_bit(call):
        return INVALID
    if rank not in ((3, 4) if product in FP16_CUBE else (3, 4, 5)):
        return INVALID
    maps = (go, x, w, gi, gw)
    if any(len(tensor.shape) != rank for tensor in maps):
        return INVALID
    labels = {tensor.format for tensor in maps if not (tensor.format == "ND" and rank == 3)}  # ruling 6
    if len(labels) > 1 or not labels <= {"NCL", "NCHW", "NCDHW"} or (gb and gb.format != "ND"):
        return INVALID
    if any(size < 0 for tensor in everything for size in tensor.shape):
        return INVALID
    if len(stride) != axes or len(dil) != axes or len(extra) != axes:
        return INVALID
    if len(pad) != axes and not (rank == 4 and len(pad) == 4):
        return INVALID
    if min(stride) < 1 or min(dil) < 1 or min(pad) < 0 or groups < 1:
        return INVALID
    if any(not 0 <= e < s for e, s in zip(extra, stride, strict=True)) if call.transposed else any(extra):  # ruling 8
        return INVALID
    if product in A2_A3 and not call.transposed:  # the ranges of 000
        if not all(1 <= k <= 255 for k in w.shape[-2:][-min(axes, 2) :]):
            return INVALID
        if rank == 5 and not all(s <= 63 for s in stride[1:]):
            return INVALID
        if not all(p <= 255 for p in (pad[1:] if rank == 5 else pad)) or not all(d <= 255 for d in dil):
            return INVALID
        if groups > 65535:
            return INVALID
    if gi.shape != x.shape or gw.shape != w.shape or (gb and gb.shape != (go.shape[1],)):
        return INVALID
    bias = w.shape[1] * groups if call.transposed else w.shape[0]
    if call.bias_sizes != (bias,):
        return INVALID
    if 0 in x.shape[2:] or 0 in go.shape[1:] or 0 in w.shape[2:]:  # ruling 7
        return INVALID
    if (0 in go.shape or 0 in w.shape) and 0 not in x.shape[:2]:
        return INVALID
    if 0 in w.shape and x.shape[1] != 0:
        return INVALID
    if go.shape[0] != x.shape[0] or w.shape[0] % groups:
        return INVALID
    first, second = (go, x) if call.transposed else (x, go)
    if second.shape[1] != w.shape[0] or first.shape[1] != groups * w.shape[1]:
        return INVALID
    pads = [(pad[0], pad[1]), (pad[2], pad[3])] if len(pad) == 4 and rank == 4 else [(p, p) for p in pad]
    if not _convolves(first, second, w, stride, dil, pads):
        return INVALID
    if call.transposed:
        for a, b, k, s, d, (low, high), e in zip(
            first.shape[2:], second.shape[2:], w.shape[2:], stride, dil, pads, extra, strict=True
        ):
            if a != (b - 1) * s - low - high + (k - 1) * d + e + 1:
                return INVALID
    promoted, kind = _promoted(go.dtype, x.dtype, w.dtype), call.cube_math_type
    if not 0 <= kind <= 3:
        return INVALID
    if product in FP16_CUBE and promoted == "float32" and kind in (0, 3):  # ruling 2
        return INVALID
    if product in A2_A3 and promoted == "bfloat16" and kind in (2, 3):
        return INVALID
    if mask[2] and go.dtype in EIGHT and not (_empty(go) or _empty(x) or _empty(w)):
        return INNER
    return OK


def _tbc_tensors(call: ConvTbcCall) -> list[TensorArg | None]:
    return [call.self, call.input, call.weight, call.bias, call.grad_input, call.grad_weight, call.grad_bias]


def library_tbc(call: ConvTbcCall, product: str) -> int:
    """Section 1.4."""
    tensors = _tbc_tensors(call)
    if None in tensors:  # 1
        return NULL
    go, x, w, b, gi, gw, gb = tensors
    allowed = ("float32", "float16") if product in FP16_CUBE else PLAIN
    if any(tensor.dtype not in allowed for tensor in (go, x, w, gi, gw, gb)) or b.dtype not in PLAIN:  # 2
        return INVALID
    if any(tensor.format not in ("ND", "NCL") for tensor in (go, x, w, gi, gw)):  # 3
        return INVALID
    if b.format != "ND" or gb.format != "ND":
        return INVALID
    if _empty(go):  # 4
        return INVALID
    if [len(tensor.shape) for tensor in tensors] != [3, 3, 3, 1, 3, 3, 1]:  # 5
        return INVALID
    if any(size < 0 for tensor in tensors for size in tensor.shape):
        return INVALID
    if x.shape[2] != w.shape[1] or b.shape[0] != w.shape[2] or call.pad < 0:
        return INVALID
    time = x.shape[0] + 2 * call.pad + 1 - w.shape[0]
    if time < 0 or go.shape != (time, x.shape[1], w.shape[2]):
        return INVALID
    if (gi.shape, gw.shape, gb.shape) != (x.shape, w.shape, b.shape):
        return INVALID
    if not 0 <= call.cube_math_type <= 3:  # 6
        return INVALID
    promoted = _promoted(go.dtype, x.dtype, w.dtype)
    if product in FP16_CUBE and promoted == "float32" and call.cube_math_type in (0, 3):
        return INVALID
    if product in REGBASE and (gi.dtype, gw.dtype, gb.dtype) != (x.dtype, w.dtype, b.dtype):  # 7
        return INVALID
    return OK


def documented_tbc(call: ConvTbcCall, product: str) -> int:
    """001 and 002 with the rulings."""
    tensors = _tbc_tensors(call)
    if None in tensors:
        return NULL
    go, x, w, b, gi, gw, gb = tensors
    if product == "310P":  # ruling 1
        return INVALID
    if len({tensor.dtype for tensor in (go, x, w, b)}) > 1:  # ruling 3
        return INVALID
    if go.dtype not in (PLAIN if product != "910" else ("float32", "float16")):
        return INVALID
    if gi.dtype != x.dtype or gb.dtype != b.dtype:  # ruling 4
        return INVALID
    if gw.dtype != w.dtype and not (product in REGBASE and gw.dtype in EIGHT):
        return INVALID
    if any(tensor.format not in ("ND", "NCL") for tensor in tensors):
        return INVALID
    if any(not tensor.is_contiguous for tensor in (gi, gw, gb)):  # ruling 11
        return INVALID
    if [len(tensor.shape) for tensor in tensors] != [3, 3, 3, 1, 3, 3, 1]:
        return INVALID
    if any(size < 0 for tensor in tensors for size in tensor.shape):
        return INVALID
    sizes = [size for tensor in (go, x, w) for size in tensor.shape]
    if product in A2_A3 and not all(1 <= size <= 2147483646 for size in sizes):  # ruling 7, the dimensions of 001
        return INVALID
    if product in A2_A3 + REGBASE and not 1 <= w.shape[0] <= 255:
        return INVALID
    if not 0 <= call.pad <= 255:
        return INVALID
    if x.shape[2] != w.shape[1] or b.shape[0] != w.shape[2]:
        return INVALID
    if go.shape != (x.shape[0] + 2 * call.pad - w.shape[0] + 1, x.shape[1], w.shape[2]):
        return INVALID
    if product in REGBASE and x.shape[0] == 0 and go.shape[0] > 0:  # 002, input: L = 0 only where out has none
        return INVALID
    if (gi.shape, gw.shape, gb.shape) != (x.shape, w.shape, b.shape):
        return INVALID
    kind, dtype = call.cube_math_type, go.dtype  # ruling 2
    if not 0 <= kind <= 3:
        return INVALID
    refused = {"float16": (3,), "bfloat16": (2, 3), "float32": (0, 3) if product == "910" else ()}[dtype]
    return INVALID if kind in refused else OK
