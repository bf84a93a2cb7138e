"""`ascend-sim compare-training`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app

SCRIPT = """\
import torch


def training():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(2, 2, 4, 4)
    while True:
        optimizer.zero_grad()
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
        yield loss
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    arguments = ["compare-training", "train.py", "--steps", "2", "--precisions", "hf32"]
    done = CliRunner().invoke(app, [*arguments, "--json", "--plot", "--seed", "3"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert list(data["losses"]) == ["torch", "hf32"] and 0 < data["deviations"]["hf32"][1] < 1e-2
    assert Path("losses.png").read_bytes().startswith(b"\x89PNG")
    arguments[3] = "1"
    lines = CliRunner().invoke(app, [*arguments, "--csv", "--seed", "3", "--no-forward"]).stdout.splitlines()
    assert lines[0] == "step,torch,hf32" and len(lines) == 2
    assert float(lines[1].split(",")[1]) == float(lines[1].split(",")[2]) == data["losses"]["torch"][0]


NO_NUMBER = """
def training():
    for loss in (1.0, float("nan"), 2.0, float("inf")):
        yield loss
"""


def test_what_makes_losses_less_than_they_seem_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(NO_NUMBER)
    arguments = ["compare-training", "train.py", "--steps", "5", "--precisions", "fp32"]
    remarks = [
        "training() ended after 4 of 5 steps",
        "torch: 2 of 4 losses are not finite, the first in step 1",
        "fp32: 2 of 4 losses are not finite, the first in step 1",
        "no convolution or gradient of one ran: nothing was computed on the chip",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and done.stdout.splitlines()[-4:] == remarks
    assert done.stdout.splitlines()[3].split()[-3:] == ["0.0e+00", "nan", "nan"]
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert data["remarks"] == remarks and data["losses"]["fp32"] == [1.0, None, 2.0, None]
    done = CliRunner().invoke(app, [*arguments, "--csv"])
    assert done.stdout.splitlines()[2] == "1,nan,nan" and done.stderr == "".join(f"ascend-sim: {one}\n" for one in remarks)
