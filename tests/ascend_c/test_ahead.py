"""Values of scalar code: what GetValue returns while a kernel is recorded, and blocks that wait for each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import IN, OUT, floats, made, needs_compiler, vector_kernel
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
RUNS = [(mode, engine) for mode in ("full", "functional") for engine in ("simpy", "compiled")]
DOUBLED = """
    int64_t share = n / GetBlockNum(), first = share * GetBlockIdx();
    for (int64_t i = first; i < first + share; i++) yg.SetValue(i, xg.GetValue(i) * 2);"""


def labels(kernel: Any, blocks: int, *tensors: Any, **fields: Any) -> set[str]:
    report = asim.check_kernel(kernel, blocks, *tensors, **fields)
    return {" ".join(filter(None, (one.kind, one.space))) for one in report.findings}


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(tmp_path_factory.mktemp("doubled"), vector_kernel(DOUBLED, tensors="x y", numbers="int64_t n"))


@pytest.mark.parametrize(("mode", "engine"), RUNS)
def test_scalar_code_on_gm_is_rows(doubled: Any, mode: str, engine: str) -> None:
    x = floats(128)
    run = asim.launch(doubled, 4, x, asim.empty(128, "float32"), mode=mode, engine=engine, n=128)
    np.testing.assert_array_equal(run.outputs["y"], x * 2)
    assert not run.findings
    names = [row.instruction.name for row in run.programs[0]]
    assert names == ["scalar_load", "scalar_store"] * 32
    cached = [row.instruction.cached for row in run.programs[0]][::2]
    assert cached == ([False] + [True] * 15) * 2  # lines of 64 bytes


def test_the_tensors_of_a_launch_stay_as_they_are(doubled: Any) -> None:
    x, y = floats(128), np.zeros(128, np.float32)
    asim.launch(doubled, 4, x, y, n=128, mode="timing")
    assert not y.any()


def test_a_check_sees_the_rows_of_scalar_code(doubled: Any) -> None:
    assert not labels(doubled, 4, floats(128), asim.empty(128, "float32"), n=128)


LOOP = f"""{IN}
    SetFlag<HardEvent::MTE2_S>(0); WaitFlag<HardEvent::MTE2_S>(0);
    int32_t turns = 0;
    for (float v = a.GetValue(3); v > 1; v = d.GetValue(0)) {{
        Muls(d, a, 0.5f, 64); PipeBarrier<PIPE_V>(); Muls(a, d, 1.0f, 64);
        SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);
        turns++;
    }}
    d.SetValue(1, (float)turns); d(2) = d(1); d(2) += 0.5f;
    SetFlag<HardEvent::S_MTE3>(0); WaitFlag<HardEvent::S_MTE3>(0); {OUT}"""


@part_of_cases(2)
@pytest.mark.parametrize(("mode", "engine"), RUNS)
def test_a_loop_depends_on_data(tmp_path: Path, mode: str, engine: str) -> None:
    kernel = made(tmp_path, vector_kernel(LOOP, tensors="x z"))
    x = np.full(64, 3.0, np.float32)
    x[3] = 10
    run = asim.launch(kernel, 1, x, asim.empty(64, "float32"), mode=mode, engine=engine)
    assert run.outputs["z"][:4].tolist() == [0.75, 2, 2.5, 2.5] and not run.findings


def test_a_missing_flag_before_getvalue_is_told_with_its_line(tmp_path: Path) -> None:
    text = vector_kernel(f"DataCopy(a, xg, 64);\nfloat v = a.GetValue(0);\nDuplicate(d, v, 64); {OUT}", tensors="x z")
    report = asim.check_kernel(made(tmp_path, text), 1, floats(64), asim.empty(64, "float32"))
    found = [one for one in report.findings if (one.kind, one.space) == ("RAW", "UB")]
    assert found and "kernel.cpp:5 scalar_load" in report.render(), report.render()


def test_values_that_are_not_there_yet_are_those_of_the_buffer(tmp_path: Path) -> None:
    """UB that nobody wrote is NaN, and the read is told."""
    text = vector_kernel(f"Duplicate(d, a.GetValue(5), 64); {OUT}", tensors="x z")
    run = asim.launch(made(tmp_path, text), 1, floats(64), asim.empty(64, "float32"))
    assert np.isnan(run.outputs["z"]).all() and any("never written" in one.text for one in run.findings)


ROUND = """
    yg.SetValue(16 * GetBlockIdx(), xg.GetValue(GetBlockIdx()));
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yg[16 * GetBlockIdx()]);
    SYNC
    float total = 0;
    for (int i = 0; i < GetBlockNum(); i++) total += yg.GetValue(16 * i);
    zg.SetValue(16 * GetBlockIdx(), total);"""


@part_of_cases(2)
@pytest.mark.parametrize(("mode", "engine"), RUNS)
def test_blocks_read_what_others_wrote_behind_syncall(tmp_path: Path, mode: str, engine: str) -> None:
    kernel = made(tmp_path, vector_kernel(ROUND.replace("SYNC", "SyncAll();")))
    x = floats(8)
    shape = asim.empty(128, "float32")
    run = asim.launch(kernel, 8, x, shape, shape, mode=mode, engine=engine)
    total = np.float32(0)
    for one in x:
        total += one
    assert (run.outputs["z"][::16] == total).all() and not run.findings
    assert kernel.all_cores


def test_without_syncall_blocks_race(tmp_path: Path) -> None:
    shape = asim.empty(128, "float32")
    found = [
        labels(made(tmp_path, vector_kernel(ROUND.replace("SYNC", sync))), 8, floats(8), shape, shape)
        for sync in ("SyncAll();", "")
    ]
    assert found[0] == {"unwritten output GM"} and "RAW GM" in found[1]


def test_a_block_that_does_not_come_is_a_deadlock(tmp_path: Path) -> None:
    text = vector_kernel("float v = xg.GetValue(0);\nif (GetBlockIdx()) SyncAll();", tensors="x")
    with pytest.raises(SimError, match=r"deadlock: these blocks wait for ever: block 1 for flag cross-core 14 .line 5."):
        asim.launch(made(tmp_path, text), 2, floats(8))


SPIN = """
    if (GetBlockIdx() == 0) {
        for (int i = 0; i < LIMIT; i++) { if (yg.GetValue(0) == 1.0f) break;
        DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yg); }
    } else if (xg.GetValue(0) > 0) yg.SetValue(0, 1.0f);"""


def test_a_poll_of_gm_goes_on_when_another_block_wrote(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel(SPIN.replace("LIMIT", "1000000000"), tensors="x y"))
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    run = asim.launch(kernel, 2, x, y, mode="functional")
    assert run.outputs["y"][0] == 1 and len(run.programs[0]) < 20


def test_a_poll_of_what_nobody_writes_is_a_deadlock_and_a_short_one_is_not(tmp_path: Path) -> None:
    zeros = np.zeros(16, np.float32)
    with pytest.raises(SimError, match=r"kernel.cpp:6: .*deadlock: .* block 0 for a value of GM that no block writes"):
        asim.launch(made(tmp_path, vector_kernel(SPIN.replace("LIMIT", "1000000000"), tensors="x y")), 2, zeros, zeros)
    run = asim.launch(made(tmp_path, vector_kernel(SPIN.replace("LIMIT", "20"), tensors="x y")), 2, zeros, zeros)
    assert sum(row.instruction.name == "scalar_load" for row in run.programs[0]) == 20


REDUCTIONS = {
    "ReduceSum(d, a, b, 8000)": lambda x: x[:8000].sum(),
    "ReduceSum(d, a, b, 64, 100, 8)": lambda x: x[:6400].sum(),
    "ReduceSum(d, a, b, 16, 10, 8)": lambda x: x[:640].reshape(10, 64)[:, :16].sum(),
    "ReduceMax(d, a, b, 40)": lambda x: x[:40].max(),
    "ReduceMax(d, a, b, 64)": lambda x: x[:64].max(),
    "ReduceMin(d, a, b, 199)": lambda x: x[:199].min(),
    "ReduceMax(d, a, b, 4096)": lambda x: x[:4096].max(),
    "ReduceMin(d, a, b, 8191)": lambda x: x[:8191].min(),
    "ReduceMax(d, a, b, 64, 4, 8)": lambda x: x[:256].max(),
    "uint64_t odd[2] = {0xaaaaaaaaaaaaaaaa, 0}; ReduceMin(d, a, b, odd, 3, 8)": lambda x: x[1:192:2].min(),
    "WholeReduceMax(d, a, 64, 1, 1, 1, 8)": lambda x: x[:64].max(),
    "WholeReduceMin(d, a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE)": lambda x: x[:64].min(),
    "PairReduceSum(d, a, 4, 64, 1, 1, 8)": lambda x: x[0] + x[1],
}


def test_reductions_of_many_elements(tmp_path: Path) -> None:
    cases = "\n".join(f"if (which == {number}) {{ {call}; }}" for number, call in enumerate(REDUCTIONS))
    body = f"{IN.replace('64', '8192')} {cases} {OUT}"
    kernel = made(tmp_path, vector_kernel(body, tensors="x z", numbers="int32_t which"))
    x = floats(8192)
    for number, (call, wanted) in enumerate(REDUCTIONS.items()):
        run = asim.launch(kernel, 1, x, asim.empty(64, "float32"), which=number, mode="functional")
        np.testing.assert_allclose(run.outputs["z"][0], wanted(x), rtol=1e-4, err_msg=call)


def test_extremes_with_their_index(tmp_path: Path) -> None:
    body = f"""{IN} WholeReduceMax(d, a, 64, 1, 1, 1, 8);
    WholeReduceMin(d[8], a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);
    WholeReduceMax(d[16], a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX); {OUT}"""
    x = floats(64)
    z = asim.launch(made(tmp_path, vector_kernel(body, tensors="x z")), 1, x, asim.empty(64, "float32")).outputs["z"]
    index = z.view(np.uint32)
    assert (z[0], index[1]) == (x.max(), x.argmax()) and (z[9], index[8]) == (x.min(), x.argmin())
    assert index[16] == x.argmax()
