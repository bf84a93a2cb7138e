"""Random vector programs through C++ and through the Python builder: the rows are equal.

One C++ kernel reads a list of calls from its tiling data, so that nothing is compiled for an example.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.ascend_c.function import CppKernel
from ascend_sim.chip import load_chip
from ascend_sim.isa.vector import Mask, scalar_field
from ascend_sim.kernel.function import KernelError, Launch
from ascend_sim.kernel.tensor import Tensor
from tests.support.ascend_c.kernels import made, needs_compiler
from tests.support.sampling import sampled

pytestmark = needs_compiler
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "AddRelu", "SubRelu")
UNARY = ("Exp", "Abs", "Ln", "Sqrt", "Rsqrt", "Reciprocal", "Relu")
SCALAR = ("Muls", "Adds", "Maxs", "Mins", "LeakyRelu", "Axpy")
CALLS = (*BINARY, *UNARY, *SCALAR)
MASKS = ("count", "first", "bits")
FORMS = {name: form for form, names in (("TWO", BINARY), ("ONE", UNARY), ("BY", SCALAR)) for name in names}
TEXT = (
    """
struct Call { int32_t what, form, dst, src0, src1, count, repeat, steps[3]; uint64_t mask; float scalar; int32_t pad; };
struct Calls { int64_t count; Call calls[40]; };
extern "C" __global__ __aicore__ void program(GM_ADDR x, GM_ADDR tiling) {
    Calls *all = (Calls *)tiling;
    for (int64_t i = 0; i < all->count; i++) {
        Call &c = all->calls[i];
        auto at = [](int32_t block) { return LocalTensor<float>(TPosition::VECCALC, block * 32, 8); };
        LocalTensor<float> d = at(c.dst), a = at(c.src0), b = at(c.src1);
        uint64_t bits[2] = {c.mask, 0};
        BinaryRepeatParams two(1, 1, 1, c.steps[0], c.steps[1], c.steps[2]);
        UnaryRepeatParams one(1, 1, c.steps[0], c.steps[1]);
#define TWO(number, Name) if (c.what == number) { if (c.form == 0) Name(d, a, b, c.count); \\
    else if (c.form == 1) Name(d, a, b, (uint64_t)c.count, c.repeat, two); else Name(d, a, b, bits, c.repeat, two); }
#define ONE(number, Name) if (c.what == number) { if (c.form == 0) Name(d, a, c.count); \\
    else if (c.form == 1) Name(d, a, (uint64_t)c.count, c.repeat, one); else Name(d, a, bits, c.repeat, one); }
#define BY(number, Name) if (c.what == number) { if (c.form == 0) Name(d, a, c.scalar, c.count); \\
    else if (c.form == 1) Name(d, a, c.scalar, (uint64_t)c.count, c.repeat, one); \\
    else Name(d, a, c.scalar, bits, c.repeat, one); }
"""
    + " ".join(f"{form}({CALLS.index(name)}, {name})" for name, form in FORMS.items())
    + """
        PipeBarrier<PIPE_V>();
    }
}
"""
)


def operation(name: str) -> str:
    """Return the Python name of a call: leaky_relu for LeakyRelu."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    form = draw(st.sampled_from(MASKS))
    repeat = 1 if form == "count" else draw(st.integers(1, 6))
    least = 8 if repeat > 1 else 0  # rows of the result that lie over each other are refused
    steps = [draw(st.integers(least, 12)), draw(st.integers(0, 12)), draw(st.integers(0, 12))]
    if draw(st.booleans()):
        steps = [8, 8, 8]
    return {
        "what": draw(st.sampled_from(CALLS)),
        "form": form,
        "blocks": [draw(st.integers(0, 4)) * 1024 for _ in range(3)],
        "count": draw(st.integers(1, 500)) if form == "count" else draw(st.integers(1, 64)),
        "repeat": repeat,
        "steps": steps,
        "mask": draw(st.integers(1, (1 << 64) - 1)),
        "scalar": draw(st.floats(-4, 4, width=32)),
    }


def packed(program: list[dict[str, Any]]) -> bytes:
    data = struct.pack("<q", len(program))
    for one in program:
        data += struct.pack(
            "<10iQfi",
            CALLS.index(one["what"]),
            MASKS.index(one["form"]),
            *one["blocks"],
            one["count"],
            one["repeat"],
            *one["steps"],
            one["mask"],
            one["scalar"],
            0,
        )
    return data + bytes(8 + 40 * 56 - len(data))


@asim.kernel_function(core="AIV")
def python_program(k: asim.Kernel, x: asim.Tensor, *, program: tuple[dict[str, Any], ...]) -> None:
    """The program through the vector methods: tensors of rows, as a Python kernel has them."""
    for one in program:
        rows, mask, count = one["repeat"], None, one["count"]
        if one["form"] == "bits":
            bits = one["mask"]
            count = bits.bit_length()
            if bits != (1 << count) - 1:
                mask, count = bits, 64
        views = []
        for block, step in zip(one["blocks"], one["steps"], strict=True):
            whole = count == 64 and all(each == 8 for each in one["steps"][: 3 if one["what"] in BINARY else 2])
            if rows == 1 or whole:
                views.append(asim.LocalTensor(block * 32, (count * rows,), "float32"))
            else:
                views.append((block * 32, step * 32))
        if isinstance(views[0], tuple):
            _emit_rows(k, one, count, rows, mask, views)
            continue
        method, more = getattr(k, operation(one["what"])), {} if mask is None else {"mask": mask}
        d, a, b = views
        if one["what"] in BINARY:
            method(d, a, b, **more)
        elif one["what"] in UNARY:
            method(d, a, **more)
        else:
            method(d, a, one["scalar"], **more)
        k.pipe_barrier("V")


def _emit_rows(k: Any, one: dict[str, Any], count: int, rows: int, bits: int | None, views: list[Any]) -> None:
    """Rows with gaps, some of which a tensor of rows cannot say (a source that stands still or goes slower than its rows)."""
    from ascend_sim.isa.vector import VectorBinary, VectorScalar, VectorUnary

    mask = None if bits is None else Mask(bits, 64)
    (d, dst), (a, first), (b, second) = views
    key: tuple[Any, ...]
    if one["what"] in BINARY:
        key = (VectorBinary, operation(one["what"]), "float32", count, rows, dst, first, mask, (), second)
    elif one["what"] in UNARY:
        key = (VectorUnary, operation(one["what"]), "float32", count, rows, dst, first, mask)
    else:
        key = (VectorScalar, operation(one["what"]), "float32", count, rows, dst, first, mask, (), scalar_field(one["scalar"]))
    k._emit(key, d, a, b if one["what"] in BINARY else 0)
    k.pipe_barrier("V")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> CppKernel:
    return made(tmp_path_factory.mktemp("random"), TEXT)


CHIP = load_chip("ascend910b3")
TENSORS = [Tensor.at(0, "x", (8,), "float32")]


@sampled(80, 500)
@given(program=st.lists(calls(), min_size=1, max_size=20))
def test_rows_are_those_of_the_python_builder(kernel: CppKernel, program: list[dict[str, Any]]) -> None:
    try:
        ours = Launch.of(kernel, CHIP, 1, TENSORS, {"tiling": packed(program)}).programs(0)[0]
    except KernelError:  # operands that overlap in part, say: refused alike
        with pytest.raises(KernelError):
            Launch.of(python_program, CHIP, 1, TENSORS, {"program": tuple(program)}).programs(0)
        return
    python = Launch.of(python_program, CHIP, 1, TENSORS, {"program": tuple(program)}).programs(0)[0]
    assert [(row.instruction, row.dst, row.src0, row.src1) for row in ours] == [
        (row.instruction, row.dst, row.src0, row.src1) for row in python
    ]
