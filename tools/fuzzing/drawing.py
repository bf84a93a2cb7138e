"""Random whole calls of the three operators, each of them a line of Python.

A call is kept as the text of its arguments, so that what is printed of one that fails is what ran. Problems are small: 1-D to
3-D, transposed or not, groups, depthwise, dilation, uneven padding, rows left over, views of other memory, every dtype, chip,
profile and option. One in ten has an argument that is nonsense.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from ascend_sim.chip import load_chip
from ascend_sim.chip.spec import chip_names
from fuzzing.oracle import Link, hifloat8_values

IMPORTS = "import ml_dtypes, numpy as np, ascend_sim"
OPERATORS = (*("convolution_backward",) * 5, *("convolution",) * 3, "conv_tbc_backward")
MODES = (*("functional",) * 3, "full", "timing")
CHIPS = chip_names()
EIGHT_BIT = ("hifloat8", "float8_e4m3fn")
DTYPES = {"float16": "'float16'", "float32": "'float32'", "bfloat16": "ml_dtypes.bfloat16"}
JUNK = (
    "None", "-1", "0", "3", "2**31", "2**63", "-2**70", "1.5", "float('nan')", "True", "'x'", "b''", "[]", "()", "[1]",
    "(1,) * 9", "[-1, -1]", "[1, 2**64]", "{}", "{'grad_input': 1}", "{'grad_weight': {'baseM': -1}}", "object()", "[None]",
    "np.zeros(0)", "np.zeros((1, 2, 3, 4))", "np.array('a')", "np.zeros((2, 2, 1, 1), complex)", "np.float64(2)",
    "np.array([object()])", "np.zeros((1,) * 20, 'float16')", "np.zeros((2, 4, 4, 4), '>f2')", "print",
    "np.ma.masked_array(np.zeros((1, 1, 2, 2), 'float16'), True)", "ascend_sim.TensorSpec((2**40, 2, 2, 2), 'float16')",
    "ascend_sim.TensorSpec((0, 1, 1, 1), 'float32')", "memoryview(b'1234')", "range(2)", "np.int8([1, 1])",
)  # fmt: skip
"""Values in place of sensible ones."""


@cache
def codes(dtype: str) -> list[int]:
    """8-bit codes of the multiples of 1/4 from -1.75 to 1.75."""
    if dtype == "hifloat8":
        values = hifloat8_values().tolist()
        return [values.index(n / 4) for n in range(-7, 8)]
    import ml_dtypes
    import numpy as np

    return (np.arange(-7, 8) / 4).astype(ml_dtypes.float8_e4m3fn).view(np.uint8).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DrawnCall:
    """One call; `tensors`, `attributes` and `options` are Python text by keyword.

    `link` and `roles` say which of x, y and w (`oracle`) each tensor is, `turn` the axes that bring a tensor into their order.
    `data` is "integers" (every sum is exact), "normal", "special" (infinities, NaN, large and small), or "none" where
    the arguments are nonsense. `both` asks for the timeline of the other engine too.
    """

    operator: str
    tensors: dict[str, str]
    attributes: dict[str, str]
    options: dict[str, str]
    dtype: str
    data: str
    link: Link
    roles: dict[str, str]
    turn: dict[str, tuple[int, ...]] = field(default_factory=dict)
    both: bool = False

    def python(self, **changed: str) -> str:
        """The call as an expression; `changed` options take the place of its own."""
        given = self.tensors | self.attributes | self.options | changed
        return f"ascend_sim.{self.operator}({', '.join(f'{name}={text}' for name, text in given.items())})"

    def option(self, name: str) -> str:
        """The text of an option without its quotes; "" where it is not given."""
        return self.options.get(name, "").strip("'")


@dataclass(frozen=True)
class Sizes:
    """Extents of x, y and w of one problem."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    w: tuple[int, ...]
    link: Link
    high: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.link.stride)

    @property
    def padding(self) -> tuple[int, ...]:
        """Return the padding as a caller gives it: a value for each axis, or four in 2-D."""
        low, high = self.link.low, self.high
        return low if low == high else (low[0], high[0], low[1], high[1])


def draw(seed: int, index: int) -> DrawnCall:
    """Call `index` of `seed`."""
    return _Draw(random.Random(f"calls/{seed}/{index}")).call()


def draw_exact(dice: random.Random, operator: str, chip: str, conformance: str) -> DrawnCall:
    """A backward call on whole numbers without any options, for programs of the C interface."""
    made = _Draw(dice)
    old = load_chip(chip).cores.coupled
    dtype, math_type = made.precision(old)
    options = {"chip": repr(chip), "mode": "'full'", "conformance": repr(conformance), "cube_math_type": str(math_type)}
    draw = made.tbc if operator == "conv_tbc_backward" else made.backward
    return draw(dtype, "integers", options, old)


class _Draw:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.one = dice.choice

    def chance(self, part: float) -> bool:
        return self.dice.random() < part

    def number(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)

    def call(self) -> DrawnCall:
        chip = self.one(CHIPS)
        operator = self.one(OPERATORS)
        spec = load_chip(chip)
        old, plain = spec.cores.coupled, spec.identity.arch == "dav-3510"
        options = {"chip": repr(chip), "mode": repr(self.one(MODES))}
        options |= self.options(operator, spec.overflow.modes)
        dtype, math_type = self.precision(old)
        eight = plain and operator != "conv_tbc_backward" and self.chance(0.15)
        if eight:
            dtype, math_type = self.one(EIGHT_BIT), 0
            options |= {"dtypes": repr(dtype), "conformance": "'library'"}
        options["cube_math_type"] = str(math_type)
        data = "integers" if eight else self.one(("integers",) * 9 + ("normal", "normal", "special"))
        call = {
            "convolution_backward": self.backward, "conv_tbc_backward": self.tbc, "convolution": self.forward,
        }[operator](dtype, data, options, old)  # fmt: skip
        call = replace(call, both=options["mode"] != "'functional'" and self.chance(0.3))
        return self.spoiled(call) if self.chance(0.1) else call

    def precision(self, old: bool) -> tuple[str, int]:
        """A dtype and its cubeMathType, now and then one that the chip has not."""
        if self.chance(0.05):
            return self.one(("float16", "bfloat16", "float32")), self.number(-1, 4)
        if old:
            return self.one((("float16", 0), ("float16", 1), ("float16", 2), ("float32", 1), ("float32", 2)))
        return self.one(
            (
                ("float16", 0),
                ("float16", 1),
                ("float16", 2),
                ("bfloat16", 0),
                ("bfloat16", 1),
                *(("float32", k) for k in range(4)),
            )
        )

    def options(self, operator: str, overflows: Sequence[str]) -> dict[str, str]:
        """Keywords that change how a call runs and not what it gives."""
        options = {"conformance": self.one(("documented", "library"))}
        if self.chance(0.3):
            options["engine"] = self.one(("simpy", "compiled", "auto"))
        if self.chance(0.3):
            options["l2"] = "warm"
        if self.chance(0.1):
            options["accumulate"] = self.one(("chunk", "exact_group"))
        if self.chance(0.1):
            options["overflow"] = self.one(overflows)
        if self.chance(0.1):
            options["library"] = self.one(("9.0.0", "2026-08"))
        texts = {name: repr(text) for name, text in options.items()}
        for name, part, values in (
            ("deterministic", 0.5, ("True", "False")), ("timeline", 0.1, ("False",)), ("check", 0.03, ("True",)),
            ("probe", 0.95, ("False",)),
        ):  # fmt: skip
            if self.chance(part):
                texts[name] = self.one(values)
        if operator != "convolution":
            if self.chance(0.7):
                texts["block_dim"] = self.one(("1", "1", "2", "3", "{'grad_input': 2}", "{'grad_weight': 4}"))
            if self.chance(0.05):
                fields = {self.one(("baseM", "baseN", "baseK", "stepKa")): self.one((1, 16, 32, 48, 512))}
                texts["tiling"] = repr({self.one(("grad_input", "grad_weight")): fields})
        return texts

    def sizes(self, ranks: tuple[int, ...], most_channels: int = 20) -> Sizes:
        """One problem in which the kernel fits."""
        rank, groups = self.one(ranks), self.one((1, 1, 1, 1, 2, 3))
        kind = self.one(("any", "any", "any", "pixel", "patches", "whole map"))
        columns: list[list[int]] = []
        for axis in range(rank):
            k, s, d = self.number(1, 3 if rank > 1 else 5), self.one((1, 1, 2, 3)), self.one((1, 1, 1, 2))
            low = high = self.number(0, k // 2)
            size = self.number(1, 3 if axis < rank - 1 else 7)
            if kind == "pixel":
                k, s, d, low, high = 1, 1, 1, 0, 0
            elif kind == "patches":
                s, d, low, high, size = k, 1, 0, 0, k * self.number(1, 3)
            elif kind == "whole map":
                k, s, d, low, high = size, 1, 1, 0, 0
            elif rank == 2 and self.chance(0.15):
                high = self.number(0, k - 1)
            window = d * (k - 1) + 1
            size = max(size, window - low - high)
            y = (size + low + high - window) // s + 1
            columns.append([k, s, d, low, high, size, y, size + low + high - window - (y - 1) * s])
        kernel, stride, dilation, lows, highs, x, y_size, rest = map(tuple, zip(*columns, strict=True))
        n, of_x, of_y = (
            self.one((1, 1, 2)),
            *(self.one([c for c in (1, 2, 3, 8, 16, 17, 20) if c <= most_channels]) for _ in "xy"),
        )
        if kind == "any" and self.chance(0.1):  # depthwise
            groups, of_x, of_y = self.one((2, 4, 16, 18)), 1, 1
        link = Link(stride, lows, dilation, groups)
        return Sizes(
            (n, groups * of_x, *x), (n, groups * of_y, *y_size), (groups * of_y, of_x, *kernel), link, highs, rest
        )  # fmt: skip

    def tensor(self, shape: tuple[int, ...], dtype: str, data: str, mode: str) -> str:
        """Text of an array of these values, now and then a view of other memory; or of a TensorSpec where no values count."""
        if mode == "'timing'" and dtype not in EIGHT_BIT and self.chance(0.5):
            return f"ascend_sim.TensorSpec({shape}, {dtype!r})"
        layout = "plain" if self.chance(0.8) else self.one(("turned", "reversed", "sliced", "repeated"))
        made, view = shape, ""
        if layout == "turned":
            made, view = (*shape[1:], shape[0]), f".transpose({(len(shape) - 1, *range(len(shape) - 1))})"
        elif layout == "reversed":
            view = "[..., ::-1]"
        elif layout == "sliced":
            made, view = (*shape[:-1], 2 * shape[-1] + 1), "[..., 1::2]"
        elif layout == "repeated":
            made = (1, *shape[1:])
        rng = f"np.random.default_rng({self.number(0, 999)})"
        if dtype in EIGHT_BIT:
            text = f"np.array({codes(dtype)}, 'uint8')[{rng}.integers(0, 15, {made})]"
        elif data == "integers":
            most = self.one((1, 1, 2, 3))
            text = f"{rng}.integers({-most}, {most + 1}, {made}).astype({DTYPES[dtype]})"
        elif data == "normal":
            text = f"{rng}.standard_normal({made}).astype({DTYPES[dtype]})"
        else:
            values = f"np.array([0, 1, -1, 0.3, 6e4, -1e-7, np.inf, np.nan], {DTYPES[dtype]})"
            text = f"{values}[{rng}.integers(0, {self.number(4, 8)}, {made})]"
        text += view
        return f"np.broadcast_to({text}, {shape})" if layout == "repeated" else text

    def backward(self, dtype: str, data: str, options: dict[str, str], old: bool) -> DrawnCall:
        sizes, transposed = self.sizes((1, 2, 2) if old and self.chance(0.95) else (1, 2, 2, 3)), self.chance(0.3)
        mask = self.one(((1, 1, 1), (1, 1, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1), (0, 0, 0)))
        if dtype in EIGHT_BIT:  # rules of their own; most others are refused
            mask = (1, 0, 0) if dtype == "float8_e4m3fn" else self.one(((1, 0, 0), (0, 1, 0)))
            transposed &= dtype == "hifloat8"
            if mask[1]:
                sizes = self._one_group(sizes)
        roles = {"grad_output": "x", "input": "y"} if transposed else {"grad_output": "y", "input": "x"}
        roles |= {"weight": "w"}
        tensors = {
            name: self.tensor(getattr(sizes, role), dtype, data, options["mode"]) for name, role in roles.items()
        }  # fmt: skip
        attributes = {
            "bias_sizes": "None", "stride": sizes.link.stride, "padding": sizes.padding, "dilation": sizes.link.dilation,
            "transposed": transposed, "output_padding": sizes.rest if transposed else (0,) * sizes.rank,
            "groups": sizes.link.groups, "output_mask": tuple(map(bool, mask)),
        }  # fmt: skip
        texts = {name: str(value) for name, value in attributes.items()}
        return DrawnCall("convolution_backward", tensors, texts, options, dtype, data, sizes.link, roles)

    def _one_group(self, sizes: Sizes) -> Sizes:
        link = replace(sizes.link, groups=1)
        return replace(sizes, w=(sizes.y[1], sizes.x[1], *sizes.w[2:]), link=link)

    def tbc(self, dtype: str, data: str, options: dict[str, str], old: bool) -> DrawnCall:
        steps, batch, c_in, c_out = (self.number(1, 12), self.number(1, 3), self.one((1, 3, 16, 20)), self.one((1, 5, 16, 20)))
        kernel = self.number(1, min(5, steps))
        pad = self.number(0, kernel // 2)
        shapes = {
            "self": (steps + 2 * pad - kernel + 1, batch, c_out), "input": (steps, batch, c_in),
            "weight": (kernel, c_in, c_out), "bias": (c_out,),
        }  # fmt: skip
        tensors = {name: self.tensor(shape, dtype, data, options["mode"]) for name, shape in shapes.items()}
        turn = {"self": (1, 2, 0), "input": (1, 2, 0), "weight": (2, 1, 0)}
        link = Link((1,), (pad,), (1,), 1)
        attributes = {"pad": str(pad)}
        if options["chip"].startswith("'ascend950") and self.chance(0.2):
            attributes["grad_weight_dtype"] = repr(self.one(("hifloat8", "float8_e4m3fn", "float32")))
        roles = {"self": "y", "input": "x", "weight": "w"}
        return DrawnCall("conv_tbc_backward", tensors, attributes, options, dtype, data, link, roles, turn)

    def forward(self, dtype: str, data: str, options: dict[str, str], old: bool) -> DrawnCall:
        sizes, transposed = self.sizes((1, 2, 2) if old and self.chance(0.95) else (1, 2, 2, 3)), self.chance(0.3)
        roles = {"input": "y", "weight": "w"} if transposed else {"input": "x", "weight": "w"}
        tensors = {name: self.tensor(getattr(sizes, role), dtype, data, options["mode"]) for name, role in roles.items()}
        channels = (sizes.x if transposed else sizes.y)[1]
        bias = dtype not in EIGHT_BIT and self.chance(0.6)
        tensors["bias"] = self.tensor((channels,), dtype, data, options["mode"]) if bias else "None"
        attributes = {
            "stride": sizes.link.stride, "padding": sizes.padding, "dilation": sizes.link.dilation, "transposed": transposed,
            "output_padding": sizes.rest if transposed else (0,) * sizes.rank, "groups": sizes.link.groups,
        }  # fmt: skip
        texts = {name: str(value) for name, value in attributes.items()}
        return DrawnCall("convolution", tensors, texts, options, dtype, data, sizes.link, roles)

    def spoiled(self, call: DrawnCall) -> DrawnCall:
        """One to three arguments as nobody means them."""
        parts = {"tensors": dict(call.tensors), "attributes": dict(call.attributes), "options": dict(call.options)}
        others = ("max_cycles", "disarm", "observer", "progress", "tiling", "block_dim", "dtypes", "check")
        for _ in range(self.number(1, 3)):
            part = self.one(("tensors", "attributes", "options", "options"))
            names = [*parts[part], *(others if part == "options" else ())]
            parts[part][self.one(names)] = self.one(JUNK)
        return replace(call, **parts, data="none")
