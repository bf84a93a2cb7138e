"""Random argument tuples through both GetWorkspaceSize functions of `ascend_sim.acl`, checks, plan and tilings included.

Every call has to end in a status. The wrappers turn an exception that escapes the operator into 561000;
here that counts as an escape. Half of the calls are a consistent convolution of random extent (up to 2^31 per axis), a third
such a one with one to three wild fields, the rest is wild altogether.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ascend_sim import acl, use
from ascend_sim.chip.spec import chip_names
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from fuzzing.outcome import FuzzOutcome

LABELS = ("operator", "chip", "profile", "status")
SECONDS = 5.0
STATUSES = {0, 161001, 161002, 561103}
"""Statuses in which a call may end; 561000 would be an exception, 561003 a call that is accepted and has no kernel."""
DTYPES = {
    "float32": acl.ACL_FLOAT, "float16": acl.ACL_FLOAT16, "bfloat16": acl.ACL_BF16, "hifloat8": acl.ACL_HIFLOAT8,
    "float8_e4m3fn": acl.ACL_FLOAT8_E4M3FN, "int8": acl.ACL_INT8, "double": acl.ACL_DOUBLE, "?": 99,
}  # fmt: skip
FORMATS = {
    "NCL": acl.ACL_FORMAT_NCL, "NCHW": acl.ACL_FORMAT_NCHW, "NCDHW": acl.ACL_FORMAT_NCDHW, "ND": acl.ACL_FORMAT_ND,
    "NHWC": acl.ACL_FORMAT_NHWC, "?": 77,
}  # fmt: skip
CHIPS = chip_names()
LABEL_OF_RANK = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
WILD = (
    -(2**63), -1, 0, 1, 2, 3, 4, 7, 15, 16, 17, 63, 64, 255, 256, 257, 511, 4097, 65535, 65536, 2**31 - 1, 2**31, 2**63 - 1,
)  # fmt: skip


class Calls:
    """Random calls."""

    def __init__(self, dice: random.Random) -> None:
        self.random = dice

    def size(self, limit: int) -> int:
        """A number from 1, as likely in each octave up to `limit`."""
        return min(int(2 ** self.random.uniform(0, limit.bit_length())), limit)

    def limit(self) -> int:
        return self.random.choice((2, 4, 16, 16, 64, 256, 1024, 2**16, 2**31))

    def dtype(self) -> str:
        return self.random.choice(("float16", "float16", "float32", "float32", "bfloat16", "hifloat8", "float8_e4m3fn"))

    def tensor(self, shape: tuple[int, ...], dtype: str, label: str) -> TensorArg:
        """Contiguous, or now and then a view with gaps at an offset, or one whose axes are permuted."""
        kind = self.random.random()
        if kind < 0.9 or not shape:
            return TensorArg(shape, dtype, label)
        order = list(range(len(shape)))
        if kind > 0.95:
            self.random.shuffle(order)
        steps, step = [0] * len(shape), self.random.choice((1, 1, 2))
        for axis in reversed(order):
            steps[axis] = step
            step *= max(shape[axis], 1) + self.random.choice((0, 0, 1))
        if step >= 2**62:
            return TensorArg(shape, dtype, label)
        offset = self.random.choice((0, 0, 3))
        return TensorArg(shape, dtype, label, tuple(steps), offset, (step + offset,))

    def conv(self) -> ConvBackwardCall:
        """One convolution whose shapes fit, with every attribute at random."""
        choose = self.random.choice
        axes = choose((1, 2, 2, 3))
        transposed = self.random.random() < 0.3
        groups = choose((1, 1, 1, self.size(self.limit())))
        per_group, out_channels = self.size(self.limit()), groups * self.size(self.limit())

        def values(make: Callable[[], int]) -> list[int]:
            return [make() for _ in range(axes)]

        kernel = values(lambda: self.size(choose((1, 3, 3, 7, 300))))
        stride = values(lambda: self.size(choose((1, 2, 4, 70))))
        dilation = values(lambda: self.size(choose((1, 1, 3, 300))))
        y = values(lambda: self.size(self.limit()))
        window = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        low = [self.random.randrange(min(w, choose((1, 3, 300)))) for w in window]
        high = list(low)
        if axes == 2 and self.random.random() < 0.3:
            high = [self.random.randrange(w) for w in window]
        rest = [self.random.randrange(s) if self.random.random() < 0.3 else 0 for s in stride]
        x = [max((o - 1) * s + w - a - b + r, 1) for o, s, w, a, b, r in zip(y, stride, window, low, high, rest, strict=True)]
        n = self.size(self.limit())
        ends = ((n, groups * per_group, *x), (n, out_channels, *y))
        grad_output, input_shape = ends if transposed else ends[::-1]
        weight = (out_channels, per_group, *kernel)
        dtype = self.dtype()
        label = LABEL_OF_RANK[axes + 2]
        padding = low if low == high else [low[0], high[0], low[1], high[1]]
        mask = tuple(self.random.random() < 0.7 for _ in range(3))
        tensors = [self.tensor(shape, dtype, label) for shape in (grad_output, input_shape, weight)]
        if self.random.random() < 0.1:
            tensors[self.random.randrange(3)] = self.tensor(weight, self.dtype(), label)
        grad_weight = self.tensor(weight, "float32" if self.random.random() < 0.1 else dtype, label)
        outputs = [self.tensor(input_shape, dtype, label), grad_weight, TensorArg(grad_output[1:2], dtype)]
        kept = [out if wanted or self.random.random() < 0.7 else None for out, wanted in zip(outputs, mask, strict=True)]
        return ConvBackwardCall(
            *tensors,
            grad_output[1:2],
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(rest) if transposed else (0,) * axes,
            groups,
            mask,
            choose((0, 0, 1, 1, 2, 3)),
            *kept,
        )

    def tbc(self) -> ConvTbcCall:
        """One convolution over time whose shapes fit."""
        steps, batch, c_in, c_out = (self.size(self.limit()) for _ in range(4))
        kernel = min(self.size(self.random.choice((1, 3, 7, 300))), steps)
        pad = self.random.randrange(self.random.choice((1, 3, 300)))
        dtype = self.dtype() if self.random.random() < 0.2 else self.random.choice(("float16", "float32", "bfloat16"))
        shapes = ((steps + 2 * pad - kernel + 1, batch, c_out), (steps, batch, c_in), (kernel, c_in, c_out), (c_out,))
        tensors = [self.tensor(shape, dtype, self.random.choice(("ND", "NCL"))) for shape in shapes[:3]]
        outputs = [TensorArg(shape, dtype) for shape in shapes[1:]]
        if self.random.random() < 0.1:
            outputs[1] = TensorArg(shapes[2], self.random.choice(("hifloat8", "float8_e4m3fn")))
        return ConvTbcCall(*tensors, TensorArg(shapes[3], dtype), pad, self.random.choice((0, 0, 1, 1, 2, 3)), *outputs)

    def wild(self, name: str) -> Any:
        """Anything at all for the argument `name`."""
        choose = self.random.choice
        if name == "transposed":
            return choose((False, True))
        if name == "groups":
            return choose([value for value in WILD if abs(value) < 2**31])
        if name == "cube_math_type":
            return choose((-128, -1, 0, 1, 2, 3, 4, 127))
        if name == "pad":
            return choose(WILD)
        if self.random.random() < 0.1:
            return None
        values = tuple(choose(WILD) for _ in range(choose((0, 1, 2, 2, 3, 3, 4, 5, 6))))
        if name == "output_mask":
            return tuple(value > 1 for value in values)
        if name in ("bias_sizes", "stride", "padding", "dilation", "output_padding"):
            return values
        strides = tuple(choose(WILD) for _ in values) if self.random.random() < 0.1 else None
        return TensorArg(values, choose(list(DTYPES)), choose(list(FORMATS)), strides, choose((0, 0, 0, 1, -1)))

    def changed(self, call: Any, count: int) -> Any:
        """Return the call with `count` fields made wild."""
        names = [entry.name for entry in fields(call)]
        return replace(call, **{name: self.wild(name) for name in self.random.sample(names, count)})

    def __call__(self, operator: str) -> Any:
        call = self.conv() if operator == "aclnnConvolutionBackward" else self.tbc()
        kind = self.random.random()
        if kind < 0.5:
            return call
        return self.changed(call, self.random.randint(1, 3) if kind < 0.85 else len(fields(call)))


def handles(call: Any) -> list[Any]:
    """The arguments as a C program would pass them; a null pointer where aclCreateTensor refuses the description."""
    arguments = []
    for entry in fields(call):
        value = getattr(call, entry.name)
        if isinstance(value, TensorArg):
            storage = value.storage_shape
            value = acl.aclCreateTensor(
                value.shape,
                value.rank,
                DTYPES[value.dtype],
                value.strides,
                value.offset,
                FORMATS[value.format],
                storage,
                0 if storage is None else len(storage),
                None,
            )
        elif entry.name == "output_mask" and value is not None:
            value = acl.aclCreateBoolArray(value, len(value))
        elif isinstance(value, tuple):
            value = acl.aclCreateIntArray(value, len(value))
        arguments.append(value)
    return arguments


Setting = tuple[str, str, int]
"""Chip, profile, determinism."""
SETTING_OF = 50
"""Calls in a row that share one, as opening a process costs more than a call."""
_open: Setting | None = None
"""The setting with which this process has the interface open."""


def setting(seed: int, index: int) -> Setting:
    """Return the chip, the profile and the determinism of call `index`."""
    dice = random.Random(f"settings/{seed}/{index // SETTING_OF}")
    return dice.choice(CHIPS), dice.choice(("documented", "library")), dice.randrange(2)


def draw(seed: int, index: int) -> tuple[str, Any]:
    """The operator and the arguments of call `index`."""
    dice = random.Random(f"phase one/{seed}/{index}")
    operator = dice.choice(("aclnnConvolutionBackward", "aclnnConvTbcBackward"))
    return operator, Calls(dice)(operator)


def line(seed: int, index: int) -> str:
    """Return the command that makes the call again, with its arguments behind it."""
    return f"tools/fuzz phase-one --seed {seed} --again {index}  # {setting(seed, index)}, {draw(seed, index)[1]}"


def run(seed: int, index: int) -> FuzzOutcome:
    """Make call `index` of `seed`: its status, and what is wrong with it."""
    chip, conformance, _ = now = setting(seed, index)
    _enter(now)
    operator, call = draw(seed, index)
    function: Callable[..., Any] = getattr(acl, operator + "GetWorkspaceSize")
    try:
        status, size, _ = function(*handles(call))
    except Exception as error:
        return FuzzOutcome((operator, chip, conformance, "exception"), f"{type(error).__name__}: {error}")
    labels = (operator, chip, conformance, str(status))
    if status not in STATUSES:
        return FuzzOutcome(labels, f"{status}: {acl.aclGetRecentErrMsg()}")
    wrong_size = status == 0 and not 0 <= size < 2**64
    return FuzzOutcome(labels, f"workspace of {size} bytes" if wrong_size else None)


def _enter(wanted: Setting) -> None:
    """Open the C interface with a setting, unless it is so."""
    global _open
    if wanted == _open:
        return
    acl.aclFinalize()
    chip, conformance, deterministic = wanted
    use(chip=chip, conformance=conformance)
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, deterministic)
    _open = wanted
