"""The 950's weight gradient as the vendor's kernel is built: values against torch, and what its structure shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim import Result, convolution_backward
from ascend_sim.errors import SimError
from ascend_sim.isa.direct import DataCopyDn2Nz
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.sync import Scalar, ScalarWait
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.ops.kernels.grad_weight.arch35 import cube

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
    report = result.report.to_dict()
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
    fields = {
        "grad_weight": {"streamKType": 0}
    }  # without shared tiles, whose cost was fitted apart in the two versions
    results = [
        convolution_backward(*given, chip=CHIP, mode="timing", library=version, tiling=fields) for version in VERSIONS
    ]
    reports = [result.report.to_dict() for result in results]
    assert [report["problem"]["library"] for report in reports] == list(VERSIONS)
    old, new = (next(k for k in r["kernels"] if k["name"] == "grad_weight") for r in reports)
    assert (old["library"], new["library"]) == VERSIONS
    assert new["task_us"] < old["task_us"]
    for kernel in (old, new):  # neither beats what its pipes and memory allow
        assert kernel["core_cycles_max"] >= max(kernel["roofline"]["cycles"].values()) > 1000


def test_the_newest_version_is_the_default_and_is_named() -> None:
    given = arguments((1, 16, 9, 9), (16, 16, 3, 3))
    (kernel,) = convolution_backward(*given, chip=CHIP, mode="timing").report.to_dict()["kernels"][:1]
    assert kernel["library"] == VERSIONS[-1]


def programs(library: str, output_mask: list[bool]) -> list[Any]:
    """The programs of a call's kernels, block 0, cube."""
    given = [*arguments((2, 64, 64, 64), (128, 64, 3, 3))[:-1], output_mask]
    timeline = convolution_backward(*given, chip=CHIP, mode="timing", library=library).recording.timeline
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
