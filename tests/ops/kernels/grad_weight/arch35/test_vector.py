"""The 950's weight gradient as the vendor's kernel is built: values against torch, and what its structure shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim import Result, convolution_backward
from ascend_sim.errors import SimError
from ascend_sim.isa.direct import DataCopyDn2Nz
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.sync import Scalar, ScalarWait
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.isa.vector import Scatter
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.ops.kernels.grad_weight.arch35 import cube, vector
from tests.support.sampling import part_of_cases

torch = pytest.importorskip("torch")

CHIP, VERSIONS = "ascend950pr_9589", ("9.0.0", "2026-08")
ONLY_DW = [False, True, False]


def arguments(
    x: tuple[int, ...], weight: tuple[int, ...], stride: int = 1, groups: int = 1, dtype: str = "float16"
) -> list[Any]:
    """A call with padding 1 and whole numbers, so that sums are exact in any order."""
    rng, rank = np.random.default_rng(0), len(x) - 2
    y = tuple((size + 2 - kernel) // stride + 1 for size, kernel in zip(x[2:], weight[2:], strict=True))
    arrays = [rng.integers(-2, 3, shape).astype(numpy_dtype(dtype)) for shape in ((x[0], weight[0], *y), x, weight)]
    return [*arrays, None, [stride] * rank, [1] * rank, [1] * rank, False, [0] * rank, groups, ONLY_DW]


def checked(given: list[Any], **options: Any) -> dict[str, Any]:
    """The kernel's part of the report; its values are torch's, nothing was found, and nothing cleared dW before it."""
    result: Result = convolution_backward(*given, chip=CHIP, **options)
    wide = [torch.from_numpy(array.astype(np.float64)) for array in given[:3]]
    wanted = torch.ops.aten.convolution_backward(*wide, *given[3:])[1].numpy()
    np.testing.assert_array_equal(result.outputs["grad_weight"], wanted.astype(given[0].dtype))
    report = result.report.to_dict(statements=False)
    assert report["findings"] == []
    kernels = {kernel["name"]: kernel for kernel in report["kernels"]}
    assert "MemSet_grad_weight" not in kernels
    found: dict[str, Any] = kernels["grad_weight"]
    return found


@pytest.mark.parametrize("library", VERSIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_values_of_shared_tasks(dtype: str, library: str) -> None:
    kernel = checked(arguments((3, 20, 9, 9), (24, 20, 3, 3), dtype=dtype), library=library)
    assert kernel["tiling"]["streamKType"] and kernel["tiling"]["coreStreamK"] > 2


@pytest.mark.parametrize("library", VERSIONS)
def test_values_of_planes_with_an_odd_number_of_chunks(library: str) -> None:
    """The first chunk of a plane takes the buffer that the last one of the plane before is read from."""
    fields = {"baseM": 16, "baseN": 144, "baseK": 16, "stepKa": 1, "stepKb": 1}
    given = arguments((2, 16, 3, 7, 7), (16, 16, 3, 3, 3))
    assert checked(given, library=library, tiling={"grad_weight": fields})["tiling"]["al1Pbuffer"] == 2


def test_values_of_merged_groups_and_strides() -> None:
    checked(arguments((2, 8, 12, 12), (8, 1, 3, 3), stride=2, groups=8))


def test_values_where_a_shared_task_holds_padding_alone() -> None:
    """A group of 20 channels in 32 places: where a task takes a part of them, one can be left without a channel of dW."""
    kernel = checked(arguments((2, 60, 3, 4, 4), (24, 20, 1, 3, 3), groups=3, dtype="float32"))
    assert kernel["tiling"]["streamKType"]


SHARED = {
    "planes of a kernel": (((3, 20, 2, 6, 6), (24, 20, 3, 3, 3)), 1, {}),
    "one tile in L0C": (((5, 32, 6, 6), (48, 32, 3, 3)), 1, {"cl0Pbuffer": 1}),
    "one tile in L0C, planes": (((3, 16, 2, 6, 6), (40, 16, 3, 3, 3)), 1, {"cl0Pbuffer": 1}),
    "several tiles": (
        ((5, 32, 6, 6), (48, 32, 3, 3)), 1, {"baseM": 16, "baseN": 144, "singleCoreM": 48, "singleCoreN": 288},
    ),
    "tiles without all taps": (
        ((5, 16, 6, 6), (32, 16, 3, 3)), 1, {"baseM": 16, "baseN": 64, "singleCoreM": 32, "singleCoreN": 144},
    ),
    "one tap": (((5, 40, 6, 6), (24, 40, 1, 1)), 1, {}),
    "groups in several parts": (((3, 48, 6, 6), (80, 3, 3, 3)), 16, {}),
    "groups without all taps": (((5, 6, 6, 6), (10, 3, 3, 3)), 2, {"baseN": 48}),
    "groups, planes": (((3, 6, 2, 6, 6), (10, 3, 3, 3, 3)), 2, {}),
    "tap by tap": (((3, 16, 6, 20), (16, 16, 3, 3)), 1, {"isSplitKernelHW": 1}),
    "strips": (((3, 16, 5, 20), (16, 16, 3, 3)), 1, {"splitWo": 16}),
}  # fmt: skip


@part_of_cases(4)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", SHARED)
def test_values_of_sums_that_vector_cores_turn(name: str, dtype: str) -> None:
    shapes, groups, fields = SHARED[name]
    kernel = checked(arguments(*shapes, groups=groups, dtype=dtype), tiling={"grad_weight": fields} if fields else {})
    assert kernel["tiling"]["streamKType"] and kernel["tiling"]["coreStreamK"] > 1


MERGED: dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], int, dict[str, int]]] = {
    "one task each": (((2, 96, 6, 6), (96, 1, 3, 3)), 96, {"streamKType": 0}),
    "fewer tasks than blocks": (((3, 6, 6, 6), (10, 3, 3, 3)), 2, {"streamKType": 0}),
    "tasks of its own and shared ones": (((2, 600, 4, 4), (600, 1, 3, 3)), 600, {}),
    "tiles without all taps": (((3, 6, 6, 6), (10, 3, 3, 3)), 2, {"streamKType": 0, "baseN": 48}),
    "planes": (((3, 6, 2, 6, 6), (10, 3, 3, 3, 3)), 2, {"streamKType": 0}),
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", MERGED)
def test_tiles_of_merged_groups_leave_a_core_through_its_slot(name: str, dtype: str) -> None:
    """The columns of a group begin inside a fractal of L0C, from where nothing takes them: vector cores write dW."""
    shapes, groups, fields = MERGED[name]
    given = arguments(*shapes, groups=groups, dtype=dtype)
    tiling = {"grad_weight": fields} if fields else {}
    kernel = checked(given, tiling=tiling)
    assert kernel["tiling"]["streamKType"] == 0 or name == "tasks of its own and shared ones"
    timeline = convolution_backward(*given, chip=CHIP, mode="timing", tiling=tiling).recording.timeline
    names = {one.name for run in timeline.programs for one in run.program.table.instructions}
    assert "fixpipe_dn" not in names and "scatter" in names


@pytest.mark.parametrize(("channels", "runs"), [(8, {1}), (20, {1, 2}), (32, {2})])
def test_a_tap_of_float32_fills_a_fractal_in_two_runs(channels: int, runs: set[int]) -> None:
    """A load for each fractal of columns, of which both halves are channels of one tap; the second may not exist."""
    given = arguments((2, channels, 9, 9), (16, channels, 3, 3), dtype="float32")
    timeline = convolution_backward(*given, chip=CHIP, mode="timing").recording.timeline
    loads = {
        one for run in timeline.programs for one in run.program.table.instructions
        if isinstance(one, LoadData3D) and one.destination == "L0B" and one.k_h == 3
    }  # fmt: skip
    assert {one.k_repeat for one in loads} == runs and {one.k_extent for one in loads} == {8}
    assert {one.k_stride for one in loads} == {9}


@pytest.mark.parametrize("parts", [40, 150])
def test_values_where_ub_holds_part_of_a_piece(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector, "_PARTS_OF_UB", parts)
    for buffers in (1, 2):
        given = arguments((5, 32, 6, 6), (128, 32, 3, 3))
        checked(given, tiling={"grad_weight": {"cl0Pbuffer": buffers, "baseN": 288, "baseM": 64, "singleCoreN": 288}})


@pytest.mark.parametrize(
    ("shapes", "size", "count"),
    [
        (((2, 20, 3, 6, 6), (24, 20, 3, 3, 3)), 4, 24 * 20 * 27),  # taps of three planes lie between each other
        (((5, 20, 6, 6), (24, 20, 3, 3)), 0, 0),  # [channel][tap] of 16 channels, and of 4
        (((5, 40, 6, 6), (24, 40, 1, 1)), 0, 0),
    ],
)
def test_the_last_level_writes_runs_as_long_as_dw_has_them(shapes: Any, size: int, count: int) -> None:
    result = convolution_backward(*arguments(*shapes), chip=CHIP, mode="timing")
    kernel = next(k for k in result.report.kernels if k["name"] == "grad_weight")
    assert kernel["tiling"]["streamKType"] and kernel["tiling"]["usedCoreNum"] > 2
    scattered, written, writers, sizes = 0, 0, set(), set()
    runs = result.recording.timeline.programs
    mixed = {run.task for run in runs if run.program.core_kind == "AIC"}
    for program in [run.program for run in runs if run.task in mixed and run.program.core_kind == "AIV"]:
        for view in program:
            one = view.instruction
            if isinstance(one, Scatter):
                scattered += one.groups * one.rows * one.columns
                writers.add((program.block, program.sub_block))
            elif isinstance(one, DataCopy) and one.destination == "GM" and one.dst_stride:
                sizes.add(one.row_bytes)
                written += one.row_bytes * one.rows * getattr(one, "planes", 1)
    weight = shapes[1]
    assert written == 4 * int(np.prod(weight))
    if size:
        assert sizes == {size} and written == size * count
    else:
        taps = int(np.prod(weight[2:]))
        assert sizes <= {4 * taps * channels for channels in (4, 8, 16, 20, 32, 40)}
    assert scattered * 4 >= written
    first_of_pairs = {block % kernel["tiling"]["coreStreamK"] for block, _ in writers}
    assert first_of_pairs == {0}  # with two tiles in L0C only the first block of the first pair has pieces


@pytest.mark.parametrize("most", [40, 200])
def test_long_sums_are_added_in_pieces(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows of a plane, or some planes, at a time: the tile leaves L0C more often, with the same sum."""
    given = arguments((4, 16, 9, 9), (16, 16, 3, 3))
    fields = {"grad_weight": {"streamKType": 0}}
    whole = checked(given, tiling=fields)["counts"]["tiles"]
    monkeypatch.setattr(cube, "LONGEST_SUM", most)
    pieces = {40: 4 * 2, 200: 2}[most]  # 5 and 4 of 9 rows of 9 pixels; 3 and 1 of 4 planes
    assert checked(given, tiling=fields)["counts"]["tiles"] == whole * pieces


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(SimError, match=r"library = '8.5.0'; allowed: 9.0.0, 2026-08"):
        convolution_backward(*arguments((1, 16, 9, 9), (16, 16, 3, 3)), chip=CHIP, mode="timing", library="8.5.0")


def test_loading_ahead_hides_time() -> None:
    """Many chunks of a plane: the newer version multiplies while it loads; the report names a version that was asked for."""
    given = arguments((2, 64, 64, 64), (128, 64, 3, 3))
    fields = {"grad_weight": {"streamKType": 0}}
    results = [convolution_backward(*given, chip=CHIP, mode="timing", library=version, tiling=fields) for version in VERSIONS]
    reports = [result.report.to_dict(statements=False) for result in results]
    assert [report["problem"]["library"] for report in reports] == list(VERSIONS)
    old, new = (next(k for k in r["kernels"] if k["name"] == "grad_weight") for r in reports)
    assert (old["library"], new["library"]) == VERSIONS
    assert new["task_us"] < old["task_us"]
    for kernel in (old, new):  # neither beats what its pipes and memory allow
        assert kernel["core_cycles_max"] >= max(kernel["roofline"]["cycles"].values()) > 1000


def test_the_newest_version_is_the_default_and_is_named() -> None:
    given = arguments((1, 16, 9, 9), (16, 16, 3, 3))
    (kernel,) = convolution_backward(*given, chip=CHIP, mode="timing").report.kernels[:1]
    assert kernel["library"] == VERSIONS[-1]


@part_of_cases(2)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_cost_that_stands_for_what_is_not_built_is_named(version: str, tmp_path: Path) -> None:
    given = arguments((1, 16, 9, 9), (16, 16, 3, 3))
    result = convolution_backward(*given, chip=CHIP, mode="timing", library=version)
    head = libraries()[version]["Conv3DBackpropFilterV2"]["head_us"]
    (kernel,) = [one for one in result.report.kernels if "surrogates" in one]
    assert kernel["op_type"] == "Conv3DBackpropFilterV2" and list(kernel["surrogates"]) == ["head_us"]
    said = kernel["surrogates"]["head_us"]
    assert said.startswith(f"{head['value']} us for {head['surrogate']}") and said.endswith(("(fitted)", "(assumed)"))
    result.write_html(tmp_path / "page.html", what_if=False)
    assert f"Stands for what is not built: head_us, {said}." in (tmp_path / "page.html").read_text(encoding="utf-8")


def programs(library: str, output_mask: list[bool], fields: dict[str, int] | None = None) -> list[Any]:
    """The programs of a call's kernels, cube."""
    given = [*arguments((2, 64, 64, 64), (128, 64, 3, 3))[:-1], output_mask]
    tiling = {"grad_weight": fields} if fields else {}
    timeline = convolution_backward(*given, chip=CHIP, mode="timing", library=library, tiling=tiling).recording.timeline
    return [run.program for run in timeline.programs if run.program.core_kind == "AIC"]


@pytest.mark.parametrize("library", VERSIONS)
def test_only_dw_turns_at_the_rate_of_its_kernel(library: str) -> None:
    rate = libraries()[library]["Conv3DBackpropFilterV2"]["turn_bytes_per_cycle"]["value"]
    for mask, most in (([False, True, False], rate), ([True, False, False], 0)):
        turns = [one for p in programs(library, mask) for one in p.table.instructions if isinstance(one, DataCopyDn2Nz)]
        assert {one.most_bytes_per_cycle for one in turns} == {most}


@pytest.mark.parametrize("library", VERSIONS)
def test_the_older_version_works_out_the_addresses_of_each_plane(library: str) -> None:
    """Each of four images of a tile costs the scalar unit that; in the newer version none does (assumed)."""
    given = arguments((4, 16, 9, 9), (16, 16, 3, 3))
    fields = {"grad_weight": {"streamKType": 0}}
    timeline = convolution_backward(*given, chip=CHIP, mode="timing", library=library, tiling=fields).recording.timeline
    (program,) = (run.program for run in timeline.programs if run.program.core_kind == "AIC" and run.program.block == 0)
    busy = [view.instruction.cycles for view in program if isinstance(view.instruction, Scalar)]
    kernel = libraries()[library]["Conv3DBackpropFilterV2"]
    tiles = len({view.tile for view in program if isinstance(view.instruction, LoadData3D)})
    assert len(busy) == 1 + 4 * tiles * bool(kernel["plane_cycles"]["value"])
    assert set(busy[1:]) == ({kernel["plane_cycles"]["value"]} if library == "9.0.0" else set())


def test_the_older_version_loads_a_chunk_behind_the_loads_to_l0() -> None:
    """Between a load to L0 and the next turn to L1 the scalar unit waits for MTE1; in the newer version it never does."""
    for library in VERSIONS:
        for program in programs(library, ONLY_DW):
            unfinished, turned_over = False, 0
            for view in program:
                if isinstance(view.instruction, LoadData3D):
                    unfinished = True
                elif isinstance(view.instruction, ScalarWait) and view.instruction.on == "MTE1":
                    unfinished = False
                elif isinstance(view.instruction, DataCopyDn2Nz):
                    turned_over += unfinished
            assert (turned_over == 0) == (library == "9.0.0")


def test_the_newer_version_keeps_pairs_of_buffers_in_halves_of_l1() -> None:
    """A half of L1 is a bank: there a chunk that is loaded ahead lies in the other bank than the one before, which is read. The
    older version has one buffer after the other; it loads nothing while the loads to L0 before are on their way.
    """
    half = 512 * 1024 // 2
    for library in VERSIONS:
        program = programs(library, ONLY_DW, {"streamKType": 0, "baseM": 128, "baseN": 144})[0]
        places = {
            name: [
                view.dst for view in program if isinstance(view.instruction, DataCopyDn2Nz) and view.instruction.operand == name
            ]
            for name in ("A", "B")
        }
        for name, found in places.items():
            assert found[0] < half or library == "9.0.0"
            assert len(set(found)) == 2, name
            ahead = [place >= half for place in found[:4]]
            assert (ahead == [False, True, False, True]) == (library != "9.0.0")
        assert set(places["A"]).isdisjoint(places["B"])
