"""Sealed rows: whole groups of rows, which no code that fits costs can load."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ascend_sim.errors import SimError
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.rows import read_rows, sealed_rows, shipped_rows
from ascend_sim.studies.validate.sealed import is_sealed
from tests.support.places import TOOLS
from tools.accuracy_parts import fitted_on

CELLS = {"run": "catlass", "op_type": "MatMul", "dtype": "fp16", "N": "8", "K": "8"}


def first_m(sealed: bool) -> int:
    """The smallest M of a product of CELLS that is sealed, or is not."""
    return next(m for m in range(1, 100) if is_sealed({**CELLS, "M": str(m)}) is sealed)


@pytest.mark.fast
def test_about_half_of_the_groups_of_a_listed_source_are_sealed() -> None:
    assert 400 < sum(is_sealed({**CELLS, "M": str(m)}) for m in range(1000)) < 600
    assert not any(is_sealed({**CELLS, "M": str(m), "run": "torch_910b2"}) for m in range(1000))


@pytest.mark.fast
def test_a_group_is_sealed_whole() -> None:
    """The library's decisions, the measured time and other columns make no other group."""
    for m in map(str, range(40)):
        group = {**CELLS, "M": m}
        others = ({"block_dim": "20"}, {"baseM": "128"}, {"duration_us": "17.5"}, {"swizzle": "3,1"})
        assert {is_sealed(group | other) for other in others} == {is_sealed(group)}


@pytest.mark.fast
def test_shipped_rows_are_either_open_or_sealed() -> None:
    assert not any(is_sealed(row.cells) for row in shipped_rows())
    assert all(is_sealed(row.cells) for row in sealed_rows())


def row_of(folder: Path, sealed: bool) -> list[MeasuredRow]:
    """A row of a listed source as it is read from a file."""
    path = folder / f"{sealed}.csv"
    path.write_text(
        f"chip,op_type,series,dtype,M,N,K,duration_us,run\nascend910b2,MatMul,catlass,fp16,{first_m(sealed)},8,8,5,catlass\n"
    )
    return read_rows(path)


def test_a_planted_read_of_a_sealed_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a fit nor the rows that a cost names can have one; an open row of the same source passes."""
    monkeypatch.syspath_prepend(TOOLS)
    bench = importlib.import_module("calibrate").CostBench("ascend910b2", {}, tmp_path, 1)
    sealed, free = row_of(tmp_path, True), row_of(tmp_path, False)
    refused = "the row of MatMul in run catlass, 5 us, is sealed; costs are fitted on open"
    with pytest.raises(SimError, match=f"^{refused}"):
        bench.usable([*free, *sealed])
    assert bench.usable(free) == free
    monkeypatch.setattr(fitted_on, "_rows", lambda _: [row.cells for row in (*sealed, *free)])
    with pytest.raises(SimError, match=f"planted.csv: K=8'?: {refused}"):
        fitted_on.selected("planted.csv: K=8")
    assert fitted_on.selected(f"planted.csv: M={first_m(False)}") == [free[0].cells]


def copied(folder: Path, dropped: set[str], **changed: str) -> list[MeasuredRow]:
    """A sealed product that ships, read from a file without some of its columns."""
    sealed = next(row.cells for row in sealed_rows() if row.kernel.op_type == "MatMul")
    cells = {name: value for name, value in (sealed | changed).items() if name not in dropped}
    path = folder / "copy.csv"
    path.write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n")
    return read_rows(path)


NEEDED = {"chip", "op_type", "dtype", "duration_us", "M", "N", "K"}


@pytest.mark.parametrize(
    ("dropped", "changed"),
    [
        ({"run"}, {}),
        ({"run", "series", "dtype_out", "trans_a", "trans_b"}, {}),
        (set(), {"run": "mine"}),
        (set(), {"format_in": "ND", "trans_a": "0"}),
        ({"run"}, {"dtype": "float16", "op_type": "MatMulV2", "chip": "ASCEND910B2"}),
        ({"run"}, {"M": "01024", "duration_us": "15.270"}),
    ],
)
def test_a_copy_of_a_sealed_row_is_sealed_whatever_it_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: set[str], changed: dict[str, str]
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    calibrate = importlib.import_module("calibrate")
    with pytest.raises(SimError, match=r"^the row of MatMul.* is sealed"):
        calibrate.CostBench("ascend910b2", {}, tmp_path, 1).usable(copied(tmp_path, dropped, **changed))


def test_the_columns_that_a_product_needs_tell_a_copy(tmp_path: Path) -> None:
    (row,) = copied(tmp_path, set(next(row.cells for row in sealed_rows() if row.kernel.op_type == "MatMul")) - NEEDED)
    assert set(row.cells) == NEEDED and is_sealed(row.cells)


def test_a_measurement_of_ones_own_is_open(tmp_path: Path) -> None:
    """Another time, another size or another chip is no copy of a sealed row."""
    for changed in ({"duration_us": "29"}, {"M": "3"}, {"chip": "ascend910b1"}):
        assert not is_sealed(copied(tmp_path, {"run"}, **changed)[0].cells)


def test_a_sealed_row_from_a_profile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says its name once."""
    monkeypatch.syspath_prepend(TOOLS)
    cells = next(row.cells for row in sealed_rows() if row.kernel.op_type == "MatMul")
    m, n, k = (cells[name] for name in "MNK")
    (tmp_path / "op_summary_1.csv").write_text(
        "Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Dim,Input Shapes,Input Data Types,Input Formats,"
        "Output Shapes,Output Data Types,Output Formats\n"
        f'a,MatMul,AI_CORE,1,{cells["duration_us"]},20,"{m},{k};{k},{n}",FLOAT16;FLOAT16,ND;ND,"{m},{n}",FLOAT16,ND\n'
    )
    given = [str(tmp_path), "--chip", cells["chip"], "--out", str(tmp_path / "mine.yaml")]
    assert importlib.import_module("calibrate").main(given) == 2
    assert capsys.readouterr().err.startswith("calibrate: the row of MatMul, 15.27 us, is sealed; costs")


@pytest.mark.fast
def test_rows_read_later_are_there_and_split() -> None:
    """Every row of the later files is open or sealed; those of operators without a kernel here say so."""
    runs = ("cann_bench_tilelang", "catlass", "cann_samples_950")
    free, sealed = (
        [row for row in rows if row.cells.get("run") in runs and not row.unlike] for rows in (shipped_rows(), sealed_rows())
    )
    assert (len(free), len(sealed)) == (9, 10)
    later = [row for row in (*shipped_rows(), *sealed_rows()) if "vector" in row.cells.get("run", "")]
    assert len(later) == 1076 and all(row.unlike for row in later)


def test_a_product_with_an_operand_in_nz_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("chip,op_type,dtype,format_in,M,N,K,duration_us\nascend910b3,MatMul,fp16,FRACTAL_NZ,8,8,8,5\n")
    assert [row.unlike for row in read_rows(path)] == ["an operand in FRACTAL_NZ is not simulated"]
