"""The page of a simulated model."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.support.torch.steps import step  # noqa: E402


def test_the_page_and_the_table_show_every_layer(tiny: Any, tmp_path: Any) -> None:
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    sim.write_html(tmp_path / "model.html")
    page, table = (tmp_path / "model.html").read_text(), str(sim).splitlines()
    data = sim.report.to_dict()
    for number, layer in enumerate(data["layers"]):
        assert table[2 + number].startswith(layer["layer"])
        assert f"{layer['us']['total']:.1f}" in table[2 + number]
        assert f"<summary>{layer['layer']}: " in page
    assert f"{data['totals_us']['total']:.1f}" in table[-1]
    assert sum(layer["share"] for layer in data["layers"]) == pytest.approx(1, abs=1e-3)
