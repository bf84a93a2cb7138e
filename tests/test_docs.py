"""The documentation against the program: its examples run and print what it says, and what it names exists."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ascend_sim.cli import app
from tests.support.ascend_c.kernels import there_is_a_compiler
from tests.support.places import DOCS, ROOT
from tests.support.sampling import part_of_cases

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Block = tuple[str, str]


def blocks(page: Path) -> list[Block]:
    """Language (nothing where it has no name) and text of every fenced block."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run_command(line: str, folder: Path) -> Result:
    """`ascend-sim ...` as the documentation writes it, in `folder`.

    In this process: to start one for each command costs more than many of them. tests/cli runs the program itself. A search
    of five seconds gets one.
    """
    program, *arguments = shlex.split(line.replace("--time-limit 5", "--time-limit 1"), comments=True)
    assert program == "ascend-sim", line
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, arguments)


def needs(text: str) -> None:
    """Skip an example of PyTorch or of C++ where there is none."""
    if re.search(r"import torch|ascend_sim\.torch|compare-training", text):
        pytest.importorskip("torch")
    if re.search(r"cpp_kernel|\.cpp\b", text) and not there_is_a_compiler():
        pytest.skip("no compiler for C++ kernels")


def commands(language: str, pages: Sequence[Path] = PAGES) -> list[tuple[str, str]]:
    """Every `ascend-sim` command in blocks of a language, with the text that follows it."""
    found = []
    for page in pages:
        for kind, text in blocks(page):
            if kind == language:
                parts = re.split(r"^(?:\$ )?(ascend-sim .*)\n", text, flags=re.MULTILINE)
                found += zip(parts[1::2], parts[2::2], strict=True)
    return found


def write_named_examples(folder: Path) -> None:
    """The files that pages go on to use: blocks whose first line is "# NAME.py" or "// NAME.cpp"."""
    for page in PAGES:
        for kind, text in blocks(page):
            named = re.match(r"(?:#|//) ([\w-]+\.(?:py|cpp))\n", text)
            if kind in ("python", "cpp") and named:
                (folder / named[1]).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("command", "expected"), commands("console"), ids=lambda text: text[:40])
def test_a_console_example_prints_what_the_page_shows(command: str, expected: str, tmp_path: Path) -> None:
    needs(command)
    write_named_examples(tmp_path)
    done = run_command(command, tmp_path)
    assert done.exit_code == 0, done.output
    shown, expected = (re.sub(HOST_ERRORS, r"\1 * \2", text) for text in (done.stdout, expected))
    assert without_trailing_blanks(shown) == without_trailing_blanks(expected)


HOST_ERRORS = r"(?m)^(\w+ +\w+ +float32 +float32) +[\d.e+-]+ +0\.\d+ +(correct)"
"""Errors of a float32 output, whose last bits the host's BLAS decides (docs/precision.md), within what is correct."""

SHOWN = {command for command, _ in commands("console")}


@part_of_cases(0, "format hifloat8", "--inputs normal", "compare strided", "compare by_hand", "resnet50:conv2_1", "resnet50:3")
@pytest.mark.parametrize("command", sorted({command for command, _ in commands("sh")} - SHOWN))
def test_a_command_of_the_documentation_runs(command: str, tmp_path: Path) -> None:
    needs(command)
    write_named_examples(tmp_path)
    done = run_command(command, tmp_path)
    assert done.exit_code == 0, done.output


def test_the_readme_shows_three_commands_of_a_few_lines_and_five_doors() -> None:
    shown = commands("console", [ROOT / "README.md"])
    assert len(shown) == 3 and all(len(output.strip().splitlines()) <= 12 for _, output in shown)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first, picture = text.split("\n\n")[1:3]
    assert first.replace("\n", " ").count(". ") == 2 and picture.startswith("![")
    doors = text.partition("## Your door")[2].partition("\n\n`ascend-sim cases`")[0]
    assert sum(line.startswith("| ") for line in doors.splitlines()) == 1 + 5


@pytest.mark.parametrize("command", re.findall(r"\| `(ascend-sim .*?)` \|", (ROOT / "README.md").read_text(encoding="utf-8")))
def test_a_door_of_the_readme_opens(command: str) -> None:
    needs(command)
    done = run_command(command, ROOT)
    assert done.exit_code == 0, done.output


def test_what_the_demo_names_next_runs(tmp_path: Path) -> None:
    text = (ROOT / "tools" / "demo").read_text(encoding="utf-8")
    named = re.findall(r'echo "  (ascend-sim .*?)  +\w', text)
    assert len(named) == 3 and ".venv/bin/activate" in text
    for command in set(named) - SHOWN:
        done = run_command(command, tmp_path)
        assert done.exit_code == 0, done.output


def without_trailing_blanks(text: str) -> list[str]:
    """Lines; tables are padded to equal length on a terminal and not on a page."""
    return [line.rstrip() for line in text.strip().splitlines()]


def python_examples(*, printing: bool) -> list[tuple[str, str]]:
    """(page, code) of Python blocks that print, or of those that show values in comments."""
    found = [(page, text) for page in PAGES for kind, text in blocks(page) if kind == "python"]
    return [(page.name, code) for page, code in found if ("print(" in code) == printing]


@part_of_cases(2)
@pytest.mark.parametrize(("page", "code"), python_examples(printing=True), ids=lambda text: text[:16])
def test_a_python_example_prints_what_the_page_shows(
    page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run an example like `python -c`, but in this process: to start one with PyTorch costs more than most examples."""
    needs(code)
    every = blocks(next(path for path in PAGES if path.name == page))
    kind, expected = every[every.index(("python", code)) + 1]
    assert kind in ("", "text"), f"{page}: the output must follow the example"
    write_named_examples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    before, printed = set(sys.modules), io.StringIO()
    with contextlib.redirect_stdout(printed):
        named = re.match(r"# (\w+\.py)\n", code)
        exec(compile(code, named[1] if named else "<string>", "exec"), {"__name__": "__main__"})
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]
    assert without_trailing_blanks(printed.getvalue()) == without_trailing_blanks(expected)


@pytest.mark.parametrize(("page", "code"), python_examples(printing=False), ids=lambda text: text[:16])
def test_a_python_example_has_the_values_beside_it(
    page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(code)
    monkeypatch.chdir(tmp_path)
    for kind, text in blocks(next(path for path in PAGES if path.name == page)):
        named = re.match(r"# ([\w-]+\.yaml)\n", text)
        if kind == "yaml" and named:
            Path(named[1]).write_text(text, encoding="utf-8")
    assert values_beside_comments(code), f"{page}: an example that shows nothing"


def values_beside_comments(code: str) -> int:
    """Run code; every expression with a comment behind it must have the value that the comment ends in. How many had."""
    names: dict[str, object] = {}
    lines, compared = code.splitlines(), 0
    for statement in ast.parse(code).body:
        comment = lines[statement.end_lineno - 1][statement.end_col_offset :].partition("#")[2].strip()
        source = ast.unparse(statement)
        if isinstance(statement, ast.Expr) and comment:
            value = eval(source, names)
            shown = repr(round(value, 1) if isinstance(value, float) else value)
            assert comment.endswith(shown), f"{source} is {value!r}, the page says {comment!r}"
            compared += 1
        else:
            exec(source, names)
    return compared


def test_a_case_of_the_readme_is_a_case(tmp_path: Path) -> None:
    from ascend_sim.ops.case import load_case

    (text,) = (text for kind, text in blocks(ROOT / "README.md") if kind == "yaml")
    (tmp_path / "my_case.yaml").write_text(text, encoding="utf-8")
    assert load_case(str(tmp_path / "my_case.yaml")).tensors["grad_output"][0] == (32, 64, 56, 56)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text)]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    paths = re.findall(r"`(?:\./)?([\w.-]+/[\w./*-]*)`", text)
    for path in paths:
        named = "." in path or path.endswith("/")
        if not named or path.startswith("out/") or "NNNN" in path:  # a ratio, what a run writes, a placeholder
            continue
        if not any(any(base.glob(path.rstrip("/"))) for base in (ROOT, ROOT / "ascend_sim")):
            missing.append(path)
    assert missing == [], "no such file; a placeholder is written with *"


def test_a_message_names_the_package_that_is_missing() -> None:
    """An extra of a package that is on no index cannot be installed by its name."""
    named = [
        line.strip() for path in sorted((ROOT / "ascend_sim").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines() if "ascend-sim[" in line
    ]  # fmt: skip
    assert not named


def tracked_files() -> list[Path]:
    """The files of the repository; skips where there is no checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    folders = "|".join(("work", "tmp", "root", "home", "Users", "mnt"))
    somewhere = re.compile(rf"(?<![\w.*/>)\]-])/(?:{folders})/\w")
    elsewhere = re.compile("|".join(("shared" + "/facts", "shared" + "/design", "shared" + "/spec")))
    found = []
    for path in tracked_files():
        if path.suffix == ".png":
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if somewhere.search(line) or elsewhere.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found
