"""PyTorch with the chip's numbers: gradients of every layer, losses of a training, what the precision table says of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from ascend_sim import convolution_backward  # noqa: E402
from ascend_sim.cli import app  # noqa: E402
from ascend_sim.torch import simulate  # noqa: E402
from tests.support.torch.models import ConvTbc, small_cnn  # noqa: E402

nn = torch.nn


def gradients(model: Any) -> list[Any]:
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    return found


def test_the_gradients_are_the_chips_bit_for_bit() -> None:
    """The gradients are those of `convolution_backward` on the tensors that PyTorch passes."""
    torch.manual_seed(0)
    conv, data = nn.Conv2d(4, 6, 3, padding=1), torch.randn(2, 4, 5, 5, requires_grad=True)
    upstream = torch.randn(2, 6, 5, 5)
    with simulate(mode="functional", values="chip", cube_math_type=1) as sim:
        conv(data).backward(upstream)
    result = convolution_backward(
        upstream.numpy(), data.detach().numpy(), conv.weight.detach().numpy(), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
        (True, True, True), cube_math_type=1, mode="functional",
    )  # fmt: skip
    for ours, tensor in (
        (result.grad_input, data), (result.grad_weight, conv.weight), (result.grad_bias, conv.bias)
    ):  # fmt: skip
        np.testing.assert_array_equal(tensor.grad.numpy(), ours)
    (row,) = sim.report.rows
    assert 1e-6 < row.differences["grad_input"] < 1e-2 and row.differences["grad_bias"] < 1e-6
    assert row.differences["output"] > 1e-6


def test_torchs_own_values_stay_unless_the_chips_are_wanted() -> None:
    torch.manual_seed(0)
    model, data = small_cnn(), torch.randn(2, 3, 8, 8)
    model(data).sum().backward()
    own = gradients(model)
    with simulate(mode="functional", cube_math_type=2) as sim:
        model(data).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), own, strict=True))
    assert all(row.differences["grad_weight"] > 0 for row in sim.report.rows[:3])


def test_full_mode_has_values_and_the_times_of_timing_mode() -> None:
    torch.manual_seed(0)
    model, data = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(36, 2)), torch.randn(1, 4, 5, 5)
    sims = {}
    for mode in ("full", "timing", "functional"):
        with simulate(mode=mode) as sims[mode]:
            model(data).sum().backward()
    full, timing, functional = (sim.report for sim in sims.values())
    assert [full.us(row) for row in full.rows] == [timing.us(row) for row in timing.rows] and len(full.rows) == 2
    assert full.rows[0].differences["grad_weight"] < 1e-5
    assert [row.layer.name for row in functional.rows] == ["0"]  # a matrix product is a kernel with times alone


def test_conv_tbc_trains_on_the_chips_gradients() -> None:
    torch.manual_seed(0)
    layer, data = ConvTbc(4, 6, 3), torch.randn(5, 2, 4, requires_grad=True)
    layer(data).pow(2).sum().backward()
    own = [data.grad.clone(), *gradients(layer)]
    data.grad = None
    with simulate(mode="functional", values="chip", cube_math_type=1, strict=True):
        layer(data).pow(2).sum().backward()
    ours = [data.grad, *gradients(layer)]
    assert not torch.equal(ours[0], own[0])
    for tensor, expected in zip(ours, own, strict=True):
        torch.testing.assert_close(tensor, expected, rtol=2e-3, atol=2e-3 * float(expected.abs().max()))


def test_meta_tensors_have_no_values() -> None:
    with torch.device("meta"), simulate(mode="functional") as sim:
        nn.Conv2d(2, 2, 1)(torch.empty(1, 2, 2, 2)).sum().backward()
    (row,) = sim.report.to_dict()["layers"]
    assert all(call["status"] is None and "mode 'timing'" in call["message"] for call in row["calls"])


# -- trainings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "train.py: no function training(); it trains"),
        ("def training():\n    yield undefined\n", "train.py:2: NameError: name 'undefined' is not defined"),
        ("def training(:\n", "train.py:1: "),
        (None, "train.py: no such file; give a Python file with a training"),
        ("def training():\n    return 3.0\n", "training() returns float; it must yield the loss of each step"),
        ("def training():\n    return\n    yield\n", "training() yields no loss; it must yield one for each step"),
        ("def training():\n    yield 'x'\n", "step 0: the loss is 'x'; it must be one number"),
        (
            "import torch\ndef training():\n    yield torch.ones(2)\n",
            "step 0: the loss is a tensor of torch.float32 and shape [2]",
        ),
        ("import sys\ndef training():\n    yield 1.0\n    sys.exit(3)\n", "train.py: it ends Python (exit code 3)"),
        ("n = 0\ndef training():\n    global n\n    n += 1\n    yield from [1.0] * n\n", "yields 1 losses with torch, 2 with"),
    ],
)
def test_what_is_wrong_in_a_script_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("train.py").write_text(text)
    done = CliRunner().invoke(app, ["compare-training", "train.py", "--steps", "3", "--precisions", "fp32"])
    assert done.exit_code == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
