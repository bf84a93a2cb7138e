"""A layer of a simulated model: the same call as in the model, as a case, a run, a page and a search."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402


@pytest.fixture(scope="module")
def sim() -> Any:
    """A model with a plain layer, a grouped one, one that runs at two sizes, and a Linear layer."""
    torch.manual_seed(0)
    first, grouped = torch.nn.Conv2d(3, 16, 3), torch.nn.Conv2d(16, 8, 3, groups=2)
    model = torch.nn.Sequential(first, grouped, torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 4))
    with simulate(model, chip="ascend910b4", cube_math_type=1) as seen:
        model(torch.randn(2, 3, 10, 10)).sum().backward()
        first(torch.randn(2, 3, 12, 12)).sum().backward()
    return seen


def test_its_run_is_the_call_of_the_model(sim: Any) -> None:
    """The oracle is the row of the report; the case runs the same by itself."""
    layer = sim["1"]
    (row,) = (row for row in sim.report.to_dict()["layers"] if row["layer"] == "1")
    for direction, forward in (("backward", False), ("forward", True)):
        (call,) = (call for call in row["calls"] if call["pass"] == direction)
        run, case = layer.run(forward=forward), layer.case(forward=forward)
        assert run.report.total_us == call["total_us"]
        assert case.chip == "ascend910b4" and case.attributes["groups"] == 2
        assert asim.run_case(case, mode="timing", timeline=False).report.total_us == call["total_us"]
    assert layer.case().cube_math_type == 1
    assert repr(layer) == "<layer 1 on ascend910b4: 2x16x8x8 * 8x8x3x3 g2>"


def test_a_name_that_comes_again_is_numbered(sim: Any) -> None:
    assert sim["0"].case().tensors["input"][0] == (2, 3, 10, 10)
    assert sim["0#2"].case().tensors["input"][0] == (2, 3, 12, 12)


def test_its_tilings_are_searched_on_the_chip_of_the_simulation(sim: Any) -> None:
    (found,) = sim["1"].tile("grad_input", limit=1)
    kernel = next(one for one in sim["1"].run().report.kernels if one["name"] == "grad_input")
    assert found.kernel.chip.name == "ascend910b4" and found.call["us"] == kernel["task_us"]


@pytest.mark.fast
def test_what_is_no_layer_is_told(sim: Any) -> None:
    with pytest.raises(SimError, match=re.escape("no layer 'conv' was seen; seen: 0, 1, 3, 0#2")):
        sim["conv"]
    with pytest.raises(SimError, match=re.escape("layer 0 given; allowed are names, such as sim['0']")):
        sim[0]  # type: ignore[index]
    with pytest.raises(SimError, match="no layer '#2' was seen; did you mean 0#2"):
        sim["#2"]
    with pytest.raises(SimError, match="3: a matrix product, which is not a call of a convolution operator"):
        sim["3"].case()
    with simulate() as seen, torch.no_grad():
        torch.nn.Conv2d(3, 4, 1)(torch.randn(1, 3, 4, 4))
    with pytest.raises(SimError, match="Conv2d: no backward call was seen, only the forward pass"):
        seen["Conv2d"].run()
    with pytest.raises(SimError, match="no layer 'x' was seen; seen: 0"), simulate() as nothing:
        nothing["x"]


def test_pages_of_layers_stand_beside_that_of_the_model(sim: Any, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    sim.write_html(tmp_path / "model.html", layers=1)
    text = (tmp_path / "model.html").read_text().partition("<main>")[2]
    (link,) = set(re.findall(r'<a href="(model-layers/[^"]+)">', text))
    page = (tmp_path / link).read_text()
    longest = max(("0", "1"), key=lambda name: sim[name].run().report.total_us)
    assert link == f"model-layers/{longest}.html" and "grad_weight" in page
    sim.write_html(tmp_path / "plain.html")
    assert (
        "<a href" not in (tmp_path / "plain.html").read_text().partition("<main>")[2]
        and not (tmp_path / "plain-layers").exists()
    )
