"""Runs with a rate doubled against whole calls on chips whose files say so, and the words against those runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.chip import load_chip
from ascend_sim.engine.critical_path import by_what, critical_path
from ascend_sim.errors import SimError
from ascend_sim.report.what_if import ChangedRun, changes, faster_chip, what_if
from tests.support.report.calls import call

CHIP = load_chip("ascend910b3")
GRADIENT_KERNELS = ("grad_input", "grad_weight")


@pytest.fixture(scope="module")
def result() -> Any:
    return call()


@pytest.fixture(scope="module")
def outcomes(result: Any) -> list[ChangedRun]:
    return what_if(result.recording)


def leaf(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit, "source": "assumed: an experiment"}


def doubled() -> dict[str, dict[str, Any]]:
    """Sections of chip files, written from the published fields and not with the code under test."""
    memory, rates, fixpipe = CHIP.memory, CHIP.cube.rates, CHIP.fixpipe
    assert fixpipe is not None

    def ports(pipe: str) -> dict[str, Any]:
        return {
            name: {"bytes_per_cycle": leaf(2 * path.bytes_per_cycle, "bytes/cycle")}
            for name, path in CHIP.paths.items()
            if path.pipe == pipe
        }

    load3d = {
        buffer: {
            "stride_w": {stride: leaf(2 * rate, "bytes/cycle") for stride, rate in table.stride_w.items()},
            "other": leaf(2 * table.other, "bytes/cycle"),
            **({"transpose_32bit": leaf(2 * table.transpose_32bit, "bytes/cycle")} if table.transpose_32bit else {}),
        }
        for buffer, table in CHIP.load3d.rates.items()
    }
    per_aic = ("l2_read_bytes_per_cycle_per_aic", "l2_write_bytes_per_cycle_per_aic")
    elements = {size: leaf(2 * rate, "elements/cycle") for size, rate in fixpipe.elements_per_cycle.items()}
    split = leaf(2 * fixpipe.channel_split_bytes_per_cycle, "bytes/cycle")
    return {
        "cube": {
            "cube": {
                "rates": {name: {"k_per_cycle": leaf(2 * rate.k_per_cycle, "elements/cycle")} for name, rate in rates.items()}
            }
        },
        "MTE1": {"paths": ports("MTE1"), "load3d": {"rates": load3d}},
        "MTE2": {"paths": ports("MTE2")},
        "MTE3": {"paths": ports("MTE3")},
        "FIX": {"paths": ports("FIX"), "fixpipe": {"elements_per_cycle": elements, "channel_split_bytes_per_cycle": split}},
        "HBM": {"memory": {"hbm_gb_per_s": leaf(2 * memory.hbm_gb_per_s, "GB/s")}},
        "L2": {"memory": {name: leaf(2 * getattr(memory, name), "bytes/cycle") for name in per_aic}},
        "issue": {"scalar": {"issue_cycles": {k: leaf(c // 2, "cycles") for k, c in CHIP.scalar.issue_cycles.items()}}},
        "flag": {"sync": {"flag_latency": leaf(CHIP.sync.flag_latency // 2, "cycles")}},
    }


@pytest.mark.parametrize("key", doubled())
def test_a_chip_file_with_the_rate_doubled_gives_the_same_times(
    key: str, result: Any, outcomes: list[ChangedRun], tmp_path: Path
) -> None:
    path = tmp_path / "ascend910b3.yaml"
    path.write_text(yaml.safe_dump({"extends": "ascend910b3", **doubled()[key]}), encoding="utf-8")
    tilings = {k["name"]: k["tiling"] for k in result.report.kernels if k["name"] in GRADIENT_KERNELS}
    again = call(load_chip(path))
    for kernel in again.report.kernels:
        assert kernel["tiling"] == tilings.get(kernel["name"], kernel["tiling"]), "another tiling is another program"
    outcome = next(one for one in outcomes if one.key == key)
    # A kernel built for the other chip counts the lead of its unit flags in that chip's cycles; the recorded one keeps its own.
    near = {"rel": 1e-3} if key in ("cube", "FIX", "flag") else {"rel": 0}
    assert outcome.elapsed == pytest.approx(again.timeline.finish, **near)
    tasks = [one.finish - one.launch for one in again.timeline.tasks]
    assert outcome.tasks == pytest.approx(tasks, rel=10 * near["rel"], abs=0)
    assert outcome.saved == pytest.approx(1 - again.timeline.finish / result.timeline.finish, abs=near["rel"] or 1e-9)


def test_half_the_launch_overhead(result: Any, outcomes: list[ChangedRun]) -> None:
    """On the critical path launches and starts stand one behind the other, so that half of them is saved at least."""
    parts = by_what(critical_path(result.timeline))
    outcome = next(one for one in outcomes if one.key == "launch")
    saved = result.timeline.finish - outcome.elapsed
    assert saved == pytest.approx((parts["launch"] + parts["core start"]) / 2, rel=0.05)


@pytest.mark.slow
def test_processes_give_the_same(result: Any, outcomes: list[ChangedRun]) -> None:
    assert what_if(result.recording, jobs=2) == outcomes


def test_only_the_chosen_changes_are_tried(result: Any, outcomes: list[ChangedRun]) -> None:
    chosen = {"HBM", "cube"}
    assert what_if(result.recording, only=chosen) == [one for one in outcomes if one.key in chosen]
    assert what_if(result.recording, only=[]) == []
    with pytest.raises(SimError, match=r"no change hbm, vector; .* has cube, MTE1, .*HBM"):
        what_if(result.recording, only=["cube", "vector", "hbm"])


def test_only_pipes_that_a_chip_has_are_changed() -> None:
    assert {"MTE3", "V"} < {one.key for one in changes(CHIP)}
    assert "FIX" not in {one.key for one in changes(load_chip("ascend910a"))}


# -- words -------------------------------------------------------------------------------------------------------------


def test_programs_of_one_pattern_go_to_other_processes() -> None:
    """The stamps that blocks share while they are built stay behind."""
    recording = call(block_dim=None).recording.without_kernels()
    assert any(run.program.table.stamps.known for run in recording.timeline.programs)
    again = pickle.loads(pickle.dumps(recording))
    assert all(
        (one.program.rows == other.program.rows).all()
        for one, other in zip(recording.timeline.programs, again.timeline.programs, strict=True)
    )


def test_a_faster_chip_in_words_is_what_the_programs_take_on_it() -> None:
    """Only rates behind large parts of a kernel are tried, and the figure is that of running it again."""
    specs = [TensorSpec(shape, "float16") for shape in ((4, 64, 28, 28), (4, 64, 28, 28), (64, 64, 3, 3))]
    arguments = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, False, False))
    result = ascend_sim.convolution_backward(*specs, *arguments, mode="timing")
    assert result.recording is not None
    kernels = result.report.kernels
    (index,) = [place for place, kernel in enumerate(kernels) if "waterfall" in kernel]
    (text,) = faster_chip(result.recording, kernels).values()
    parts = kernels[index]["waterfall"]
    (change,) = [one for one in changes(result.recording.chip) if one.key == "launch"]
    span = result.recording.rerun(change.apply(result.recording.chip)).tasks[index]
    saved = 1 - (span.finish - span.launch) / sum(parts.values())
    assert saved > 0.05 and f"{change.words} {-100 * saved:+.0f} %" in text
    small = [
        dict(kernel) | {"waterfall": {"wait FIX": 1}} if place == index else kernel for place, kernel in enumerate(kernels)
    ]
    assert "launches" not in "".join(faster_chip(result.recording, small).values())
