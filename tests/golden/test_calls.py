"""300 random calls give what they gave when they were frozen, by both engines: reports, gradients, refusals.

A difference is not an error in itself: read which sections of which calls changed (tools/freeze_calls.py says what they are),
and when it is meant, run that tool again and say in the commit why.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from ascend_sim import AclnnError, SimError
from tests.support.sampling import part_of_cases

TOOL = Path(__file__).parents[2] / "tools" / "freeze_calls.py"
CHUNKS = 20
"""Tests that the calls are spread over, for the workers of pytest-xdist."""


@pytest.fixture(scope="module")
def freezer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@part_of_cases(0, "simpy-0]", "compiled-1]", "compiled-2]")
@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_calls_give_what_is_frozen(freezer: ModuleType, chunk: int) -> None:
    """A tenth by C and a twentieth by SimPy in the suite; all of them under -m slow and by tools/freeze_calls.py --check."""
    lines = list(freezer.differences(range(chunk, freezer.COUNT, CHUNKS)))
    assert not lines, "\n".join(lines)


def test_enough_of_the_calls_run(freezer: ModuleType) -> None:
    """A file of refusals would freeze nothing: four of five calls run, on every chip family and of every kind."""
    rows = freezer.frozen()
    assert len(rows) == freezer.COUNT
    ran = [row["call"] for row in rows if not isinstance(row["full"], str)]
    assert len(ran) >= 0.8 * freezer.COUNT
    seen: Counter[str] = Counter()
    for call in ran:
        kinds = [call["options"]["chip"], call["options"]["conformance"], call["operator"], call["dtype"]]
        if call["operator"] == "convolution_backward":
            rank = len(call["weight"]) - 2
            kinds += [f"rank {rank}", "transposed" if call["transposed"] else "plain"]
            kinds += ["grouped"] * (call["groups"] > 1) + ["dilated"] * (max(call["dilation"]) > 1)
            kinds += ["uneven"] * (len(call["padding"]) > rank) + ["view"] * ("view" in call)
        seen.update(kinds)
    few = {
        kind: seen[kind]
        for kind in (
            "ascend910a",
            "ascend310p3",
            "ascend910b3",
            "ascend910_9391",
            "ascend950pr_9589",
            "documented",
            "library",
            "conv_tbc_backward",
            "float16",
            "bfloat16",
            "float32",
            "hifloat8",
            "float8_e4m3fn",
            "rank 1",
            "rank 2",
            "rank 3",
            "transposed",
            "grouped",
            "dilated",
            "uneven",
            "view",
        )
        if seen[kind] < 2
    }
    assert not few


def test_a_report_is_hashed_whole(freezer: ModuleType) -> None:
    """Every change of a report changes a section, and the one that is told: nothing falls between them."""
    call = next(row["call"] for row in freezer.frozen() if not isinstance(row["full"], str))
    report = freezer.run(call, "full").report.to_dict(statements=False)
    before = freezer.sections(report)
    owners = {"total_us": "times", "outputs": "gradients"}
    for key in set(report) - {"kernels", *freezer.NOT_FROZEN}:
        after = freezer.sections(report | {key: "changed"})
        assert [name for name in before if before[name] != after[name]] == [owners.get(key, "rest")], key
    for key in set(report["kernels"][0]) - set(freezer.NOT_FROZEN):
        kernels = [report["kernels"][0] | {key: "changed"}, *report["kernels"][1:]]
        after = freezer.sections(report | {"kernels": kernels})
        assert len([name for name in before if before[name] != after[name]]) == 1, key


def test_the_codes_of_hifloat8_are_the_integers(freezer: ModuleType) -> None:
    from ascend_sim.numerics import decode

    for value, code in freezer.HIFLOAT8_CODES.items():
        assert decode(freezer.np.array([code], "uint8"), "hifloat8")[0] == value


@pytest.mark.slow
def test_the_waterfalls_of_all_calls_add_up(freezer: ModuleType) -> None:
    checked = 0
    for index in range(freezer.COUNT):
        try:
            result = freezer.run(freezer.make_call(index), "timing")
        except (AclnnError, SimError):
            continue
        spans = {run.task.name: run.finish - run.launch for run in result.recording.timeline.tasks}
        for kernel in result.report.kernels:
            if "waterfall" in kernel:
                assert sum(kernel["waterfall"].values()) == spans[kernel["name"]]
                checked += 1
    assert checked > freezer.COUNT
