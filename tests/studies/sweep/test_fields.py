"""Fields that a sweep can vary."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.studies.sweep.fields import Draft, field_of

CHIP = load_chip("ascend910b3")


def made(case: str, **values: Any) -> tuple[Any, Any]:
    """The case and chip with these fields set."""
    loaded = load_case(case)
    draft = Draft.of(loaded)
    for name, value in values.items():
        field_of(name.replace("__", "."), loaded, CHIP).put(draft, value)
    return draft.made()


@pytest.mark.fast
def test_fields_of_a_case() -> None:
    case, _ = made("strided", stride=3, cube_math_type=1, data__seed=7, bias=False, input__requires_grad=False)
    attributes = case.attributes
    assert attributes["stride"] == (3, 3) and case.cube_math_type == 1 and case.data.seed == 7 and case.bias is None
    assert attributes["output_mask"] == (False, True, False)
    assert case.tensors["grad_output"][0] == (2, 48, 10, 10)
    assert made("by_hand", dtype="float32")[0].tensors["weight"][1] == "float32"
    assert made("by_hand", block_dim__grad_input=3)[0].block_dim == {"grad_input": 3}
    assert made("by_hand", padding=[0, 0])[0].tensors["grad_output"][0] == (1, 2, 2, 2)


def test_an_operator_that_is_no_layer_has_no_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    case = load_case("strided")
    monkeypatch.setattr(type(OPERATORS[case.operator]), "layer_direction", None)
    with pytest.raises(ConfigError, match=r"no such field of a convolution_backward case; .*are those of a case file, tiling"):
        field_of("batch", case, CHIP)


@pytest.mark.fast
def test_sizes_of_a_layer() -> None:
    case, _ = made("grouped", batch=3, in_channels=32, out_channels=64, size=9, kernel_size=5, groups=4)
    assert case.input.shape == (3, 32, 9, 9) and case.weight.shape == (64, 8, 5, 5) and case.groups == 4
    case, _ = made("strided", layer__height=20, layer__width=30)
    assert case.input.shape == (2, 32, 20, 30)
    case, _ = made("transposed_2d", in_channels=48, out_channels=16)
    assert case.input.shape[1] == 48 and case.weight.shape[:2] == (48, 16) and case.tensors["grad_output"][0][1] == 16
    case, _ = made("document_example_tbc", batch=5, length=9, in_channels=3, out_channels=7, kernel_size=2)
    assert case.input.shape == (9, 5, 3) and case.weight.shape == (2, 3, 7) and case.tensors["self"][0][2] == 7


@pytest.mark.fast
def test_a_bare_tiling_field_is_every_kernels() -> None:
    assert made("by_hand", baseM=64)[0].tiling == {"grad_input": {"baseM": 64}, "grad_weight": {"baseM": 64}}
    assert made("by_hand", enableFullLoad=1)[0].tiling == {"grad_input": {"enableFullLoad": 1}}
    assert made("by_hand", tiling__grad_weight__baseN=32)[0].tiling == {"grad_weight": {"baseN": 32}}


@pytest.mark.fast
def test_a_varied_chip_warns_with_its_note() -> None:
    with pytest.warns(UserWarning, match="^ascend910b is the first Ascend 910"):
        made("by_hand", chip="Ascend910B")


@pytest.mark.fast
def test_numbers_of_a_chip() -> None:
    """Every number of a chip that can be read can be set, and nothing else changes."""
    _, chip = made("by_hand", chip__memory__hbm_gb_per_s=400)
    assert chip.memory.hbm_gb_per_s == 400
    before, after = CHIP.numbers(), chip.numbers()
    assert {name for name in before if before[name] != after[name]} == {"memory.hbm_gb_per_s"}
    assert before.keys() == after.keys() and chip.sources == CHIP.sources
    assert CHIP.with_numbers({"paths.GM->L1.bytes_per_cycle": 10.0}).paths["GM->L1"].bytes_per_cycle == 10.0
    with pytest.raises(ConfigError, match=r"cores\.aiv: 40 is not aic x aiv_per_aic = 10 x 2"):
        CHIP.with_numbers({"cores.aic": 10})
    with pytest.raises(ConfigError, match=r"memory\.hbm_gb_per_s: input should be greater than 0, got -1"):
        CHIP.with_numbers({"memory.hbm_gb_per_s": -1})
    with pytest.raises(ConfigError, match=r"^chip\.buffers\.L1: '512KB' given; .* KiB, MiB or GiB"):
        made("by_hand", chip__buffers__L1="512KB")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chip.memory.hbm_gbps", "did you mean chip.memory.hbm_gb_per_s"),
        ("hbm_gb_per_s", "did you mean chip.memory.hbm_gb_per_s"),
        ("bacth", "did you mean batch?"),
        ("grad_input.baseQ", "did you mean grad_input.base"),
        ("layer.in_chanels", "did you mean layer.in_channels"),
        ("weight.dtpye", "did you mean weight.dtype"),
        ("tiling", "no such field of a convolution_backward case"),
        ("operator", "no such field of a convolution_backward case"),
    ],
)
def test_a_field_that_is_none(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        field_of(name, load_case("by_hand"), CHIP)
    assert str(caught.value).startswith(f"--vary {name}: ") and said in str(caught.value)
    assert "\n" not in str(caught.value)
