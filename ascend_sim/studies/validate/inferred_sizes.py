"""Sizes of a launch, inferred from the shapes that a profiler records.

It records shapes, dtypes, formats and blocks, but no attribute of an operator. An inferred size is used, an assumption is
listed, and an open one raises `Open`. A column of the user's own (stride_h, pad_h_total, Ci ...) settles such a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ascend_sim.studies.validate.profiler_line import Line, ProfiledTensor


class Open(Exception):
    """Reason why a row cannot be simulated: its shapes leave a size open, or no simulated kernel does the work."""


def _strides(axes: Mapping[str, tuple[int, int, int]], given: Mapping[str, str]) -> tuple[int, ...]:
    """Return one stride for each axis in the order of `axes`, {axis: (input size, output size, kernel size)}.

    The user's column (`stride_AXIS` in `given`) wins; an axis with one output row takes the smallest that fits. Where several
    strides fit an axis, the only one that fits all axes is taken. Raises Open if there is none or several, and if none fits an
    axis.
    """
    found: dict[str, set[int]] = {}
    for axis, (size, out, kernel) in axes.items():
        if f"stride_{axis}" in given:
            found[axis] = {int(given[f"stride_{axis}"])}
            continue
        # Padding of at most "same", then of at most "full": more adds rows of zeros only.
        for most in (kernel - 1, 2 * (kernel - 1)):
            fits = {s for s in range(1, size + most + 1) if _pads(size, out, kernel, s, most)}
            if fits:
                break
        if not fits:
            raise Open(f"{out} rows out of {size} with a kernel of {kernel}: no stride gives that at dilation 1")
        found[axis] = {min(fits)} if out == 1 else fits  # one row: its stride has no second step
    several = [axis for axis in axes if len(found[axis]) > 1]
    if not several:
        return tuple(min(found[axis]) for axis in axes)
    common = set.intersection(*found.values())
    if len(common) != 1:
        axis = several[0]
        choices = ", ".join(map(str, sorted(found[axis])))
        *first, last = (f"stride_{axis}" for axis in axes)
        raise Open(
            f"strides {choices} all give {axes[axis][1]} rows out of {axes[axis][0]}; "
            f"columns {', '.join(first)} and {last} settle it"
        )
    return tuple(min(common) for _ in axes)


def _pads(size: int, out: int, kernel: int, stride: int, most: int) -> range:
    """Return the range of total paddings, at most `most`, with which `size` gives `out` outputs."""
    least = (out - 1) * stride + kernel - size
    return range(max(0, least), min(most, least + stride - 1) + 1)


def _padding(size: int, out: int, kernel: int, stride: int) -> int:
    """Return the most usual total padding along an axis with which `size` gives `out` outputs. Raises Open if none does.

    Tried in this order: `kernel` - 1 ("same"), 0, the smallest even one, the smallest.
    """
    pads = _pads(size, out, kernel, stride, 2 * (kernel - 1) + stride)
    usual = [pad for pad in (kernel - 1, 0, *(pad for pad in pads if pad % 2 == 0)) if pad in pads]
    if not len(pads):
        raise Open(f"{out} rows out of {size} with a kernel of {kernel} and stride {stride}: no padding gives that")
    return usual[0] if usual else pads[0]


def _cube_dtype(dtype: str, eligible: str, default: str, assumed: list[str]) -> str:
    """Return the compute dtype: fp32 operands become hf32 if the profiler says so, or by `default` ("YES" or "NO") where it
    says nothing.

    A default that decides is noted in `assumed`.
    """
    if dtype != "fp32":
        return dtype
    if not eligible:
        assumed.append(f"HF32 {'as' if default == 'YES' else 'off, as'} torch_npu's default")
    return "hf32" if (eligible or default).upper() == "YES" else "fp32"


def _convolution(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    """Return the columns of a forward convolution or gradient, 2-D or 3-D, inferred from the shapes of its three tensors in the
    order of the operator's prototype.

    Operands below four axes (constant lists) do not count. Assumptions are appended to `assumed`. Raises Open for a size that
    stays open, for shapes of no convolution, and for a Conv2D gradient without a number of blocks.
    """
    operands, results = ([t for t in line.tensors(side) if len(t.shape) > 3] for side in ("input", "output"))
    if len(operands) != 2 or len(results) != 1:
        raise Open(f"{len(operands)} operands and {len(results)} results of four axes or more; 2 and 1 are a convolution's")
    first, second, result = *operands, results[0]
    if "BackpropInput" in line["type"]:
        image, weight, grad = result, first, second
    elif "BackpropFilter" in line["type"]:
        image, weight, grad = first, result, second
    else:
        image, weight, grad = first, second, result
    if line["type"] in BLOCKED and not line.number("blocks") and "block_dim" not in given:
        raise Open("the profiler gives no Block Dim (msprof: --task-time=l1)")
    (n, ci, *size), (n_grad, co, *out) = _feature(image), _feature(grad)
    if n != n_grad or len(size) != len(out):
        raise Open(f"{image} and {grad} differ in their batch or their axes")
    axes = ("d", "h", "w")[-len(size) :]
    co, ci, groups, window = _window(weight, (image, ci), (grad, co), axes, given, assumed)
    # From the first to the last tap; dilation is 1 unless the user's column gives it.
    reach = [(k - 1) * int(given.get(f"dilation_{axis}", 1)) + 1 for axis, k in zip(axes, window, strict=True)]
    steps = dict(zip(axes, zip(size, out, reach, strict=True), strict=True))
    strides = _strides(steps, given)
    pads = [_padding(*sizes, stride) for sizes, stride in zip(steps.values(), strides, strict=True)]
    assumed.append("stride and padding from the shapes, dilation 1")
    row = {"N": n, "Ci": ci, "Co": co, "groups": groups}
    for at, axis in enumerate(axes):
        row |= {f"{axis.upper()}i": size[at], f"{axis.upper()}o": out[at], f"k{axis}": window[at]}
        row |= {f"stride_{axis}": strides[at], f"pad_{axis}_total": pads[at]}
    read = image if image is not result else grad
    texts = {
        "dtype": _cube_dtype(read.dtype, line["hf32"], "YES", assumed),
        "dtype_out": result.dtype,
        "format_in": read.format,
        "format_out": result.format,
    }
    return _row(row, line) | texts


def _feature(tensor: ProfiledTensor) -> tuple[int, ...]:
    """Return (N, C, [D,] H, W) of a feature map; channels of blocked layouts are whole blocks.

    Raises Open for another format.
    """
    shape, form = tensor.shape, tensor.format.split(":")[0]
    if form == "NDC1HWC0" and len(shape) == 6:
        n, d, c1, h, w, c0 = shape
        return n, c1 * c0, d, h, w
    if form == "NC1HWC0" and len(shape) == 5:
        n, c1, h, w, c0 = shape
        return n, c1 * c0, h, w
    if (form, len(shape)) in (("NCDHW", 5), ("ND", 5), ("NCHW", 4), ("ND", 4)):
        return shape
    raise Open(f"a feature map {tensor}: read are NC1HWC0, NDC1HWC0, NCHW and NCDHW")


def _window(
    weight: ProfiledTensor,
    image: tuple[ProfiledTensor, int],
    grad: tuple[ProfiledTensor, int],
    axes: tuple[str, ...],
    given: Mapping[str, str],
    assumed: list[str],
) -> tuple[int, int, int, list[int]]:
    """Return (Co, Ci, groups, [kernel size of each of `axes`]) from the weights and both maps: `image` is (input, its
    channels), `grad` (output or its gradient, its channels). Raises Open where shapes fit no kernel.

    Blocked layouts show neither groups (1 is returned) nor the sizes: the user's columns in `given` have them, or equal sides
    are assumed and noted in `assumed`.
    """
    (x, ci), (y, co) = image, grad
    form, columns = weight.format.split(":")[0], [f"k{axis}" for axis in axes]
    no_groups = f"weights {weight} for {ci} input and {co} output channels: shapes do not show the groups"
    if form in ("NCHW", "NCDHW", "ND") and len(weight.shape) == len(axes) + 2:
        c_out, c_in, *window = weight.shape
        if any("C0" in map.format for map in (x, y)):
            if not all(0 <= c - part < t.shape[-1] for c, part, t in ((co, c_out, y), (ci, c_in, x))):
                raise Open(no_groups)
            return c_out, c_in, 1, window
        if c_out != co or ci % c_in or co % (ci // c_in):
            raise Open(f"weights {weight} for {ci} input and {co} output channels: no number of groups gives that")
        return co, ci, ci // c_in, window
    if form not in ("FRACTAL_Z", "FRACTAL_Z_3D") or len(weight.shape) != 4:
        raise Open(f"weights {weight}: read are FRACTAL_Z, FRACTAL_Z_3D, NCHW and NCDHW")
    rows, n1, _, c0 = weight.shape
    taps, rest = divmod(rows, -(-ci // c0))
    if rest or n1 != -(-co // 16):
        raise Open(no_groups)
    if "Ci" not in given or "Co" not in given:
        assumed.append("channels in whole blocks of C0")
    if all(column in given for column in columns):
        return co, ci, 1, [int(given[column]) for column in columns]
    side = round(taps ** (1 / len(axes)))
    if side ** len(axes) != taps:
        settle = f"{', '.join(columns[:-1])} and {columns[-1]}"
        raise Open(f"a kernel of {taps} taps: shapes do not show which of its axes is long; columns {settle} settle it")
    assumed.append("kernel of equal sides")
    return co, ci, 1, [side] * len(axes)


def _trans_data(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    source, target = _one_each(line)
    sides = {"NCHW" if t.format == "ND" and len(t.shape) == 4 else t.format.split(":")[0]: t for t in (source, target)}
    plain, blocked = sides.get("NCHW"), sides.get("NC1HWC0") or sides.get("FRACTAL_Z")
    if plain is None or blocked is None or len(plain.shape) != 4:
        raise Open(f"TransData {source.format} -> {target.format} is not simulated")
    feature = "NC1HWC0" in sides
    names = ("N", "Ci", "Hi", "Wi") if feature else ("Co", "Ci", "kh", "kw")
    formats = ["NCHW" if t is plain else "NC1HWC0" if feature else "FRACTAL_Z" for t in (source, target)]
    row = {name: str(size) for name, size in zip((*names, "C0"), (*plain.shape, blocked.shape[-1]), strict=True)}
    return row | {"dtype": source.dtype, "format_in": formats[0], "format_out": formats[1]}


def _cast(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    source, target = _one_each(line)
    return {"N": str(math.prod(source.shape)), "dtype": source.dtype, "dtype_out": target.dtype}


def _one_each(line: Line) -> tuple[ProfiledTensor, ProfiledTensor]:
    sources, targets = line.tensors("input"), line.tensors("output")
    if len(sources) != 1 or len(targets) != 1:
        raise Open(f"{len(sources)} inputs and {len(targets)} outputs; {line['type']} here has one of each")
    return sources[0], targets[0]


def _reduce_sum(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    """Return the columns of a ReduceSum as text: Ci is the size of the axes that remain, N of the summed ones before them, Hi
    of the summed ones after them; Wi is 1.

    Raises Open without shapes, and where the remaining axes are unknown or do not lie side by side.
    """
    sources, targets = line.tensors("input"), line.tensors("output")
    if not sources or not targets:
        raise Open("the profiler gives no shapes")
    shape, left = sources[0].shape, targets[0].shape
    kept = _kept_axes(shape, left)
    if kept:
        before, after = math.prod(shape[: kept[0]]), math.prod(shape[kept[-1] + 1 :])
        channels = math.prod(shape[kept[0] : kept[-1] + 1])
        if channels != math.prod(left):
            raise Open(f"a sum from {list(shape)} to {list(left)}: axes that remain must lie side by side")
    else:
        before, channels, after = 1, 1, math.prod(shape)
    sizes = {"N": before, "Ci": channels, "Hi": after, "Wi": 1}
    return _row(sizes, line) | {"dtype": sources[0].dtype}


def _kept_axes(shape: tuple[int, ...], left: tuple[int, ...]) -> list[int]:
    """Return the axes of `shape`, longer than 1, that remain in `left`, whose summed axes may be kept with size 1.

    Raises Open if several choices fit, or none.
    """
    if len(left) == len(shape):
        if any(b not in (a, 1) for a, b in zip(shape, left, strict=True)):
            raise Open(f"a sum from {list(shape)} to {list(left)}: not one over axes")
        return [axis for axis, size in enumerate(left) if size > 1]
    ways = list(_choices(shape, tuple(size for size in left if size > 1), 0))
    if len(ways) != 1:
        raise Open(f"a sum from {list(shape)} to {list(left)}: shapes do not show which axes remain")
    return ways[0]


def _choices(shape: tuple[int, ...], left: tuple[int, ...], start: int) -> Iterable[list[int]]:
    if not left:
        yield []
        return
    for axis in range(start, len(shape)):
        if shape[axis] == left[0]:
            for rest in _choices(shape, left[1:], axis + 1):
                yield [axis, *rest]


def _mem_set(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    raise Open("the profiler does not record what a MemSet clears")


def _matmul(line: Line, given: Mapping[str, str], assumed: list[str]) -> dict[str, str]:
    operands, results = line.tensors("input"), line.tensors("output")
    if len(operands) < 2 or not results:
        raise Open("the profiler gives no two operands and a result")
    a, b, c = operands[0], operands[1], results[0]
    for tensor in (a, b, c):
        if tensor.format not in ("ND", "NCHW", "") or len(tensor.shape) < 2:
            raise Open(f"an operand {tensor}: read are matrices in ND")
    lead = c.shape[:-2]
    if a.shape[:-2] != lead or (b.shape[:-2] != lead and len(b.shape) > 2):
        raise Open(f"{a} x {b} = {c}: batches differ")
    batch, (m, n) = math.prod(lead), c.shape[-2:]
    if len(b.shape) == 2 and lead:  # one matrix for the whole batch: its rows follow each other
        batch, m = 1, batch * m
        first = [(0, a.shape[-1])] if a.shape[-2] == c.shape[-2] else []
    else:
        first = [(flag, k) for flag, (rows, k) in enumerate((a.shape[-2:], a.shape[:-3:-1])) if rows == m]
    second = [(flag, k) for flag, (k, columns) in enumerate((b.shape[-2:], b.shape[:-3:-1])) if columns == n]
    fits = [(trans_a, trans_b, k) for trans_a, k in first for trans_b, of_b in second if k == of_b]
    if not fits:
        raise Open(f"{a} x {b} is not {c}")
    if len(fits) > 1:
        assumed.append("square operands as they lie")
    trans_a, trans_b, k = min(fits)
    sizes = {"batch": batch, "M": m, "N": n, "K": k, "trans_a": trans_a, "trans_b": trans_b}
    return _row(sizes, line) | {"dtype": _cube_dtype(a.dtype, line["hf32"], "NO", assumed), "dtype_out": c.dtype}


def _row(sizes: Mapping[str, int], line: Line) -> dict[str, str]:
    """Return sizes as text, with the line's number of blocks where it has one."""
    blocks = line.number("blocks")
    return {name: str(size) for name, size in sizes.items()} | ({"block_dim": str(int(blocks))} if blocks else {})


BLOCKED = ("Conv2DBackpropInput", "Conv2DBackpropFilter")
"""Gradients whose time is predicted for the measured number of blocks."""
CONVOLUTIONS = (
    "Conv2D", "Conv3D", "Conv3DV2", "Conv3DBackpropInput", "Conv3DBackpropInputV2", "Conv3DBackpropFilter",
    "Conv3DBackpropFilterV2",
)  # fmt: skip

Infer = Callable[[Line, Mapping[str, str], list[str]], dict[str, str]]
"""From a line and the user's own columns to sizes and dtypes in the columns of `rows`; appends what it assumes."""

INFER: Mapping[str, Infer] = {
    **dict.fromkeys((*BLOCKED, *CONVOLUTIONS), _convolution),
    "TransData": _trans_data,
    "Cast": _cast,
    "ReduceSum": _reduce_sum,
    "MemSet": _mem_set,
    **dict.fromkeys(("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul"), _matmul),
}
"""Function that infers the sizes of each operator; others have no simulated kernel."""
