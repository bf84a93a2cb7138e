"""grad_input of dav-3510: kernels split by stride, weights that stay in L1, sums in segments of K."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ascend_sim import Result
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import DeadlockError, SimError, TilingError
from ascend_sim.isa.direct import DataCopyDn2Nz
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_HW, SPLIT_NONE, split_parts, split_products
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.window import pad_before
from tests.support.ops.conv_problems import Array, CallAttributes, operands, same_bits, worst_error_over_bound
from tests.support.ops.tiling_problems import conv2d
from tests.support.sampling import sampled

CHIP = "ascend950pr_9589"
QUICK = settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
STRIDED = CallAttributes(2, 24, 40, (30, 27), stride=(2, 2))


def run(
    problem: CallAttributes, tiling: dict[str, int] | None = None, dtype: str = "float16", mode: str = "full", **options: Any
) -> Result:
    """grad_input alone."""
    own = operands(problem, dtype)
    given = {"grad_input": tiling} if tiling else None
    return problem.run(own, (True, False, False), chip=CHIP, mode=mode, tiling=given, **options)


def kernel_of(result: Result) -> dict[str, Any]:
    return next(kernel for kernel in result.report.kernels if kernel["name"] == "grad_input")


def check(problem: CallAttributes, tiling: dict[str, int] | None = None, dtype: str = "float16") -> Result:
    """Correct by torch, nothing found, the same bits in both modes that have values."""
    full, functional = (run(problem, tiling, dtype, mode) for mode in ("full", "functional"))
    own = operands(problem, dtype)
    worst = worst_error_over_bound(problem, full.outputs, own, dtype, {"grad_input": [dtype]})
    assert worst["grad_input"] <= 1
    assert full.report.findings == ()
    assert same_bits(full.outputs["grad_input"], functional.outputs["grad_input"])
    return full


# -- index math --------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from([SPLIT_NONE, SPLIT_HW, SPLIT_H]), st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)), st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 5), st.integers(0, 5)), st.tuples(st.integers(1, 5), st.integers(1, 5)),
)  # fmt: skip
@sampled(75, 300)
def test_parts_find_the_products_of_the_definition(
    mode: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    out: tuple[int, int],
) -> None:
    """Every (dx pixel, tap, gradOutput pixel) of the formula once, and no other: tap t of row o meets row o*s - pad + t."""
    p = ConvProblem(
        1, 1, 1, 1, *size, 1, *out, 1, *kernel, 1, *stride, pad_up=pad[0], pad_left=pad[1]
    )  # pads behind follow from the sizes; nothing reads them
    wanted = {
        (o * p.stride_h - p.pad_up + i, q * p.stride_w - p.pad_left + j, i * p.k_w + j, o, q)
        for o in range(p.h_out)
        for q in range(p.w_out)
        for i in range(p.k_h)
        for j in range(p.k_w)
    }
    wanted = {found for found in wanted if 0 <= found[0] < p.h_in and 0 <= found[1] < p.w_in}
    found = []
    for part in split_parts(p, mode):
        own = part.problem
        up, left = pad_before(own)
        for row in range(part.rows):
            for column in range(part.columns):
                for number, tap in enumerate(part.taps):
                    # img2col takes the taps in reverse
                    i, j = divmod(len(part.taps) - 1 - number, own.k_w)
                    y, x = row - up + i, column - left + j
                    if y % own.stride_h or x % own.stride_w or not (0 <= y // own.stride_h < p.h_out):
                        continue
                    if 0 <= x // own.stride_w < p.w_out:
                        place = (part.row + row * part.row_step, part.column + column * part.column_step)
                        found.append((*place, tap, y // own.stride_h, x // own.stride_w))
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_dilated_kernels_are_not_split() -> None:
    problem = ConvProblem(1, 1, 1, 1, 9, 9, 1, 3, 3, 1, 2, 2, 1, 2, 2, dilation_h=3)
    with pytest.raises(TilingError, match="kernelSplitMode = 2 needs dilation 1, given 3 and 1"):
        split_parts(problem, SPLIT_H)


# -- values ------------------------------------------------------------------------------------------------------------


@QUICK
@given(
    st.sampled_from([SPLIT_HW, SPLIT_H]), st.tuples(st.integers(1, 14), st.integers(1, 14)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)), st.tuples(st.integers(2, 4), st.integers(1, 3)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from([3, 16, 24]), st.sampled_from([5, 16, 40]),
    st.sampled_from(["float16", "bfloat16", "float32"]), st.sampled_from([{}, {"baseM": 32}, {"baseN": 16, "baseM": 48}]),
)  # fmt: skip
def test_any_split_is_correct(
    mode: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    c_in: int,
    c_out: int,
    dtype: str,
    block: dict[str, int],
) -> None:
    if mode == SPLIT_HW:
        stride = (stride[0], 2)
    assume(all(s + 2 * p >= k for s, p, k in zip(size, pad, kernel, strict=True)))
    problem = CallAttributes(2, c_in, c_out, size, kernel, stride, (pad[0], pad[0], pad[1], pad[1]))
    try:
        check(problem, {"kernelSplitMode": mode} | block, dtype)
    except SimError as error:  # a map of one column has nothing to interleave, or a MatMul computes the gradient
        assert "W_in" in str(error) or "MatMul" in str(error), error


@pytest.mark.parametrize(
    ("problem", "mode"),
    [
        (STRIDED, SPLIT_HW),
        # Three of four parts have no tap; worth it for wide maps with more weights than L1 holds.
        (CallAttributes(20, 256, 528, (20, 20), (1, 1), (2, 2), (0, 0, 0, 0)), SPLIT_HW),
        (CallAttributes(16, 256, 528, (20, 20), (1, 1), (2, 2), (0, 0, 0, 0)), SPLIT_NONE),
        (replace(STRIDED, kernel=(5, 5), size=(40, 41), stride=(3, 2)), SPLIT_H),
        (replace(STRIDED, size=(18, 2)), SPLIT_NONE),
        (replace(STRIDED, c_out=260, size=(80, 11)), SPLIT_NONE),  # gradOutput of more than 256 channels does not stay in L1
        (replace(STRIDED, size=(15, 17), c_out=16), SPLIT_NONE),
        (replace(STRIDED, dilation=(2, 2)), SPLIT_NONE),
        (replace(STRIDED, groups=2), SPLIT_NONE),
        (replace(STRIDED, pads=(0, 1, 0, 1)), SPLIT_NONE),
        (replace(STRIDED, kernel=(5, 5), c_in=12, size=(40, 41), stride=(3, 2)), SPLIT_NONE),
    ],
    ids=[
        "both axes",
        "one tap",
        "one tap, a tile a core",
        "rows",
        "narrowest",
        "narrow",
        "small",
        "dilated",
        "groups",
        "pads",
        "few channels",
    ],
)
def test_what_the_library_splits(problem: CallAttributes, mode: int) -> None:
    assert kernel_of(run(problem, mode="timing"))["tiling"].get("kernelSplitMode", 0) == mode


@QUICK
@given(
    st.integers(1, 4), st.tuples(st.integers(4, 22), st.integers(3, 34)), st.integers(0, 2),
    st.sampled_from([3, 16, 40]), st.sampled_from([5, 40, 272]), st.sampled_from(["float16", "bfloat16", "float32"]),
)  # fmt: skip
def test_what_the_library_splits_is_correct(
    kernel: int, size: tuple[int, int], pad: int, c_in: int, c_out: int, dtype: str
) -> None:
    """Both axes, gradOutput in L1 or not, with its own tilings."""
    assume(pad < kernel)
    problem = CallAttributes(2, c_in, c_out, size, (kernel, kernel), (2, 2), (pad, pad, pad, pad))
    assume(all(one + 2 * pad >= kernel for one in size))
    check(problem, dtype=dtype)


@pytest.mark.parametrize("size", [(20, 36), (56, 56)], ids=str)
def test_naming_the_librarys_own_fields_changes_nothing(size: tuple[int, int]) -> None:
    """Which the library does not derive from others: its share of a core and its blocks stay too."""
    layer = CallAttributes(4, 32, 64, size, (3, 3), (2, 2), (1, 1, 1, 1))
    own = kernel_of(run(layer, mode="timing"))
    assert own["tiling"]["kernelSplitMode"] == SPLIT_HW
    every = ["baseM", "baseK", "baseN", "stepKa", "stepKb", "singleCoreM", "singleCoreCin", "coreNum", "kernelSplitMode"]
    for names in (["kernelSplitMode"], ["baseM", "singleCoreM"], every):
        fields = {name: own["tiling"][name] for name in names}
        named = kernel_of(run(layer, fields, mode="timing"))
        assert (named["tiling"], named["cube_work_cycles"]) == (own["tiling"], own["cube_work_cycles"])
        assert named["tiling_source"] == "manual"


def test_values_do_not_depend_on_the_split() -> None:
    """Whole numbers, whose sums are exact in any order."""
    gradients = []
    for mode in (SPLIT_NONE, SPLIT_HW, SPLIT_H):
        tiling = {"grad_input": {"kernelSplitMode": mode}}
        result = STRIDED.run(whole(STRIDED), (True, False, False), chip=CHIP, mode="functional", tiling=tiling)
        gradients.append(result.outputs["grad_input"])
    assert same_bits(gradients[0], gradients[1]) and same_bits(gradients[0], gradients[2])


@pytest.mark.parametrize(("mode", "taps"), [(SPLIT_NONE, 16), (SPLIT_H, 8), (SPLIT_HW, 4)])
def test_products_of_a_split_kernel_are_those_of_its_taps(mode: int, taps: int) -> None:
    """4 x 4 taps at stride 2: a pixel of dx sees every second row of taps, then of those every second column."""
    problem = conv2d(3, 10, 6, 8, 4, stride=2, pad=1)
    assert split_products(problem, mode) == 3 * 10 * 6 * 8 * 8 * taps


# -- what the programs do ----------------------------------------------------------------------------------------------


def test_no_zero_is_multiplied() -> None:
    """28 x 28 pixels of each part, whole fractals of channels: the cube does exactly the useful products."""
    layer = CallAttributes(4, 32, 64, (56, 56), (2, 2), (2, 2), (0, 0, 0, 0))
    split = kernel_of(run(layer, {"baseM": 448, "kernelSplitMode": 1}, mode="timing"))
    plain = kernel_of(run(layer, {"baseM": 448, "kernelSplitMode": 0}, mode="timing"))
    per_cycle = load_chip(CHIP).cube.rates["float16"].k_per_cycle * 16 * 16
    assert sum(split["cube_work_cycles"]) * per_cycle == split["macs"]
    assert sum(plain["cube_work_cycles"]) == 4 * sum(split["cube_work_cycles"])


def test_a_split_kernel_is_faster_where_the_cube_is_the_limit() -> None:
    layer = CallAttributes(8, 64, 64, (48, 48), (6, 6), (4, 4), (1, 1, 1, 1))
    split, plain = (kernel_of(run(layer, tiling, mode="timing")) for tiling in (None, {"kernelSplitMode": 0}))
    assert split["tiling"]["kernelSplitMode"] == SPLIT_H
    assert split["task_us"] < 0.7 * plain["task_us"]


def test_fully_loaded_weights_are_loaded_once_a_core() -> None:
    layer = CallAttributes(64, 64, 64, (16, 16), (1, 1), (1, 1), (0, 0, 0, 0))
    ours = run(layer, mode="timing")
    assert kernel_of(ours)["tiling"]["enableFullLoad"] == 1
    loads = [weight_loads(ours)]
    loads.append(weight_loads(run(layer, {"enableFullLoad": 0, "bl1Pbuffer": 2}, mode="timing")))
    assert loads[0] == [1] * 32
    assert all(count == 2 for count in loads[1])  # a task each


def weight_loads(result: Result) -> list[int]:
    """Loads of weights by core."""
    assert result.timeline is not None
    found = []
    for one in result.timeline.programs:
        if result.tasks[one.task].name == "grad_input":
            table = one.program.table.instructions
            found.append(
                sum(isinstance(table[i], DataCopyDn2Nz) and table[i].operand == "B" for i in one.program.rows[:, 0].tolist())
            )
    return found


def test_a_stride_that_load3d_does_not_hold() -> None:
    """It never gets one: zeros are put between the pixels before; the older data kernel of the 910B does so too."""
    layer = CallAttributes(1, 3, 20, (67, 68), stride=(64, 65))
    check(layer, dtype="float32")
    own = operands(layer, "bfloat16")
    got = layer.run(own, (True, False, False), chip="ascend910b3")
    assert worst_error_over_bound(layer, got.outputs, own, "bfloat16", {"grad_input": ["bfloat16"]})["grad_input"] <= 1


def test_segments_of_k_are_added_up_in_gm() -> None:
    layer = CallAttributes(1, 16, 48, (8, 8))
    result = check(layer, {"kSegment": 16}, "float32")
    whole = check(layer, {"kSegment": 0}, "float32")
    stored = [kernel_of(one)["counts"]["instructions"]["fixpipe_dn"] for one in (result, whole)]
    assert stored[0] == 3 * stored[1]


@pytest.mark.parametrize(
    ("problem", "tiling", "message"),
    [
        (STRIDED, {"kernelSplitMode": 3}, r"kernelSplitMode = 3; allowed 0 \(none\), 1 \(rows and columns\), 2 \(rows\)"),
        (
            replace(STRIDED, stride=(2, 3)),
            {"kernelSplitMode": 1},
            "kernelSplitMode = 1 needs stride_w = 2 and W_in > 1, given 3 and 27",
        ),
        (replace(STRIDED, stride=(1, 2)), {"kernelSplitMode": 2}, "needs stride_h > 1"),
        (replace(STRIDED, dilation=(2, 2)), {"kernelSplitMode": 2}, "needs dilation 1, given 2 and 2"),
        (replace(STRIDED, groups=2), {"kernelSplitMode": 1}, "needs groups 1, given 2"),
        (STRIDED, {"kSegment": 16}, "only 32-bit results"),
        (STRIDED, {"enableFullLoad": 2}, "enableFullLoad = 2; allowed 0 or 1"),
        (STRIDED, {"enableFullLoad": 1, "bl1Pbuffer": 2}, "enableFullLoad = 1 needs one kernel plane, bl1Pbuffer = 1"),
        (STRIDED, {"singleCoreDin": 2}, "singleCoreDin = 2; allowed 1 to D_in = 1"),
        (STRIDED, {"baseK": 24}, "baseK = 24 is not a positive multiple of 16"),
    ],
)
def test_fields_that_cannot_run_are_refused(problem: CallAttributes, tiling: dict[str, int], message: str) -> None:
    with pytest.raises(TilingError, match=message):
        run(problem, tiling, mode="timing")


def test_other_chips_have_no_such_fields() -> None:
    own = operands(STRIDED, "float16")
    with pytest.raises(TilingError, match=r"kernelSplitMode = 1: only the kernel of dav-3510, .* has this field"):
        STRIDED.run(own, (True, False, False), chip="ascend910b3", tiling={"grad_input": {"kernelSplitMode": 1}})


def test_more_blocks_than_cores_could_not_meet() -> None:
    with pytest.raises(SimError, match=r"block_dim of grad_input: 33 given; .* at most 32 blocks"):
        run(STRIDED, mode="timing", block_dim={"grad_input": 33})


# -- waits -------------------------------------------------------------------------------------------------------------


@cache
def slow(part: str) -> ChipSpec:
    """Two cores with little UB and one slow part: a pipe, or "latency" (what GM gives comes late)."""
    chip = load_chip(CHIP)
    paths = {
        key: path.model_copy(update={"latency": 20_000})
        if part == "latency" and key.startswith("GM->")
        else path.model_copy(update={"head": 20_000})
        if path.pipe == part
        else path
        for key, path in chip.paths.items()
    }
    changes: dict[str, Any] = {
        "cores": chip.cores.model_copy(update={"aic": 2, "aiv": 4}), "buffers": chip.buffers | {"UB": 8192}, "paths": paths,
    }  # fmt: skip
    if part == "V":
        changes["vector"] = chip.vector.model_copy(update={"head": 20_000.0})
    if part == "FIX" and chip.fixpipe is not None:
        changes["fixpipe"] = chip.fixpipe.model_copy(update={"head": 20_000})
    return chip.model_copy(update=changes)


WAITED = replace(STRIDED, c_in=32, c_out=20, size=(28, 24))  # the last vector cores have only padding to turn


def goes_wrong(flag: str, part: str, known: Array) -> bool:
    own = whole(WAITED)
    tiling = {"grad_input": {"kernelSplitMode": 1, "baseM": 48, "baseN": 32}}
    try:
        result = WAITED.run(
            own, (True, False, False), chip=slow(part), tiling=tiling, disarm={"grad_input": [flag] if flag else []}
        )
    except DeadlockError:
        return True
    return bool(result.report.findings) or not same_bits(result.outputs["grad_input"], known)


def whole(problem: CallAttributes) -> dict[str, Array]:
    """Whole numbers."""
    values = operands(problem, "float16")
    return {name: np.rint(2 * array.astype(np.float32)).astype(array.dtype) for name, array in values.items()}


@pytest.mark.parametrize(
    ("flag", "parts"),
    [
        ("", ("latency", "MTE2", "V", "MTE3", "FIX")),
        ("cross-core 0", ("MTE3", "V", "latency")),
        ("cross-core 1", ("MTE3", "V", "latency")),
        ("cross-core 2", ("FIX", "MTE2")),
        ("cross-core 3", ("V", "MTE3", "latency", "MTE2")),
        ("columns[0] full", ("latency",)),
        ("columns[0] free", ("V",)),
        ("rows[0] full", ("V",)),
        ("rows[0] free", ("MTE3",)),
    ],
)
def test_every_wait_of_the_vector_cores_matters(flag: str, parts: tuple[str, ...]) -> None:
    known = WAITED.run(whole(WAITED), (True, False, False), chip=CHIP, mode="functional").outputs["grad_input"]
    found = [goes_wrong(flag, part, known) for part in parts]
    assert any(found) if flag else not any(found)


def test_the_barrier_between_segments_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = CallAttributes(1, 16, 48, (6, 6))
    own = operands(layer, "float32")
    chip = slow("FIX")

    def findings() -> list[Any]:
        result = layer.run(own, (True, False, False), chip=chip, tiling={"grad_input": {"kSegment": 16}})
        return list(result.report.findings)

    assert findings() == []
    original = KernelBuilder.pipe_barrier
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None if pipe == "FIX" else original(self, pipe))
    assert findings()
