"""Tensors whose sizes are symbols: simulated at the size that was traced, and a row with its reason where there is none."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim import SimError  # noqa: E402
from ascend_sim.torch import Simulation, simulate  # noqa: E402
from tests.support.sampling import part_of_cases  # noqa: E402
from tests.support.torch.models import ConvTbc  # noqa: E402

nn = torch.nn
symbols = pytest.importorskip("torch.fx.experimental.symbolic_shapes")
FakeTensorMode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode


def symbolic(model: Any, data: Any, *, known: bool = True, **options: Any) -> tuple[Simulation, list[Any]]:
    """Forward and backward of a tensor whose axes are all symbols; also the guards that this added to the trace."""
    context = symbols.StatelessSymbolicContext(dynamic_sizes=[symbols.DimDynamic.DYNAMIC] * data.dim())
    environment = symbols.ShapeEnv()
    with FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True) as fake:
        given = fake.from_tensor(data, symbolic_context=context)
        if not known:
            size = environment.create_unbacked_symint()
            torch._check(size >= 2)
            given = torch.empty(size, *data.shape[1:])
        with simulate(**options) as sim:
            model(given).sum().backward()
    return sim, [str(guard.expr) for guard in environment.guards]


@part_of_cases(3)
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, 2)), (2, 3, 8, 8)),
        (lambda: nn.Sequential(ConvTbc(3, 4, 3)), (5, 2, 3)),
        (lambda: nn.Sequential(nn.Linear(3, 4)), (2, 3)),
    ],
)
def test_symbols_are_simulated_at_the_size_they_were_traced_with(make: Any, shape: tuple[int, ...]) -> None:
    model, data = make(), torch.randn(shape)
    sim, guards = symbolic(model, data)
    with simulate() as real:
        model(data).sum().backward()
    assert sim.rows and [(row.layer, row.calls) for row in sim.rows] == [(row.layer, row.calls) for row in real.rows]
    assert sim.report.totals == real.report.totals
    assert not any(row for row in sim.rows if sim.report.refusals(row))
    if not isinstance(model[0], ConvTbc):  # PyTorch's own takes no symbols
        assert guards == unwatched_guards(model, data)


def unwatched_guards(model: Any, data: Any) -> list[str]:
    environment = symbols.ShapeEnv()
    context = symbols.StatelessSymbolicContext(dynamic_sizes=[symbols.DimDynamic.DYNAMIC] * data.dim())
    with FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True) as fake:
        model(fake.from_tensor(data, symbolic_context=context)).sum().backward()
    return [str(guard.expr) for guard in environment.guards]


def test_a_size_that_nobody_knows_is_a_row_with_its_reason() -> None:
    model = nn.Conv2d(3, 4, 3)
    sim, _ = symbolic(model, torch.randn(2, 3, 8, 8), known=False)
    (row,) = sim.rows
    assert row.layer.tensors[0][1].shape == (-1, 3, 8, 8) and len(row.calls) == 2
    assert [outcome.status for _, outcome in sim.report.refusals(row)] == [None, None]
    assert "not simulated: a tensor has an axis whose size is not known" in str(sim.report)
    with pytest.raises(SimError, match="size is not known"):
        symbolic(model, torch.randn(2, 3, 8, 8), known=False, strict=True)


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize("before", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_model_compiled_for_any_size_is_seen(before: bool) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1))
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    if before:
        compiled(torch.randn(2, 3, 6, 6)).sum().backward()
    with simulate() as sim:
        for size in (6, 8):
            compiled(torch.randn(2, 3, size, size)).sum().backward()
    assert [(row.layer.name, row.layer.tensors[0][1].shape) for row in sim.rows] == [
        ("0", (2, 3, 6, 6)), ("2", (2, 4, 4, 4)), ("0", (2, 3, 8, 8)), ("2", (2, 4, 6, 6)),
    ]  # fmt: skip
    assert all(len(row.calls) == 2 for row in sim.rows)
