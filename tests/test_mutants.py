"""tools/mutants: every listed mistake fits the tree, what does not is told, and a planted one is found."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support.mutation import FOLDER, tool
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def listed() -> ModuleType:
    return tool("listed")


@pytest.fixture(scope="module")
def generic() -> ModuleType:
    return tool("generic")


@pytest.mark.fast
def test_every_entry_fits_the_tree(listed: ModuleType) -> None:
    """Its text stands in the source once, the change is another program, and its tests are there."""
    mutants = listed.read_list()
    assert len(mutants) >= 250
    assert listed.check(ROOT, mutants) == []


@pytest.mark.fast
def test_a_change_that_is_no_program_is_told(listed: ModuleType) -> None:
    broken = listed.Mutant("rule", "x.py", "if a:", "return 1", (), "report")
    with pytest.raises(listed.StaleError, match="the change is no Python"):
        broken.changed("if a:\n    b = 1\n")


@pytest.mark.slow
def test_the_nightly_sample_fits_the_tree() -> None:
    """Mistakes of the list and generic changes, drawn by the command of the workflow."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/mutants.yml").read_text(encoding="utf-8"))
    (line,) = [step["run"] for step in workflow["jobs"]["sample"]["steps"] if "run" in step]
    command = line.replace("tools/mutants", f"{sys.executable} {FOLDER / 'command.py'}")
    done = subprocess.run(["bash", "-c", f"{command} --check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "40 entries fit the tree\n")


@pytest.mark.slow
def test_line_breaks_and_comments_break_no_entry(listed: ModuleType) -> None:
    """Python writes each source anew from its tree: without comments, with other line breaks, quotes and brackets.

    Both sources with the mistake are programs.
    """
    for file, mutants in by_file(listed.read_list()).items():
        text = (ROOT / file).read_text(encoding="utf-8")
        other = ast.unparse(ast.parse(text))
        for mutant in mutants:
            assert dumped(mutant.changed(other)) == dumped(mutant.changed(text)), mutant.rule


def by_file(mutants: list[Any]) -> dict[str, list[Any]]:
    """Return the entries of each Python file."""
    python = [mutant for mutant in mutants if mutant.file.endswith(".py")]
    return {file: [one for one in python if one.file == file] for file in {mutant.file for mutant in python}}


def dumped(text: str) -> str:
    """Return the syntax of a text, without places."""
    return ast.dump(ast.parse(text))


@pytest.mark.slow
def test_no_entry_is_a_generic_change(listed: ModuleType, generic: ModuleType) -> None:
    """`--diff` and `--generic` plant those; the list holds what needs knowledge of the rule."""
    twice = []
    for file, mutants in by_file(listed.read_list()).items():
        text = (ROOT / file).read_text(encoding="utf-8")
        changes = list(generic.changes(text))
        for mutant in mutants:
            (start, end, _), wanted = mutant.change(text), dumped(mutant.changed(text))
            near = [one for one in changes if start <= one[0] < end]
            twice += [mutant.rule for at, old, new in near if dumped(text[:at] + new + text[at + len(old) :]) == wanted]
    assert twice == []


@pytest.mark.fast
def test_what_was_missed_once_names_the_test_that_finds_it(listed: ModuleType) -> None:
    once = [mutant for mutant in listed.read_list() if mutant.floor == "once_survived"]
    assert len(once) >= 28
    assert [mutant.rule for mutant in once if any("::" not in test for test in mutant.tests)] == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"before": "no_such_name"}, "the pattern stands in the module 0 times, not once"),
        ({"before": "np"}, "times, not once"),
        ({"before": "no such line"}, "the pattern is no Python"),
        ({"after": "HF32_MANTISSA_BITS = ("}, "the pattern is no Python"),
        ({"after": "HF32_MANTISSA_BITS = (11,10)"}, "the change changes nothing"),
        ({"scope": "gone"}, "there is no gone"),
        ({"file": "ascend_sim/numerics/gone.py"}, "there is no ascend_sim/numerics/gone.py"),
        ({"tests": ("tests/test_gone.py",)}, "there is no tests/test_gone.py"),
        ({"tests": ("tests/numerics/test_casting.py::test_gone",)}, "has no test test_gone"),
    ],
)
def test_a_stale_entry_is_told_in_one_line(listed: ModuleType, change: dict[str, Any], words: str) -> None:
    sound = next(one for one in listed.read_list() if one.before == "HF32_MANTISSA_BITS = (11, 10)")
    (line,) = listed.check(ROOT, [replace(sound, **change)])
    assert words in line and "\n" not in line


@pytest.mark.fast
def test_a_file_has_one_key_in_a_list(listed: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """YAML would keep the entries of the last key alone."""
    entry = "ascend_sim/api.py:\n  tests: [tests/test_api.py]\n  mutants:\n  - {rule: RULE, before: a, after: b}\n"
    (tmp_path / "report.yaml").write_text(entry + entry.replace("RULE", "OTHER"), encoding="utf-8")
    monkeypatch.setattr(listed, "LIST", tmp_path)
    with pytest.raises(listed.StaleError, match=r"report.yaml: ascend_sim/api.py stands there twice: put its entries"):
        listed.read_list()


@pytest.mark.fast
@pytest.mark.parametrize("file", ["ascend_sim/memory/regions.py", "ops/kernels/cube/capacity.py"])
def test_generic_changes_are_programs_that_differ_in_one_place(generic: ModuleType, file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    found = list(generic.changes(text))
    assert len(found) > 20
    plain = ast.dump(ast.parse(text))
    for start, before, after in found:
        assert text[start:].startswith(before)
        assert ast.dump(ast.parse(text[:start] + after + text[start + len(before) :])) != plain
    draw = tool("command").draw
    mutants = generic.mutants(ROOT, file, ())
    assert [one.changed(text) for one in mutants] == [text[:at] + new + text[at + len(old) :] for at, old, new in found]
    assert draw(mutants, 5, 1) == draw(mutants, 5, 1) != draw(mutants, 5, 2)
    assert draw(mutants, len(mutants) + 1, 3) == mutants


FAKE = """
import sqlite3, sys
if sys.argv[1] == "init":
    database = sqlite3.connect(sys.argv[3])
    database.execute(
        "create table mutation_specs "
        "(module_path text, start_pos_row int, start_pos_col int, operator_name text, occurrence int)"
    )
    path = open(sys.argv[2]).read().split('module-path = ["')[1].split('"')[0]
    for line, words in enumerate(open(path).read().splitlines(), 1):
        for operator in ("core/Plus_Minus", "core/Operator_Eq_Is", "core/Nothing"):
            database.executemany(
                "insert into mutation_specs values (?, ?, ?, ?, ?)",
                [(path, line, column, operator, 0) for column, letter in enumerate(words) if letter == "+"],
            )
    database.commit()
else:
    path, operator = sys.argv[2:4]
    text = open(path).read()
    open(path, "w").write(text.replace("b + c", "b - c") if operator == "core/Plus_Minus" else text)
"""
SOURCE = "@cached(1 + 2)\ndef f(a: A + B) -> C:\n    if a:\n        raise E(a + 1)\n    return 'ü', b + c\n"


@pytest.mark.fast
def test_changes_by_cosmic_ray_are_programs_and_run(tmp_path: Path, listed: ModuleType) -> None:
    """A command that lists a change of nothing, too, and changes that nobody runs; the one that is left is drawn once."""
    command, source = tmp_path / "cosmic-ray", tmp_path / "source.py"
    command.write_text(f"#!{sys.executable}{FAKE}", encoding="utf-8")
    command.chmod(0o755)
    source.write_text(SOURCE, encoding="utf-8")
    mutants = tool("cosmic").mutants
    tests = ("tests/test_mutants.py",)
    drawn = [one for seed in range(4) for one in mutants(tmp_path, ["source.py"], tests, seed, str(command))]
    assert 1 <= len(drawn) <= 4  # a seed may choose the change of nothing
    assert {one.changed(SOURCE) for one in drawn} == {SOURCE.replace("b + c", "b - c")}
    assert {(one.before, one.after) for one in drawn} == {("+", "-")}
    assert {one.rule for one in drawn} == {"source.py:5: return 'ü', b + c -> return 'ü', b - c"}
    assert {type(one).__name__ for one in drawn} == {listed.Mutant.__name__}


@pytest.mark.fast
@pytest.mark.parametrize(("before", "after"), [("a == b", "a != b"), ("aa", "aaa"), ("x and y", "x or y"), ("not a", "a")])
def test_a_change_is_what_differs(before: str, after: str) -> None:
    one = tool("cosmic").difference(before, after)
    assert one.of(before) == after
    assert one.end - one.start < len(before) and len(one.after) < len(after)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["a range is freed once", "C: write-backs are charged"])
def test_a_planted_mistake_is_found_and_the_tree_is_left_alone(tmp_path: Path, rule: str) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, str(FOLDER / "command.py"), "--named", "--results", str(results), rule]
    for _ in range(2):  # the second time there is nothing to do
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 of 1 run, 1 found, 100.0 %" in done.stdout
    (line,) = results.read_text(encoding="utf-8").splitlines()
    found = json.loads(line)
    assert found["named"] and found["found_by"].startswith("tests/")
    assert subprocess.run(["git", "diff", "--quiet", found["file"]], cwd=ROOT, check=False).returncode == 0
