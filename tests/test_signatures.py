"""What a function takes can be read at its head: few parameters, and no long rows of numbers without names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.fast

MOST = 8
"""Parameters of a function beside `self`."""

OPERATOR = "the arguments of torch's function, in its order, and the options of a run as one"
INSTRUCTION = "the operands of the instruction, in the order of its public reference"
CAST = "a keyword for each of CAST_OPTIONS, on which the sources disagree"
MAY_HAVE_MORE = {
    "ascend_sim/api.py": {"convolution_backward": OPERATOR, "convolution": OPERATOR},
    "ascend_sim/acl/operators.py": {"aclnnConvolutionBackwardGetWorkspaceSize": "as in the document"},
    "ascend_sim/acl/tensors.py": {"aclCreateTensor": "as in the document"},
    "ascend_sim/cli/tile.py": {"tile": "an option of the command is a parameter (typer)"},
    "ascend_sim/kernel/unit_flag.py": {"mmad": INSTRUCTION},
    "ascend_sim/numerics/verdict.py": {"check_correct": "what a bound depends on, as keywords"},
    "ascend_sim/kernel/builder.py": {"data_copy": INSTRUCTION, "fixpipe": INSTRUCTION, "mmad": INSTRUCTION},
    "ascend_sim/kernel/kernel.py": {"l1_to_l0a": INSTRUCTION, "l1_to_l0b": INSTRUCTION},
    "ascend_sim/numerics/casting.py": {"cast": CAST},
    "ascend_sim/numerics/reference.py": {"round_value": CAST},
}

NUMBERS = 5
"""Numbers of a row from which on they have to have names."""

SHAPE = "a shape, whose order the field knows"
MAY_BE_ROWS = {
    "ascend_sim/check/sync_rows.py": "a row as the walk over millions of them reads it",
    "ascend_sim/engine/core.py": "six columns of a program's row, read for every instruction",
    "ops/convolution/call.py": SHAPE,
    "ops/problem/normal.py": SHAPE,
}

UNNAMED = {
    "ascend_sim/kernel/program.py": "an instruction's class and fields: the key under which it is interned",
    "ascend_sim/kernel/stamp.py": "a phase, whatever it holds",
    "ascend_sim/check/accesses.py": "columns of one space, joined by position at once",
    "ascend_sim/torch/calls.py": "what PyTorch calls an operator with",
    "ascend_sim/acl/c/handles.py": "arguments of a call from C, in its order",
    "ascend_sim/studies/precision/run.py": "what a truth depends on, as the key of a cache",
}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Path and tree of every file of the package."""
    paths = [path for folder in ("ascend_sim", "ops") for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)


def is_row(node: ast.AST) -> bool:
    """tuple[int, int, ...] with a type for each of many numbers."""
    if not (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "tuple"
        and isinstance(node.slice, ast.Tuple)
    ):
        return False
    return len(node.slice.elts) >= NUMBERS and all(ast.unparse(one) == "int" for one in node.slice.elts)


def test_functions_have_few_parameters() -> None:
    many = {
        (path, node.name)
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters(node) > MOST
    }
    assert many == {(path, name) for path, names in MAY_HAVE_MORE.items() for name in names}


def test_rows_of_numbers_have_names() -> None:
    found = {path for path, tree in sources() if any(is_row(node) for node in ast.walk(tree))}
    assert found == set(MAY_BE_ROWS)


def test_tuples_say_what_they_hold() -> None:
    found = {path for path, tree in sources() for node in ast.walk(tree) if is_anything(node)}
    assert found == set(UNNAMED)


def is_anything(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and ast.unparse(node) == "tuple[Any, ...]"
    )


@pytest.mark.parametrize(
    ("text", "count"), [("def f(self, a, b=1, *, c): ...", 3), ("def f(a, *rest, b, **more): ...", 4)]
)
def test_the_count_itself(text: str, count: int) -> None:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef) and parameters(function) == count


def test_only_tables_are_kept_from_the_formatter() -> None:
    """`fmt: skip` stands behind a display of several rows: a table is easier to read as one."""
    for folder in ("ascend_sim", "ops", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for first, last in skipped(path):
                assert last > first, f"{path.relative_to(ROOT)}:{first} is no table"


LONGEST = 450
"""Lines of a file."""
MAY_BE_LONGER = {
    "ascend_sim/engine/core.py": "one core: what each kind of row does to its pipes",
    "tests/support/bad_inputs.py": "one table: a row for each bad input",
}


def test_files_are_short() -> None:
    """A longer file holds a second concept; docstrings and tables count too."""
    long = set()
    for folder in ("ascend_sim", "ops", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST:
                long.add(path.relative_to(ROOT).as_posix())
    assert long <= set(MAY_BE_LONGER)


def skipped(path: Path) -> Iterator[tuple[int, int]]:
    """Statements behind which the formatter is told to stop: first and last line."""
    source = path.read_text(encoding="utf-8")
    ends = [number for number, line in enumerate(source.splitlines(), 1) if line.rstrip().endswith("# fmt: skip")]
    if ends:
        statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt | ast.expr)]
        for end in ends:
            yield min(node.lineno for node in statements if node.end_lineno == end), end
