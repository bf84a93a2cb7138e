"""Arguments of a C++ kernel: numbers, structures and tiling data by their fields."""

from __future__ import annotations

import ctypes
import math
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import OUT, floats, made, needs_compiler, refusal, vector_kernel

pytestmark = needs_compiler


TILING = """
struct Tiling { uint32_t count; float scale; int64_t big; uint8_t parts[3]; };
"""
TILING_BYTES = struct.pack("<Ifq3B5x", 8, 0.5, 6, 0, 4, 0)
WRITE = "Duplicate(d, t.scale * (float)t.big + t.parts[1], (int32_t)t.count); " + OUT.replace("64", "t.count")


def test_a_structure_by_value(tmp_path: Path) -> None:
    text = TILING + vector_kernel(WRITE, tensors="z", numbers="Tiling t")
    kernel = made(tmp_path, text)
    for fields in (
        {"count": 8, "scale": 0.5, "big": 6, "parts[1]": 4},
        {"t": {"count": 8, "scale": 0.5, "big": 6, "parts[1]": 4}},
        {"t": {"count": 8, "scale": 0.5, "big": 6, "parts": [0, 4, 0]}},
        {"t": TILING_BYTES},
    ):
        assert (asim.launch(kernel, 1, asim.empty(8, "float32"), **fields).outputs["z"] == 7).all()
    assert "10 bytes; the structure has 24" in refusal(kernel, asim.empty(8, "float32"), t=bytes(10))
    assert "no member named 'wrong'" in refusal(kernel, asim.empty(8, "float32"), wrong=1)
    assert "'count; abort()' is not a field" in refusal(kernel, asim.empty(8, "float32"), t={"count; abort()": 1})


def test_a_structure_in_a_structure_is_a_dictionary_in_one(tmp_path: Path) -> None:
    nested = f"{TILING} struct Whole {{ uint32_t first; Tiling t; }};"
    text = nested + vector_kernel(f"Tiling t = w.t; {WRITE}", tensors="z", numbers="Whole w")
    kernel = made(tmp_path, text)
    whole = {"first": 9, "t": {"count": 8, "scale": 0.5, "big": 6, "parts": np.array([0, 4, 0])}}
    assert (asim.launch(kernel, 1, asim.empty(8, "float32"), w=whole).outputs["z"] == 7).all()


TWO_STRUCTURES = """
struct Size { uint32_t count; float factor; };
struct Part { uint32_t count; };
extern "C" __global__ __aicore__ void kernel(GM_ADDR z, Size first, Part second, Size third) {
    GlobalTensor<float> zg; zg.SetGlobalBuffer((__gm__ float *)z);
    LocalTensor<float> d(TPosition::VECCALC, 0, 8);
    Duplicate(d, float(first.count * 100 + second.count * 10 + third.count) + first.factor, 8);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, d, 8);
}"""


def test_fields_belong_to_their_own_structure(tmp_path: Path) -> None:
    kernel, z = made(tmp_path, TWO_STRUCTURES), asim.empty(8, "float32")
    whole = {"first": {"count": 1, "factor": 0.5}, "second": {"count": 2}, "third": {"count": 3, "factor": 9}}
    loose = {"first.count": 1, "first.factor": 0.5, "second.count": 2, "third.count": 3}
    for fields in (whole, loose, {**whole, "third": {}, "third.count": 3}):
        assert (asim.launch(kernel, 1, z, **fields).outputs["z"] == 123.5).all()
    assert "count: the kernel has several structures; give first.count or second.count or third.count" in refusal(
        kernel, z, count=1
    )


def test_a_structure_of_ctypes(tmp_path: Path) -> None:
    class TilingStruct(ctypes.Structure):
        _fields_ = (
            ("count", ctypes.c_uint32),
            ("scale", ctypes.c_float),
            ("big", ctypes.c_int64),
            ("parts", ctypes.c_uint8 * 3),
        )

    given = TilingStruct(8, 0.5, 6, (0, 4, 0))
    kernel = made(tmp_path, TILING + vector_kernel(WRITE, tensors="z", numbers="Tiling t"))
    assert (asim.launch(kernel, 1, asim.empty(8, "float32"), t=given).outputs["z"] == 7).all()


def test_tiling_data_behind_a_pointer(tmp_path: Path) -> None:
    body = f"GET_TILING_DATA(t, tiling); {WRITE}"
    text = f"{TILING} REGISTER_TILING_DEFAULT(Tiling)\n" + vector_kernel(body, tensors="z", numbers="GM_ADDR tiling")
    kernel = made(tmp_path, text)
    given = {"count": 8, "scale": 0.5, "big": 6, "parts[1]": 4}
    assert (asim.launch(kernel, 1, asim.empty(8, "float32"), **given).outputs["z"] == 7).all()
    assert (asim.launch(kernel, 1, asim.empty(8, "float32"), tiling=given).outputs["z"] == 7).all()


def test_a_structure_is_registered_in_a_function_or_in_a_header(tmp_path: Path) -> None:
    body, given = f"GET_TILING_DATA(t, tiling); {WRITE}", {"count": 8, "scale": 0.5, "big": 6, "parts[1]": 4}
    inside = vector_kernel(f"REGISTER_TILING_DEFAULT(Tiling);\n{body}", tensors="z", numbers="GM_ADDR tiling")
    outside = f'#include "tiling.h"\n{vector_kernel(body, tensors="z", numbers="GM_ADDR tiling")}'
    (tmp_path / "tiling.h").write_text(f"{TILING} // REGISTER_TILING_DEFAULT(Other)\nREGISTER_TILING_DEFAULT(Tiling)\n")
    for text in (f"{TILING} {inside}", outside):
        kernel = made(tmp_path, text)
        assert (asim.launch(kernel, 1, asim.empty(8, "float32"), **given).outputs["z"] == 7).all()


@pytest.mark.parametrize(
    "copied",
    ["GET_TILING_DATA_WITH_STRUCT(Tiling, t, tiling);", "GET_TILING_DATA_MEMBER( Tiling , big, big, tiling); Tiling t = {8};"],
)
def test_a_structure_that_is_copied_by_name_needs_no_registration(tmp_path: Path, copied: str) -> None:
    body = f"{copied} // GET_TILING_DATA_WITH_STRUCT(Other, t, tiling);\nDuplicate(d, (float)t.count, 64); {OUT}"
    kernel = made(tmp_path, TILING + vector_kernel(body, tensors="z", numbers="GM_ADDR tiling"))
    assert (asim.launch(kernel, 1, asim.empty(64, "float32"), count=8, big=6).outputs["z"] == 8).all()


def test_two_structures_that_are_copied_need_a_registration_or_bytes(tmp_path: Path) -> None:
    two = "if (!tiling) { GET_TILING_DATA_WITH_STRUCT(Other, t, tiling); } GET_TILING_DATA_WITH_STRUCT(Tiling, t, tiling);"
    text = f"{TILING} struct Other {{ int n; }}; " + vector_kernel(
        f"{two} Duplicate(d, (float)t.count, 64); {OUT}", tensors="z", numbers="GM_ADDR tiling"
    )
    kernel, z = made(tmp_path, text), asim.empty(64, "float32")
    assert "fields by name need REGISTER_TILING_DEFAULT(structure)" in refusal(kernel, z, count=8)
    assert "tiling: 5; give fields by name, or bytes, also as a numpy array" in refusal(kernel, z, tiling=5)
    given = np.zeros(8, np.uint32)
    given[0] = 8
    assert (asim.launch(kernel, 1, z, tiling=given.tobytes()).outputs["z"] == 8).all()


def test_tiling_data_by_the_macros_of_the_host(tmp_path: Path) -> None:
    text = """#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(Inner)
TILING_DATA_FIELD_DEF_ARR(uint32_t, 3, parts);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Outer)
TILING_DATA_FIELD_DEF(uint8_t, first);
TILING_DATA_FIELD_DEF_STRUCT(Inner, inner);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Some, Outer)
}
REGISTER_TILING_DEFAULT(optiling::Outer)
"""
    body = f"GET_TILING_DATA(t, tiling); Duplicate(d, (float)(t.first + t.inner.parts[2]), 64); {OUT}"
    kernel = made(tmp_path, text + vector_kernel(body, tensors="z", numbers="GM_ADDR tiling"))
    fields = {"first": 3, "inner.parts[2]": 4}
    assert (asim.launch(kernel, 1, asim.empty(64, "float32"), tiling=fields).outputs["z"] == 7).all()
    assert "first: a number outside" in refusal(kernel, asim.empty(64, "float32"), tiling=fields | {"first": 1 << 64})


def test_a_cube_tiling_by_its_fields_needs_no_registration(tmp_path: Path) -> None:
    body = f"TCubeTiling t = *(__gm__ TCubeTiling *)tilingGm; Duplicate(d, (float)(t.baseM + t.mxTypePara), 64); {OUT}"
    kernel = made(tmp_path, vector_kernel(body, tensors="z", numbers="GM_ADDR tilingGm"))
    run = asim.launch(kernel, 1, asim.empty(64, "float32"), tilingGm={"baseM": 5, "mxTypePara": 2})
    assert (run.outputs["z"] == 7).all()


def test_numbers_are_what_the_kernel_takes(tmp_path: Path) -> None:
    text = vector_kernel(f"Duplicate(d, (float)(n + (int64_t)f), 64); {OUT}", tensors="z", numbers="int64_t n, half f")
    kernel = made(tmp_path, text)
    out = asim.empty(64, "float32")
    assert (asim.launch(kernel, 1, out, n=-3, f=2.5).outputs["z"] == -1).all()
    assert (asim.launch(kernel, 1, out, n=np.int32(1), f=np.float16(2)).outputs["z"] == 3).all()
    assert "n: 1.5; the kernel takes a whole number" in refusal(kernel, out, n=1.5, f=0)
    assert "'f'" in refusal(kernel, out, n=1), "a number is missing"
    assert "f: 'a' is not a number" in refusal(kernel, out, n=1, f="a")
    assert "at most 64 bits" in refusal(kernel, out, n=1 << 64, f=0)
    assert "at most 64 bits" in refusal(kernel, out, n=10**5000, f=0), "Python writes no number of so many digits"
    for value in (3.0, np.float32(3), "3"):
        assert "the kernel takes a whole number" in refusal(kernel, out, n=value, f=0)
    for value in (10**400, Fraction(-(10**400))):
        assert "f: a number beyond the range of a float" in refusal(kernel, out, n=1, f=value)


LISTS = """
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, float factor) {
    ListTensorDesc from((__gm__ void *)x, 104, 3), to;
    to.Init((__gm__ void *)y);
    for (uint32_t i = from.GetSize(); i--;) {
        uint64_t sizes[8];
        TensorDesc<float> one; one.SetShapeAddr(sizes); from.GetDesc(one, i);
        uint32_t count = 1;
        for (uint32_t axis = 0; axis < one.GetDim(); axis++) count *= one.GetShape(axis);
        GlobalTensor<float> out; out.SetGlobalBuffer(to.GetDataPtr<__gm__ float>(i));
        LocalTensor<float> a(TPosition::VECCALC, i * 4096, 1024);
        DataCopyPad(a, one.GetDataObj(), {1, count * 4, 0, 0, 0}, {});
        SetFlag<HardEvent::MTE2_V>(i); WaitFlag<HardEvent::MTE2_V>(i);
        Adds(a, a, factor + one.GetIndex(), count);
        SetFlag<HardEvent::V_MTE3>(i); WaitFlag<HardEvent::V_MTE3>(i);
        DataCopyPad(out, a, {1, count * 4, 0, 0, 0});
        if (one.GetDataPtr() != from.GetDataPtr<__gm__ float>(i)) Trap();
    }
}"""
SHAPES = ((64,), (3, 5), (2, 3, 7))


def _plus(x: list[Any], factor: float) -> dict[str, Any]:
    return {"y": [one + factor + number for number, one in enumerate(x)]}


def test_lists_of_tensors(tmp_path: Path) -> None:
    kernel = made(tmp_path, LISTS)
    x = [floats(math.prod(shape)).reshape(shape) for shape in SHAPES]
    y = [asim.empty(shape, "float32") for shape in SHAPES]
    run = asim.launch(kernel, 1, x, y, factor=2.0, expected=_plus)
    assert not run.findings and run.report.outputs and all(one["correct"] for one in run.report.outputs.values())
    for number, values in enumerate(x):
        assert np.array_equal(run.outputs[f"y[{number}]"], values + np.float32(2 + number))
    assert not asim.check_kernel(kernel, 1, x, y, factor=2.0).findings


def test_mistakes_with_lists_name_the_line(tmp_path: Path) -> None:
    kernel, x, y = made(tmp_path, LISTS), [floats(8)] * 3, [asim.empty(8, "float32")] * 3
    assert "x is an empty list" in refusal(kernel, [], y, factor=1.0)
    assert "kernel.cpp:5: kernel kernel: ListTensorDesc: the argument is not a list" in refusal(kernel, x[0], y, factor=1.0)
    assert "kernel.cpp:5: kernel kernel: ListTensorDesc: a list of 2 tensors where" in refusal(kernel, x[:2], y, factor=1.0)
    assert "a list of 80 bytes where the kernel says 104" in refusal(kernel, x, y, factor=1.0)
    right = [np.zeros(shape, np.float32) for shape in SHAPES]
    assert "kernel.cpp:12: kernel kernel: ListTensorDesc: tensor 2 of a list of 2" in refusal(kernel, right, y[:2], factor=1.0)
