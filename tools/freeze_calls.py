"""Freezes what 300 random calls give: reports in the modes timing and full, and gradients, as hashes.

    python tools/freeze_calls.py            # writes tests/golden/calls.json anew: say in the commit what differs, and why
    python tools/freeze_calls.py --check    # compares instead, as tests/golden/test_calls.py does
    python tools/freeze_calls.py --call 17  # prints call 17, its reports as JSON and what is frozen of it

The calls go through `convolution_backward` and `conv_tbc_backward` alone, so that whatever lies below may move. They
cover all chip families, ranks, both directions, groups, dilation, uneven padding, masks, dtypes, cubeMathType,
determinism, both profiles, L2 states, numbers of blocks, strided views and 8-bit codes. Tensors hold integers of -2 to 2:
every sum is exact in whatever order a host adds. A hash stands for a section of a report, so that it is known which changed:

counts     tiles, instructions and bytes of every kernel
waterfall  its parts
times      every other figure of the kernels, and the total
gradients  verdicts (full)
values     bytes of the gradients (full)
rest       problem, findings, warnings, dtypes and formats of the kernels, the workspace

Which kernels a call launches, with which tilings and why, stands readable in tests/golden/plans.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import ascend_sim
from ascend_sim import AclnnError, Result, SimError, TensorSpec

Array = NDArray[Any]
Call = dict[str, Any]

FILE = Path(__file__).parents[1] / "tests" / "golden" / "calls.json"
COUNT = 300
SEED = 20
DIGITS = 10
"""Hexadecimal digits of a hash: 40 bits, so that a change goes unseen once in 10^12."""
DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}
HIFLOAT8_CODES = {-2: 0x90, -1: 0x88, 0: 0x00, 1: 0x08, 2: 0x10}
FAMILIES = (
    ("ascend910a", "ascend910a", "ascend910proa", "ascend910b"),
    ("ascend310p3", "ascend310p3", "ascend310p1", "ascend310p5"),
    ("ascend910b3", "ascend910b1", "ascend910b4", "ascend910b2", "ascend910_9391", "ascend910_9362"),
    ("ascend950pr_9589", "ascend950pr_9589", "ascend910_95", "ascend950dt_9572"),
)
"""Chips of dav-1001, dav-2002, dav-2201 and dav-3510; the first one of a family is the one that people ask for most."""
OLD = 2
"""Families before this one have a cube of float16 alone, and no 3-D."""
PRECISIONS: tuple[tuple[tuple[str, int], ...], ...] = (
    (("float16", 0), ("float16", 1), ("float16", 2), ("float32", 1), ("float32", 2)),
    (("float16", 0), ("float16", 0), ("bfloat16", 0), ("bfloat16", 1), ("float32", 0), ("float32", 1), ("float32", 2),
     ("float32", 3)),
)  # fmt: skip
"""dtype and cubeMathType that old and newer families take."""
SECTIONS = {"times": ("total_us",), "gradients": ("outputs",)}
OF_KERNELS = {"counts": ("counts",), "waterfall": ("waterfall",), "rest": ("core_type", "dtypes", "formats")}


class Dice:
    """Draws from `Random.random()` alone, the one method whose sequence Python promises to keep."""

    def __init__(self, name: str) -> None:
        self.random = Random(name).random

    def one(self, *options: Any) -> Any:
        return options[int(self.random() * len(options))]

    def number(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def chance(self, part: float) -> bool:
        return bool(self.random() < part)


def make_call(index: int) -> Call:
    """Call `index`: chip, operator, shapes, arguments and keywords, all of them plain values of JSON."""
    dice = Dice(f"{SEED}/{index}")
    family = index % len(FAMILIES)
    options: Call = {"chip": dice.one(*FAMILIES[family])}
    dtype, cube_math_type = dice.one(*PRECISIONS[family >= OLD])
    if dice.chance(0.08):  # as likely as not refused
        dtype, cube_math_type = dice.one("float16", "bfloat16", "float32"), dice.number(0, 3)
    options |= {"cube_math_type": cube_math_type, "conformance": dice.one("documented", "library")}
    if dice.chance(0.4):
        options["deterministic"] = dice.one(True, False)
    if dice.chance(0.3):
        options["l2"] = "warm"
    if dice.chance(0.15):
        options["block_dim"] = dice.one(1, 2, 3, 5, {"grad_input": 2}, {"grad_weight": 4})
    if dice.chance(0.08):
        options["accumulate"] = dice.one("chunk", "exact_group")
    if dice.chance(0.08) and family >= OLD:
        options["overflow"] = "saturate"
    make = make_tbc if index // len(FAMILIES) % 10 == 9 else make_convolution
    call = make(dice, family, dtype, options)
    if dice.chance(0.18):
        spoil(dice, call)
    return call


def spoil(dice: Dice, call: Call) -> None:
    """One argument as a product, a profile or every product refuses it."""
    tbc = call["operator"] == "conv_tbc_backward"
    name, value = dice.one(
        ("cube_math_type", dice.one(3, 4)), ("dtype", dice.one("float64", "bfloat16", "hifloat8")),
        ("block_dim", 0), ("pad", dice.one(-1, 256)) if tbc else ("stride", dice.one(0, 64)),
        ("pad", call.get("pad", 0) + 1) if tbc else ("padding", dice.one(-1, 256)), ("weight", 0),
        ("pad", 1) if tbc else ("groups", dice.one(0, 2, 5)), ("pad", 2) if tbc else ("dilation", dice.one(0, 256)),
    )  # fmt: skip
    if name in ("cube_math_type", "block_dim"):
        call["options"][name] = value
    elif name == "weight":
        call[name] = [call[name][0] + dice.one(1, 2), *call[name][1:]]
    elif isinstance(call[name], list):
        call[name] = [value, *call[name][1:]]
    else:
        call[name] = value


def make_convolution(dice: Dice, family: int, dtype: str, options: Call) -> Call:
    """A consistent convolution_backward of any rank; the kernel slides over map x and gives map y."""
    rank = dice.one(1, 2, 2, 2) if family < OLD and dice.chance(0.95) else dice.one(1, 2, 2, 3)
    transposed, groups = dice.chance(0.25), dice.one(1, 1, 1, 1, 2, 3)
    kernel, stride, dilation, low, high, x = ([] for _ in range(6))
    shape_of_window = dice.one("small", "small", "small", "small", "patches", "whole map", "pixel")
    for axis in range(rank):
        k = dice.number(1, 3 if rank == 3 else 5 if rank == 1 else 4)
        s, d = dice.one(1, 1, 2, 3), dice.one(1, 1, 1, 2)
        pads = [dice.number(0, k // 2)] * 2
        size = dice.number(1, 4 if axis < rank - 1 else 12)
        if rank == 1 and dice.chance(0.3):
            size = dice.number(60, 200)
        if shape_of_window == "pixel":
            k, s, d, pads = 1, 1, 1, [0, 0]
        elif shape_of_window == "patches":
            s, d, pads, size = k, 1, [0, 0], k * dice.number(1, 4)
        elif shape_of_window == "whole map":
            k = size = min(size, 6)
            s, d, pads = 1, 1, [0, 0]
        elif rank == 2 and dice.chance(0.2):
            pads[1] = dice.number(0, k - 1)
        size = max(size, d * (k - 1) + 1 - sum(pads))
        for values, value in zip((kernel, stride, dilation, low, high, x), (k, s, d, *pads, size), strict=True):
            values.append(value)
    windows = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    y = [(x[i] + low[i] + high[i] - windows[i]) // stride[i] + 1 for i in range(rank)]
    over = [x[i] + low[i] + high[i] - windows[i] - (y[i] - 1) * stride[i] for i in range(rank)]
    padding = low if low == high else [low[0], high[0], low[1], high[1]]
    n, of_x, of_y = dice.one(1, 1, 2), *(groups * dice.one(1, 3, 8, 16, 20) for _ in range(2))
    if dice.chance(0.1) and not transposed:  # depthwise
        groups = of_x = of_y = dice.one(4, 16, 18)
    mask = dice.one((1, 1, 1), (1, 1, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1))
    if family >= OLD + 1 and dice.chance(0.1):  # 8-bit calls have rules of their own; most fail on another mask
        dtype, transposed, groups, mask = dice.one("hifloat8", "hifloat8", "float8_e4m3fn"), True, 1, (1, 0, 0)
        of_x, of_y, options["conformance"] = 16, 32, "library"
        if dtype == "float8_e4m3fn":
            transposed = False
    maps = [n, of_x, *x], [n, of_y, *y]
    return {
        "operator": "convolution_backward",
        "dtype": dtype,
        "grad_output": maps[0] if transposed else maps[1],
        "input": maps[1] if transposed else maps[0],
        "weight": [of_y, of_x // groups, *kernel],
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "transposed": transposed,
        "output_padding": over if transposed else [0] * rank,
        "groups": groups,
        "output_mask": [bool(wanted) for wanted in mask],
        **({"view": dice.one("grad_output", "input", "weight")} if dice.chance(0.08) else {}),
        "options": options,
    }


def make_tbc(dice: Dice, family: int, dtype: str, options: Call) -> Call:
    """A consistent conv_tbc_backward."""
    k, batch = dice.number(1, 5), dice.number(1, 3)
    pad, c_in, c_out = dice.number(0, k // 2), dice.one(1, 8, 16, 20), dice.one(1, 8, 16, 33)
    time = max(dice.number(1, 16), k - 2 * pad)
    if family == OLD - 1 and dice.chance(0.8):  # the documents have no TBC for the 310P
        options["conformance"] = "library"
    if family == OLD + 1 and dice.chance(0.3):
        options["grad_weight_dtype"] = dice.one("hifloat8", "float8_e4m3fn", "float32")
    return {
        "operator": "conv_tbc_backward",
        "dtype": dtype,
        "self": [time + 2 * pad - k + 1, batch, c_out],
        "input": [time, batch, c_in],
        "weight": [k, c_in, c_out],
        "bias": [c_out],
        "pad": pad,
        "options": options,
    }


def tensor(shape: Sequence[int], dtype: str, seed: int, view: bool = False) -> Array:
    """Integers of -2 to 2; as a `view`, every second element of the last axis of a wider array."""
    wide = (*shape[:-1], shape[-1] * 2) if view else tuple(shape)
    raw = np.random.PCG64(seed).random_raw(math.prod(wide))  # the bit stream, which numpy promises to keep
    values = (raw % np.uint64(5)).astype(np.int64).reshape(wide) - 2
    if dtype == "hifloat8":
        codes = np.array([HIFLOAT8_CODES[value] for value in range(-2, 3)], np.uint8)
        array: Array = codes[values + 2]
    else:
        array = values.astype(DTYPES.get(dtype, dtype))
    return array[..., ::2] if view else array


def run(call: Call, mode: str) -> Result:
    """The call in a mode: `timing` has no values, but for a strided view, whose strides are part of it."""
    options, dtype = dict(call["options"]), call["dtype"]
    tbc = call["operator"] == "conv_tbc_backward"
    names = ("self", "input", "weight", "bias") if tbc else ("grad_output", "input", "weight")
    values = mode == "full" or "view" in call
    tensors: list[Any] = [
        tensor(call[name], dtype, seed, call.get("view") == name) if values else TensorSpec(tuple(call[name]), dtype)
        for seed, name in enumerate(names)
    ]
    if dtype == "hifloat8" and values:
        options["dtypes"] = dtype
    if tbc:
        return ascend_sim.conv_tbc_backward(*tensors, call["pad"], mode=mode, **options)
    arguments = ("stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask")
    return ascend_sim.convolution_backward(*tensors, None, *(call[name] for name in arguments), mode=mode, **options)


IN_PLANS = ("plan", "op_type", "name", "block_dim", "tiling", "tiling_source", "input_load", "ladder")
"""Keys that stand in tests/golden/plans."""
NOT_FROZEN = ("version", "gradients", "interval", *IN_PLANS)
"""The schema's version; outputs by another name; what follows from times and the measured errors that ship; plans."""
OF_THE_HOST = ("away", "towards_zero", "limit")
"""How a probe's sums, which are not exact, came out: the host's BLAS decides which way the last bit goes."""


def sections(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report in the sections whose hashes are frozen; every key of it but `NOT_FROZEN` is in exactly one."""
    kernels = [{key: value for key, value in kernel.items() if key not in NOT_FROZEN} for kernel in report["kernels"]]
    rest = {key: value for key, value in report.items() if key not in ("kernels", *NOT_FROZEN)}
    found: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        found[section] = [rest.pop(key, None) for key in keys]
    for section, keys in OF_KERNELS.items():
        found[section] = [found.get(section), [[kernel.pop(key, None) for key in keys] for kernel in kernels]]
    found["times"] = [found["times"], kernels]
    return found | {"rest": [found["rest"], rest]}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def value_bytes(result: Result) -> bytes:
    """The bytes of all gradients behind their names, shapes and dtypes.

    -0 counts as 0: which of them a sum of nothing but -0 gives depends on the host's BLAS.
    """
    parts = []
    for name, gradient in result.outputs.items():
        parts.append(f"{name} {gradient.shape} {result.dtypes[name]} {gradient.dtype};".encode())
        array = np.array(gradient)
        numbers = array.view(ml_dtypes.float8_e4m3fn) if result.dtypes[name] == "float8_e4m3fn" else array
        numbers[numbers == 0] = 0
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return b"".join(parts)


def freeze(call: Call) -> dict[str, Any]:
    """Return the file's entry of a call: hashes by mode and section, or the reason of its refusal."""
    found: dict[str, Any] = {}
    for mode in ("timing", "full"):
        try:
            result = run(call, mode)
        except SimError as error:
            found[mode] = f"status {error.status}" if isinstance(error, AclnnError) else type(error).__name__
            continue
        report = result.report.to_dict(statements=False)
        for verdict in report.get("outputs", {}).values():
            for key in OF_THE_HOST:
                verdict.get("probe", {}).pop(key, None)
        found[mode] = {name: digest(json.dumps(part, sort_keys=True).encode()) for name, part in sections(report).items()}
        found[mode]["total_us"] = report["total_us"]
        if mode == "full":
            found[mode]["values"] = digest(value_bytes(result))
        else:
            del found[mode]["gradients"]  # there are none
    return found


def describe(call: Call) -> str:
    """The call as a line of JSON."""
    return json.dumps(call)


def frozen() -> list[dict[str, Any]]:
    """The rows of the file, one a call: `call`, `timing`, `full`."""
    rows: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return rows


def differences(indices: Sequence[int]) -> Iterator[str]:
    """A line for every call of `indices` that no longer is or gives what is frozen: which sections of which mode."""
    rows = frozen()
    for index in indices:
        call, row = make_call(index), rows[index]
        if call != row["call"]:
            yield f"call {index} is drawn as {describe(call)}; frozen is {describe(row['call'])}"
            continue
        found = freeze(call)
        changed = [text for mode in ("timing", "full") for text in _changed(mode, row[mode], found[mode])]
        if changed:
            yield f"call {index}: {', '.join(changed)} in {describe(call)}"


def _changed(mode: str, was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, str) or isinstance(now, str):
        if was != now:
            yield f"{mode}: {was if isinstance(was, str) else 'ran'} -> {now if isinstance(now, str) else 'ran'}"
        return
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield f"{mode} {name}" + (f" {was[name]} -> {now[name]}" if name == "total_us" else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or compare with it; 1 when a call differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--call", type=int, metavar="N", help=f"print call N (0 to {COUNT - 1}) and its reports")
    given = parser.parse_args(arguments)
    if given.call is not None:
        if not 0 <= given.call < COUNT:
            parser.error(f"--call {given.call}: there are calls 0 to {COUNT - 1}")
        call = make_call(given.call)
        print(describe(call))
        for mode in ("timing", "full"):
            try:
                print(json.dumps(run(call, mode).report.to_dict(), indent=1))
            except SimError as error:
                print(f"{mode}: {error}")
        print(json.dumps(freeze(call), indent=1))
        return 0
    if given.check:
        lines = list(differences(range(COUNT)))
        print("\n".join([*lines, f"{len(lines)} of {COUNT} calls differ from {FILE.name}"]))
        return bool(lines)
    rows = []
    for index in range(COUNT):
        call = make_call(index)
        rows.append({"call": call, **freeze(call)})
    FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    ran = sum(not isinstance(row["full"], str) for row in rows)
    print(f"{FILE.name}: {COUNT} calls, of which {ran} run and {COUNT - ran} are refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
