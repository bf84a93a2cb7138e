"""Manual fields: what is re-derived, and what is refused with which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import fits_l0
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.ops.tiling_problems import BUFFERS, RESNET, conv2d, on_910b

pytestmark = pytest.mark.fast

INP = on_910b(RESNET)


def test_sources() -> None:
    assert GradInputQuestion(INP).tiling().source == "vendor procedure"
    assert GradInputQuestion(INP, op_type="Conv2DBackpropInput").tiling().source == "stand-in"
    assert GradInputQuestion(INP, {}).tiling().source == "vendor procedure"
    assert GradInputQuestion(INP, {"baseM": 256}).tiling().source == "manual"
    assert GradInputQuestion(on_910b(RESNET, itemsize=4)).tiling().source == "stand-in"
    assert GradWeightQuestion(INP).tiling().source == "stand-in"
    assert GradWeightQuestion(on_910b(RESNET, deterministic=True)).tiling().source == "vendor procedure"


def test_own_values_given_back_change_nothing_but_the_source() -> None:
    auto = GradInputQuestion(INP).tiling()
    again = GradInputQuestion(
        INP, {"baseM": 336, "baseK": 48, "baseN": 64, "stepKa": 12, "stepKb": 12, "bl1Pbuffer": 1}
    ).tiling()
    assert again == auto.but(source="manual")


def test_smaller_base_m_changes_the_share_of_a_core() -> None:
    tiling = GradInputQuestion(INP, {"baseM": 112}).tiling()
    assert (tiling.base_m, tiling.single_core_m, tiling.weights_resident) == (112, 112, True)


def test_base_k_is_lowered_for_a_given_wide_block() -> None:
    tiling = GradInputQuestion(on_910b(conv2d(2, 256, 256, 28, 1)), {"baseM": 128, "baseN": 256, "al0Pbuffer": 2}).tiling()
    assert tiling.base_k == 64
    bigger = GradInputQuestion(on_910b(conv2d(2, 256, 256, 28, 1)), {"baseM": 512}).tiling()
    assert bigger.base_m == 512
    assert bigger.base_k == 32
    assert bigger.base_n == 64
    assert fits_l0(bigger, on_910b(conv2d(2, 256, 256, 28, 1)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baseM": 336, "baseK": 144}, r"L0A: baseM\*baseK\*2\*al0Pbuffer = 336\*144\*2\*2 = 193536 > 65536 bytes"),
        ({"baseM": 1024, "baseN": 64}, r"L0C: baseM\*baseN\*4\*cl0Pbuffer = 1024\*64\*4\*1 = 262144 > 131072 bytes"),
        ({"baseM": 100}, r"baseM = 100 is not a multiple of 16"),
        ({"baseK": 80, "baseM": 16}, r"baseK = 80 neither divides nor is a multiple of kh\*kw\*16 = 144"),
        ({"stepKa": 5}, r"stepKa\*baseK = 5\*48 = 240 is not a multiple of kh\*kw\*16 = 3\*3\*16 = 144"),
        ({"stepKa": 9, "stepKb": 12}, r"stepKa = 9 and stepKb = 12: one must be a multiple"),
        ({"al1Pbuffer": 3}, r"al1Pbuffer = 3; allowed 1"),
        ({"singleCoreM": 100}, r"singleCoreM = 100 is not a multiple of W_in = 56"),
        ({"stepM": 2}, r"stepM = 2"),
        ({"baseM": "x"}, r"baseM = 'x'; allowed: a whole number, 1 or more"),
        ({"base_m": 16}, r"unknown tiling field base_m; did you mean baseM\?; allowed: baseM, baseK"),
        ({"basM": 16}, r"unknown tiling field basM; did you mean baseM, baseN\?; allowed: baseM, baseK"),
        ({"weightsResident": 1}, r"unknown tiling field weightsResident"),
        ({"blockDim": 0}, r"blockDim = 0; allowed: a whole number, 1 or more"),
        ({"stepKb": 0}, r"stepKb = 0; allowed: a whole number, 1 or more"),
    ],
)
def test_refused_grad_input(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TilingError, match=message):
        GradInputQuestion(INP, fields).tiling()


def test_l1_message_names_both_operands() -> None:
    with pytest.raises(
        TilingError, match=r"L1: A1 8 rows \* Wo\*sw 56 \* 64 channels \* 2 \* al1Pbuffer 2 = 114688; B1 .* > 100000"
    ):
        GradInputQuestion(
            replace(on_910b(RESNET), buffers=BUFFERS | {"L1": 100000}),
            {"baseM": 336, "baseK": 48, "baseN": 64, "stepKa": 12, "stepKb": 12, "al1Pbuffer": 2, "bl1Pbuffer": 1},
        ).tiling()


def test_what_load3d_cannot_express_is_refused() -> None:
    wide_stride = ConvProblem(1, 16, 16, 1, 1, 65, 1, 1, 2, 1, 1, 1, 1, 1, 64)
    with pytest.raises(TilingError, match=r"load3d: stride w = 64 > 63"):
        GradWeightQuestion(on_910b(wide_stride)).tiling()
    GradInputQuestion(on_910b(wide_stride)).tiling()  # the loads to L1 put zeros between the pixels
    reach = ConvProblem(1, 16, 16, 1, 1, 300, 1, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 298)
    with pytest.raises(TilingError, match=r"load3d: dilation w = 298 > 255"):
        GradInputQuestion(on_910b(reach)).tiling()


@pytest.mark.parametrize(
    ("field", "size", "message"),
    [
        ("kernel", 2, "load3d: kernel h = 3 > 2"),
        ("dilation", 0, "load3d: dilation h = 1 > 0"),
        ("pad", 0, "load3d: .*pad up.* = 1 > 0"),
        ("stride", 0, "load3d: stride h = 1 > 0"),
        ("k_extent", 64, "load3d: .* > 64, the limit of its k extent"),
    ],
)
def test_the_limits_of_load3d_are_the_chips(field: str, size: int, message: str) -> None:
    """Each field of the chip file decides; the same problem passes with the file as it is."""
    for ask in (GradInputQuestion, GradWeightQuestion):
        ask(INP).tiling()
        if ask is GradInputQuestion and field == "stride":
            continue  # its load3d always moves by one pixel
        less = replace(INP, load3d=INP.load3d.model_copy(update={field: size}))
        with pytest.raises(TilingError, match=message):
            ask(less, {"baseK": 144, "stepKa": 1, "stepKb": 1} if field == "k_extent" else {}).tiling()
