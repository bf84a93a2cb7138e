"""The answer of a simulated model in a few lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402
from tests.support.torch.steps import step  # noqa: E402


@pytest.fixture(scope="module")
def sim() -> Any:
    """A model with two equal layers, one that runs at two sizes, and a Linear layer."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(16 * 8 * 8, 4))
    with simulate(model, chip="ascend910b3") as seen:
        model(torch.randn(2, 16, 8, 8, requires_grad=True)).sum().backward()
        model[0](torch.randn(2, 16, 16, 16)).sum().backward()
    return seen


def test_figures_are_those_of_the_layers(sim: Any) -> None:
    """The oracle adds the rows of the report, and the intervals of the kernels of each call as often as it was made."""
    data = sim.to_dict()
    summary, rows = data["summary"], data["layers"]
    assert summary["total_us"] == data["totals_us"]["total"]
    copies = [row for row in rows if row["layer"] in ("0", "1", "2") and row["tensors"]["input"]["shape"][2] == 8]
    first = next(one for one in summary["most"] if one["layer"] == "0")
    assert first["copies"] == len(copies) == 3
    assert first["all"] == pytest.approx(sum(row["us"]["total"] for row in copies), abs=1e-3)
    assert summary["layers"] == 5 and summary["distinct_layers"] == 3
    spent = {"0": sum(row["us"]["layout"] for row in copies)}
    (spent["0#2"],) = (row["us"]["layout"] for row in rows if row not in copies and row["layer"] == "0")
    most = max(spent, key=spent.__getitem__)
    assert (summary["most_layout"]["layer"], summary["most_layout"]["copies"]) == (most, 3 if most == "0" else 1)
    calls = [call for row in rows for call in row["calls"]]
    for end in ("low_us", "high_us"):
        ends = sum(call["count"] * kernel["interval"][end] for call in calls for kernel in call["kernels"])
        assert summary["interval"][end] == pytest.approx(ends, abs=1e-3)
    assert [one["us"] for one in summary["parts"]] == sorted((one["us"] for one in summary["parts"]), reverse=True)
    assert json.loads(json.dumps(summary)) == summary


def test_it_is_what_print_shows_in_fifteen_lines(sim: Any) -> None:
    lines = str(sim).splitlines()
    summary = sim.to_dict()["summary"]
    assert len(lines) <= 15 and lines[0].startswith(f"5 layers on ascend910b3, mode timing   {summary['total_us']:,.1f} us")
    assert "3 distinct, " in lines[2] and "L2 cold, code cold at the start of each call" in lines[2]
    for one, line in zip(summary["most"], lines[3:], strict=False):
        assert f"{one['all']:,.1f} us" in line and f" {one['copies']} x " in line and f"  {one['layer']} " in line
    assert lines[-1] == 'more: print(sim.report), sim.write_html("model.html")'


def test_the_layer_whose_values_are_farthest_is_named(sim: Any) -> None:
    assert sim.to_dict()["summary"]["farthest"] is None, "timing has no values"
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3))
    with simulate(model, chip="ascend910b3", mode="full") as seen:
        model(torch.randn(1, 3, 8, 8, requires_grad=True)).sum().backward()
    worst = {row.layer.name: max(row.differences.values()) for row in seen.report.rows}
    name = max(worst, key=worst.__getitem__)
    assert seen.to_dict()["summary"]["farthest"] == {"layer": name, "difference": worst[name]}
    assert f"values: {name} is farthest from PyTorch's, by {worst[name]:.1e} of its largest value" in str(seen)


def test_the_next_line_opens_the_convolution_that_costs_most(sim: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (line.removeprefix("next: ") for line in str(sim).splitlines() if line.startswith("next: "))
    exec(line, {"sim": sim})
    call, us = line.split("  # its backward call, ")
    assert capsys.readouterr().out.startswith(f"convolution_backward  ascend910b3   {us}") and call.endswith(".run())")
    with simulate() as seen, torch.no_grad():
        torch.nn.Conv2d(3, 4, 1)(torch.randn(1, 3, 4, 4))
    assert 'next: print(sim["Conv2d"].run(forward=True))' in str(seen)
    with simulate() as products:
        torch.nn.Linear(4, 4)(torch.randn(1, 4)).sum().backward()
    assert "next: " not in str(products)


def test_two_reasons_of_refusals_are_shown(tiny: Any) -> None:
    with simulate() as seen:
        for kind in (torch.float64, torch.float32):
            layer = torch.nn.Conv2d(3, 4, 3).to(kind)
            layer(torch.randn(1, 3, 8, 8, dtype=kind)).sum().backward()
    assert "refused with 161002: " in str(seen) and " us  Conv2d" in str(seen)


def test_a_run_without_times_shows_its_table(tiny: Any) -> None:
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8), mode="functional")
    assert str(sim) == str(sim.report) and sim.to_dict()["summary"] is None
    assert sim._repr_html_() == sim.report._repr_html_()
