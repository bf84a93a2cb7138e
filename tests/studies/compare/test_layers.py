"""Runs of networks and simulations, layer by layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.errors import SimError
from ascend_sim.ops.network import load_network
from ascend_sim.studies.compare.layers import compare_layers, has_layers
from ascend_sim.studies.compare.run import compare_runs
from ascend_sim.studies.network.run import run_network
from tests.support.cli.commands import run

pytestmark = pytest.mark.fast

NETWORK = """
name: small
batch: 2
defaults: {{dtype: float16}}
layers:
  - {{name: first, input: [2, 16, {size}, {size}], weight: [16, 16, 3, 3]}}
  - {{name: same, input: [2, 16, 5, 5], weight: [16, 16, 3, 3]}}
  - {{name: {last}, input: [2, 32, 6, 6], weight: [16, 32, 1, 1]}}
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of a network in which one layer grew and one has another name."""
    root = tmp_path_factory.mktemp("networks")
    for name, size, last in (("a", 6, "old"), ("b", 12, "new")):
        (root / f"{name}.yaml").write_text(NETWORK.format(size=size, last=last))
        assert run("run-network", root / f"{name}.yaml", "--out", root / name, "--jobs", "1").code == 0
    return root / "a", root / "b"


def times(folder: Path) -> dict[str, Any]:
    """The oracle: what run-network wrote."""
    return {row["name"]: row["us"] for row in json.loads((folder / "network.json").read_text())["layers"]}


def test_the_comparison_in_python_is_that_of_the_command(folders: tuple[Path, Path]) -> None:
    found = compare_runs(*folders)
    assert found.to_dict() == compare_layers(*folders).to_dict() and not found.same
    assert compare_runs(folders[0], folders[0]).same


def test_results_of_python_are_compared_as_their_folders(folders: tuple[Path, Path]) -> None:
    runs = [run_network(load_network(str(folder.with_suffix(".yaml")))) for folder in folders]
    found, written = compare_runs(*runs), compare_layers(*folders)
    assert found.to_dict()["layers"] == written.rows
    assert str(found).splitlines()[0].endswith("NetworkRun: small, batch 2, on ascend910b3")
    assert compare_runs(runs[0], folders[0]).same
    with pytest.raises(SimError, match="--case: not for networks and simulations"):
        compare_runs(*runs, case="strided")


def test_every_layer_has_both_times_and_what_changed(folders: tuple[Path, Path]) -> None:
    found = compare_layers(*folders)
    before, after = map(times, folders)
    rows = {row["layer"]: row for row in found.rows}
    assert list(rows)[-1] == "same" and set(rows) == {"first", "same", "old", "new"}
    assert rows["first"]["us"] == [before["first"]["total"], after["first"]["total"]]
    assert rows["first"]["change"] == pytest.approx(after["first"]["total"] - before["first"]["total"], abs=1e-3)
    assert rows["first"]["what"] == "2x16x6x6 * 16x16x3x3 -> 2x16x12x12 * 16x16x3x3"
    layout = after["first"]["layout"] - before["first"]["layout"]
    assert rows["first"]["parts"].get("layout", 0.0) == pytest.approx(layout, abs=1e-3)
    assert rows["old"]["us"][1] is None and rows["old"]["what"] == "only in A"
    assert rows["new"]["change"] == after["new"]["total"] and rows["new"]["what"] == "only in B"
    assert rows["same"]["change"] == 0 and rows["same"]["what"] == ""
    totals = [one["total_us"] for one in found.to_dict()["runs"]]
    assert totals == pytest.approx([sum(us["total"] for us in one.values()) for one in (before, after)])
    assert [abs(row["change"]) for row in found.rows] == sorted((abs(row["change"]) for row in found.rows), reverse=True)


def test_the_command_prints_totals_first_and_leaves_out_what_is_equal(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # for the paths of the folders
    lines = run("compare", *folders).out.splitlines()
    first, second = (sum(us["total"] for us in times(folder).values()) for folder in folders)
    assert lines[0].split()[:2] == ["A", f"{first:,.1f}"] and lines[1].split()[:2] == ["B", f"{second:,.1f}"]
    assert lines[2].split()[3] == f"{second - first:+,.1f}"
    assert lines[-1] == "1 layer equal; --all shows every layer" and len(lines) <= 24
    every = run("compare", *folders, "--all").out.splitlines()
    assert any(line.split()[0] == "same" and line.split()[-1] == "nothing" for line in every)
    assert json.loads(run("compare", *folders, "--json").out) == compare_layers(*folders).to_dict()


def test_a_training_step_has_both_passes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    network = folders[0].with_suffix(".yaml")
    assert run("run-network", network, "--training", "--out", tmp_path / "step", "--jobs", "1").code == 0
    rows = {row["layer"]: row for row in compare_layers(folders[0], tmp_path / "step").rows}
    assert rows["first"]["change"] == 0 and rows["first:forward"]["what"] == "only in B"


def test_a_simulation_is_compared_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ascend_sim.torch import simulate

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 4))
    sims = []
    for number in (0, 1):
        with simulate(cube_math_type=number) as sim:
            model(torch.randn(2, 3, 6, 6)).sum().backward()
        sim.write(tmp_path / str(number))
        sims.append(sim)
    found = compare_layers(tmp_path / "0", tmp_path / "1")
    assert compare_runs(*sims).to_dict()["layers"] == found.rows
    reports = [json.loads((tmp_path / str(number) / "simulation.json").read_text()) for number in (0, 1)]
    by_name = [{row["layer"]: row["us"]["total"] for row in report["layers"]} for report in reports]
    assert {row["layer"]: row["us"] for row in found.rows} == {name: [one[name] for one in by_name] for name in by_name[0]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{a}",), "compare: 1 given; allowed are two networks or simulations, or their folders"),
        (("{a}", "{b}", "--html", "x.html"), "--html: not for networks and simulations"),
        (("{a}", "strided"), "strided: no network and no simulation, which are compared by layers; nor a folder"),
        (("{a}", "{b}", "--case", "strided"), "--case: not for networks and simulations"),
    ],
)
def test_what_does_not_fit_is_one_line(folders: tuple[Path, Path], arguments: tuple[str, ...], said: str) -> None:
    ran = run("compare", *(one.format(a=folders[0], b=folders[1]) for one in arguments))
    assert (ran.code, ran.out) == (2, "") and ran.err.startswith(f"ascend-sim: {said}") and ran.err.count("\n") == 1


def test_a_file_of_something_else_is_told(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for text in ("{}", "[]", "no json", '{"layers": [{}]}'):
        (tmp_path / "network.json").write_text(text)
        with pytest.raises(SimError, match=r"network\.json: no times of layers as this ascend-sim writes them"):
            compare_layers(folders[0], tmp_path)
    assert not has_layers(tmp_path / "nowhere")


def test_a_layer_that_both_runs_refuse_is_equal(tmp_path: Path) -> None:
    ran = {"name": "ran", "us": {"grad_input": 2.0, "total": 2.0}, "input": [1, 16, 4, 4], "weight": [16, 16, 1, 1]}
    refused = {**ran, "name": "refused", "us": {}, "status": 161002, "refused": "too large"}
    layers = {"both": [ran, refused], "none": [ran, {**ran, "name": "refused"}], "less": [ran]}
    for folder, rows in layers.items():
        (tmp_path / folder).mkdir()
        data = {"network": "small", "batch": 1, "chip": "ascend910b3", "layers": rows}
        (tmp_path / folder / "network.json").write_text(json.dumps(data))

    def what(first: str, second: str) -> list[str]:
        return sorted(row["what"] for row in compare_layers(tmp_path / first, tmp_path / second).rows)

    assert compare_layers(tmp_path / "both", tmp_path / "both").same and what("both", "both") == ["", ""]
    assert what("both", "none") == ["", "refused in A"] and what("none", "both") == ["", "refused in B"]
    assert what("both", "less") == ["", "only in A"] and what("less", "both") == ["", "only in B"]
