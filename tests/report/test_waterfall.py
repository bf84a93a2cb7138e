"""The waterfall: its parts add up, and each is what its name says, on kernels made for it and on calls of every family."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import TOOLS
from small_kernels import CHIP, cube_task

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import SimError
from ascend_sim.report.advice import layer_words, statements
from ascend_sim.report.waterfall import WORDS, overlap, waterfall
from ascend_sim.runtime import Recording


def layer(
    chip: str = "ascend910b3",
    stride: int = 1,
    channels: tuple[int, int] = (64, 64),
    batch: int = 20,
    size: int = 28,
    kernel: int = 3,
    groups: int = 1,
    mask: tuple[bool, bool, bool] = (True, True, False),
) -> Any:
    c_in, c_out = channels
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    shapes = (batch, c_out, out, out), (batch, c_in, size, size), (c_out, c_in // groups, kernel, kernel)
    return ascend_sim.convolution_backward(
        *(TensorSpec(shape, "float16") for shape in shapes),
        None,
        (stride, stride),
        (kernel // 2,) * 2,
        (1, 1),
        False,
        (0, 0),
        groups,
        mask,
        chip=chip,
        mode="timing",
    )


def kernels(result: Any) -> dict[str, dict[str, Any]]:
    return {kernel["name"]: kernel for kernel in result.report.kernels if "waterfall" in kernel}


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


def test_statements_name_the_largest_parts_and_a_command() -> None:
    result = layer(stride=2, channels=(256, 256))
    kernel = kernels(result)["grad_input"]
    said = statements(CHIP, kernel, (2, 2))
    assert [one.cycles for one in said] == sorted((one.cycles for one in said), reverse=True)
    assert said[0].part == "zeros" and "stride 2x2" in said[0].text and "4.0 times" in said[0].text
    assert all(one.cycles == kernel["waterfall"][one.part] for one in said)
    assert any("ascend-sim tile" in one.command for one in said)


def test_every_part_has_something_to_say() -> None:
    result = layer()
    kernel = dict(kernels(result)["grad_input"])
    for part in WORDS:
        if part != "ideal":
            kernel["waterfall"] = {"ideal": 10, part: 90}
            (one,) = statements(CHIP, kernel, (2, 2))
            assert one.text.startswith("90 % (") and one.text.count(". ") >= 1, one.text


def test_a_layer_in_words() -> None:
    problem = layer(stride=2).report.problem
    assert layer_words(problem) == "64 -> 64 channels, kernel 3x3, stride 2x2, maps 28x28, batch 20"
    assert layer_words({"operator": "kernel"}) == ""


def test_a_promise_is_what_the_change_brings() -> None:
    """Twice the batch needs start and launch once; filled channels take no longer. `tools/promises.py` asks ten layers."""
    before = kernels(layer(channels=(3, 64), batch=8, size=112, kernel=7, stride=2))["grad_weight"]
    twice = kernels(layer(channels=(3, 64), batch=16, size=112, kernel=7, stride=2))["grad_weight"]
    filled = kernels(layer(channels=(16, 64), batch=8, size=112, kernel=7, stride=2))["grad_weight"]
    said = {one["part"]: one for one in before["statements"]}
    assert said["start"]["change"] == {"batch": 2}
    saved = 2 * before["waterfall"]["start"] - twice["waterfall"]["start"]
    assert said["start"]["gain"] == pytest.approx(saved, rel=0.2)
    elapsed = [sum(kernel["waterfall"].values()) for kernel in (before, filled)]
    assert elapsed[1] == pytest.approx(elapsed[0], rel=0.05)
    assert said["padded channels"]["change"] == {"channels": 16}
    assert said["padded channels"]["gain"] == pytest.approx(13 / 3 * elapsed[0], rel=0.05)


def test_cores_without_a_block_get_work_from_a_larger_batch() -> None:
    small = kernels(layer(channels=(128, 256), stride=2, batch=2))["grad_input"]
    (said,) = [one for one in small["statements"] if one["part"] == "idle cores"]
    factor = said["change"]["batch"]
    larger = kernels(layer(channels=(128, 256), stride=2, batch=2 * factor))["grad_input"]
    before, after = (sum(kernel["waterfall"].values()) for kernel in (small, larger))
    assert factor > 1 and said["gain"] == pytest.approx(factor * before - after, rel=0.2)


@pytest.mark.slow
def test_the_parts_add_up_on_300_random_calls() -> None:
    """Of every chip family, rank, direction and dtype, as tools/freeze_calls.py draws them."""
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
