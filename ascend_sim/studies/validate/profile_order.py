"""State of each launch by the order of a profile: whether its code is in the cores' caches, and what the L2 holds.

A profile has no addresses. A tensor is taken to lie in a buffer of its size: a kernel reads the one of that size that was moved
last, and writes the other one of two, as an allocator that hands out freed blocks does (inferred: of four rules it comes
nearest to the victim rates of an AlexNet step, `configs/measurements/steps`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics import canonical, numpy_dtype
from ascend_sim.runtime import Device, KernelMoves, Moved
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.profiler_line import Line, ProfiledTensor

_BINARY = ("type", "input types", "input formats", "output types", "output formats")
"""Columns by which the code of two launches differs."""
_REMEMBERED = 4
"""L2 sizes of traffic before a kernel that are replayed: each line of a first-in first-out cache is gone after one."""
_BUFFERS = 2
"""Buffers of one size."""


def note_launches(lines: Sequence[dict[str, str]], chip: ChipSpec) -> None:
    """Set the column `launches` of a profiler's lines in place: "warm" where one of the last launches on cores of that kind of
    the device ran the same code, else "cold".

    How many launches count is the chip's launch.kept_launches; launches that are not simulated count too. Lines that have the
    column keep it, also an empty cell, and lines without a start time get none.
    """
    launched: defaultdict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for place in _order(lines):
        line = Line(lines[place])
        vector = any(name in line["core"].upper() for name in ("VECTOR", "AIV"))
        cores = line.text.get("device_id", ""), "AIV" if vector else "AIC"
        recent, binary = launched[cores], tuple(line[name] for name in _BINARY)
        kept = recent[max(len(recent) - chip.launch.kept_launches, 0) :]
        lines[place].setdefault("launches", "warm" if binary in kept else "cold")
        recent.append(binary)


def moved_by(lines: Sequence[dict[str, str]], chip: ChipSpec) -> dict[int, tuple[KernelMoves, tuple[KernelMoves, ...]]]:
    """Return {index of a line: (moves of its kernel, moves of each kernel before it)}, as far back as four L2 sizes of
    traffic.

    The profile is taken to repeat: before its first kernel stands its last. Lines without a start time are left out.
    """
    order = _order(lines)
    buffers: dict[int, list[int]] = {}
    moved = [_moved(Line(lines[place]), buffers) for _ in range(2) for place in order][len(order) :]
    found = {}
    for at, place in enumerate(order):
        left, before = _REMEMBERED * chip.memory.l2_bytes, []
        for back in range(1, len(order) + 1):
            earlier = moved[at - back]
            before.append(earlier)
            left -= sum(nbytes for _, nbytes, _ in earlier)
            if left <= 0:
                break
        found[place] = moved[at], tuple(reversed(before))
    return found


def victims(lines: Sequence[dict[str, str]], chip: ChipSpec) -> tuple[list[float], list[float], list[float]]:
    """Return three lists with a number for each kernel of a step, in order of start time: bytes that it writes back from the
    L2, simulated and by the column `victim_rate`, and bytes of its tensors.

    A kernel moves each of its tensors once, on a device on which the same step ran before.
    """
    device = Device(chip, with_values=False)
    held: dict[Hashable, Allocation] = {}
    buffers: dict[int, list[int]] = {}
    predicted: list[float] = []
    for _ in range(2):
        predicted.clear()
        for place in _order(lines):
            moved = _moved(Line(lines[place]), buffers)
            for buffer, nbytes, _ in moved:
                held.setdefault(buffer, device.allocate(nbytes, f"{buffer}") if buffer not in held else held[buffer])
            driven_out = device.pass_over([(held[buffer], written) for buffer, _, written in moved])
            predicted.append(driven_out * chip.memory.l2_line_bytes)
    rates = [Line(lines[place]).number("victim_rate") or 0.0 for place in _order(lines)]
    sizes = [float(sum(nbytes for _, nbytes, _ in _moved(Line(lines[place]), buffers))) for place in _order(lines)]
    return predicted, [rate * nbytes for rate, nbytes in zip(rates, sizes, strict=True)], sizes


def leave_step(device: Device, kernel: MeasuredKernel, inputs: Sequence[Allocation], outputs: Sequence[Allocation]) -> None:
    """Bring the L2 of `device` into the state in which the kernels before `kernel` leave it, by replaying their moves
    (`kernel.before`).

    Each of the kernel's own `inputs` and `outputs` takes the place of the profile's buffer of nearest size, so that an earlier
    kernel that moved the buffer has left this tensor in the L2.
    """
    held: dict[Hashable, Allocation] = {}
    for tensors, written in ((inputs, False), (outputs, True)):
        own = {buffer: nbytes for buffer, nbytes, writes in kernel.moved if writes is written}
        for tensor in sorted(tensors, key=lambda one: -one.size):
            if own:
                buffer = min(own, key=lambda one: abs(own[one] - tensor.size))
                held.setdefault(buffer, tensor)
                del own[buffer]
    device.replay(kernel.before, held)


def _moved(line: Line, buffers: dict[int, list[int]]) -> KernelMoves:
    """Return the moves (buffer, bytes, written) of the tensors of a profiler's line; none for shapes that cannot be read.

    `buffers` has the buffers of each size, the last written or made at the end, and is updated.
    """
    moved: list[Moved] = []
    for side in ("input", "output"):
        writes = side == "output"
        try:
            sizes = [nbytes for tensor in line.tensors(side) if (nbytes := _bytes_of(tensor))]
        except ValueError:  # read_rows reports these shapes
            sizes = []
        for nbytes in sizes:
            moved.append((_buffer(buffers, nbytes, {one for one, _, _ in moved}, writes), nbytes, writes))
    return tuple(moved)


def _buffer(buffers: dict[int, list[int]], nbytes: int, used: Collection[Hashable], writes: bool) -> int:
    """Return the number of the buffer in which a tensor of `nbytes` lies, and update `buffers`, {size: buffer numbers, the last
    written or made at the end}.

    A read takes the last buffer of that size, or makes the first. A write takes the first of two; where there are fewer a new
    one is made. A buffer of `used` is taken only if there is no other.
    """
    own = buffers.setdefault(nbytes, [])
    others = [one for one in own if one not in used]
    if writes and others and len(own) >= _BUFFERS:
        chosen = others[0]
    elif writes and len(own) >= _BUFFERS:
        chosen = own[0]
    elif not writes and own:
        chosen = others[-1] if others else own[-1]
    else:
        chosen = sum(map(len, buffers.values()))
        own.append(chosen)
    if writes:
        own.remove(chosen)
        own.append(chosen)
    return chosen


def _bytes_of(tensor: ProfiledTensor) -> int:
    """Return the bytes of a tensor; 0 for a dtype that neither this package nor numpy knows."""
    try:
        dtype = numpy_dtype(canonical(tensor.dtype))
    except SimError:  # no kernel here computes with it
        try:
            dtype = np.dtype(tensor.dtype)
        except TypeError:
            return 0
    return math.prod(tensor.shape) * int(dtype.itemsize)


def _order(lines: Sequence[dict[str, str]]) -> list[int]:
    """Return the indices of the lines in the order of their start times; lines without one are left out."""
    timed = []
    for place, line in enumerate(map(Line, lines)):
        with suppress(ValueError):  # no number
            if (start := line.number("start")) is not None:
                timed.append((start, place))
    return [place for _, place in sorted(timed)]
