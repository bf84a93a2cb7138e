"""Matmul of operands and results in columns of fractals (CubeFormat::NZ), and of results in a tensor of L0C, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import made, needs_compiler
from tests.support.ascend_c.matmul import DTYPES, GO, tiling

pytestmark = needs_compiler
TYPE = "MatmulType<TPosition::GM, CubeFormat::{1}, {0}, true>"
FORMS = {
    "half": ("half", "float", "NZ NZ NZ", False, False),
    "half, transposed": ("half", "half", "NZ NZ ND", True, True),
    "float": ("float", "float", "NZ ND NZ", True, False),
    "int8": ("int8_t", "int32_t", "ND NZ NZ", False, False),
    "int8, no whole squares": ("int8_t", "int32_t", "ND ND ND", True, False),
    "int8, transposed": ("int8_t", "int32_t", "NZ NZ NZ", True, True),
}
"""Types of operands and result, the formats of A, B and C, and which operands lie transposed."""
SHAPES = {"int8": (96, 96, 160), "int8, no whole squares": (90, 80, 150), "int8, transposed": (96, 96, 160)}
"""Sizes (M, N, K), where others than (96, 80, 160)."""


def blocks(matrix: Any, width: int) -> Any:
    """Return a matrix as columns of fractals: [columns / width][rows][width]."""
    rows, columns = matrix.shape
    return np.ascontiguousarray(matrix.reshape(rows, columns // width, width).swapaxes(0, 1))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    cases = []
    for number, (operand, result, formats, turned_a, turned_b) in enumerate(FORMS.values()):
        a, b, c = formats.split()
        types = [TYPE.format(operand, a), TYPE.format(operand, b), TYPE.format(result, c), TYPE.format(result, "ND")]
        call = f"go<Matmul<{', '.join(types)}>, {operand}, {result}, {result}>"
        cases.append(f"case {number}: {call}(a, b, c, c, t, {int(turned_a)}, {int(turned_b)}, how); break;")
    return made(tmp_path_factory.mktemp("formats"), GO + f"""
extern "C" __global__ __aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t, int which, uint32_t how) {{
    switch (which) {{ {" ".join(cases)} }}
}}""")  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_product_of_columns_of_fractals_is_right(kernel: Any, name: str) -> None:
    operand, result, formats, turned_a, turned_b = FORMS[name]
    (m, n, k), rng = SHAPES.get(name, (96, 80, 160)), np.random.default_rng(3)
    a, b = (rng.integers(-5, 6, sizes).astype(DTYPES[operand]) for sizes in ((m, k), (k, n)))
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(DTYPES[result])
    width = 32 // a.itemsize
    placed = [one.T if turned else one for one, turned in ((a, turned_a), (b, turned_b))]
    given = [
        blocks(one, width) if how == "NZ" else np.ascontiguousarray(one)
        for one, how in zip(placed, formats.split(), strict=False)
    ]
    wanted = blocks(wanted, 16) if formats.endswith("NZ") else wanted
    t, which = tiling((m, n, k), stepKa=3, depthA1=3), list(FORMS).index(name)
    for how, engine in ((0, "simpy"), (1, "compiled")):
        found = asim.launch(kernel, 1, *given, asim.empty(wanted.shape, wanted.dtype), t=t, which=which, how=how, engine=engine)
        np.testing.assert_array_equal(found.outputs["c"], wanted)
    report = asim.check_kernel(kernel, 1, *given, asim.empty(wanted.shape, wanted.dtype), t=t, which=which, how=0)
    assert not report.findings, report.render()


def test_columns_of_fractals_are_whole(kernel: Any) -> None:
    a, b, c = np.zeros((40, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((40, 64), np.float32)
    with pytest.raises(SimError, match="CubeFormat::NZ of 40 x 64; rows are a multiple of 16, columns of 16"):
        asim.launch(kernel, 1, a, b, c, t=tiling((40, 64, 64)), which=0, how=0)


IN_L0C = """
extern "C" __global__ __aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t, int plain) {
    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
           MatmulType<TPosition::CO1, CubeFormat::NZ, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &t);
    TQue<TPosition::CO1, 1> sums;
    pipe.InitBuffer(sums, 2, 64 * 64 * 4);
    mm.SetTensorA(view<half>(a));
    mm.SetTensorB(view<half>(b));
    if (plain) mm.Iterate();
    auto out = view<float>(c);
    for (int tile = 0; tile < 4; tile++) {
        LocalTensor<float> sum = sums.AllocTensor<float>();
        mm.Iterate(false, sum);
        sums.EnQue(sum);
        sum = sums.DeQue<float>();
        Fixpipe(out[tile % 2 * 64 * 128 + tile / 2 * 64], sum, FixpipeParamsV220(64, 64, 64, 128, false));
        sums.FreeTensor(sum);
    }
    mm.End();
}
"""


def test_tiles_lie_in_the_kernels_own_tensor_of_l0c(tmp_path: Any) -> None:
    kernel, rng = made(tmp_path, GO + IN_L0C), np.random.default_rng(2)
    a, b = (rng.integers(-5, 6, sizes).astype(np.float16) for sizes in ((128, 96), (96, 128)))
    given = a, b, asim.empty((128, 128), "float32")
    found = asim.launch(kernel, 1, *given, t=tiling((128, 128, 96)), plain=0)
    np.testing.assert_array_equal(found.outputs["c"], a.astype(np.float32) @ b.astype(np.float32))
    assert not asim.check_kernel(kernel, 1, *given, t=tiling((128, 128, 96)), plain=0).findings
    with pytest.raises(SimError, match="Iterate takes a tensor of L0C, and Fixpipe stores it"):
        asim.launch(kernel, 1, *given, t=tiling((128, 128, 96)), plain=1)


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (
            "GM, CubeFormat::NZ, half|VECOUT, CubeFormat::NZ, half|GM, CubeFormat::ND, float",
            "NZ in the Unified Buffer is not simulated",
        ),
        (
            "GM, CubeFormat::ND, half|GM, CubeFormat::ZZ, half|GM, CubeFormat::ND, float",
            "in CubeFormat::ND and NZ are simulated",
        ),
        ("GM, CubeFormat::ND, half|GM, CubeFormat::ND, half|CO1, CubeFormat::ND, float", "C at CO1 is in CubeFormat::NZ"),
        ("GM, CubeFormat::ND, half|TSCM, CubeFormat::ND, half|GM, CubeFormat::ND, float", "and C at CO1"),
    ],
)
def test_positions_and_formats_that_it_has_not_are_refused(tmp_path: Any, types: str, text: str) -> None:
    listed = ", ".join(f"MatmulType<TPosition::{one}>" for one in types.split("|"))
    with pytest.raises(CompileError) as caught:
        made(tmp_path, f'extern "C" __global__ __aicore__ void wrong(GM_ADDR a) {{\n    Matmul<{listed}> mm;\n}}')
    assert "kernel.cpp:4: error: " in str(caught.value) and text in str(caught.value)
