"""Matmul on a cube core: values against numpy, its words against recorded ones, and what it refuses."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.matmul_tilings import matmul_tiling
from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import made, needs_compiler, recorded
from tests.support.ascend_c.matmul import DTYPES, GO, tiling
from tests.support.ascend_c.vendor_words import vendor_words
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
RECORDED = json.loads(Path(__file__).with_name("matmul_words.json").read_text())["cases"]
"""Words of a public sample of half operands in rows, for two tilings."""


class MatmulForm(NamedTuple):
    """Types of the operands, the result and the bias, and which operands lie transposed."""

    operand: str
    result: str
    bias: str
    turned_a: bool = False
    turned_b: bool = False


FORMS = {
    "half": MatmulForm("half", "float", "float"),
    "half, B transposed": MatmulForm("half", "half", "half", turned_b=True),
    "half, A transposed": MatmulForm("half", "float", "half", turned_a=True),
    "bfloat16, both transposed": MatmulForm("bfloat16_t", "bfloat16_t", "float", True, True),
    "float": MatmulForm("float", "float", "float"),
    "float, B transposed": MatmulForm("float", "float", "float", turned_b=True),
    "float, both transposed": MatmulForm("float", "float", "float", True, True),
    "int8": MatmulForm("int8_t", "int32_t", "int32_t"),
    "int8, A transposed": MatmulForm("int8_t", "int32_t", "int32_t", turned_a=True),
    "int8, B transposed": MatmulForm("int8_t", "int32_t", "int32_t", turned_b=True),
}
TYPE = "MatmulType<TPosition::GM, CubeFormat::ND, {0}, {1}>"


def _case(number: int, form: MatmulForm) -> str:
    types = ", ".join(
        TYPE.format(one, str(turned).lower())
        for one, turned in (
            (form.operand, form.turned_a),
            (form.operand, form.turned_b),
            (form.result, False),
            (form.bias, False),
        )
    )
    call = f"go<Matmul<{types}>, {form.operand}, {form.result}, {form.bias}>"
    return f"case {number}: {call}(a, b, bias, c, t, {int(form.turned_a)}, {int(form.turned_b)}, how); break;"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    cases = "\n".join(_case(number, form) for number, form in enumerate(FORMS.values()))
    return made(tmp_path_factory.mktemp("matmul"), GO + f"""
extern "C" __global__ __aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, TCubeTiling t, int which,
                                              uint32_t how) {{
    switch (which) {{ {cases} }}
}}
""")  # fmt: skip


def operands(name: str, shape: tuple[int, int, int], seed: int = 0) -> tuple[list[Any], Any]:
    """Return tensors, and the product without a bias in float64."""
    form, rng = FORMS[name], np.random.default_rng(seed)
    m, n, k = shape

    def random(which: str, *sizes: int) -> Any:
        values = rng.integers(-8, 8, sizes) if which.startswith("int") else rng.standard_normal(sizes)
        return values.astype(DTYPES[which])

    a, b, bias = random(form.operand, m, k), random(form.operand, k, n), random(form.bias, n)
    placed = [a.T.copy() if form.turned_a else a, b.T.copy() if form.turned_b else b, bias]
    return [*placed, np.zeros((m, n), DTYPES[form.result])], a.astype(np.float64) @ b.astype(np.float64)


def run(kernel: Any, name: str, tensors: list[Any], t: dict[str, int], how: int = 0, **options: Any) -> Any:
    return asim.launch(kernel, 1, *tensors, t=t, which=list(FORMS).index(name), how=how, **options)


def close(form: MatmulForm, found: Any, wanted: Any) -> None:
    tolerance = {"half": 2e-3, "bfloat16_t": 2e-2, "float": 2e-6, "int32_t": 0}[form.result]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance * 2, atol=tolerance * 12)


@part_of_cases(4)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("shape", [(128, 64, 192), (100, 90, 70), (20, 10, 40)])
def test_a_product_is_right(kernel: Any, name: str, shape: tuple[int, int, int]) -> None:
    tensors, product = operands(name, shape)
    t = tiling(shape, isBias=1)
    close(FORMS[name], run(kernel, name, tensors, t).outputs["c"], product + tensors[2].astype(np.float64))
    report = asim.check_kernel(kernel, 1, *tensors, t=t, which=list(FORMS).index(name), how=0)
    assert not report.findings, report.render()


def test_rows_of_fractals_that_no_copy_fills_are_zero(kernel: Any) -> None:
    """K of A and N of B are half a fractal above whole ones."""
    name, shape = "bfloat16, both transposed", (64, 40, 40)
    tensors, product = operands(name, shape)
    close(FORMS[name], run(kernel, name, tensors, tiling(shape)).outputs["c"], product)
    report = asim.check_kernel(kernel, 1, *tensors, t=tiling(shape), which=list(FORMS).index(name), how=0)
    assert not report.findings, report.render()


TILINGS = {
    "K stays in L1": {"stepKa": 3, "stepKb": 3, "depthA1": 3, "depthB1": 3},
    "only B stays in L1": {"stepKb": 3, "depthB1": 3},
    "columns first": {"iterateOrder": 1, "stepKa": 3, "depthA1": 3},
    "two tiles in L0C": {"dbL0C": 2, "baseN": 32},
    "one half of L0A and L0B": {"dbL0A": 1, "dbL0B": 1},
    "one half of L0A": {"dbL0A": 1},
    "one half of L0B": {"dbL0B": 1},
    "one room": {"depthA1": 1, "depthB1": 1},
    "steps of five pieces": {"baseK": 16, "depthA1": 10, "depthB1": 10, "stepKa": 5, "stepKb": 5},
    "more rooms than flags": {"baseK": 16, "depthA1": 9, "depthB1": 7},
    "tiles of 96 and 48": {"baseM": 96, "baseN": 48, "baseK": 32},
}


@pytest.mark.parametrize("name", TILINGS)
def test_every_tiling_gives_the_product(kernel: Any, name: str) -> None:
    shape = (72, 86, 140)
    tensors, product = operands("half", shape)
    t = tiling(shape, **TILINGS[name])
    for how, chip in ((0, "ascend910b3"), (1, "ascend910_9391")):
        found = run(kernel, "half", tensors, t, how, chip=chip, mode="functional").outputs["c"]
        close(FORMS["half"], found, product)
    report = asim.check_kernel(kernel, 1, *tensors, t=t, which=0, how=3)  # two products
    assert not report.findings, report.render()


def test_a_tail_is_a_smaller_product_in_the_same_matrices(kernel: Any) -> None:
    tensors, product = operands("half", (64, 80, 64))
    found = run(kernel, "half", tensors, tiling((64, 80, 64)), how=2).outputs["c"]
    close(FORMS["half"], found[:56, :72], product[:56, :72])
    assert not found[56:].any() and not found[:, 72:].any()


@pytest.mark.parametrize("how", (3, 5))
def test_an_atomic_product_is_added(kernel: Any, how: int) -> None:
    """Also after `End`, which ends what was asked for and not the object."""
    tensors, product = operands("float", (64, 80, 64))
    close(FORMS["float"], run(kernel, "float", tensors, tiling((64, 80, 64)), how=how).outputs["c"], 2 * product)


@pytest.mark.parametrize(("atomic", "kept"), [(1, np.add), (2, np.maximum), (3, np.minimum)])
def test_an_atomic_product_is_added_or_keeps_an_extreme(kernel: Any, atomic: int, kept: Any) -> None:
    tensors, product = operands("float", (64, 80, 64))
    a, b = (np.asarray(one, np.float64) for one in tensors[:2])
    found = run(kernel, "float", tensors, tiling((64, 80, 64)), how=10 + atomic).outputs["c"]
    close(FORMS["float"], found, kept(product, a[:, :16] @ b[:16]))


def test_another_atomic_operation_is_refused(kernel: Any) -> None:
    with pytest.raises(SimError, match="enAtomic 4; 0 to 3 are possible"):
        run(kernel, "float", operands("float", (64, 80, 64))[0], tiling((64, 80, 64)), how=14)


def test_a_tiling_made_from_the_shape_runs(kernel: Any) -> None:
    shape = (300, 520, 700)
    tensors, product = operands("half", shape)
    t = tiling(shape) | matmul_tiling(load_chip("ascend910b3"), shape)
    close(FORMS["half"], run(kernel, "half", tensors, t, mode="functional").outputs["c"], product)


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_words_are_those_of_the_library(kernel: Any, number: int) -> None:
    """The sample's block 0 works on A, B and C from their starts."""
    case = RECORDED[number]
    data = struct.pack(f"<{len(case['tiling'])}i", *case["tiling"].values())
    addresses = [(slot + 1) << GM_SHIFT for slot in (0, 1, 3, 2)]  # a, b, bias, c
    recording = recorded(kernel, *addresses, data, 0, 0, core="AIC")
    found = []
    for _, word in vendor_words(recording):
        values = [_tensor(one) if isinstance(one, str) and one.startswith("GM") else one for one in word]
        found.append(values)
    assert found == case["words"]


def _tensor(place: str) -> str:
    at = int(place.partition("+")[2], 16)
    return f"GM{at >> GM_SHIFT}+{at & (1 << GM_SHIFT) - 1:#x}"


REFUSED = {
    "baseM 0": ({"baseM": 0}, "half", 0, "Matmul: baseM 0, baseN 64, baseK 64, depthA1 2, depthB1 2; each is at least 1"),
    "baseN of 24": ({"baseN": 24}, "half", 0, "baseN 24, baseK 64; they are multiples of 16"),
    "L0A": ({"baseK": 512}, "half", 0, "2 x 65536 bytes of a piece of A do not fit into L0A"),
    "L0C": ({"baseM": 256, "baseN": 256, "baseK": 32}, "half", 0, "a tile of 256 x 256 does not fit into L0C"),
    "L1": (
        {"depthA1": 64, "depthB1": 64, "singleCoreK": 128},
        "half",
        0,
        r"depthA1 64\) and B \(depthB1 64\) end at 1048576; L1 has 524288 bytes",
    ),
    "no tile": ({}, "half", 4, "GetTensorC: there is no tile; Iterate computes one"),
    "a single shape of 0": ({"singleCoreK": 0}, "half", 0, "a single shape of 128 x 64 x 0; each is at least 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_tilings_and_calls_are_refused(kernel: Any, name: str) -> None:
    changed, form, how, text = REFUSED[name]
    tensors, _ = operands(form, (128, 64, 64))
    with pytest.raises(SimError, match=text):
        run(kernel, form, tensors, tiling((128, 64, 64), **changed), how)


SCALED = """
template <class C> void scaled(GM_ADDR a, GM_ADDR b, GM_ADDR scales, GM_ADDR c, const TCubeTiling &t, uint64_t scale) {{
    TPipe pipe;
    Matmul<{0}, {0}, {1}, MatmulType<TPosition::GM, CubeFormat::ND, int32_t>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    mm.SetTensorA(view<int8_t>(a));
    mm.SetTensorB(view<int8_t>(b), true);
    if (scale == 1) mm.SetQuantVector(view<uint64_t>(scales));
    else if (scale) mm.SetQuantScalar(scale);
    mm.IterateAll(view<C>(c));
    mm.End();
}}
extern "C" __global__ __aicore__ void half_of(GM_ADDR a, GM_ADDR b, GM_ADDR scales, GM_ADDR c, TCubeTiling t, uint64_t scale) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    if (scale == 2) scaled<int8_t>(a, b, scales, c, t, 0x3e000000);
    else scaled<half>(a, b, scales, c, t, scale);
}}
""".format(TYPE.format("int8_t", "true"), "MatmulType<TPosition::GM, CubeFormat::ND, C>")


def _bits(scale: Any) -> Any:
    """Return scales as the Fixpipe takes them: the bits of a float32 in 64."""
    return np.asarray(scale, np.float32).view(np.uint32).astype(np.int64)


@pytest.mark.parametrize("task", ["MIX_AIC_1_1", "AIC_ONLY"])
def test_a_product_of_bytes_is_scaled(tmp_path: Path, task: str) -> None:
    rng, (m, n, k) = np.random.default_rng(5), (64, 90, 64)
    a, b = rng.integers(-9, 10, (m, k)).astype(np.int8), rng.integers(-9, 10, (n, k)).astype(np.int8)
    scales = (2.0 ** -rng.integers(1, 6, n)).astype(np.float32)
    both = GO.replace("#define ASCENDC_CUBE_ONLY", "") if task == "MIX_AIC_1_1" else GO
    made_ = made(tmp_path, both + SCALED.replace("MIX_AIC_1_1", task))
    product = a.astype(np.int32) @ b.astype(np.int32).T
    given, t = (a, b, _bits(scales), asim.empty((m, n), "float16")), tiling((m, n, k))
    for scale, right in ((1, product * scales), (int(_bits(0.25)), product / 4)):
        found = asim.launch(made_, 1, *given, t=t, scale=scale).outputs["c"]
        np.testing.assert_array_equal(found, right.astype(np.float16))
        report = asim.check_kernel(made_, 1, *given, t=t, scale=scale)
        assert not report.findings, report.render()
    found = asim.launch(made_, 1, *given[:3], asim.empty((m, n), "int8"), t=t, scale=2).outputs["c"]
    np.testing.assert_array_equal(found, np.clip(np.rint(product / 8), -128, 127).astype(np.int8))
    with pytest.raises(SimError, match="SetQuantScalar or SetQuantVector comes first"):
        asim.launch(made_, 1, *given, t=t, scale=0)


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ("half float float", "Matmul: A and B are of one type"),
        ("int8_t int8_t float", "Matmul: C is half, bfloat16_t or float; of int8_t it is int32_t, half or int8_t"),
        ("int16_t int16_t float", "Matmul: A and B are half, bfloat16_t, float or int8_t"),
    ],
)
def test_types_that_it_has_not_are_one_error_with_the_line(tmp_path: Path, types: str, text: str) -> None:
    listed = ", ".join(TYPE.format(one, "false") for one in types.split())
    code = f'extern "C" __global__ __aicore__ void wrong(GM_ADDR a) {{\n    Matmul<{listed}> mm;\n}}'
    with pytest.raises(CompileError) as caught:
        made(tmp_path, code)
    assert "kernel.cpp:4: error: " in str(caught.value) and text in str(caught.value)


CONFIGURATIONS = {
    "GetNormalConfig(false, false, false, BatchMode::BATCH_LESS_THAN_L1, true, IterateOrder::UNDEF)": "",
    "GetMDLConfig(true, false, 0, false, false, false, true)": "",
    "GetMMConfig<MatmulConfigMode::CONFIG_MDL>(MatmulShapeParams{64, 64, 64, 32, 32, 32})": "",
    "GetMDLConfig(false, true)": "batches (isNBatch, MULTI_BATCH) are not simulated",
    "GetMMConfig<MatmulConfigMode::CONFIG_IBSHARE>()": "not basic blocks, SPECIALMDL or IBSHARE",
    "GetNormalConfig(false, false, false, BatchMode::NONE, true, IterateOrder::UNDEF, ScheduleType::OUTER_PRODUCT)": (
        "INNER_PRODUCT is simulated"
    ),
    "GetMMConfig<MatmulConfigMode::CONFIG_NORM>(MatmulFuncParams{.enableRelu = true})": "ReLU, a split of channels",
}
"""Configurations by how a kernel makes them, and why they are refused ("": they are not)."""


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_configuration_that_changes_values_is_refused(tmp_path: Path, configuration: str) -> None:
    types = ", ".join([TYPE.format(one, "false") for one in ("half", "half", "float", "float")])
    code = f"""constexpr MatmulConfig CONFIG = {configuration};
extern "C" __global__ __aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t) {{
    TPipe pipe;
    Matmul<{types}, CONFIG> mm;
    mm.SetSubBlockIdx(0);
    REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &t);
    mm.SetTensorA(view<half>(a));
    mm.SetTensorB(view<half>(b));
    mm.IterateAll(view<float>(c));
    mm.End();
}}"""
    text = CONFIGURATIONS[configuration]
    if text:
        with pytest.raises(CompileError, match=re.escape(text)):
            made(tmp_path, GO + code)
        return
    a, b = (np.random.default_rng(seed).integers(-4, 5, (64, 64)).astype(np.float16) for seed in (0, 1))
    run = asim.launch(made(tmp_path, GO + code), 1, a, b, asim.empty((64, 64), "float32"), t=tiling((64, 64, 64)))
    np.testing.assert_array_equal(run.outputs["c"], a.astype(np.float32) @ b.astype(np.float32))
