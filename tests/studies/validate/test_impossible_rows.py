"""Rows that cannot be: each is skipped with its reason, and none that is finished is lost."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.studies.validate.launches import LAUNCHES

GOOD = {
    "chip": "ascend950pr_9579", "op_type": "conv2d", "dtype": "fp16", "N": "1", "Ci": "16", "Hi": "14", "Wi": "14",
    "Co": "32", "Ho": "14", "Wo": "14", "kh": "3", "kw": "3", "stride_h": "1", "stride_w": "1", "pad_h_total": "2",
    "pad_w_total": "2", "dilation_h": "1", "groups": "1", "l2": "cold", "launches": "", "duration_us": "8.0",
}  # fmt: skip
IMPOSSIBLE: list[tuple[dict[str, str], str]] = [
    ({"groups": "3"}, "16 channels given; weight.shape[1] x groups is 15 (groups 3)"),
    ({"groups": "17"}, "groups 17"),
    ({"groups": "0"}, "groups: '0' given; must be a whole number from 1"),
    ({"op_type": "Conv2DBackpropInput", "groups": "3"}, "groups 3"),
    ({"stride_h": "100", "Ho": "1"}, "stride h = 100 > 63"),
    ({"pad_h_total": "4000", "Ho": "4012"}, "pad up = 2000 > 255"),
    ({"kh": "30", "Ho": "1"}, "Ho: 1 given; Hi, kernel, stride and padding give -13"),
    ({"kh": "17", "Ho": "0"}, "Ho: '0' given"),
    ({"pad_h_total": "3", "Ho": "15"}, "pads of [3, 2]"),
    ({"chip": "ascend910x"}, "'ascend910x' is not a known chip"),
    ({"chip": ""}, "'' is not a known chip"),
    ({"chip": "ascend910a", "dtype": "bf16"}, "status 161002"),
    ({"dtype": "fp33"}, "dtype 'fp33': allowed for conv2d"),
    ({"N": "-1"}, "N: '-1' given; must be a whole number from 1"),
    ({"N": "many"}, "N: 'many' given"),
    ({"N": "inf"}, "N: 'inf' given"),
    ({"N": "nan"}, "N: 'nan' given"),
    ({"N": "1e300"}, "device memory: input needs"),
    ({"N": "", "Ci": ""}, "N, Ci missing; conv2d needs"),
    ({"op_type": "MatMul"}, "M, K missing; MatMul needs M, N, K"),
    ({"op_type": "Magic"}, "no kernel of Magic here"),
    ({"duration_us": "0"}, "duration_us: '0' given; must be a time above 0"),
    ({"duration_us": "soon"}, "duration_us: 'soon' given"),
    ({"l2": "lukewarm"}, "l2: 'lukewarm' given; allowed: cold, warm, repeated"),
    ({"l2": "repeated", "launches": "cold"}, "launches: 'cold' given; allowed with l2 'repeated'"),
]  # fmt: skip


def lines_of(*rows: dict[str, str]) -> str:
    return "\n".join([",".join(GOOD), *(",".join({**GOOD, **row}.values()) for row in rows)]) + "\n"


def validated(folder: Path, text: str, *options: str) -> tuple[Any, list[dict[str, str]]]:
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    table = folder / "all.csv"
    arguments = ["validate", "--rows", str(folder / "rows.csv"), "--csv", str(table), "--jobs", "1", "--full", *options]
    done = CliRunner().invoke(app, arguments)
    return done, list(csv.DictReader(table.open(encoding="utf-8"))) if table.exists() else []


def test_rows_that_cannot_be_are_skipped_with_their_reasons_beside_the_others(tmp_path: Path) -> None:
    """All kinds in one file, between two rows that run: each is written with its own columns, and why it did not run."""
    done, table = validated(tmp_path, lines_of({}, *(row for row, _ in IMPOSSIBLE), {"N": "2"}))
    assert done.exit_code == 0, done.output
    first, *between, last = table
    assert all(float(row["predicted_us"]) > 0 and not row["skipped"] for row in (first, last))
    assert not any("defect" in row["skipped"] for row in table)
    told = " ".join(done.stdout.split())
    for (row, reason), written in zip(IMPOSSIBLE, between, strict=True):
        assert reason in written["skipped"] and not written["predicted_us"], (row, written["skipped"])
        assert {name: written[name] for name in row} == row
    assert told.count("skipped") == len(IMPOSSIBLE)  # told one by one: no two have one reason
    figures = json.loads(validated(tmp_path, lines_of({}, *(row for row, _ in IMPOSSIBLE)), "--json")[0].stdout)
    assert sum(count for group in figures["groups"] for count in group["skipped"].values()) == len(IMPOSSIBLE)


def test_lines_that_are_no_rows_are_skipped(tmp_path: Path) -> None:
    junk = ["ascend950pr_9579,conv2d", ",,,", "x", '"', "\0", "\x1b[31m,conv2d", "a" * 200_000, ",".join("1" * 99)]
    done, table = validated(tmp_path, lines_of({}) + "\n".join(junk) + "\n")
    assert done.exit_code == 0 and len(table) == 1 + len(junk) and "\x1b" not in done.stdout
    assert not table[0]["skipped"] and all(f"line {3 + i}: " in row["skipped"] for i, row in enumerate(table[1:]))


def test_a_file_in_which_no_row_can_be_is_refused(tmp_path: Path) -> None:
    """Its first row's reason is the line; a row that can be read and not simulated is skipped, as ever."""
    done, table = validated(tmp_path, lines_of({"N": "many"}, {"chip": "x"}))
    assert (done.exit_code, table, done.stderr.count("\n")) == (2, [], 1)
    assert "line 2: N: 'many' given" in done.stderr
    done, table = validated(tmp_path, lines_of({"groups": "3"}))
    assert done.exit_code == 0 and [bool(row["skipped"]) for row in table] == [True]


def test_a_defect_loses_no_finished_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = LAUNCHES["conv2d"].tasks
    monkeypatch.setattr(LAUNCHES["conv2d"], "tasks", lambda kernel, *rest: tasks(kernel, *rest) if kernel["N"] == 1 else 1 // 0)
    done, table = validated(tmp_path, lines_of({}, {"N": "2"}))
    assert done.exit_code == 0 and float(table[0]["predicted_us"]) > 0
    assert table[1]["skipped"].startswith("a defect of the simulator: ZeroDivisionError: ")
