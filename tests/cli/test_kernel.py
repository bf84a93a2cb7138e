"""`ascend-sim kernel`: verdicts and exit codes, files, and one clear line for whatever a file does wrong."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.sampling import part_of_cases

MOVE = """
import numpy as np
import ascend_sim as asim

@asim.kernel_function(core="AIV")
def move(k, x, y, *, scale=1, name="tile"):
    tiles = k.ub_queue(name, 64, x.dtype, "MTE2", "V")
    out = k.ub_queue("out", 64, x.dtype, "V", "MTE3")
    for row in range(k.block, len(x), k.blocks):
        k.gm_to_ub(tiles, x[row])
        with tiles.read() as source, out.write() as target:
            k.muls(target, source, scale)
        k.ub_to_gm(y[row], out)

def arguments(rng):
    return rng.integers(-9, 9, (6, 64)).astype(np.float32), asim.empty((6, 64), "float32")

def expected(x):
    return x
"""


def command(*arguments: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["kernel", *map(str, arguments)])
    assert "Traceback" not in done.stderr and "Traceback" not in done.stdout
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "move.py"
    path.write_text(MOVE, encoding="utf-8")
    return path


def test_a_right_kernel_ends_in_0_and_shows_its_verdict(file: Path) -> None:
    code, text, _ = command(file)
    assert code == 0 and text.startswith("move  ascend910b3   ") and "values: correct   mode full" in text
    assert len(text.splitlines()) <= 15
    code, text, _ = command(file, "--full")
    assert code == 0
    assert "move on ascend910b3, mode full" in text and "Outputs against float64" in text and "correct" in text
    assert "blocks 40" in text, "one for each vector core"
    assert not (file.parent / "__pycache__").exists()


def test_what_the_file_prints_is_no_part_of_the_json(file: Path) -> None:
    noisy = MOVE.replace("    tiles = k", '    print("in the kernel")\n    tiles = k').replace(
        "    return rng", '    print("in arguments")\n    return rng'
    )
    file.write_text("print('at import')\n" + noisy, encoding="utf-8")
    code, text, said = command(file, "--json", "--blocks", 2)
    assert code == 0 and json.loads(text)["kernels"]
    assert said.startswith("at import\nin arguments\n") and "in the kernel" in said
    assert "in the kernel" in command(file)[1], "as print does where nothing else reads stdout"
    checked = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert json.loads(checked.stdout)["findings"] == [] and "in the kernel" in checked.stderr


def test_a_failed_verdict_ends_in_1_and_a_hazard_too(file: Path) -> None:
    code, text, _ = command(file, "--tiling", "scale=2")
    assert code == 1 and "WRONG" in text
    code, text, _ = command(file, "--disarm", "tile[0] full", "--json")
    report = json.loads(text)
    assert code == 1 and report["findings"] and report["findings"][0]["kind"] == "hazard"


@pytest.mark.parametrize("mode", ["functional", "timing"])
def test_other_modes_and_options_do_what_they_say(file: Path, mode: str) -> None:
    code, text, _ = command(
        file, "move", "--mode", mode, "--blocks", 3, "--json", "--tiling", "name=b,scale=1.0", "--chip", "ascend950pr_9589"
    )
    report = json.loads(text)
    assert code == 0
    assert (report["chip"], report["mode"], report["kernels"][0]["block_dim"]) == ("ascend950pr_9589", mode, 3)
    assert report["kernels"][0]["tiling"] == {"scale": 1.0, "name": "b"}
    assert (report["total_us"] is None) == (mode == "functional") and bool(report["outputs"]) == (mode != "timing")


def test_the_seed_makes_the_inputs(file: Path, tmp_path: Path) -> None:
    results = []
    for seed in (0, 0, 1):
        assert command(file, "--seed", seed, "--out", tmp_path / "out", "--mode", "functional")[0] == 0
        results.append(np.load(tmp_path / "out" / "outputs.npz")["y"])
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0], results[2])


def test_out_html_and_msprof_are_what_run_writes(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    out, page = tmp_path / "out", tmp_path / "page.html"
    code, text, _ = command(file, "--out", out, "--html", page, "--msprof", "--blocks", 2)
    assert code == 0 and f"wrote {out / 'report.json'}" in text
    names = {path.name for path in out.iterdir()}
    assert names == {"report.json", "trace.json.gz", "timeline.npz", "outputs.npz", "msprof"}
    html = page.read_text(encoding="utf-8")
    assert "<h1>move on ascend910b3</h1>" in html and "Outputs against float64" in html and "critical-path" in html
    done = CliRunner().invoke(app, ["report", str(out), "--no-what-if"])
    assert done.exit_code == 0 and (out / "report.html").is_file()
    assert command(file, "--out", out, "--mode", "functional")[0] == 0
    assert {path.name for path in out.iterdir()} == {"report.json", "outputs.npz"}, "nothing of the older run is left"


OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Idle(asim.Instruction):
    cycles: int
    name = "idle"

    def pipe(self, chip):
        return "V"

    def cost(self, chip):
        return asim.Cost(0, 0, self.cycles, 0)

@asim"""


def test_a_page_of_an_instruction_of_the_files_own_asks_no_other_process(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a run is large enough to share its runs with other rates among processes."""
    pytest.importorskip("plotly")
    from ascend_sim.cli import page
    from ascend_sim.runtime import workers as workers

    monkeypatch.setattr(page, "_ROWS_WORTH_PROCESSES", 0)
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    text = MOVE.replace("\n@asim", OWN).replace("            k.muls", "            k.emit(Idle(30))\n            k.muls")
    file.write_text(text, encoding="utf-8")
    assert command(file, "--html", tmp_path / "page.html", "--blocks", 2)[0] == 0
    assert "idle" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_file_may_import_what_stands_beside_it(file: Path) -> None:
    (file.parent / "beside_the_kernel.py").write_text("SCALE = 1\n", encoding="utf-8")
    file.write_text("import beside_the_kernel\n" + MOVE.replace("scale=1,", "scale=beside_the_kernel.SCALE,"), encoding="utf-8")
    assert command(file)[0] == 0


KERNEL = '@asim.kernel_function(core="AIV")\ndef other(k, x, y):\n    pass\n'


@part_of_cases(3)
@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("def f(:\n", (), "move.py:1: invalid syntax"),
        ("x = 1\x00", (), "move.py"),
        ("", (), "no function arguments(rng)"),
        ("def arguments(rng): pass\n", (), "no kernel; put @ascend_sim.kernel_function"),
        ("\nraise KeyError('lost')\n", (), "move.py:2: KeyError: 'lost'"),
        ("import sys\nsys.exit(3)\n", (), "it ends Python (exit code 3)"),
        ("import no_such_module_here\n", (), "move.py:1: ModuleNotFoundError"),
        (MOVE + KERNEL, (), "several kernels; give one of move, other"),
        (MOVE, ("other",), "no kernel 'other'; give one of move"),
        (MOVE.replace("    tiles =", "    1 / 0\n    tiles ="), (), "move.py:7: kernel move: ZeroDivisionError"),
        (MOVE.replace("tiles, x[row]", "tiles, x[row + 9]"), (), "move.py:10: kernel move: x[6, 64] float32: index 9"),
        (MOVE.replace("return rng", "return rng.no_such(), rng"), (), "move.py:16: AttributeError"),
        (MOVE.replace("    return x", "    return x[1:]"), (), "y has shape [5, 64]; the output has [6, 64]"),
        (MOVE.replace("    return x", "    pass"), (), "expected: None for y; allowed are an array of numbers, an Expected"),
        (MOVE.replace("    return x", "    return x, x"), (), "expected: a value of type tuple for y; allowed are"),
        (MOVE + "expected = 'x'\n", (), "expected: a value of type str for y; allowed are"),
        (MOVE.replace("    return x", "    raise ValueError('a\\nb')"), (), "move.py:19: ValueError: a b"),
        (MOVE.replace("expected(x)", "expected(z)"), (), "asks for z; inputs of the kernel are x"),
        (MOVE + "BLOCKS = 'all'\n", (), "BLOCKS is 'all'"),
        (MOVE, ("--tiling", "scale"), "--tiling 'scale': allowed is NAME=VALUE"),
        (MOVE, ("--tiling", "scale=1,scale=2"), "--tiling: scale is given twice"),
        (MOVE, ("--tiling", "size=4"), "unexpected keyword argument 'size'"),
        (MOVE, ("--disarm", "nothing"), "disarm: no flag 'nothing' in move; it has out[0] free, out[0] full"),
        (MOVE, ("--mode", "fast"), "--mode fast: allowed are full, functional, timing"),
        (MOVE, ("--chip", "ascend910a"), "runs on AIV; ascend910a (dav-1001) has AI_CORE"),
        (MOVE, ("--blocks", "0"), "--blocks"),
        (MOVE, ("--msprof",), "--msprof: needs a folder"),
        (MOVE, ("--html", "page.html", "--mode", "functional"), "--html: needs a mode with time"),
        (MOVE, ("--out", __file__), "there is a file of that name"),
        (MOVE, ("--max-cycles", "50"), "50"),
        (MOVE, ("--max-cycles", "50", "--mode", "functional"), "max_cycles: 50 given; functional mode counts no cycles"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told_in_one_line(file: Path, text: str, arguments: tuple[str, ...], said: str) -> None:
    file.write_text(text, encoding="utf-8")
    code, out, told = command(file, *arguments)
    assert (code, out) == (2, "")
    assert said in told and told.count("\n") == 1
    as_json = command(file, *arguments, "--json")
    assert as_json[0] == 2 and said.replace('"', "'") in json.loads(as_json[1])["error"].replace('"', "'")


@pytest.mark.parametrize("where", ["nothing_here.py", ".", "case.yaml"])
def test_what_is_no_file_is_told(tmp_path: Path, where: str) -> None:
    (tmp_path / "case.yaml").write_text("stride: 1\n")
    code, _, told = command(tmp_path / where)
    assert code == 2 and "give a Python file with a kernel" in told


def test_the_program_itself_ends_so(file: Path) -> None:
    given = [sys.executable, "-m", "ascend_sim", "kernel", str(file), "--tiling", "scale=3"]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "WRONG" in done.stdout


def test_a_kernel_is_checked_after_its_run(file: Path) -> None:
    """The line of the summary, the entry of the JSON and the exit code agree with `check`; --no-check leaves them out."""
    assert "\ncheck: no findings\n" in command(file)[1] and "\ncheck: no findings\n" in command(file, "--full")[1]
    code, text, _ = command(file, "--json")
    assert code == 0 and json.loads(text).pop("check")["passed"] is True
    plain = json.loads(command(file, "--json", "--no-check")[1])
    left_out = {"check": None, "verdict": None}
    assert {**json.loads(text), **left_out} == {**plain, **left_out} and "check" not in plain
    assert plain["verdict"]["race"] is None and json.loads(text)["verdict"]["race"]["passed"]
    assert "check:" not in command(file, "--no-check")[1]


UNORDERED = """
import numpy as np
import ascend_sim as asim

@asim.kernel_function(core="AIV")
def unordered(k, x, y):
    row = k.local_tensor(64, "float32", "row")
    k.gm_to_ub(row, x)
    k.ub_to_gm(y, row)

def arguments(rng):
    return np.zeros(64, np.float32), asim.empty(64, "float32")
"""


def test_findings_of_the_check_come_with_the_command_that_prints_them(file: Path) -> None:
    """A race that a functional run does not see is an error: exit code 1, and 0 without the check."""
    file.write_text(UNORDERED, encoding="utf-8")
    options = ("--blocks", 1, "--mode", "functional")
    code, text, _ = command(file, "unordered", *options)
    told = next(line for line in text.splitlines() if line.startswith("check: "))
    count, again = told.removeprefix("check: ").split("; ")
    done = CliRunner().invoke(app, [*shlex.split(again)[1:], "--json"])
    findings = json.loads(done.stdout)["findings"]
    assert count == f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" and findings
    assert code == done.exit_code == 1 and command(file, *options, "--no-check")[0] == 0
    lines = " ".join(text.split())
    assert "RAW: move.py:9 `k.ub_to_gm(y, row)` reads row in UB, move.py:8 `k.gm_to_ub(row, x)` writes it, in no" in lines
    assert [place["call"] for place in findings[0]["places"]] == ["k.gm_to_ub(row, x)", "k.ub_to_gm(y, row)"]


def test_hazards_of_a_run_stand_in_the_summary_by_line(file: Path) -> None:
    """Each two lines of the kernel are told once, with how often they meet; without the check the run's own words stand."""
    file.write_text(UNORDERED, encoding="utf-8")
    options = ("unordered", "--blocks", 8)
    text = " ".join(command(file, *options)[1].split())
    assert text.count("RAW") == 1 and "RAW, 8 times: move.py:9 " in text and "hazard in" not in text
    assert "hazard in unordered: block 0 AIV0" in " ".join(command(file, *options, "--no-check")[1].split())


def test_a_long_kernel_is_not_checked_and_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascend_sim.cli.kernel.MOST_CHECKED", 10)
    rows = json.loads(command(file, "--blocks", 2, "--json")[1])["kernels"][0]["counts"]["instructions"]
    code, text, _ = command(file, "--blocks", 2)
    told = f"check: not checked: {sum(rows.values())} instructions, more than 10; ascend-sim check {file} "
    assert code == 0 and told in text


def test_msprof_names_file_and_line(file: Path, tmp_path: Path) -> None:
    """Each line of the kernel that writes instructions is a row, with the calls of all that it writes."""
    out = tmp_path / "out"
    assert command(file, "--out", out, "--msprof", "--blocks", 1)[0] == 0
    (path,) = out.glob("msprof/*/simulator/*/*_code_exe.csv")
    with path.open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert sum(int(row["call_count"]) for row in rows) == sum(report["kernels"][0]["counts"]["instructions"].values())
    lines = {number for number, one in enumerate(MOVE.splitlines(), 1) if "gm_to_ub" in one or "ub_to_gm" in one}
    assert {f"move.py:{number}" for number in lines} <= {row["code"] for row in rows}
    assert all(row["code"].startswith("move.py:") for row in rows)


def test_a_case_is_no_kernel() -> None:
    assert command("by_hand")[0] == 2 and "by_hand: that is a case: run by_hand; give a Python file" in command("by_hand")[2]
