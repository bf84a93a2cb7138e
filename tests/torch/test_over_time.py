"""conv_tbc with a backward in one piece: PyTorch's own derivatives, of any order and under any transform it has."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402
from ascend_sim.torch.over_time import conv_tbc  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's own under vmap
grad, vmap, jacrev = (getattr(torch.func, name) for name in ("grad", "vmap", "jacrev"))


@pytest.fixture
def tensors() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    shapes = (4, 2, 3), (3, 3, 2), (2,)
    data, weight, bias = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    return data, weight, bias


@pytest.mark.parametrize("pad", [0, 1])
def test_first_and_second_derivatives_against_finite_differences(tensors: tuple[Any, Any, Any], pad: int) -> None:
    def function(*given: Any) -> Any:
        return conv_tbc(*given, pad).tanh()

    assert torch.autograd.gradcheck(function, tensors) and torch.autograd.gradgradcheck(function, tensors)


def test_transforms_give_what_they_give_for_pytorchs_own(tensors: tuple[Any, Any, Any]) -> None:
    data, weight, bias = tensors

    def through(convolution: Any) -> list[Any]:
        def one(weight: Any, data: Any = data) -> Any:
            return convolution(data, weight, bias, 1).pow(3).sum()

        twice = grad(lambda weight: grad(one)(weight).pow(2).sum())
        several = torch.stack([data, 2 * data])
        weights = torch.stack([weight, -weight])
        return [
            grad(one)(weight),
            twice(weight),
            jacrev(lambda weight: convolution(data, weight, bias, 1))(weight),
            vmap(lambda data: convolution(data, weight, bias, 1))(several),
            vmap(lambda weight: convolution(data, weight, bias, 1), in_dims=1)(weights.transpose(0, 1)),
            grad(lambda weight: vmap(lambda data: convolution(data, weight, bias, 1))(several).pow(2).sum())(weight),
        ]

    for ours, theirs in zip(through(conv_tbc), through(torch.conv_tbc), strict=True):
        torch.testing.assert_close(ours, theirs)
    # A gradient for each example, which PyTorch's own cannot.
    each = vmap(grad(lambda weight, data: conv_tbc(data, weight, bias, 1).sum()), (None, 0))
    examples = [data, 2 * data]
    torch.testing.assert_close(
        each(weight, torch.stack(examples)),
        torch.stack([grad(lambda weight, one=one: torch.conv_tbc(one, weight, bias, 1).sum())(weight) for one in examples]),
    )


def test_what_is_pytorchs_alone_stays_so(tensors: tuple[Any, Any, Any]) -> None:
    """Forward-mode derivatives, which it refuses, and traces, which shall hold its operator."""
    data, weight, bias = (one.detach() for one in tensors)
    with simulate():
        with pytest.raises(NotImplementedError, match="forward AD with conv_tbc"):
            torch.func.jvp(lambda data: torch.conv_tbc(data, weight, bias, 1), (data,), (data,))
        traced = torch.jit.trace(lambda data: torch.conv_tbc(data, weight, bias, 1), (data,))
    assert "aten::conv_tbc" in str(traced.graph)
