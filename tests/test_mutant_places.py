"""tools/mutants: where a pattern of the list stands in a source, and which lines a change touches."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mutation import FOLDER, tool

PYTHON = """
LIMIT = 8


class Box:
    size: int = 4

    @property
    def area(self, scale=1) -> int:  # a head: with a comment
        if self.size > LIMIT:
            return 0
        elif (
            self.size  # note: in brackets
        ):
            return (self.size
                    + scale) // 2
        return -1

    def room(self):
        if self.size > LIMIT:
            raise ValueError(f"{self.size + 1}")
        rows = [self.size, scale(1), "end"]
        for row in rows:
            yield row + 1

        def scale(n):
            n += 3
            return n * 2 // 3
"""
ROOM = """    def room(self):
        if self.size > LIMIT:"""


@pytest.mark.fast
@pytest.mark.parametrize(
    ("scope", "before", "after", "old", "new"),
    [
        ("", "LIMIT=8", "LIMIT = 9", "LIMIT = 8", "LIMIT = 9"),
        ("Box", "size: int = 4", "size: int = 5", "int = 4", "int = 5"),
        ("Box.room", "self.size > LIMIT", "self.size", ROOM, ROOM.replace(" > LIMIT", "")),
        ("Box.room", "if self.size > LIMIT:", "while False:", ROOM, ROOM.replace("if self.size > LIMIT", "while False")),
        ("Box.area", "def area(self, scale=1) -> int:", "def area(self):", "(self, scale=1) -> int:", "(self):"),
        ("Box.area", "if self.size:", "if not self.size:", "            self.size  #", "            not self.size  #"),
        ("Box.area", "self.size + scale", "self.size", "(self.size\n                    + scale)", "self.size"),
        ("Box.area", "return (self.size + scale) // 2", "pass", "return (self.size\n                    + scale) // 2", "pass"),
        ("Box.area", "property", "cached(property)", "@property", "@cached(property)"),
        ("Box.room", "self.size, scale(1)", "scale(1)", "self.size, scale(1)", "scale(1)"),
        ("Box.room", "scale(1), 'end'", "'end', scale(1)", 'scale(1), "end"', '"end", scale(1)'),
        ("Box.room", 'f"{self.size + 1}"', '""', 'f"{self.size + 1}"', '""'),
        ("Box.room", "for row in rows:\n    yield row + 1", "", "for row in rows:\n            yield row + 1", "pass"),
        ("Box.room.scale", "n * 2", "n + 2", "n * 2", "(n + 2)"),
        ("Box.room.scale", "n += 3\nreturn n * 2 // 3", "if n:\n    n += 3\nreturn n", "n += 3\n            return n * 2 // 3",
         "if n:\n                n += 3\n            return n"),
    ],
)  # fmt: skip
def test_a_pattern_is_replaced_in_its_function(scope: str, before: str, after: str, old: str, new: str) -> None:
    """By hand: the same change as text, which stands once in the whole file; and again where no line break is the same."""
    assert PYTHON.count(old) == 1
    wanted = ast.dump(ast.parse(PYTHON.replace(old, new)))
    for text in (PYTHON, ast.unparse(ast.parse(PYTHON))):
        assert ast.dump(ast.parse(tool("syntax").change(text, scope, before, after).of(text))) == wanted


@pytest.mark.fast
@pytest.mark.parametrize(
    ("scope", "before", "words"),
    [
        ("Box.room", "self.size", "stands in Box.room 2 times"),  # none of them in a formatted string
        ("Box.room", "row + 1", "changes nothing"),
        ("Box.room", "n += 3", "stands in Box.room 0 times"),  # a function of its own
        ("Box", "if self.size > LIMIT:", "stands in Box 0 times"),
        ("Box.rooms", "1", "there is no Box.rooms"),
    ],
)
def test_a_pattern_that_does_not_stand_once_is_told(scope: str, before: str, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        tool("syntax").change(PYTHON, scope, before, "row+1")


@pytest.mark.fast
def test_an_elif_becomes_another_elif() -> None:
    """`el` of `elif` is left, and `elpass` would be a name."""
    with pytest.raises(LookupError, match="only another `if` may stand behind `el`"):
        tool("syntax").change(PYTHON, "Box.area", "if self.size: return (self.size + scale) // 2", "pass")


C = "int f(int a);\n\nstatic int f(int a) {\n    return a +\n        1;\n}\n\nint g(void) {\n    return a + 1;\n}\n"


@pytest.mark.fast
def test_words_of_c_are_replaced_in_their_function() -> None:
    mutant = tool("listed").Mutant("rule", "x.c", "return a + 1;", "return a;", (), "engine_c", scope="f")
    assert mutant.changed(C) == C.replace("return a +\n        1;", "return a;")
    with pytest.raises(tool("listed").StaleError, match="the text stands in the file 2 times"):
        tool("listed").Mutant("rule", "x.c", "return a + 1;", "return a;", (), "engine_c").changed(C)


SOURCE = '''"""A file."""


def f(a, b):
    """Return a sum."""
    if a < b:
        return a + b
    return a - b


NAME = "sum"
'''
TESTS = """from ascend_sim.x import f


def test_f():
    assert f(1, 2) == 3
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a checkout with one source and its test."""
    for name, text in (("ascend_sim/__init__.py", ""), ("ascend_sim/x.py", SOURCE), ("tests/test_x.py", TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=b", "commit", "--quiet", "--message", "begin")
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=tree, check=True)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("return a + b", "return a + b + 1", {7}),
        ("a < b", '"a" < b', {6}),
        ("(a, b):", "(a, c):", set()),  # a name
        ('"sum"', '"product"', {11}),
        ("if a < b", "if (\n        a\n        < b\n    )", {6, 7, 8, 9}),
        ("        return a + b\n", "", set()),
        ("    return a - b", "    # the rest\n\n    return a - b", {8, 9}),
    ],
)
def test_touched_lines_are_those_of_the_change(tree: Path, old: str, new: str, lines: set[int]) -> None:
    (tree / "ascend_sim/x.py").write_text(SOURCE.replace(old, new), encoding="utf-8")
    assert tool("touched").touched_lines(tree, "HEAD").get("ascend_sim/x.py", set()) == lines


@pytest.mark.fast
def test_a_renamed_file_is_not_touched_and_a_new_one_is(tree: Path) -> None:
    git(tree, "mv", "ascend_sim/x.py", "ascend_sim/y.py")
    (tree / "ascend_sim/new.py").write_text("a = 1\n", encoding="utf-8")
    assert set(tool("touched").touched_lines(tree, "HEAD")) == {"ascend_sim/new.py"}


@pytest.mark.fast
def test_a_change_of_words_gives_no_mutant(tree: Path) -> None:
    (tree / "ascend_sim/x.py").write_text(SOURCE.replace("a sum", "the sum < 1 of both"), encoding="utf-8")
    lines = tool("touched").touched_lines(tree, "HEAD")["ascend_sim/x.py"]
    assert lines == {5}
    assert tool("generic").mutants(tree, "ascend_sim/x.py", (), lines) == []


@pytest.mark.fast
def test_work_starts_where_the_branch_left_main(tree: Path) -> None:
    start = tool("touched").start_of_work
    assert start(tree) == "HEAD~1"
    head = (tree / ".git/refs/heads/main").read_text(encoding="utf-8").strip()
    git(tree, "switch", "--quiet", "--create", "branch")
    git(tree, "-c", "user.name=a", "-c", "user.email=b", "commit", "--quiet", "--allow-empty", "--message", "more")
    assert start(tree) == head


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as if `tree` were the repository."""
    code = "import pathlib, sys, command; command.ROOT = pathlib.Path(sys.argv.pop(1)); sys.exit(command.main())"
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    words = ["--results", str(tree.parent / "results.jsonl"), "--seconds", "5", *arguments]
    return subprocess.run(
        [sys.executable, "-c", code, str(tree), *words], capture_output=True, text=True, check=False, cwd=tree, env=environment
    )


def test_changes_of_touched_lines_are_found_or_survive(tree: Path) -> None:
    """The one test of the file takes the first branch alone; another one finds the change of the last line, too."""
    changed = SOURCE.replace("if a < b", "if a < b + 9").replace("return a - b", "return a - b - b")
    (tree / "ascend_sim/x.py").write_text(changed, encoding="utf-8")
    (tree / "engine.c").write_text("int a;\n", encoding="utf-8")
    (tree / "ascend_sim/bare.py").write_text("a = 1\n", encoding="utf-8")
    weak = run(tree, "--diff", "HEAD")
    assert weak.returncode == 1, weak.stderr
    assert "left out, as generic changes know Python alone: engine.c" in weak.stdout
    assert "left out, as there are no tests at its place: ascend_sim/bare.py" in weak.stdout
    assert "survived: generic: ascend_sim/x.py:8: return a - b - b -> return a + b - b" in weak.stdout
    with (tree / "tests/test_x.py").open("a", encoding="utf-8") as file:
        file.write("    assert (f(19, 10), f(19, 9), f(18, 9), f(17, 9)) == (-1, 1, 0, 26)\n")
    strong = run(tree, "--diff", "HEAD", "--sample", "4")
    assert (strong.returncode, strong.stderr) == (0, "")
    assert strong.stdout.splitlines()[-1] == "4 of 5 run, 4 found, 100.0 %, 1 not run"


def test_what_git_cannot_compare_is_told_in_one_line(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for place, arguments, words in (
        (tree, ("--diff", "nowhere"), "there is no revision nowhere"),
        (tree, ("--diff",), "there is no revision HEAD~1"),
        (tmp_path_factory.mktemp("plain"), ("--diff",), "fatal: not a git repository"),
    ):
        told = run(place, *arguments)
        assert (told.returncode, told.stdout) == (2, "")
        assert words in told.stderr and told.stderr.count("\n") == 1
