"""Mistakes planted in kernels of cube cores, and of cube with vector cores: each is found with its line, twins are clean."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import BEGIN, made, needs_compiler

pytestmark = needs_compiler


class PlantedInCube(NamedTuple):
    """A mistake where `bug` is true: what a finding says, and the kernel; "// here" marks lines of which one must be named."""

    said: str
    body: str
    blocks: int = 1


HELP = """
template <class T> LocalTensor<T> local(TPosition place, uint32_t at) { return LocalTensor<T>(place, at, 0x8000 / sizeof(T)); }
#define STEP(event) { SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0); }
#define UNLESS_BUG(event) if (!bug) STEP(event)
"""
COPY = "DataCopy(l1a, ag, 256); DataCopy(l1b, bg, 256);"
LOAD = "LoadData(l0a, l1a, one); LoadData(l0b, l1b, one);"
MMAD = "Mmad(co, l0a, l0b, MmadParams(16, 16, 16, 0, false, true));"
OUT = "Fixpipe(cg, co, out);"
ALL = f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M) {MMAD} STEP(M_FIX) {OUT}"
TO_WORK = ALL.replace("cg", "wg")
PLANTED = {
    "no flag from a copy to a load": PlantedInCube(
        "RAW L1", f"{COPY}  // here\nUNLESS_BUG(MTE2_MTE1)\n{LOAD}  // here\nSTEP(MTE1_M) {MMAD} STEP(M_FIX) {OUT}"),
    "no flag from a load to the cube": PlantedInCube(
        "RAW L0A", f"{COPY} STEP(MTE2_MTE1)\n{LOAD}  // here\nUNLESS_BUG(MTE1_M)\n{MMAD}  // here\nSTEP(M_FIX) {OUT}"),
    "no flag from the cube to Fixpipe": PlantedInCube(
        "RAW L0C", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M)\n{MMAD}  // here\nUNLESS_BUG(M_FIX)\n{OUT}  // here"),
    "a sum is overwritten while it leaves": PlantedInCube(
        "WAR L0C", f"{ALL}  // here\nUNLESS_BUG(FIX_M)\n{MMAD}  // here\nSTEP(M_FIX) Fixpipe(cg[256], co, out);"),
    "L1 is filled again while it is read": PlantedInCube(
        "WAR L1", f"{COPY} STEP(MTE2_MTE1)\n{LOAD}  // here\nUNLESS_BUG(MTE1_MTE2)\nDataCopy(l1a, ag, 256);  // here\n"
        f"STEP(MTE2_MTE1) LoadData(l0a, l1a, one); STEP(MTE1_M) {MMAD} STEP(M_FIX) {OUT}"),
    "L0A is filled again while it is multiplied": PlantedInCube(
        "WAR L0A", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M)\n{MMAD}  // here\nUNLESS_BUG(M_MTE1)\n"
        f"LoadData(l0a, l1a, one);  // here\nSTEP(MTE1_M) {MMAD} STEP(M_FIX) {OUT}"),
    "no flag from the bias table to the cube": PlantedInCube(
        "RAW BT", f"{COPY} DataCopy(l1c, dg, 16); STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M)\n"
        "DataCopy(bt, l1c, DataCopyParams(1, 1, 0, 0));  // here\nUNLESS_BUG(MTE1_M)\n"
        f"Mmad(co, l0a, l0b, bt, MmadParams(16, 16, 16, 0, false, false));  // here\nSTEP(M_FIX) {OUT}"),
    "a sum that begins with nothing": PlantedInCube(
        "uninitialized read L0C", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M)\n"
        f"Mmad(co, l0a, l0b, MmadParams(16, 16, 16, 0, false, !bug));  // here\nSTEP(M_FIX) {OUT}"),
    "more of K than was loaded": PlantedInCube(
        "uninitialized read L0A", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M)\n"
        f"Mmad(co, l0a, l0b, MmadParams(16, 16, bug ? 32 : 16, 0, false, true));  // here\nSTEP(M_FIX) {OUT}"),
    "rows beyond the tensor": PlantedInCube(
        "illegal write GM", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M) {MMAD} STEP(M_FIX)\n"
        "Fixpipe(cg[bug ? 1024 : 0], co, out);  // here"),
    "fractals beyond L0A": PlantedInCube(
        "illegal write L0A", f"{COPY} STEP(MTE2_MTE1)\nauto far = local<half>(TPosition::A2, bug ? 65536 : 1024);\n"
        "LoadData(far, l1a, one);  // here\n"
        f"{LOAD} STEP(MTE1_M) {MMAD} STEP(M_FIX) {OUT}"),
    "two blocks write one place": PlantedInCube(
        "WAW GM", f"{COPY} STEP(MTE2_MTE1) {LOAD} STEP(MTE1_M) {MMAD} STEP(M_FIX)\n"
        "Fixpipe(cg[bug ? 0 : 256 * GetBlockIdx()], co, out);  // here", 2),
}  # fmt: skip
MIX = {
    "no flag from the cube core to the vector cores": PlantedInCube(
        "RAW GM",
        "if ASCEND_IS_AIC {\n" + TO_WORK + "  // here\nif (!bug) CrossCoreSetFlag<2, PIPE_FIX>(3);\n}\n"
        "if ASCEND_IS_AIV {\nif (!bug) CrossCoreWaitFlag(3);\nDataCopy(x, wg[half_], 128);  // here\nSTEP(MTE2_MTE3)\n"
        "DataCopy(cg[half_], x, 128);\n}",
    ),
    "the workspace is written again too early": PlantedInCube(
        "WAR GM",
        "if ASCEND_IS_AIC {\n" + TO_WORK + "\nCrossCoreSetFlag<2, PIPE_FIX>(3);\n"
        "if (!bug) CrossCoreWaitFlag(4);\nFixpipe(wg, co, out);  // here\nCrossCoreSetFlag<2, PIPE_FIX>(3);\n}\n"
        "if ASCEND_IS_AIV {\nfor (int i = 0; i < 2; i++) {\nCrossCoreWaitFlag(3);\n"
        "DataCopy(x[i * 128], wg[half_], 128);  // here\n"
        "if (!i && !bug) CrossCoreSetFlag<2, PIPE_MTE2>(4);\n}\nSTEP(MTE2_MTE3)\nDataCopy(cg[half_], x[128], 128);\n}",
    ),
    "a wait for a flag that no core sets": PlantedInCube(
        "Unpaired cross_core_wait_flag",
        "if ASCEND_IS_AIC {\n" + TO_WORK + "\nCrossCoreSetFlag<2, PIPE_FIX>(3);\n}\n"
        "if ASCEND_IS_AIV {\nCrossCoreWaitFlag(bug ? 4 : 3);  // here\nDataCopy(x, wg[half_], 128);\nSTEP(MTE2_MTE3)\n"
        "DataCopy(cg[half_], x, 128);\n}",
    ),
}
BOTH = {"cube": PLANTED, "mix": MIX}
"""By the kernel; each mistake by its name."""


def text(kind: str) -> str:
    """Return the kernel of a kind; `which` chooses the mistake."""
    cases = "\n".join(f"if (which == {i}) {{\n{one.body}\n}}" for i, one in enumerate(BOTH[kind].values()))
    task = "KERNEL_TYPE_AIC_ONLY" if kind == "cube" else "KERNEL_TYPE_MIX_AIC_1_2"
    names = "GM_ADDR a, GM_ADDR b, GM_ADDR d, GM_ADDR w, GM_ADDR c, int32_t which, int32_t bug"
    return f"""{HELP}
extern "C" __global__ __aicore__ void planted({names}) {{
    KERNEL_TASK_TYPE_DEFAULT({task});
    GlobalTensor<half> ag, bg; ag.SetGlobalBuffer((__gm__ half *)a); bg.SetGlobalBuffer((__gm__ half *)b);
    GlobalTensor<float> cg, dg, wg;
    cg.SetGlobalBuffer((__gm__ float *)c); dg.SetGlobalBuffer((__gm__ float *)d); wg.SetGlobalBuffer((__gm__ float *)w);
    auto l1a = local<half>(TPosition::A1, 0), l1b = local<half>(TPosition::B1, 0x8000);
    auto l0a = local<half>(TPosition::A2, 0), l0b = local<half>(TPosition::B2, 0);
    auto co = local<float>(TPosition::CO1, 0), l1c = local<float>(TPosition::C1, 0x10000), bt = local<float>(TPosition::C2, 0);
    auto x = local<float>(TPosition::VECIN, 0);
    LoadData2DParams one(0, 1, 1, 0, 0, false, 0);
    FixpipeParamsV220 out(16, 16, 16, 16, false);
    int64_t half_ = GetSubBlockIdx() * 128;
{cases}
}}
"""


CASES = [(kind, number) for kind, planted in BOTH.items() for number in range(len(planted))]
NAMES = [name for planted in BOTH.values() for name in planted]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {kind: made(tmp_path_factory.mktemp(kind), text(kind)) for kind in BOTH}


def report(kernel: Any, number: int, blocks: int, bug: bool) -> Any:
    ones, room = np.ones((16, 16), np.float16), asim.empty(256 * (2 if blocks > 1 or number == 3 else 1), "float32")
    work = np.zeros(256, np.float32)
    given = ones, ones, np.ones(16, np.float32), work, room
    return asim.check_kernel(kernel, blocks, *given, which=number, bug=int(bug))


@pytest.mark.parametrize(("kind", "number"), CASES, ids=NAMES)
def test_a_mistake_is_told_with_its_line(kernels: dict[str, Any], kind: str, number: int) -> None:
    planted = [*BOTH[kind].values()][number]
    found = report(kernels[kind], number, planted.blocks, True)
    said = found.render()
    labels = {" ".join(filter(None, (one.kind, one.space))) for one in found.findings}
    assert planted.said in labels or planted.said in said, said
    lines = (BEGIN + text(kind)).splitlines()
    first = lines.index(f"if (which == {number}) {{") + 1
    marked = {first + 1 + i for i, line in enumerate(planted.body.splitlines()) if "// here" in line}
    named = {int(line) for line in re.findall(r"kernel\.cpp:(\d+)", said)}
    assert named & marked, (marked, said)


@pytest.mark.parametrize(("kind", "number"), CASES, ids=NAMES)
def test_its_twin_is_clean(kernels: dict[str, Any], kind: str, number: int) -> None:
    planted = [*BOTH[kind].values()][number]
    found = report(kernels[kind], number, planted.blocks, False)
    assert not [one for one in found.findings if one.level == "ERROR"], found.render()


def test_enough_mistakes_are_planted() -> None:
    """With those of `test_planted.py` there are forty."""
    assert len(NAMES) >= 14
