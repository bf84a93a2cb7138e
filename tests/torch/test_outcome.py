"""Products of linear layers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402

nn = torch.nn


def test_products_of_linear_layers_are_the_matmul_kernel() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16, bias=False))
    with simulate() as sim:
        model(torch.randn(8, 32, requires_grad=True)).sum().backward()
    first, last = sim.report.rows
    for row, (m, k, n) in ((first, (8, 32, 48)), (last, (8, 48, 16))):
        sizes = {call.part: {s for _, spec in call.tensors for s in spec.shape} for call in row.calls}
        assert sizes == {part: {m, k, n} for part in ("output", "grad_input", "grad_weight")}
        assert set(sim.report.us(row)) == {"output", "grad_input", "grad_weight", "total"}
    assert str(sim.report).count("MatMul kernel alone") == 2
    with simulate(matmul=False) as sim:
        model(torch.randn(8, 32)).sum().backward()
    assert sim.report.rows == () and str(sim.report).endswith("ran within the context and its thread")
