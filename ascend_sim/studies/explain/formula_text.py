"""The formula of one element as text: with letters, with the element's index put in, and its products."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.report.columns import columns, counted
from ascend_sim.studies.explain.run import Explanation

MOST_PRODUCTS = 24
"""Products that are written out one by one; with more of them the tile is shown instead."""

Index = int | str
"""A number, or the letter that runs over it."""


def formula_lines(explanation: Explanation) -> list[str]:
    """Return the formula with this problem's strides and paddings in letters, then with the element's index, and the number
    of its products.

    The products are written out if there are at most 24; a sum without products has the reason instead.
    """
    count, everything = len(explanation.formula.left), _all_terms(explanation)
    lines = [*_symbols(explanation), "", counted(count, "product")]
    if not everything:
        no_image = explanation.formula.kind == "filter" and not explanation.call.problem.n
        nothing = "the batch" if no_image else explanation.name(explanation.call.maps.read)
        lines[-1] = f"no products: {nothing} is empty, so the sum is 0"
    elif not count:
        lines[-1] = "no products: every term falls into padding or between strides, so the sum is 0"
    elif count < everything:
        lines[-1] += f"; the other {everything - count:,} terms fall into padding or between strides"
    if 0 < count <= MOST_PRODUCTS:
        lines += [f"  {line}" for line in _product_lines(explanation)]
    return lines


def _all_terms(explanation: Explanation) -> int:
    """Return the number of terms of the sum, including those that fall into padding or between strides."""
    call = explanation.call
    p = call.problem
    if explanation.formula.kind == "filter":
        return p.n * p.d_out * p.h_out * p.w_out
    return (p.c_in if call.forward else p.c_out) // p.groups * p.k_d * p.k_h * p.k_w


def _product_lines(explanation: Explanation) -> list[str]:
    """Return the products of the caller's numbers, one "a[i] x b[j] = 2 x 3 = 6" a line."""
    terms, rows = explanation.formula, []
    for i, j in zip(terms.left.tolist(), terms.right.tolist(), strict=True):
        a = float(explanation.operands[terms.left_name].reshape(-1)[i])
        b = float(explanation.operands[terms.right_name].reshape(-1)[j])
        names = explanation.subscript(terms.left_name, i), "x", explanation.subscript(terms.right_name, j)
        rows.append((*names, "=", f"{a:.6g}", "x", f"{b:.6g}", "=", f"{a * b:.6g}"))
    return columns(rows, ">")


def _symbols(explanation: Explanation) -> list[str]:
    """Return the formula as lines of text: once with letters for the indices, once with the element's own index put in.

    For kind "data" (x from y) lines on its conditions may follow: which quotients count with a stride, and over which
    channels of y the sum runs with groups.
    """
    p, place = explanation.call.problem, explanation.formula.place
    axes = _axes(explanation)
    letters = [axis for axis, _ in axes]
    numbers = [place[2 + number] for _, number in axes]
    outer, inner = _channels(explanation)
    if explanation.formula.kind == "filter":
        taps = [f"k{axis}" for axis in letters]
        return [_weight_line(explanation, outer, inner, taps), _weight_line(explanation, place[0], place[1], numbers)]
    own = outer if explanation.call.forward else inner
    lines = [_input_line(explanation, "n", own, letters), _input_line(explanation, place[0], place[1], numbers)]
    if explanation.call.forward:
        return lines
    if any((p.stride_d, p.stride_h, p.stride_w)[number] > 1 for _, number in axes):
        lines.append("where a quotient is whole and inside the map")
    if p.groups > 1:
        per_group = p.c_out // p.groups
        first = place[1] // (p.c_in // p.groups) * per_group
        lines.append(f"{outer} runs over the group of this channel, {first} to {first + per_group - 1}")
    return lines


def _channels(explanation: Explanation) -> tuple[str, str]:
    """Return the letters of the weight's two channel axes, ("co", "ci"); ("ci", "co") where the input is the convolution's
    output map (transposed).
    """
    return ("ci", "co") if explanation.call.y == "input" else ("co", "ci")


def _axes(explanation: Explanation) -> list[tuple[str, int]]:
    """Return the caller's spatial axes in order, each as (letter, number of D, H or W in the problem: 0, 1, 2)."""
    p, rank = explanation.call.problem, explanation.call.rank
    if rank == 3:
        letter = "t" if explanation.call.axes is not None else "l"
        return [(letter, 1 if max(p.h_in, p.h_out, p.k_h) > 1 else 2)]
    return [(letter, 5 - rank + i) for i, letter in enumerate("dhw"[5 - rank :])]


def _weight_line(explanation: Explanation, outer: Index, inner: Index, taps: Sequence[Index]) -> str:
    """Return the formula weight gradient[outer, inner, taps] = sum over images and positions of y times x, as text."""
    call, axes = explanation.call, _axes(explanation)
    p = call.problem
    channel: Index = inner
    if p.groups > 1:
        first = _group(outer, p.c_out // p.groups, p.c_in // p.groups)
        channel = first + inner if isinstance(first, int) and isinstance(inner, int) else f"{first} + {inner}"
    letters = [axis for axis, _ in axes]
    y = _feature(explanation, call.y, "n", outer, letters)
    seen = [_seen(explanation, *entry) for entry in zip(axes, letters, taps, strict=True)]
    x = _feature(explanation, call.x, "n", channel, seen)
    gradient = _filter(explanation, explanation.tensor, outer, inner, taps)
    return f"{gradient} = sum over {', '.join(['n', *letters])} of {y} x {x}"


def _input_line(explanation: Explanation, n: Index, own: Index, at: Sequence[Index]) -> str:
    """Return the formula of a map as text: output[n, own, at] = sum over channels and taps of the read map times weight, and
    the bias if one is added.
    """
    call, axes = explanation.call, _axes(explanation)
    p = call.problem
    outer, inner = _channels(explanation)
    taps = [f"k{axis}" for axis, _ in axes]
    summed = inner if call.forward else outer
    channel: Index = summed
    if call.forward:
        met = [_seen(explanation, *entry) for entry in zip(axes, at, taps, strict=True)]
        weight = _filter(explanation, "weight", own, inner, taps)
        if p.groups > 1:
            channel = f"{_group(own, p.c_out // p.groups, p.c_in // p.groups)} + {inner}"
    else:
        met = [_met(explanation, *entry) for entry in zip(axes, at, taps, strict=True)]
        size = p.c_in // p.groups
        local = own if p.groups == 1 else own % size if isinstance(own, int) else f"{own} mod {size}"
        weight = _filter(explanation, "weight", outer, local, taps)
    made = _feature(explanation, explanation.tensor, n, own, at)
    given = _feature(explanation, call.maps.read, n, channel, met)
    added = "" if explanation.formula.added is None else f" + {explanation.formula.added[0]}[{own}]"
    return f"{made} = sum over {', '.join([summed, *taps])} of {given} x {weight}{added}"


def _group(channel: Index, size: int, other: int) -> Index:
    """Return the first channel that belongs to the group of `channel` on the weight's other channel axis: a number, or text
    where `channel` is a letter.

    A group has `size` channels on the axis of `channel` and `other` on the other axis.
    """
    return channel // size * other if isinstance(channel, int) else f"{channel} div {size} x {other}"


def _feature(explanation: Explanation, name: str, n: Index, c: Index, positions: Sequence[Index]) -> str:
    order = [n, c, *positions] if explanation.call.axes is None else [*positions, n, c]
    return f"{explanation.name(name)}[{', '.join(map(str, order))}]"


def _filter(explanation: Explanation, name: str, outer: Index, inner: Index, taps: Sequence[Index]) -> str:
    order = [outer, inner, *taps] if explanation.call.axes is None else [*taps, inner, outer]
    return f"{name}[{', '.join(map(str, order))}]"


def _seen(explanation: Explanation, axis: tuple[str, int], o: Index, tap: Index) -> str:
    """Return as text the position of x that output position `o` reads through `tap`: o * stride - pad + tap * dilation.

    `axis` ends with the number of the axis (`_attributes`).
    """
    stride, pad, dilation = _attributes(explanation, axis[1])
    return _linear([(stride, o), (dilation, tap), (-pad, 1)])


def _met(explanation: Explanation, axis: tuple[str, int], i: Index, tap: Index) -> str:
    """Return as text the position of y that reads position `i` of x through `tap`: (i + pad - tap * dilation) / stride.

    `axis` as in `_seen`.
    """
    stride, pad, dilation = _attributes(explanation, axis[1])
    text = _linear([(1, i), (pad, 1), (-dilation, tap)])
    return text if stride == 1 else f"({text}) / {stride}"


def _attributes(explanation: Explanation, axis: int) -> tuple[int, int, int]:
    """Return (stride, padding in front, dilation) of an axis: 0 is D, 1 is H, 2 is W."""
    p = explanation.call.problem
    return (
        (p.stride_d, p.stride_h, p.stride_w)[axis],
        (p.pad_front, p.pad_up, p.pad_left)[axis],
        (p.dilation_d, p.dilation_h, p.dilation_w)[axis],
    )


def _linear(terms: Sequence[tuple[int, Index]]) -> str:
    """Return the sum of factor * index as text; numbers are added up to one term.

    Letters with a plus come first, then the number (a 0 only where no letter has a plus), then the letters with a minus.
    """
    number = sum(factor * index for factor, index in terms if isinstance(index, int))
    named = [(factor, index) for factor, index in terms if isinstance(index, str)]
    added = [_multiple(factor, index) for factor, index in named if factor > 0]
    text = " + ".join(added)
    if number or not text:
        text = f"{text} {'-' if number < 0 else '+'} {abs(number)}" if text else str(number)
    return "".join([text, *(f" - {_multiple(-factor, index)}" for factor, index in named if factor < 0)])


def _multiple(factor: int, letter: str) -> str:
    return letter if factor == 1 else f"{factor} {letter}"
