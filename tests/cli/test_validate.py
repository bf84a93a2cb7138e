"""`ascend-sim validate`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.studies.measured_rows import TWO_ROWS


def test_command_line(tmp_path: Path) -> None:
    rows_file = tmp_path / "rows.csv"
    rows_file.write_text(TWO_ROWS)
    table = tmp_path / "all.csv"
    arguments = ["validate", "--rows", str(rows_file), "--csv", str(table), "--jobs", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert (
        f"wrote {table}" in result.stdout.replace("\n    ", "")
        and "Conv2DBackpropInput" in result.stdout
        and "took" in result.stderr
    )
    assert len(table.read_text().splitlines()) == 3
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert {group["op_type"] for group in data["groups"]} == {"Conv2DBackpropInput", "Conv2DBackpropFilter"}
    refused = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--chip", "ascend910b3"])
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1
