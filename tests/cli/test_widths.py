"""Every command on a terminal of 80 and of 120 columns: no line is longer, no name is cut, each row of a table has its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.commands import run
from tests.support.places import DOCS, ROOT
from tests.support.sampling import part_of_cases

COMMANDS = {
    "run": "run document_example_2d --plan",
    "run full": "run document_example_2d --plan --full",
    "functional": "run document_example_2d --mode functional",
    "chips": "chips",
    "chip": "chips ascend910b3",
    "chips compared": "chips --compare ascend910a ascend910b3 ascend310p3",
    "cases": "cases",
    "networks": "networks",
    "network": "run-network {network} --jobs 1 --tile --out {out} --time-limit 0",
    "tile": "tile by_hand --kernel grad_weight --limit 1 --jobs 1",
    "sweep": "sweep by_hand --vary batch=1,2 --vary baseM=16,17 --jobs 1 --out {out}",
    "compare": "compare by_hand document_example_2d",
    "compare three": "compare ascend910b3 ascend910a ascend310p3 --case by_hand",
    "precision": "precision by_hand --chips ascend910b3,ascend910a",
    "explain": "explain by_hand",
    "check": "check by_hand",
    "kernel": f"kernel {DOCS / 'kernels' / 'vector_add.py'}",
    "format": "format hifloat8 --value 0.1",
    "status": "explain-status strided",
    "validate": "validate --rows {rows} --jobs 1",
}
"""By what they show; those that take long do as little as they can."""
_LONGEST = 8
"""Letters of a word above which it is taken for a name."""

NETWORK = """
defaults: {dtype: float16, input: [1, 16, 6, 6]}
layers:
  - {name: a_layer_with_a_name_of_some_length, weight: [16, 16, 3, 3], padding: [1, 1]}
  - {name: another, weight: [16, 16, 1, 1]}
"""


def printed(name: str, width: int | None, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    (folder / "network.yaml").write_text(NETWORK, encoding="utf-8")
    (folder / "rows.csv").write_text(measured_rows(), encoding="utf-8")
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    line = COMMANDS[name].format(out=folder / str(width), network=folder / "network.yaml", rows=folder / "rows.csv")
    ran = run(*line.split())
    assert ran.code == 0, ran.err
    return ran.out.split("\n")


def measured_rows() -> str:
    """A few of the shipped rows that are quick, of two operators."""
    lines = (ROOT / "configs" / "measurements" / "910b2_helpers.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [line for line in lines if not line.startswith("#")]
    return "".join(rows[:4])


@part_of_cases(6)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_fits_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Words that a terminal cut would be shorter at 80 columns than at 120, or end in an ellipsis."""
    narrow, wide = (printed(name, width, monkeypatch, tmp_path) for width in (80, 120))
    for lines, width in ((narrow, 80), (wide, 120)):
        said = [line for line in lines if not line.startswith("next: ")]  # a command stays whole, to be copied
        assert [line for line in said if len(line.rstrip()) > width and " " in line.strip()] == []
        assert not any("\u2026" in line for line in lines)
    said = {word for line in narrow for word in line.split()}
    assert {word for line in wide for word in line.split() if len(word) > _LONGEST} - said == set()


@pytest.mark.parametrize("name", ["run", "run full", "network", "tile", "sweep", "compare", "precision", "status", "validate"])
def test_a_pipe_has_the_columns_of_the_first_screen(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = printed(name, None, monkeypatch, tmp_path)
    said = [line.rstrip() for line in lines if not line.lstrip().startswith(("next: ", "ascend-sim "))]
    assert said and max(map(len, said)) <= 100


def test_each_row_of_a_table_that_goes_on_below_has_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = printed("run full", 80, monkeypatch, tmp_path)
    kernels = next(
        lines[index + 1 : next(end for end, line in enumerate(lines) if line.startswith("Total: "))]
        for index, line in enumerate(lines)
        if line.startswith("Kernels in launch order")
    )
    names = [line.split()[0] for line in kernels if line.strip()]
    assert names[: len(names) // 2] == names[len(names) // 2 :]  # twice, as the table has two parts at this width
    assert names[0] == "kernel" and len(names) == 2 * 10
