"""The waterfall: its parts add up, and each is what its name says, on kernels made for it and on calls of every family."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import SimError
from ascend_sim.options.commands import ShellCommands
from ascend_sim.report.waterfall import WORDS, overlap, waterfall
from ascend_sim.runtime import Recording
from tests.support.places import TOOLS
from tests.support.report.layers import kernels, layer
from tests.support.report.small_kernels import CHIP, cube_task


def elapsed(result: Any, name: str) -> int:
    (span,) = [run for run in result.recording.timeline.tasks if run.task.name == name]
    return int(span.finish - span.launch)


@pytest.mark.fast
@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_parts_add_up_to_the_cycles_of_the_kernel(chip: str, stride: int) -> None:
    result = layer(chip, stride, batch=3)
    found = kernels(result)
    assert set(found) == {"grad_input", "grad_weight"}
    for name, kernel in found.items():
        parts = kernel["waterfall"]
        assert sum(parts.values()) == elapsed(result, name)
        assert list(parts) == [part for part in WORDS if part in parts]
        # What stands around the cube is time: only shares of work may be below zero.
        assert all(parts[part] > 0 for part in parts if part.startswith("wait") or part in ("start", "drain", "launch"))


def test_a_stride_makes_zeros_where_the_kernel_puts_them_in() -> None:
    """Stride 2 on even maps: of four pixels of the dilated gradOutput three are zeros."""
    plain, strided = kernels(layer()), kernels(layer(stride=2))
    assert "zeros" not in plain["grad_input"]["waterfall"]
    parts = strided["grad_input"]["waterfall"]
    assert parts["zeros"] == pytest.approx(3 * parts["ideal"], rel=1e-3)
    assert "zeros" not in strided["grad_weight"]["waterfall"]


def test_a_kernel_that_splits_itself_by_the_stride_multiplies_no_zeros() -> None:
    kernel = kernels(layer("ascend950pr_9589", stride=2))["grad_input"]
    assert kernel["tiling"]["kernelSplitMode"]
    assert "zeros" not in kernel["waterfall"]


def test_channels_are_filled_up_to_blocks() -> None:
    """3 of 16 channels: 13/3 of the useful products are padding, in both kernels."""
    for kernel in kernels(layer(channels=(3, 64))).values():
        parts = kernel["waterfall"]
        assert parts["padded channels"] + parts.get("tile edges", 0) >= parts["ideal"] * 13 / 3 - 2


def test_depthwise_groups_are_padding_too() -> None:
    for kernel in kernels(layer(channels=(32, 32), groups=32)).values():
        assert kernel["waterfall"]["padded channels"] >= 15 * kernel["waterfall"]["ideal"] - 16


@pytest.mark.fast
def test_cores_without_a_block_and_cores_with_more_work() -> None:
    device = Device(CHIP, with_values=False)
    task = cube_task(device, blocks=3, steps=8)
    task.info.update(macs=16 * 128 * 64 * 128, compute_dtype="float16")
    timeline = Engine(device).run([task])
    (span,) = timeline.tasks
    parts = dict(waterfall(CHIP, task, timeline.of(0), span.finish - span.launch))
    assert sum(parts.values()) == span.finish - span.launch
    mmad = 128 // 16 * (128 // 16) * (64 // 16)
    work = (8 + 4 + 8) * mmad  # the second block does half
    assert parts["ideal"] == -(-16 * mmad // CHIP.cores.aic)
    assert parts["ideal"] + parts["padded channels"] == -(-work // CHIP.cores.aic)
    assert parts["idle cores"] == -(-work // 3) - -(-work // CHIP.cores.aic)
    assert parts["uneven cores"] == 8 * mmad - -(-work // 3)
    assert 8 * CHIP.cube.head_stream <= parts["heads"] <= 8 * CHIP.cube.head_first


def test_a_slow_path_is_what_the_cube_waits_for() -> None:
    """A rate cut to a hundredth shows under the pipe that it belongs to, though others stand between it and the cube."""

    device = Device(CHIP, with_values=False)
    task = cube_task(device, blocks=1, steps=16)
    task.info.update(macs=1, compute_dtype="float16")
    recording = Recording(CHIP, Engine(device).run([task]), [task])

    def waits(path: str) -> dict[str, int]:
        paths = dict(CHIP.paths)
        paths[path] = paths[path].model_copy(update={"bytes_per_cycle": paths[path].bytes_per_cycle / 100})
        chip = CHIP.model_copy(update={"paths": paths})
        timeline = recording.rerun(chip)
        return dict(waterfall(chip, task, timeline.of(0), timeline.finish))

    for path, part in (("GM->L1", "wait MTE2"), ("L1->L0A", "wait MTE1"), ("L0C->GM", "wait FIX")):
        parts = {name: cycles for name, cycles in waits(path).items() if name.startswith("wait")}
        assert max(parts, key=parts.__getitem__) == part, (path, parts)


sorted_points = st.lists(st.integers(0, 60), unique=True, max_size=20).map(sorted)


@given(sorted_points, sorted_points)
def test_overlap_is_what_both_cover(first: list[int], second: list[int]) -> None:
    a, b = (np.array(points[: len(points) // 2 * 2], np.int64).reshape(-1, 2) for points in (first, second))
    covered = [{cycle for begin, end in times.tolist() for cycle in range(begin, end)} for times in (a, b)]
    found = overlap(a, b)
    assert {cycle for begin, end in found.tolist() for cycle in range(begin, end)} == covered[0] & covered[1]
    assert (found[:, 1] > found[:, 0]).all()
    assert (found[1:, 0] >= found[:-1, 1]).all()


def said_of(result: Any, name: str, case: str = "") -> list[dict[str, Any]]:
    """The statements of a kernel."""
    report = dataclasses.replace(result.report, commands=ShellCommands(case, {}, {}) if case else None)
    return next(row["statements"] for row in report.to_dict()["kernels"] if row["name"] == name)


def test_a_tiling_that_brings_another_kernel_says_so() -> None:
    """The library's older grad_weight kernel takes no fields: with some, the open kernel runs."""
    own, given = layer(batch=3), layer(batch=3, tiling={"grad_weight": {"baseK": 32}})
    assert not own.report.warnings
    (warning,) = given.report.warnings
    assert "grad_weight runs as the open kernel" in warning and "Conv2DBackpropFilter would" in warning
    assert kernels(given)["grad_weight"]["tiling"].keys() != kernels(own)["grad_weight"]["tiling"].keys()
    assert not layer(batch=3, tiling={"grad_input": {"al1Pbuffer": 1}}).report.warnings


def spent(kernel: dict[str, Any]) -> int:
    return sum(kernel["waterfall"].values())


def test_a_larger_batch_is_one_statement_and_brings_what_it_says() -> None:
    """Start, launch and idle cores are helped by the same action, whose gain is that of the whole kernel."""
    shape: dict[str, Any] = {"channels": (128, 256), "stride": 2, "size": 14}
    before = layer(batch=2, **shape)
    for name, kernel in kernels(before).items():
        said = said_of(before, name)
        (one,) = [one for one in said if "batch" in one["change"]]
        assert {"start", "launch"} <= set(one["parts"])
        assert [other for other in said if set(other["parts"]) & {"start", "launch", "idle cores"}] == [one]
        factor = one["change"]["batch"]
        after = kernels(layer(batch=2 * factor, **shape))[name]
        assert one["gain"] == pytest.approx(factor * spent(kernel) - spent(after), rel=0.2), name
        assert f"{100 * one['gain'] / (factor * spent(kernel)):.0f} % less than" in one["text"]


def test_blocks_that_have_unlike_work_are_tried_together() -> None:
    """Block 0 of dX has a plane of padding and little to do: alone it would promise a third of what twice the batch brings."""

    def call(batch: int) -> Any:
        specs = [
            TensorSpec(shape, "float16") for shape in ((batch, 512, 2, 7, 7), (batch, 256, 4, 14, 14), (512, 256, 3, 3, 3))
        ]
        steps = (2, 2, 2), (1, 1, 1), (1, 1, 1), False, (0, 0, 0), 1, (True, False, False)
        return ascend_sim.convolution_backward(*specs, None, *steps, chip="ascend910b3", mode="timing")

    small, large = call(2), call(4)
    assert not any("statements" in row for row in small.report.to_dict(statements=False)["kernels"]), (
        "figures do not wait for trials"
    )
    (one,) = [one for one in said_of(small, "grad_input") if "batch" in one["change"]]
    before, after = (spent(kernels(result)["grad_input"]) for result in (small, large))
    assert one["gain"] == pytest.approx(2 * before - after, rel=0.2)


def test_a_step_of_the_tiling_brings_what_it_says() -> None:
    before = layer(batch=8, channels=(256, 64), dtype="float32")
    (one,) = [one for one in said_of(before, "grad_input") if "tiling" in one["change"]]
    after = kernels(layer(batch=8, channels=(256, 64), dtype="float32", tiling=one["change"]["tiling"]))["grad_input"]
    assert one["gain"] == pytest.approx(spent(kernels(before)["grad_input"]) - spent(after), rel=0.2)


def test_filled_channels_take_no_longer() -> None:
    shape: dict[str, Any] = {"batch": 8, "size": 112, "kernel": 7, "stride": 2}
    before = layer(channels=(3, 64), **shape)
    filled = kernels(layer(channels=(16, 64), **shape))["grad_weight"]
    elapsed = spent(kernels(before)["grad_weight"])
    (one,) = [one for one in said_of(before, "grad_weight") if one["parts"] == ["padded channels"]]
    assert spent(filled) == pytest.approx(elapsed, rel=0.05)
    assert one["change"] == {"channels": 16}
    assert one["gain"] == pytest.approx(13 / 3 * elapsed, rel=0.05)


def test_what_is_below_zero_says_that_it_was_saved() -> None:
    """Planes of a 3-D kernel that lie in padding are never multiplied; they are not zeros."""
    shapes = (2, 48, 8, 20, 20), (2, 32, 8, 20, 20), (48, 32, 3, 3, 3)
    result = ascend_sim.convolution_backward(
        *(TensorSpec(shape, "float16") for shape in shapes),
        None,
        (1, 1, 1),
        (1, 1, 1),
        (1, 1, 1),
        False,
        (0, 0, 0),
        1,
        (True, True, False),
        chip="ascend910b3",
        mode="timing",
    )
    for name, kernel in kernels(result).items():
        parts = kernel["waterfall"]
        below = {part: cycles for part, cycles in parts.items() if cycles < 0}
        assert below == {"left out": pytest.approx(-parts["ideal"] * 2 / 24, abs=1)}  # of 8 planes x 3 taps two
        assert all(WORDS[part].startswith("saved") for part in below)
        assert spent(kernel) == elapsed(result, name)


@pytest.mark.slow
def test_the_parts_add_up_on_300_random_calls() -> None:
    """Calls of every chip family, rank, direction and dtype, as tools/freeze_calls.py draws them."""
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOLS / "freeze_calls.py")
    assert spec is not None and spec.loader is not None
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    looked_at = 0
    for index in range(drawn.COUNT):
        try:
            result = drawn.run(drawn.make_call(index), "timing")
        except SimError:
            continue
        for kernel in kernels(result).values():
            assert sum(kernel["waterfall"].values()) == elapsed(result, kernel["name"]), index
            looked_at += 1
    print(f"{looked_at} waterfalls of {drawn.COUNT} calls add up")
    assert looked_at > 200
