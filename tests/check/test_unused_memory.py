"""Memory that nobody uses: told as a remark, apart from findings, and never what makes a check or a run fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ascend_sim as asim
from ascend_sim.cli import app

HEAD = """
import numpy as np
import ascend_sim as A

BLOCKS = 1

@A.kernel_function(core="AIV")
def kernel(k, x, y):
    q = k.ub_queue("q", 64, "float32", "MTE2", "MTE3")
"""
TAIL = """
def arguments(rng):
    return np.ones((8, 64), np.float32), A.empty((4, 64), "float32")
"""
COPY = "    for i in range(4):\n        k.gm_to_ub(q, x[{}])\n        k.ub_to_gm(y[i], q)\n"
BODIES = {
    "every second row": (COPY.format("2 * i"), "Unused memory of 1024 byte(s); at 0x100 on GM in kernel, x+0x100"),
    "the first rows": (COPY.format("i"), "Unused memory of 1024 byte(s); at 0x400 on GM in kernel, x+0x400"),
    "one row": (COPY.format("7"), "Unused memory of 1792 byte(s); at 0x0 on GM in kernel, x+0x0"),
    "a buffer": (
        '    k.allocate("UB", 96, "spare")\n' + COPY.format("2 * i") + COPY.format("2 * i + 1"),
        "Unused memory of 96 byte(s); at 0x200 on UB in kernel, spare, in block 0 AIV0",
    ),
    "all of the input": (
        "    zeros = k.local_tensor(256, 'float32', 'zeros')\n    k.duplicate(zeros, 0.0)\n"
        "    f = k.flag('V', 'MTE3', 'f')\n    k.set_flag(f)\n    k.wait_flag(f)\n    k.ub_to_gm(y, zeros.reshape(4, 64))\n",
        "Unused memory of 2048 byte(s); at 0x0 on GM in kernel, x+0x0",
    ),
}


def check(folder: Path, body: str, *options: str) -> tuple[int, str]:
    path = folder / "kernel.py"
    path.write_text(HEAD + body + TAIL, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(path), *options])
    return done.exit_code, done.stdout


@pytest.mark.parametrize("name", BODIES)
def test_a_right_kernel_passes_and_is_told_what_it_does_not_use(name: str, tmp_path: Path) -> None:
    body, text = BODIES[name]
    code, printed = check(tmp_path, body)
    assert code == 0 and "====== REMARK: Unused memory" in printed and "0 errors, 0 warnings" in " ".join(printed.split())
    code, printed = check(tmp_path, body, "--json")
    report = json.loads(printed)
    assert code == 0 and report["passed"] and report["findings"] == []
    assert text in report["remarks"] and text.partition(";")[0] in [one["title"] for one in report["unused"]]
    assert {(one["kind"], one["level"]) for one in report["unused"]} == {("unused memory", "REMARK")}


def test_what_is_used_is_not_told_and_other_tools_do_not_ask(tmp_path: Path) -> None:
    whole = COPY.format("2 * i") + COPY.format("2 * i + 1")
    report = json.loads(check(tmp_path, whole, "--json")[1])
    assert report["remarks"] == report["unused"] == []
    report = json.loads(check(tmp_path, BODIES["one row"][0], "--json", "--tool", "racecheck")[1])
    assert report["remarks"] == report["unused"] == []


def test_a_mistake_beside_it_fails(tmp_path: Path) -> None:
    """Rows that nobody writes are a finding, as before, and the rows that nobody reads a remark."""
    code, printed = check(tmp_path, COPY.format("2 * i").replace("range(4)", "range(3)"), "--json")
    report = json.loads(printed)
    assert code == 1 and not report["passed"]
    assert [one["kind"] for one in report["findings"]] == ["unwritten output"]
    assert [one["bytes"] for one in report["unused"]] == [5 * 256]


@asim.kernel_function(core="AIV")
def first_rows(k: Any, x: Any, y: Any) -> None:
    rows = k.ub_queue("rows", 64, "float32", "MTE2", "MTE3")
    for row in range(4):
        k.gm_to_ub(rows, x[row])
        k.ub_to_gm(y[row], rows)


def test_a_run_has_it_among_its_warnings(tmp_path: Path) -> None:
    given = (np.ones((8, 64), np.float32), asim.empty((4, 64), "float32"))
    text = "Unused memory of 1024 byte(s); at 0x400 on GM in first_rows, x+0x400"
    run = asim.launch(first_rows, 1, *given, check=True)
    assert run.passed and run.findings == [] and run.report.warnings == (text,)
    assert run.report.to_dict()["findings"] == [] and run.report.to_dict()["warnings"] == [text]
    assert f"warning: {text}" in run.report._repr_html_()
    assert asim.launch(first_rows, 1, *given).report.warnings == ()
    report = asim.check_kernel(first_rows, 1, *given)
    assert report.passed and report.remarks == [text] and [one.text for one in report.unused] == [text]
    run.write_html(tmp_path / "run.html", what_if=False)
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert f"warning: {text}" in page and "1 finding" not in page
