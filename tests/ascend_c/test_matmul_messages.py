"""Matmul on vector cores, whose cube core computes for them: values against numpy, findings, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import BEGIN, made, needs_compiler
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
M, N, K = 64, 128, 96
"""Size of the product of a vector core; its B is that of all."""
TILE = {"baseM": 32, "baseN": 64, "baseK": 32, "depthA1": 2, "depthB1": 2, "stepM": 1, "stepN": 1, "stepKa": 1, "stepKb": 1}
TILING = {"usedCoreNum": 2, "M": M, "N": N, "Ka": K, "Kb": K, "singleCoreM": M, "singleCoreN": N, "singleCoreK": K}
TILING |= {**TILE, "isBias": 1, "iterateOrder": 0, "dbL0A": 2, "dbL0B": 2, "dbL0C": 1}
HELP = """
#include "lib/matmul_intf.h"
template <class T> GlobalTensor<T> view(GM_ADDR x, uint64_t first = 0) {
    GlobalTensor<T> g;
    g.SetGlobalBuffer((__gm__ T *)x + first);
    return g;
}
template <TPosition place, class T> using Of = MatmulType<place, CubeFormat::ND, T>;
// c = product + 1, a tile of UB at its place in the matrix
inline void put(const GlobalTensor<float> &c, const LocalTensor<float> &tile, const TCubeTiling &t, int number) {
    int rows = (t.singleCoreM + t.baseM - 1) / t.baseM, row = number % rows, column = number / rows;
    int m = t.singleCoreM - row * t.baseM, n = t.singleCoreN - column * t.baseN;
    m = m < t.baseM ? m : t.baseM, n = n < t.baseN ? n : t.baseN;
    Adds(tile, tile, 1.0f, t.baseM * t.baseN);
    SetFlag<HardEvent::V_MTE3>(7);
    WaitFlag<HardEvent::V_MTE3>(7);
    DataCopyParams p(m, n / 8, (t.baseN - n) / 8, (t.N - n) / 8);
    DataCopy(c[row * t.baseM * t.N + column * t.baseN], tile, p);
    SetFlag<HardEvent::MTE3_V>(7);
    WaitFlag<HardEvent::MTE3_V>(7);
}
"""
PARAMETERS = "GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR work, TCubeTiling t"
WAYS = {
    "each tile into UB": "for (int i = 0; mm.Iterate(); i++) { mm.GetTensorC(tile, 0, true); put(cg, tile, t, i); }",
    "each tile into GM, the last read back": """
    while (mm.Iterate()) mm.GetTensorC(cg);
    DataCopy(tile, cg, 8); SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0); DataCopy(cg, tile, 8);""",
    "all at once": "mm.IterateAll(cg);",
    "all at once, waited for later": "mm.IterateAll<false>(cg, 0, false, true); mm.WaitIterateAll();",
    "all at once, until the end": """
    mm.template IterateAll<false>(cg); mm.End();
    DataCopy(tile, cg, 8); SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0); DataCopy(cg, tile, 8);""",
    "the whole matrix into UB": """
    mm.IterateAll(whole); SetFlag<HardEvent::V_MTE3>(7); WaitFlag<HardEvent::V_MTE3>(7); DataCopy(cg, whole, t.M * t.N);""",
    "tiles ahead, in a workspace of the kernel": """
    mm.SetWorkspace(wg); mm.template Iterate<false>();
    for (int i = 0; i < 4; i++) { auto gm = mm.template GetTensorC<false>(); DataCopy(tile, gm, t.baseM * t.baseN);
      SetFlag<HardEvent::MTE2_V>(7); WaitFlag<HardEvent::MTE2_V>(7); put(cg, tile, t, i);
      SetFlag<HardEvent::V_MTE2>(7); WaitFlag<HardEvent::V_MTE2>(7); }""",
    "tiles ahead, into UB": """
    int i = 0; while (mm.template Iterate<false>()) { mm.template GetTensorC<false>(tile, 0, true); put(cg, tile, t, i++); }""",
    "into GM and UB": """
    while (mm.Iterate()) mm.GetTensorC(cg, whole);
    Adds(whole, whole, 1.0f, t.M * t.N); SetFlag<HardEvent::V_MTE3>(7); WaitFlag<HardEvent::V_MTE3>(7);
    DataCopy(cg, whole, t.M * t.N);""",
    "A and the bias from UB": """
    DataCopy(left, ag, t.M * t.Ka); DataCopy(vector, dg, t.N); SetFlag<HardEvent::MTE2_V>(7); WaitFlag<HardEvent::MTE2_V>(7);
    Adds(left, left, half(1), t.M * t.Ka); PipeBarrier<PIPE_V>(); Adds(left, left, half(-1), t.M * t.Ka);
    mm.SetTensorA(left); mm.SetBias(vector); mm.IterateAll(cg);""",
    "B from UB, two times": """
    for (int i = 0; i < 2; i++) { DataCopy(left, bg, t.Kb * t.N); SetFlag<HardEvent::MTE2_V>(7); WaitFlag<HardEvent::MTE2_V>(7);
      Adds(left, left, half(0), t.Kb * t.N); mm.SetTensorB(left); mm.IterateAll<false>(cg); }""",
    "a sum over two products": """
    t.singleCoreK = 0; mm.SetSingleShape(t.baseM, t.baseN, t.Ka); mm.Iterate(); mm.SetTensorA(ag);
    mm.Iterate(true); mm.GetTensorC(cg);""",
    "with an atomic sum": "mm.IterateAll(cg); mm.SetTensorB(bg); mm.DisableBias(); mm.IterateAll(cg, 1);",
    "rows of tiles in GM": "mm.IterateAll(wg, 0, true); for (int i = 0; i < 4; i++) { "
    "DataCopy(tile, wg[i * 2048], t.baseM * t.baseN); SetFlag<HardEvent::MTE2_V>(7); WaitFlag<HardEvent::MTE2_V>(7); "
    "put(cg, tile, t, i); SetFlag<HardEvent::V_MTE2>(7); WaitFlag<HardEvent::V_MTE2>(7); }",
}
"""Calls between SetBias and End, by what they do."""
ADDED = {"each tile into UB", "tiles ahead, in a workspace of the kernel", "tiles ahead, into UB", "rows of tiles in GM"}
"""Ways that add 1 in UB; "into GM and UB" does so too."""


def text(kind: str) -> str:
    cases = "\n".join(f"    if (which == {number}) {{{one}\n    }}" for number, one in enumerate(WAYS.values()))
    return f"""{HELP}
extern "C" __global__ __aicore__ void asks({PARAMETERS}, int which) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 120 * 1024);
    auto tile = buffer.Get<float>(), whole = buffer.Get<float>(), vector = buffer.GetWithOffset<float>(256, 100 * 1024);
    auto left = buffer.Get<half>();
    uint64_t me = GetBlockIdx(), size = t.M * t.N;
    auto ag = view<half>(a, me * t.M * t.Ka), bg = view<half>(b);
    auto cg = view<float>(c, me * size), dg = view<float>(bias), wg = view<float>(work, me * 4 * t.baseM * t.baseN);
    Matmul<Of<TPosition::GM, half>, Of<TPosition::GM, half>, Of<TPosition::VECCALC, float>, Of<TPosition::GM, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.SetBias(dg);
{cases}
    mm.End();
}}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return the kernel for a kind of cores, compiled when it is first asked for."""
    return cache(lambda kind: made(tmp_path_factory.mktemp(kind), text(kind)))


def tensors(cores: int) -> tuple[list[Any], Any]:
    """Return arguments for a number of vector cores, and the product with its bias in float64."""
    rng = np.random.default_rng(cores)
    a = rng.integers(-8, 9, (cores, M, K)).astype(np.float16)
    b, bias = rng.standard_normal((K, N)).astype(np.float16), rng.standard_normal(N).astype(np.float32)
    product = a.astype(np.float64) @ b.astype(np.float64) + bias
    c, work = asim.empty((cores, M, N), "float32"), asim.empty((cores, 4, 32 * 64), "float32", workspace=True)
    return [a, b, bias, c, work], product


def wanted(way: str, product: Any, bias: Any) -> Any:
    """Return the right values of a way: the product, and the sums that the kernel adds to it."""
    if way == "a sum over two products":
        rest = np.zeros_like(product)
        rest[:, :32, :64] = 2 * product[:, :32, :64] - bias[:64]
        return rest
    if way == "with an atomic sum":
        return 2 * product - bias
    return product + (way in ADDED or way == "into GM and UB")


@part_of_cases(4, "a sum over two products")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "chip", "mode"), [("MIX_AIC_1_2", "ascend910b3", "full"), ("MIX_AIC_1_1", "ascend910_9391", "functional")]
)
def test_a_vector_core_gets_its_product(kernel: Callable[[str], Any], way: str, kind: str, chip: str, mode: str) -> None:
    cores = 4 if kind == "MIX_AIC_1_2" else 2
    given, product = tensors(cores)
    options = {"t": TILING, "which": list(WAYS).index(way), "chip": chip}
    if way == "a sum over two products":  # it writes one tile of each core's part
        given[3] = np.zeros_like(product, np.float32)
    found = asim.launch(kernel(kind), 2, *given, mode=mode, **options).outputs["c"]
    right = wanted(way, product, given[2].astype(np.float64))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)
    report = asim.check_kernel(kernel(kind), 2, *given, **options)
    assert not report.findings, report.render()


TAIL = {"M": M - 8, "N": N - 24, "singleCoreM": M - 8, "singleCoreN": N - 24}


@pytest.mark.parametrize("way", ["each tile into UB", "the whole matrix into UB", "tiles ahead, into UB"])
def test_a_last_tile_that_is_smaller(kernel: Callable[[str], Any], way: str) -> None:
    given, _ = tensors(2)
    m, n = M - 8, N - 24
    a, b, bias = (given[0].reshape(-1)[: 2 * m * K].reshape(2, m, K), given[1].reshape(-1)[: K * n].reshape(K, n), given[2])
    options = {"t": TILING | TAIL, "which": list(WAYS).index(way), "mode": "functional"}
    found = asim.launch(kernel("MIX_AIC_1_2"), 1, a, b, bias[:n], asim.empty((2, m, n), "float32"), given[4], **options)
    product = a.astype(np.float64) @ b.astype(np.float64) + bias[:n]
    np.testing.assert_allclose(found.outputs["c"], product + (way in ADDED), rtol=1e-4, atol=1e-3)


SHORT = f"""{HELP}
class Both {{
public:
    void Init(GM_ADDR a, GM_ADDR b, const TCubeTiling *t, TPipe *pipe) {{
        ag = view<half>(a), bg = view<half>(b);
        SetSysWorkspace(a);
        if (GetSysWorkSpacePtr() == nullptr) return;
        REGIST_MATMUL_OBJ(pipe, GetSysWorkSpacePtr(), first, t, second);
    }}
    void Process(GM_ADDR c, const TCubeTiling *t, int bug) {{
        auto cg = view<float>(c, GetBlockIdx() * 2 * 64 * 128), dg = cg[64 * 128];
        second.Init(t);
        first.SetTensorA(ag);
        first.SetTensorB(bg);
        second.SetTensorA(ag);
        second.SetTensorB(bg);
        first.IterateAll<false>(cg, 0, false, true);
        second.IterateAll(dg);
        LocalTensor<float> x(TPosition::VECIN, 0, 8192);
        first.IterateAll<false>(cg, 0, false, true);  // asked for
        if (!bug) first.WaitIterateAll();
        DataCopy(x, cg, 8);  // there
        first.End();
        if (bug == 2) {{ first.Iterate(); second.Iterate(); }}  // two tiles
    }}
    GlobalTensor<half> ag, bg;
    Matmul<Of<TPosition::GM, half>, Of<TPosition::GM, half>, Of<TPosition::GM, float>> first, second;
}};
extern "C" __global__ __aicore__ void twice(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t, int bug) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    if (GetSubBlockIdx() == 1 && GetBlockIdx() > 0) return;
    TPipe pipe;
    Both both;
    both.Init(a, b, &t, &pipe);
    both.Process(c, &t, bug);
}}"""


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(tmp_path_factory.mktemp("twice"), SHORT)


def test_two_objects_the_second_of_which_gets_its_tiling_later(twice: Any) -> None:
    """One vector core returns before it registers anything."""
    (a, b, *_), _ = tensors(1)
    c = np.zeros((3, 2, M, N), np.float32)
    found = asim.launch(twice, 2, a[0], b, c, t=TILING | {"isBias": 0}, bug=0).outputs["c"]
    product = a[0].astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found[[0, 2]], np.broadcast_to(product, (2, 2, M, N)), rtol=1e-4, atol=1e-3)
    report = asim.check_kernel(twice, 2, a[0], b, c, t=TILING | {"isBias": 0}, bug=0)
    assert not report.findings, report.render()


def line_of(code: str, mark: str) -> int:
    """Return the number of the line with `mark` in the file of this text."""
    return next(number for number, one in enumerate((BEGIN + code).splitlines(), 1) if mark in one)


def test_a_product_that_is_not_waited_for_is_a_race(twice: Any) -> None:
    (a, b, *_), _ = tensors(1)
    report = asim.check_kernel(twice, 1, a[0], b, np.zeros((2, 2, M, N), np.float32), t=TILING | {"isBias": 0}, bug=1)
    (race,) = report.findings
    assert race.kind in ("RAW", "WAR") and race.space == "GM"
    assert {place.line[1] for place in race.places} == {line_of(SHORT, "// there"), line_of(SHORT, "// asked for")}


def test_a_tile_in_l0c_waits_for_its_own_object(twice: Any) -> None:
    (a, b, *_), _ = tensors(1)
    with pytest.raises(SimError, match=rf":{line_of(SHORT, '// two tiles')}: .*Matmul: L0C holds a tile of another object"):
        asim.launch(twice, 1, a[0], b, np.zeros((2, 2, M, N), np.float32), t=TILING | {"isBias": 0}, bug=2)


BAD = {
    "the task has no cube cores": ("AIV_ONLY", "", "this kernel runs on vector cores alone; KERNEL_TYPE_MIX_AIC_1_2"),
    "no registration of this object": (
        "MIX_AIC_1_2", "if ASCEND_IS_AIV { M other; other.Iterate(); }  // here", "Iterate: the Matmul was not initialised"),
    "no tile": ("MIX_AIC_1_2", "mm.GetTensorC(view<float>(c));  // here", "GetTensorC: there is no tile; Iterate computes"),
    "a tile is added in UB": (
        "MIX_AIC_1_2", "mm.Iterate(); mm.GetTensorC(LocalTensor<float>(TPosition::VECIN, 0, 64), 1);  // here",
        "GetTensorC into the Unified Buffer: enAtomic 1; 0 is possible"),
    "Iterate<false> and a tensor of GM": (
        "MIX_AIC_1_2", "mm.Iterate<false>(); mm.GetTensorC(view<float>(c));  // here",
        "GetTensorC behind Iterate<false> gives a tensor"),
    "more tiles than there are": (
        "MIX_AIC_1_2", "mm.Iterate<false>(); for (int i = 0; i < 9; i++) mm.GetTensorC<false>();  // here",
        "GetTensorC: all 4 tiles of Iterate<false> were taken"),
}  # fmt: skip
"""Kind of cores, call, and message."""


@part_of_cases(3)
@pytest.mark.parametrize("name", BAD)
def test_wrong_calls_are_refused_with_their_line(tmp_path: Path, name: str) -> None:
    kind, call, said = BAD[name]
    code = f"""{HELP}
using M = Matmul<Of<TPosition::GM, half>, Of<TPosition::GM, half>, Of<TPosition::VECIN, float>>;
extern "C" __global__ __aicore__ void wrong(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});
    TPipe pipe;
    M mm;
    REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &t);{"  // here" if not call else ""}
    mm.SetTensorA(view<half>(a));
    mm.SetTensorB(view<half>(b));
    {call}
}}"""
    line = line_of(code, "// here")
    (a, b, *_), _ = tensors(1)
    with pytest.raises(SimError) as caught:
        asim.launch(made(tmp_path, code), 1, a[0], b, asim.empty((M, N), "float32"), t=TILING)
    assert said in str(caught.value) and f"kernel.cpp:{line}: " in str(caught.value)


PLAIN = """
extern "C" __global__ __aicore__ void plain(GM_ADDR a, GM_ADDR b, GM_ADDR c, TCubeTiling t) {
    TPipe pipe;
    Matmul<Of<TPosition::GM, half>, Of<TPosition::GM, half>, Of<TPosition::GM, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    mm.SetTensorA(view<half>(a, GetBlockIdx() * t.M * t.Ka));
    mm.SetTensorB(view<half>(b));
    mm.IterateAll(view<float>(c, GetBlockIdx() * t.M * t.N));
    mm.End();
}"""


@pytest.mark.parametrize("macro", ["", "#define ASCENDC_CUBE_ONLY", "#define ASCENDC_CUBE_ONLY 1"])
def test_without_a_task_type_vector_cores_ask_unless_the_file_is_of_the_cube_alone(tmp_path: Path, macro: str) -> None:
    """The macro stands behind kernel_operator.h, as in the vendor's page."""
    kernel_ = made(tmp_path, f"{macro}\n{HELP}{PLAIN}")
    assert kernel_.kinds == (("AIC",) if macro else ("AIC", "AIV"))
    (a, b, *_), _ = tensors(2)
    count = 1 if macro else 2
    report = asim.launch(kernel_, 1, a[:count], b, asim.empty((count, M, N), "float32"), t=TILING | {"isBias": 0})
    np.testing.assert_allclose(report.outputs["c"], a[:count].astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
    assert not report.findings


@pytest.mark.parametrize(
    ("products", "depth", "said"),
    [(1, 2, r"dst covers bytes 32768 to \d+ of 32768"), (2, 64, r"depthB1 64\) end at 786432; L1 has 524288 bytes")],
)
def test_a_product_that_the_cube_core_cannot_compute_is_one_line_of_its_vector_core(
    tmp_path: Path, products: int, depth: int, said: str
) -> None:
    (a, b, *_), _ = tensors(2)
    t = TILING | {"isBias": 0, "depthA1": depth, "depthB1": depth, "baseM": 64, "baseN": 128}
    with pytest.raises(SimError, match=rf"kernel\.cpp:{line_of(HELP + PLAIN, 'mm.IterateAll')}: .*{said}"):
        asim.launch(made(tmp_path, HELP + PLAIN), 1, a, b, asim.empty((products, M, N), "float32"), t=t)


def test_positions_that_it_has_not_are_one_error_with_the_line(tmp_path: Path) -> None:
    code = f"{HELP}\nMatmul<Of<TPosition::TSCM, half>, Of<TPosition::GM, half>, Of<TPosition::GM, float>> mm;\n"
    with pytest.raises(CompileError, match=r"kernel.cpp:\d+: error: .*at TPosition::GM, VECIN, VECOUT and VECCALC"):
        made(tmp_path, code + 'extern "C" __global__ __aicore__ void wrong(GM_ADDR a) {}')
