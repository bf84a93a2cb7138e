"""Our procedures against the vendor's unit-test tilings for the 910B, and the worked ResNet example by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from places import DATA
from tiling_problems import LOAD3D, RESNET, on_910b

from ascend_sim.chip import load_chip
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape, problem_of, tuned_fields, tuned_rows
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_HW, SPLIT_NONE
from ascend_sim.ops.kernels.grad_input.procedures.arch35.divided import (
    DividedProblem,
    divided,
    leaves_through_workspace,
    library_split,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import covers_grad_input, task_count, vendor_grad_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import decided, turns_weights, vendor_grad_input_3510
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.blocks import decided as decided_filter
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import covers_grad_weight, vendor_grad_weight
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import vendor_grad_weight_3510
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import with_groups_merged as filters_merged
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import CHANNELS_LAST, PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.yaml_file import load_shipped

pytestmark = pytest.mark.fast

TABLE = json.loads((DATA / "ut_tilings_arch22.json").read_text())
LOAD3D_950 = load_chip("ascend950pr_9589").load3d.limits
COVERS = {"grad_input": covers_grad_input, "grad_weight": covers_grad_weight}
VENDOR = {"grad_input": vendor_grad_input, "grad_weight": vendor_grad_weight}


def given(row: dict[str, Any]) -> TilingInput:
    return TilingInput(
        ConvProblem(**row["problem"]),
        row["itemsize"],
        row["cores"],
        TABLE["buffers"],
        TABLE["l2_bytes"],
        row["deterministic"],
        load3d=LOAD3D,
    )


def rows(**wanted: Any) -> list[Any]:
    chosen = [r for r in TABLE["rows"] if all(r[k] == v for k, v in wanted.items())]
    return [pytest.param(r, id=f"{r['kernel']}-{r['name']}") for r in chosen]


@pytest.mark.parametrize("row", rows(open_procedure=True, fits=True))
def test_every_decision_of_the_open_procedures(row: dict[str, Any]) -> None:
    tiling = VENDOR[row["kernel"]](given(row))
    got = tiling.to_vendor() | {"key": tiling.tiling_key, "block_dim": tiling.block_dim}
    expected = row["fields"] | {"key": row["key"], "block_dim": row["block_dim"]}
    assert {name: got[name] for name in expected} == expected
    assert tiling.source == "vendor procedure"


@pytest.mark.parametrize("row", rows(open_procedure=False))
def test_closed_rows_are_not_claimed(row: dict[str, Any]) -> None:
    assert not COVERS[row["kernel"]](given(row))
    with pytest.raises(TilingError, match="open procedure needs"):
        VENDOR[row["kernel"]](given(row))


@pytest.mark.parametrize("row", rows(open_procedure=True, fits=False))
def test_what_the_vendor_refuses_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(TilingError, match=r"L1: .* > 524288 bytes"):
        VENDOR[row["kernel"]](given(row))


def test_the_table_reaches_every_template() -> None:
    keys = [r["key"] for r in TABLE["rows"] if r["open_procedure"]]
    assert len(keys) == 22
    assert {1, 3, 4, 512, 513, 514} <= set(keys)


def test_resnet_grad_input() -> None:
    inp = on_910b(RESNET)
    tiling = vendor_grad_input(inp)
    assert (tiling.base_m, tiling.base_k, tiling.base_n) == (336, 48, 64)
    assert (tiling.step_ka, tiling.step_kb, tiling.al1_buffers, tiling.bl1_buffers) == (12, 12, 2, 1)
    assert (tiling.single_core_m, tiling.single_core_cin, tiling.tiling_key, tiling.block_dim) == (336, 64, 512, 20)
    assert tiling.weights_resident
    assert grad_input_l1(tiling, inp) == (2 * 57344, 73728)  # 8 rows * 56 * 64 channels; 64 * 576 weights; 2 bytes
    assert task_count(tiling, inp) == 320


def test_resnet_deterministic_grad_weight() -> None:
    tiling = vendor_grad_weight(on_910b(RESNET, deterministic=True))
    assert (tiling.template, tiling.base_m, tiling.base_k, tiling.base_n) == (4, 64, 64, 144)
    assert (tiling.step_ka, tiling.step_kb, tiling.cl0_buffers) == (8, 8, 2)
    assert (tiling.stream_k_type, tiling.core_stream_k, tiling.block_dim) == (2, 5, 20)
    assert (tiling.single_core_n, tiling.single_core_k) == (144, 3136)


def test_resnet_grad_weight_is_left_to_the_closed_library() -> None:
    assert not covers_grad_weight(on_910b(RESNET))  # 64 rows of dW do not fill a base block


@pytest.mark.parametrize(
    ("images", "kind", "parts"),
    [
        (32, 2, 5),  # 5 parts of 7 images, the last of 4 (0.57 full), or of 12 rows, the last of 8 (0.67 full)
        (20, 1, 5),  # 5 full parts of images beat the same number of parts of rows
        (3, 2, 5),  # at most 3 parts of images
    ],
)
def test_stream_k_by_images_or_rows(images: int, kind: int, parts: int) -> None:
    tiling = vendor_grad_weight(on_910b(replace(RESNET, n=images), deterministic=True))
    assert (tiling.stream_k_type, tiling.core_stream_k, tiling.block_dim) == (kind, parts, 20)


TABLE_3510 = json.loads((DATA / "ut_tilings_arch35.json").read_text())


CHIP_3510 = load_chip("ascend950pr_9589")
WINOGRAD = "conv3d_bp_filter_wino_fp32_3x3"
OTHERWISE = {  # what our kernel does in its own way, or not at all
    "aclnnConvolutionBackward_3DDW_SplitW_001": "stand-in",
    "aclnnConvolutionBackward_3DDW_SplitW0": "load3d: stride h",
    "aclnnConvolutionBackward_3DDW_StrideHMax": "load3d: stride h",
    "aclnnConvolutionBackward_3DDW_StrideWMax": "load3d: stride w",
    "aclnnConvolutionBackward_3DDW_StrideWMax_NDHWC": "load3d: stride w",
    "aclnnConvolutionBackward_3DDW_ShrinkBaseBlock": "taps of this kernel one by one",
}


def filter_problem_on_950(row: dict[str, Any]) -> TilingInput:
    """As the library merges its groups."""
    buffers = {**TABLE_3510["buffers"], "UB": CHIP_3510.buffers["UB"]}
    problem, l2 = ConvProblem(**row["problem"]), TABLE_3510["l2_bytes"]
    return filters_merged(
        TilingInput(problem, row["itemsize"], row["cores"], buffers, l2, True, PLANAR, load3d=LOAD3D_950)
    )


@pytest.mark.parametrize(
    "row", [row for row in TABLE_3510["rows"] if row["name"] != WINOGRAD], ids=lambda row: row["name"]
)
def test_grad_weight_of_dav_3510(row: dict[str, Any]) -> None:
    """The decision has the fields of every row; what our kernel does otherwise says so."""
    inp = filter_problem_on_950(row)
    tiling = decided_filter(inp)
    got = tiling.to_vendor()
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    otherwise = OTHERWISE.get(row["name"])
    if otherwise in (None, "stand-in"):
        own = vendor_grad_weight_3510(inp)
        assert own.source == (otherwise or "vendor procedure")
        assert otherwise or own == tiling
    else:
        with pytest.raises(TilingError, match=otherwise):
            vendor_grad_weight_3510(inp)


def test_winograd_is_not_written() -> None:
    row = next(row for row in TABLE_3510["rows"] if row["name"] == WINOGRAD)
    with pytest.raises(TilingError, match="Winograd"):
        vendor_grad_weight_3510(filter_problem_on_950(row))


def test_groups_of_dav_3510_that_are_merged_otherwise_are_a_stand_in() -> None:
    row = next(row for row in TABLE_3510["rows"] if row["name"] == "conv_stdit_01_depthwise")
    inp = filter_problem_on_950(row)
    assert inp.group_extension == 16
    assert vendor_grad_weight_3510(replace(inp, merged=False)).source == "stand-in"


EXACT = load_shipped((resources.files("ascend_sim.configs") / "exact_shapes_910b.yaml").read_text())["rows"]


@pytest.mark.parametrize("row", EXACT, ids=range(len(EXACT)))
def test_what_the_library_has_a_tiling_of_its_own_for_is_a_stand_in(row: dict[str, Any]) -> None:
    """And only that: not with an image more, nor on another chip."""
    unit = BLOCK_BYTES // row["itemsize"]
    c_in, c_out = (unit * blocks for blocks in row["blocks"])
    shape = (
        row["images"],
        c_in,
        c_out,
        *row["input"],
        *row["output"],
        *row["window"],
        *row["stride"],
        *row["dilation"],
    )
    problem, name = ConvProblem(*shape, *row["padding"]), row["soc"].lower()
    ask = {"grad_input": GradInputQuestion, "grad_weight": GradWeightQuestion}[row["kernel"]]
    more, other = replace(problem, n=problem.n + 1), {"ascend910b2": "ascend910b3", "ascend910b3": "ascend910b2"}[name]
    for chip, one, wanted in ((name, problem, True), (name, more, False)):
        spec = load_chip(chip)
        inp = replace(on_910b(one, row["itemsize"], spec.cores.aic), cores=spec.cores.aic)
        assert has_exact_shape(row["kernel"], inp, spec) == wanted
        source = ask(inp, chip=spec).tiling().source
        assert source == "stand-in" if wanted else source in ("stand-in", "vendor procedure")
    assert not has_exact_shape(row["kernel"], inp, None)
    assert has_exact_shape(row["kernel"], replace(inp, problem=problem), load_chip(other)) == any(
        one != row and {**one, "soc": row["soc"]} == row for one in EXACT
    )


ARCH35 = json.loads((DATA / "ut_tilings_arch35_grad_input.json").read_text())


@pytest.mark.parametrize(
    "row", [r for r in ARCH35["rows"] if not r["fields"]["kernelSplitMode"]], ids=lambda row: row["name"]
)
def test_the_procedure_for_grad_input_of_dav_3510(row: dict[str, Any]) -> None:
    """Every row without a split of the kernel, whatever our kernel makes of it."""
    got = fields_of(decided(DataProblem.of(on_950(row))))
    expected = {name: value for name, value in row["fields"].items() if name != "coreNum"}
    assert {name: got[name] for name in expected} == expected


def test_when_the_library_turns_weights_first() -> None:
    """In these rows and in no others without a split, whether fp32 is computed as HF32 or not; ours then is a stand-in."""
    rows = [r for r in ARCH35["rows"] if not r["fields"]["kernelSplitMode"]]
    chip = load_chip("ascend950pr_9589")
    for row in rows:
        p, wanted = DataProblem.of(on_950(row)), bool(row["enableVecTrans"])
        assert {turns_weights(p, decided(p), hf32=hf32) for hf32 in (False, True)} == {wanted}, row["name"]
        if wanted:
            assert GradInputQuestion(on_950(row), chip=chip).tiling().source == "stand-in"
    assert (len(rows), sum(row["enableVecTrans"] for row in rows)) == (31, 4)


@pytest.mark.parametrize(
    ("itemsize", "kernel", "hf32", "long"),
    [(4, 3, False, 256), (4, 3, True, 512), (2, 3, False, 384), (2, 5, False, 512)],
)
def test_long_blocks_leave_weights_as_they_are(itemsize: int, kernel: int, hf32: bool, long: int) -> None:
    """From so many pixels a block, where weights are loaded for each plane; many tasks share them."""
    row = next(r for r in ARCH35["rows"] if r["name"] == "conv3d_dx_4")
    inp = replace(on_950(row), itemsize=itemsize)
    p = DataProblem.of(replace(inp, problem=replace(inp.problem, k_h=kernel, k_w=kernel)))
    turned = [turns_weights(p, decided(p).but(base_m=m), hf32=hf32) for m in (long - 16, long)]
    assert turned == [True, False]


@pytest.mark.parametrize("row", [r for r in ARCH35["rows"] if not r["reason"]], ids=lambda row: row["name"])
def test_grad_input_of_dav_3510(row: dict[str, Any]) -> None:
    tiling = vendor_grad_input_3510(on_950(row))
    got = fields_of(tiling)
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    segments = row["itemsize"] == 2 and row["name"].startswith("conv3d_dx_split_k")  # our kernel sums them in L0C
    assert tiling.source == ("stand-in" if segments else "vendor procedure")


@pytest.mark.parametrize("row", ARCH35["rows"], ids=lambda row: row["name"])
def test_which_kernels_the_library_splits_and_how(row: dict[str, Any]) -> None:
    """Every row, whatever our kernel makes of it; with maps in another layout the weights may still be NCDHW."""
    other = row["reason"].startswith("weights, gradOutput or dx are not NCDHW")
    inp = replace(on_950(row), layout=CHANNELS_LAST) if other else on_950(row)
    mode, held = library_split(inp)
    assert mode == row["fields"]["kernelSplitMode"]
    if mode:
        got = fields_of(divided(DividedProblem.split(inp, mode), held))
        blocks = {"coreNum"} if other and row["enableVecTrans"] else set()  # as many as turn NCDHW weights
        expected = {name: value for name, value in row["fields"].items() if name not in blocks}
        assert {name: got[name] for name in expected} == expected


def test_grad_input_rows_that_are_left_open() -> None:
    """What our kernel does otherwise does not claim to be the vendor's."""
    reasons = [row["reason"] for row in ARCH35["rows"] if row["reason"]]
    assert (len(ARCH35["rows"]), len(reasons)) == (36, 12)
    for row in ARCH35["rows"]:
        if row["reason"].startswith(("C04", "fully loaded kernel split")):
            assert vendor_grad_input_3510(on_950(row)).source == "stand-in"
        elif row["reason"].startswith("the kernel is cut"):
            with pytest.raises(TilingError, match="baseM = 256 covers 256 rows > 255"):
                vendor_grad_input_3510(on_950(row))
            cut = GradInputQuestion(on_950(row), chip=load_chip("ascend950pr_9589")).tiling()
            assert (cut.load_b1, cut.source) == (
                2,
                "stand-in",
            )  # as the vendor's tiling key says; its block is not ours


SEPARATE = json.loads((DATA / "dx_tilings_arch35.json").read_text())


@pytest.mark.parametrize("row", SEPARATE["rows"], ids=range(len(SEPARATE["rows"])))
def test_a_separate_program_decides_the_same(row: dict[str, Any]) -> None:
    p = DataProblem.of(on_950(row))
    got = fields_of(decided(p)) | {"loadB1Condition": p.cut}
    assert {name: got[name] for name in row["fields"]} == row["fields"]


SPLIT = json.loads((DATA / "dx_split_tilings_arch35.json").read_text())


@pytest.mark.parametrize("row", SPLIT["rows"], ids=range(len(SPLIT["rows"])))
def test_a_separate_program_splits_the_same(row: dict[str, Any]) -> None:
    inp = replace(on_950(row), buffers=ARCH35["buffers"] | {"UB": 253952})
    mode, held = library_split(inp)
    assert (mode, held) == (row["fields"]["kernelSplitMode"], row["held"])
    if not mode:
        return
    p = DividedProblem.split(inp, mode)
    tiling = divided(p, held)
    got = fields_of(tiling)
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    assert (mode == SPLIT_HW and leaves_through_workspace(tiling, p)) == row["workspace"]
    own = vendor_grad_input_3510(inp)
    vendors = p.turned and not held and (mode == SPLIT_H or row["workspace"])
    assert (own.kernel_split, own.source) == (mode, "vendor procedure" if vendors else "stand-in")


def test_what_is_not_the_vendors_own_says_so() -> None:
    """Groups that the library merges, taken one by one; a split kernel that is taken whole."""
    depthwise = next(row for row in ARCH35["rows"] if "depthwise_group_bf16" in row["name"])
    assert vendor_grad_input_3510(on_950(depthwise)).source == "vendor procedure"
    assert vendor_grad_input_3510(replace(on_950(depthwise), merged=False)).source == "stand-in"
    split = next(row for row in ARCH35["rows"] if row["fields"]["kernelSplitMode"] == 2)
    assert vendor_grad_input_3510(on_950(split), SPLIT_NONE).source == "stand-in"


def fields_of(tiling: GradInputTiling) -> dict[str, Any]:
    """Every field under the vendor's name."""
    return tiling.to_vendor() | {tiling.VENDOR[name]: getattr(tiling, name) for name in tiling.DIRECT_ONLY}


def on_950(row: dict[str, Any]) -> TilingInput:
    """The problem on the kernel that reads NCDHW, or NDHWC where a row's name says so; the vendor's merges groups."""
    problem = ConvProblem(**row["problem"])
    return TilingInput(
        problem,
        row["itemsize"],
        row["cores"],
        ARCH35["buffers"],
        ARCH35["l2_bytes"],
        layout=CHANNELS_LAST if "NDHWC" in row.get("name", "") else PLANAR,
        family=PLAIN_SPLIT,
        load3d=LOAD3D_950,
    )


@pytest.mark.parametrize("row", tuned_rows(), ids=lambda row: f"{row['kernel']}-{row['input']}")
def test_the_tuned_table_comes_first(row: dict[str, Any]) -> None:
    chip = load_chip("ascend950pr_9589")
    wide = 4 if row["dtype"] == "hf32" else 2
    buffers = {str(name): size for name, size in chip.buffers.items()}
    inp = TilingInput(
        problem_of(row),
        wide,
        row["cores"],
        buffers,
        chip.memory.l2_bytes,
        True,
        PLANAR,
        family=PLAIN_SPLIT,
        load3d=LOAD3D_950,
    )
    ask = GradInputQuestion if row["kernel"] == "grad_input" else GradWeightQuestion
    tiling = ask(inp, chip=chip, dtype=row["dtype"]).tiling()
    if row["tuned"].get("enableSplitK") or "weight_format" in row:  # not expressed, or for weights in another format
        assert tiling.source != "vendor table"
        return
    got = tiling.to_vendor() | {"kSegment": 0, "kernelSplitMode": 0} | tiling.to_vendor()
    assert {name: got[name] for name in tuned_fields(row)} == tuned_fields(row)
    # Where the library turns the weights first, our kernel, unless it is split, does something else with the tiling.
    turned = row["kernel"] == "grad_input" and row["input"][2:] == [6, 6, 6]
    assert tiling.source == ("stand-in" if turned else "vendor table")
    for other in (
        ask(inp, chip=load_chip("ascend950dt_9581"), dtype=row["dtype"]).tiling(),
        ask(inp, chip=chip, dtype="float32").tiling(),
    ):
        assert other.source != "vendor table"
