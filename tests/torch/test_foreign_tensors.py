"""Programs beside plain training: none of them may fail because it is watched."""

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402


def operators(sim):
    return [call.operator for row in sim.rows for call in row.calls]


def test_inference_mode_is_seen():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
    with torch.inference_mode(), simulate() as sim:
        model(torch.randn(2, 3, 8, 8))
    assert operators(sim) == ["convolution", "matmul"]


def test_traced_module_has_its_forward():
    model = torch.jit.trace(torch.nn.Conv2d(3, 8, 3), torch.randn(1, 3, 8, 8))
    with simulate() as sim:
        model(torch.randn(1, 3, 8, 8)).sum().backward()
    assert sorted(operators(sim)) == ["convolution", "convolution_backward"]


def test_conv_tbc_under_autocast_and_in_transforms():
    data, weight, bias = torch.randn(10, 2, 8), torch.randn(3, 8, 8, requires_grad=True), torch.zeros(8)
    with simulate() as sim, torch.autocast("cpu", torch.bfloat16):
        made = torch.conv_tbc(data, weight, bias, 1)
        made.sum().backward()
    assert made.dtype is torch.bfloat16 and weight.grad.dtype is torch.float32
    assert operators(sim) == ["conv_tbc_backward"]
    with simulate():
        torch.func.grad(lambda one: torch.conv_tbc(data, one, bias, 1).sum())(weight.detach())


def test_sparse_and_empty_products_pass():
    with simulate() as sim:
        torch.eye(8).to_sparse_csr() @ torch.randn(8, 4)
        torch.ones(0, 8) @ torch.ones(8, 8)
    assert "an empty matrix product" in str(sim.report)
