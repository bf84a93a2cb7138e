"""Kernels of cube cores, and of cube and vector cores, against numpy: on the 910B3 and a 910_93, all without findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.cube_text import LOAD, LOCAL, RAW
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler
M, N, K = 64, 48, 96


class CubeSample(NamedTuple):
    """A kernel, its inputs, its output, and the same in numpy."""

    text: str
    inputs: Callable[[Any], dict[str, Any]]
    output: tuple[str, tuple[int, ...]]
    expected: Callable[..., Any]
    blocks: int = 1
    tolerance: float = 2e-3


def kernel(name: str, body: str, tensors: str = "a b c", kind: str = "AIC_ONLY") -> str:
    """Return the text of a kernel for cores of this kind."""
    parameters = ", ".join(f"GM_ADDR {one}" for one in tensors.split())
    task = f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});"
    return f'{LOCAL}extern "C" __global__ __aicore__ void {name}({parameters}) {{ {task}\n{body}\n}}\n'


def halves(rng: Any, *shapes: tuple[int, int]) -> dict[str, Any]:
    return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in zip("ab", shapes, strict=False)}


def product(a: Any, b: Any) -> Any:
    return a.astype(np.float64) @ b.astype(np.float64)


def operands(rng: Any) -> dict[str, Any]:
    return halves(rng, (M, K), (K, N))


def bytes_of(rng: Any) -> dict[str, Any]:
    return {"a": rng.integers(-9, 10, (64, 96)).astype(np.int8), "b": rng.integers(-9, 10, (96, 64)).astype(np.int8)}


def image(rng: Any) -> dict[str, Any]:
    return {"a": rng.standard_normal((8, 10, 16)).astype(np.float16), "b": rng.standard_normal((9 * 16, 16)).astype(np.float16)}


def convolved(a: Any, b: Any, padding: float = 0) -> Any:
    padded = np.pad(a.astype(np.float64), ((1, 1), (1, 1), (0, 0)), constant_values=padding)
    taps = [padded[i : i + 8, j : j + 10].reshape(80, 16) for i in range(3) for j in range(3)]
    return np.concatenate(taps, axis=1) @ b.astype(np.float64)


UNIT_FLAG = (
    RAW
    + """
    for (int i = 0; i < 8; i++)
        LoadData(l0a[i * 48 * 16], l1a[i / 4 * 3072 + i % 4 * 256], LoadData2DParams(0, 3, 4, 0, 0, false, 0));
    for (int i = 0; i < 6; i++) LoadData(l0b[i * 48 * 16], l1b[i * 256], LoadData2DParams(0, 3, 6, 0, 0, true, 0));
    STEP(MTE1_M, 0)
    GlobalTensor<float> cg; cg.SetGlobalBuffer((__gm__ float *)c);
    auto co = local<float>(TPosition::CO1, 0);
    for (int turn = 0; turn < 2; turn++) {
        Mmad(co, l0a, l0b, MmadParams(64, 48, 48, 2, false, true));
        Mmad(co, l0a[64 * 48], l0b[48 * 48], MmadParams(64, 48, 48, 3, false, false));
        FixpipeParamsV220 out(48, 64, 64, 128, false);
        out.unitFlag = 3;
        Fixpipe<float, float, CFG_NZ>(cg[turn * 3072], co, out);
    }
"""
)
CONVOLUTION = """
    auto l1a = local<half>(TPosition::A1, 0), l1b = local<half>(TPosition::B1, 0x8000);
    auto l0a = local<half>(TPosition::A2, 0), l0b = local<half>(TPosition::B2, 0);
    GlobalTensor<half> ag, bg; ag.SetGlobalBuffer((__gm__ half *)a); bg.SetGlobalBuffer((__gm__ half *)b);
    GlobalTensor<float> cg; cg.SetGlobalBuffer((__gm__ float *)c);
    DataCopy(l1a, ag, 8 * 10 * 16); DataCopy(l1b, bg, Nd2NzParams(1, 144, 16, 0, 16, 144, 1, 0));
    STEP(MTE2_MTE1, 0)
    const uint8_t pads[4] = {1, 1, 1, 1};
    LoadData(l0a, l1a, LoadData3DParamsV2<half>(pads, 8, 10, 16, 144, 80, 0, 0, 1, 1, 3, 3, 1, 1, false, false, PADDING));
    LoadData(l0b, l1b, LoadData2DParams(0, 9, 1, 0, 0, true, 0));
    STEP(MTE1_M, 0)
    auto co = local<float>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(80, 16, 144, 0, false, true));
    STEP(M_FIX, 0)
    Fixpipe(cg, co, FixpipeParamsV220(16, 80, 80, 16, false));"""
"""A convolution of 3x3 taps; pixels outside the map read as the half with the bits PADDING."""
SAMPLES = {
    "rows_of_half": CubeSample(
        kernel("rows_of_half", RAW + LOAD + """
    GlobalTensor<half> cg; cg.SetGlobalBuffer((__gm__ half *)c);
    auto co = local<float>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(64, 48, 96, 0, false, true));
    STEP(M_FIX, 0)
    FixpipeParamsV220 out(48, 64, 64, 48, true, QuantMode_t::F322F16, 0, 1, 0, 0, 0);
    Fixpipe(cg, co, out);""".replace("{T}", "half")).replace("{T}", "half"),
        operands, ("float16", (M, N)), lambda a, b: np.maximum(product(a, b), 0), tolerance=2e-2),
    "sums_of_bytes": CubeSample(
        kernel("sums_of_bytes", """
    auto l1a = local<int8_t>(TPosition::A1, 0), l1b = local<int8_t>(TPosition::B1, 0x8000);
    auto l0a = local<int8_t>(TPosition::A2, 0), l0b = local<int8_t>(TPosition::B2, 0);
    GlobalTensor<int8_t> ag, bg; ag.SetGlobalBuffer((__gm__ int8_t *)a); bg.SetGlobalBuffer((__gm__ int8_t *)b);
    GlobalTensor<half> cg; cg.SetGlobalBuffer((__gm__ half *)c);
    DataCopy(l1a, ag, Nd2NzParams(1, 64, 96, 0, 96, 64, 1, 0)); DataCopy(l1b, bg, Nd2NzParams(1, 96, 64, 0, 64, 96, 1, 0));
    STEP(MTE2_MTE1, 0)
    for (int i = 0; i < 4; i++) LoadData(l0a[i * 96 * 16], l1a[i * 512], LoadData2DParams(0, 3, 4, 0, 0, false, 0));
    for (int i = 0; i < 3; i++)
        LoadDataWithTranspose(l0b[i * 64 * 32], l1b[i * 1024], LoadData2dTransposeParams(0, 2, 3, 1, 0));
    STEP(MTE1_M, 0)
    auto co = local<int32_t>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(64, 64, 96, 0, false, true));
    STEP(M_FIX, 0)
    FixpipeParamsV220 out(64, 64, 64, 64, false, QuantMode_t::DEQF16, 0x3f000000, 1, 0, 0, 0);
    Fixpipe(cg, co, out);"""),
        bytes_of, ("float16", (64, 64)), lambda a, b: (a.astype(np.int32) @ b.astype(np.int32) / 2).astype(np.float16),
        tolerance=0),
    "convolution": CubeSample(
        kernel("convolution", CONVOLUTION).replace("PADDING", "0"), image, ("float32", (80, 16)), convolved),
    "padded_by_ones": CubeSample(
        kernel("padded_by_ones", CONVOLUTION).replace("PADDING", "1"),
        image, ("float32", (80, 16)), lambda a, b: convolved(a, b, 1)),
    "unit_flag": CubeSample(
        kernel("unit_flag", UNIT_FLAG).replace("{T}", "half"),
        operands, ("float32", (2, 3, 64, 16)),
        lambda a, b: np.stack([product(a, b).reshape(64, 3, 16).transpose(1, 0, 2)] * 2)),
    "pieces_of_k": CubeSample(
        kernel("pieces_of_k", """
    int64_t first = GetBlockIdx() * 32;
    auto l1a = local<half>(TPosition::A1, 0), l1b = local<half>(TPosition::B1, 0x8000);
    auto l0a = local<half>(TPosition::A2, 0), l0b = local<half>(TPosition::B2, 0);
    GlobalTensor<half> ag, bg; ag.SetGlobalBuffer((__gm__ half *)a); bg.SetGlobalBuffer((__gm__ half *)b);
    GlobalTensor<float> cg; cg.SetGlobalBuffer((__gm__ float *)c);
    InitConstValue(l1a, InitConstValueParams<half>(1, 192, 0, 0));
    PipeBarrier<PIPE_MTE2>();
    DataCopy(l1a, ag[first], Nd2NzParams(1, 64, 32, 0, 96, 64, 1, 0));
    DataCopy(l1b, bg[first * 48], Nd2NzParams(1, 32, 48, 0, 48, 32, 1, 0));
    STEP(MTE2_MTE1, 0)
    SetFmatrix(1, 64, (const uint8_t[4]){0, 0, 0, 0}, FmatrixMode::FMATRIX_LEFT);
    LoadData(l0a, l1a, LoadData3DParamsV2Pro(32, false, false, false, false, false, 32ull | 64ull << 16, 0x10101010101ull));
    for (int i = 0; i < 2; i++) LoadData(l0b[i * 48 * 16], l1b[i * 256], LoadData2DParams(0, 3, 2, 0, 0, true, 0));
    STEP(MTE1_M, 0)
    auto co = local<float>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(64, 48, 32, 0, false, true));
    STEP(M_FIX, 0)
    SetAtomicAdd<float>();
    Fixpipe(cg, co, FixpipeParamsV220(48, 64, 64, 48, false));
    SetAtomicNone();"""),
        operands, ("zeros", (M, N)), product, blocks=3),
    "one_vector_core": CubeSample(
        kernel("one_vector_core", "if ASCEND_IS_AIC {" + RAW + LOAD + """
    GlobalTensor<float> wg; wg.SetGlobalBuffer((__gm__ float *)w + GetBlockIdx() * 3072);
    auto co = local<float>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(64, 48, 96, 0, false, true));
    STEP(M_FIX, 0)
    Fixpipe(wg, co, FixpipeParamsV220(48, 64, 64, 48, false));
    CrossCoreSetFlag<2, PIPE_FIX>(3);
    }
    if ASCEND_IS_AIV {
    GlobalTensor<float> wg, cg;
    wg.SetGlobalBuffer((__gm__ float *)w + GetBlockIdx() * 3072); cg.SetGlobalBuffer((__gm__ float *)c + GetBlockIdx() * 3072);
    auto x = local<float>(TPosition::VECIN, 0), y = local<float>(TPosition::VECOUT, 0x8000);
    CrossCoreWaitFlag(3);
    DataCopy(x, wg, 3072);
    STEP(MTE2_V, 0)
    Muls(y, x, 0.5f, 3072);
    STEP(V_MTE3, 0)
    DataCopy(cg, y, 3072);
    }""", tensors="a b c w", kind="MIX_AIC_1_1").replace("{T}", "half"),
        lambda rng: operands(rng) | {"w": np.zeros((2, M, N), np.float32)}, ("float32", (2, M, N)),
        lambda a, b: np.stack([product(a, b) / 2] * 2), blocks=2),
    "all_cores_meet": CubeSample(
        kernel("all_cores_meet", "if ASCEND_IS_AIC {" + RAW + LOAD + """
    GlobalTensor<float> wg; wg.SetGlobalBuffer((__gm__ float *)w + GetBlockIdx() * 3072);
    auto co = local<float>(TPosition::CO1, 0);
    Mmad(co, l0a, l0b, MmadParams(64, 48, 96, 0, false, true));
    STEP(M_FIX, 0)
    Fixpipe(wg, co, FixpipeParamsV220(48, 64, 64, 48, false));
    }
    SyncAll<false>();
    if ASCEND_IS_AIV {
    GlobalTensor<float> wg, cg; int64_t other = 1 - GetBlockIdx() / 2, half_ = GetSubBlockIdx() * 1536;
    wg.SetGlobalBuffer((__gm__ float *)w + other * 3072 + half_);
    cg.SetGlobalBuffer((__gm__ float *)c + GetBlockIdx() / 2 * 3072 + half_);
    auto x = local<float>(TPosition::VECIN, 0), y = local<float>(TPosition::VECOUT, 0x8000);
    DataCopy(x, wg, 1536);
    STEP(MTE2_V, 0)
    Adds(y, x, 1.0f, 1536);
    STEP(V_MTE3, 0)
    DataCopy(cg, y, 1536);
    }""", tensors="a b c w", kind="MIX_AIC_1_2").replace("{T}", "half"),
        lambda rng: operands(rng) | {"w": np.zeros((2, M, N), np.float32)}, ("float32", (2, M, N)),
        lambda a, b: np.stack([product(a, b) + 1] * 2), blocks=2),
}  # fmt: skip
"""By name of the entry."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("cube")
    found = {}
    for name, sample in SAMPLES.items():
        (folder / name).mkdir()
        found[name] = made(folder / name, sample.text)
    return found


def arguments(sample: CubeSample) -> dict[str, Any]:
    """Return the tensors by name; an output of "zeros" is one to which the kernel adds."""
    given = sample.inputs(np.random.default_rng(0))
    dtype, shape = sample.output
    out = np.zeros(shape, np.float32) if dtype == "zeros" else asim.empty(shape, dtype)
    return {name: given.get(name, out) for name in ("a", "b", "c", *(["w"] if "w" in given else []))}


@pytest.mark.parametrize("chip", ("ascend910b3", "ascend910_9391"))
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_right(kernels: dict[str, Any], name: str, chip: str) -> None:
    sample = SAMPLES[name]
    given = arguments(sample)
    for mode in ("full", "functional"):
        run = asim.launch(kernels[name], sample.blocks, *given.values(), chip=chip, mode=mode)
        wanted = sample.expected(given["a"], given["b"])
        np.testing.assert_allclose(run.outputs["c"].astype(np.float64), wanted, atol=sample.tolerance, rtol=1e-3)
        assert not run.findings


@pytest.mark.parametrize("name", SAMPLES)
def test_check_finds_nothing(kernels: dict[str, Any], name: str) -> None:
    sample = SAMPLES[name]
    report = asim.check_kernel(kernels[name], sample.blocks, *arguments(sample).values())
    assert not report.findings, report.render()


def test_the_kinds_of_cores_are_those_that_the_kernels_name(kernels: dict[str, Any]) -> None:
    kinds = {name: one.cores for name, one in kernels.items()}
    assert kinds["convolution"] == ("AIC",) and kinds["one_vector_core"] == ("MIX_1_1",)
    assert kinds["all_cores_meet"] == ("MIX",) and kernels["all_cores_meet"].all_cores
