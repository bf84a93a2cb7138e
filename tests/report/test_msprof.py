"""`run --msprof`: the vendor's columns, in its order, and figures that agree with the report and the timeline."""

from __future__ import annotations

import csv
import fnmatch
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.report.msprof import remove_msprof, write_msprof
from ascend_sim.report.report import Report
from tests.support.places import DATA, DOCS
from tests.support.report.small_kernels import CHIP, cube_task, run_three
from tests.support.sampling import part_of_cases

HEADS = json.loads((DATA / "msprof_headers.json").read_text(encoding="utf-8"))
ARCH_OF = {"ascend910b3": "dav-2201", "ascend310p3": "dav-2002", "ascend910a": "dav-2002", "ascend950pr_9589": "dav-3510"}

Cases = Callable[[str], tuple[Path, list[dict[str, Any]]]]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def heads(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def column(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row[name]]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Timeline, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("three")
    tasks, timeline = run_three()
    write_msprof(out, timeline, tasks, CHIP)
    return out / "msprof", timeline, Report.build(CHIP, timeline, tasks).to_dict()["kernels"]


def run_cube() -> tuple[list[Task], Timeline]:
    device = Device(CHIP, with_values=False)
    tasks = [cube_task(device)]
    return tasks, Engine(device).run(tasks)


def run_case(chip: str, folder: Path) -> dict[str, Any]:
    arguments = ["run", "document_example_2d", "--chip", chip, "--mode", "timing", "--out", str(folder), "--msprof"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Chip -> folder and kernels of one call that was written there, run once per chip."""

    @functools.cache
    def of(chip: str) -> tuple[Path, list[dict[str, Any]]]:
        folder = tmp_path_factory.mktemp(chip)
        kernels: list[dict[str, Any]] = run_case(chip, folder)["kernels"]
        return folder / "msprof", kernels

    return of


@part_of_cases(2)
@pytest.mark.parametrize("chip", ARCH_OF)
def test_the_columns_are_the_vendors_on_every_architecture(chip: str, cases: Cases) -> None:
    place, kernels = cases(chip)
    folders = sorted(place.glob("OPPROF_*"))
    assert len(folders) == len(kernels)
    for folder, kernel in zip(folders, kernels, strict=True):
        assert folder.name.endswith(kernel["name"])
        tables = {path.stem: heads(path) for path in folder.glob("*.csv")}
        assert tables == HEADS[ARCH_OF[chip]]
        (basic,) = table(folder / "OpBasicInfo.csv")
        assert float(basic["Task Duration(us)"]) == pytest.approx(kernel["task_us"], abs=1e-4)
        assert int(basic["Block Dim"]) == kernel["block_dim"] and kernel["name"] in basic["Op Name"]
        for kind in ("instr_exe", "code_exe"):
            found = list(folder.glob(f"simulator/*/*_{kind}.csv"))
            assert found and all(heads(path) == HEADS[kind] for path in found)


@pytest.mark.parametrize("chip", ["ascend310p3", "ascend910a"])
def test_a_coupled_kernel_is_one_row(chip: str, cases: Cases) -> None:
    place, kernels = cases(chip)
    for folder, kernel in zip(sorted(place.glob("OPPROF_*")), kernels, strict=True):
        (row,) = table(folder / "PipeUtilization.csv")
        cores = len(list(folder.glob("simulator/*/*_instr_exe.csv")))
        for name in ("cube", "vec", "mte2", "scalar"):
            total = float(row[f"aic_{name}_time(us)"]) * kernel["block_dim"]
            assert total == pytest.approx(kernel["pipes_us"][name] * cores, abs=1e-4 * (cores + kernel["block_dim"]))


def documented(part: str) -> list[str]:
    """The column patterns of one of the two tables of docs/msprof.md."""
    page = (DOCS / "msprof.md").read_text(encoding="utf-8")
    page = page.partition("## Tables of blocks")[2].partition("## Files of cores")[0]
    filled, _, empty = page.partition("Always empty:")
    first_cells = [line.split(" | ")[0] for line in (filled, empty)[part == "empty"].splitlines() if line[:3] == "| `"]
    return [name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]


def matches(column: str, patterns: list[str]) -> bool:
    plain = column.removeprefix("aic_").removeprefix("aiv_")
    return any(fnmatch.fnmatchcase(name, pattern) for name in (column, plain) for pattern in patterns)


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend310p3", "ascend950pr_9589"])
def test_every_column_is_on_the_page_and_those_that_stay_empty_do(chip: str, cases: Cases) -> None:
    place, _ = cases(chip)
    filled, empty = documented("filled"), documented("empty")
    for name, columns in HEADS[ARCH_OF[chip]].items():
        rows = [row for path in place.glob(f"OPPROF_*/{name}.csv") for row in table(path)]
        for column in columns:
            assert matches(column, filled) != matches(column, empty), f"{name}: {column}"
            if matches(column, empty):
                assert all(row[column] == "" for row in rows), f"{name}: {column}"
            elif "Mix" not in column and not column.startswith(("L1_to", "L0C_to_L1")):
                assert any(row[column] != "" for row in rows), f"{name}: {column}"


def test_pipe_times_are_those_of_the_report(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, timeline, kernels = three
    prefixes = {"AIC": ("aic",), "AIV": ("aiv",), "MIX": ("aic", "aiv")}
    names = {"aic": ("cube", "mte1", "mte2", "mte3", "fixpipe", "scalar"), "aiv": ("vec", "mte3")}
    for number, (kernel, place) in enumerate(zip(kernels, sorted(folder.glob("OPPROF_*")), strict=True)):
        rows = table(place / "PipeUtilization.csv")
        runs = timeline.of(number)
        assert [(int(row["block_id"]), row["sub_block_id"]) for row in rows] == [
            (run.program.block, "cube0" if run.program.core_kind == "AIC" else f"vector{run.program.sub_block}") for run in runs
        ]
        for prefix in prefixes[kernel["core_type"]]:
            mine = [run for run in runs if run.program.core_kind == prefix.upper()]
            assert column(rows, f"{prefix}_total_cycles") == [run.finish - run.launch for run in mine]
            for name in names[prefix]:
                cores = len({run.core for run in mine})
                total = sum(column(rows, f"{prefix}_{name}_time(us)"))
                shared = kernel["core_type"] == "MIX" and name in ("scalar", "mte2", "mte3")
                if not shared:  # the report has one mean over the cores of both kinds
                    assert total / cores == pytest.approx(kernel["pipes_us"][name], abs=1e-3)
        for row in rows:
            if row["aic_total_cycles"]:
                assert float(row["aic_cube_ratio"]) * float(row["aic_time(us)"]) == pytest.approx(
                    float(row["aic_cube_time(us)"]), abs=2e-4
                )


def test_bytes_and_counts_are_those_of_the_report(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, _, kernels = three
    for kernel, place in zip(kernels, sorted(folder.glob("OPPROF_*")), strict=True):
        memory, moved = table(place / "Memory.csv"), kernel["counts"]["bytes"]
        for path in ("GM->L1", "L0C->GM", "GM->UB", "UB->GM"):
            name = path.replace("->", "_to_") + "_datas(KB)"
            assert sum(column(memory, name)) * 1024 == pytest.approx(moved.get(path, 0), abs=1)
        read = sum(size for path, size in moved.items() if path.startswith("GM->") and ":" not in path)
        assert sum(column(memory, "read_main_memory_datas(KB)")) * 1024 == pytest.approx(read, abs=1)
        arithmetic = table(place / "ArithmeticUtilization.csv")
        assert sum(column(arithmetic, "aic_cube_total_instr_number")) == kernel["counts"]["instructions"].get("mmad", 0)
        assert sum(column(arithmetic, "aic_cube_fops")) == 2 * (kernel.get("macs") or 0)
        assert all(row["aiv_vec_fops"] == "" for row in arithmetic)


def test_instructions_add_up_to_the_busy_time_of_each_core(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, timeline, _ = three
    pipes = {"MTE1": "MTE1", "CUBE": "M", "FIXP": "FIX", "MTE2": "MTE2", "VECTOR": "V", "MTE3": "MTE3"}
    for number, place in enumerate(sorted(folder.glob("OPPROF_*"))):
        calls = cycles = 0
        for path in place.glob("simulator/*/*_instr_exe.csv"):
            rows = table(path)
            calls += sum(int(row["call_count"]) for row in rows)
            waits = ("WAIT_FLAG", "CROSS_CORE_WAIT_FLAG", "PIPE_BARRIER")
            cycles += sum(int(row["cycles"]) for row in rows if row["pipe"] in pipes and row["instr"] not in waits)
            code = table(path.with_name(path.name.replace("instr", "code")))
            assert sum(int(row["call_count"]) for row in code) == sum(int(row["call_count"]) for row in rows)
        runs = timeline.of(number)
        assert calls == sum(len(run.program) for run in runs)
        assert cycles == sum(run.busy()[pipe] for run in runs for pipe in PIPES if pipe != "S")


def test_l2_rates_follow_from_the_lines(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, timeline, _ = three
    for number, place in enumerate(sorted(folder.glob("OPPROF_*"))):
        for row, run in zip(table(place / "L2Cache.csv"), timeline.of(number), strict=True):
            side = "aiv" if run.program.core_kind == "AIV" else "aic"
            hits = int(row[f"{side}_write_cache_hit"]) + int(row[f"{side}_r0_read_cache_hit"])
            misses = int(row[f"{side}_write_cache_miss_allocate"]) + int(row[f"{side}_r0_read_cache_miss_allocate"])
            assert (hits, misses) == (run.l2_hits.sum(), run.l2_misses.sum())
            if hits + misses:
                rate = 100 * hits / (hits + misses)
                assert float(row[f"{side}_total_hit_rate(%)"]) == pytest.approx(rate, abs=1e-5)


def test_the_traces_hold_every_instruction_and_pair_the_flags(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, timeline, _ = three
    place = next(folder.glob("OPPROF_1_*"))
    runs = timeline.of(1)
    for path in [*place.glob("simulator/*/trace.json"), place / "simulator" / "trace.json"]:
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        boxes = [event for event in events if event["ph"] == "X"]
        whole = path.parent.name == "simulator"
        if whole:
            assert len(boxes) == sum(len(run.program) for run in runs)
            assert {event["pid"] for event in events} == {f"core{run.core}.cubecore0" for run in runs}
        else:
            assert {event["pid"] for event in events} <= {10, 30, 40, 50, 60, 70, 80}
        assert min(event["ts"] for event in boxes) >= 0
        ends = [[event["id"] for event in events if event["ph"] == side] for side in "st"]
        assert sorted(ends[0]) == sorted(ends[1]) and len(set(ends[0])) == len(ends[0])
        assert len(ends[0]) == sum(event["name"] == "WAIT_FLAG" for event in boxes)


def test_a_trace_begins_with_the_launch_of_its_kernel(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    folder, timeline, _ = three
    span, runs = timeline.tasks[1], timeline.of(1)
    path = next(folder.glob("OPPROF_1_*")) / "simulator" / "trace.json"
    boxes = [event for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if event["ph"] == "X"]
    first = min(int(run.start.min()) for run in runs)
    assert span.launch > 0
    assert min(event["ts"] for event in boxes) == pytest.approx(CHIP.us(first - span.launch), abs=1e-6)


def test_a_limit_leaves_cores_out_of_traces_only(tmp_path: Path) -> None:
    tasks, timeline = run_cube()
    folder = write_msprof(tmp_path, timeline, tasks, CHIP, trace_limit=1)
    place = next(folder.glob("OPPROF_0_*"))
    assert len(list(place.glob("simulator/*/trace.json"))) == 1
    assert len(list(place.glob("simulator/*/*_instr_exe.csv"))) == len(timeline.of(0))


def test_two_runs_write_the_same_files_and_the_later_replaces_the_earlier(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        tasks, timeline = run_cube()
        folder = write_msprof(tmp_path, timeline, tasks, CHIP)
        contents.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        assert [path.name for path in tmp_path.iterdir()] == ["msprof"]
    assert contents[0] == contents[1]


def test_a_file_that_somebody_put_into_the_folder_stays(tmp_path: Path) -> None:
    tasks, timeline = run_cube()
    mine = write_msprof(tmp_path, timeline, tasks, CHIP) / "notes.txt"
    mine.write_text("1")
    with pytest.raises(SimError, match=r"msprof has notes\.txt, which ascend-sim did not write"):
        write_msprof(tmp_path, timeline, tasks, CHIP)
    remove_msprof(tmp_path)
    assert mine.read_text() == "1"
    mine.unlink()
    remove_msprof(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "msprof").mkdir()
    (tmp_path / "msprof" / "mine.csv").write_text("1")
    tasks, timeline = run_cube()
    with pytest.raises(SimError, match="was not written by ascend-sim"):
        write_msprof(tmp_path, timeline, tasks, CHIP)
    assert (tmp_path / "msprof" / "mine.csv").read_text() == "1"


def test_a_run_without_it_takes_the_old_folder_away(tmp_path: Path) -> None:
    run_case("ascend910b3", tmp_path)
    arguments = ["run", "document_example_2d", "--mode", "timing", "--out", str(tmp_path)]
    assert (tmp_path / "msprof").is_dir() and CliRunner().invoke(app, arguments).exit_code == 0
    assert not (tmp_path / "msprof").exists()


@pytest.mark.parametrize("arguments", [["--msprof"], ["--msprof", "--mode", "functional", "--out", "out"]])
def test_it_needs_a_folder_and_time(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run", "document_example_2d", *arguments])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and "--msprof" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_l2_columns_count_the_lines_of_every_transfer(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    _, timeline, _ = three
    for run in timeline.programs:
        lines = run.l2_hits + run.l2_misses
        moves = np.asarray([run.program.table.accesses[row] is not None for row in run.program.rows[:, 0]])
        assert (lines[moves] > 0).all() and not lines[~moves].any()


def test_runs_that_end_at_once_leave_one_whole_folder(tmp_path: Path) -> None:
    """Four writers, each many times, into one folder: none fails, and what is there is of one of them."""
    from concurrent.futures import ThreadPoolExecutor

    from ascend_sim.report import msprof

    def write(writer: int) -> None:
        for turn in range(20):
            made = tmp_path / f".msprof.{writer}.{turn}.tmp"
            made.mkdir()
            (made / msprof.MARKER).write_text(msprof._MARK)
            for name in ("OPPROF_a", "OPPROF_b"):
                (made / name).write_text(str((writer, turn)))
            msprof.replace_msprof(made, tmp_path / msprof.FOLDER)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [path.name for path in tmp_path.iterdir()] == [msprof.FOLDER]
    assert len({(tmp_path / msprof.FOLDER / name).read_text() for name in ("OPPROF_a", "OPPROF_b")}) == 1


def test_a_folder_that_another_run_takes_away_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ascend_sim.report import msprof

    folders = [tmp_path / name for name in ("made", msprof.FOLDER)]
    for folder in folders:
        folder.mkdir()
        (folder / msprof.MARKER).write_text(msprof._MARK)
    listed = Path.iterdir

    def taken_away(path: Path) -> Iterator[Path]:
        path.rename(tmp_path / "away")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", taken_away)
    msprof.replace_msprof(*folders)
    assert [folder.exists() for folder in folders] == [False, True]


def test_a_folder_of_any_name_is_replaced_and_no_other(tmp_path: Path) -> None:
    """Both folders are of earlier runs; only the given one may change."""
    from ascend_sim.report import msprof

    for name in ("made", "other", msprof.FOLDER):
        (tmp_path / name).mkdir()
        (tmp_path / name / msprof.MARKER).write_text(msprof._MARK)
        (tmp_path / name / "OPPROF_text").write_text(name)
    msprof.replace_msprof(tmp_path / "made", tmp_path / "other")
    read = {path.name: (path / "OPPROF_text").read_text() for path in tmp_path.iterdir()}
    assert read == {"other": "made", "msprof": "msprof"}
