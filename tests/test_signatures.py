"""Heads of functions: few parameters, and no long rows of numbers without names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ascend_sim.options.description import names_of
from ascend_sim.options.run_options import LaunchOptions
from tests.support.places import ROOT
from tests.support.sources import nodes, parsed, python_files

pytestmark = pytest.mark.fast

MOST = 8
"""Parameters of a function, `self` among them. A `**` that is typed as a class of options counts as one."""

FEW = 20
"""Functions that may have more are fewer."""

OPERATOR = "the arguments of torch's function, in its order, and the options of a run as one"
INSTRUCTION = "the operands of the instruction, in the order of its public reference"
DOCUMENT = "as in the document, in its order"
LATER = "in a room that is being rewritten"
MAY_HAVE_MORE = {
    "ascend_sim/acl/operators.py": {
        "aclnnConvTbcBackwardGetWorkspaceSize": DOCUMENT,
        "aclnnConvolutionBackwardGetWorkspaceSize": DOCUMENT,
    },
    "ascend_sim/acl/tensors.py": {"aclCreateTensor": DOCUMENT},
    "ascend_sim/api.py": {"convolution": OPERATOR, "convolution_backward": OPERATOR},
    "ascend_sim/cli/kernel.py": {"kernel": "the command's arguments and options, one each"},
    "ascend_sim/engine/replay.py": {"__init__": LATER},
    "ascend_sim/kernel/cube.py": dict.fromkeys(("fixpipe", "fixpipe_nd", "load_data_2d", "load_data_3d", "mmad"), INSTRUCTION),
    "ascend_sim/kernel/tensor_moves.py": {"l1_to_l0a": INSTRUCTION, "l1_to_l0b": INSTRUCTION},
    "ascend_sim/kernel/transfer.py": dict.fromkeys(("data_copy", "data_copy_nd2nz"), INSTRUCTION),
    "ascend_sim/launching.py": {"launch": "its `**` holds the options and the kernel's own fields, which no type can say"},
    "ascend_sim/studies/tiles/grad_weight_work.py": {"_pixel_spans": LATER},
    "ops/kernels/grad_input/loads.py": {"gradient": LATER},
}
HIDDEN = {("ascend_sim/launching.py", "launch"): len(names_of(LaunchOptions)) + 1}
"""Parameters inside a `**` that is no class of options."""

ANYTHING = "passed on to a function of somebody else"
OPEN = {
    "ascend_sim/ascend_c/function.py": {"write": "the kernel's own fields"},
    "ascend_sim/acl/operators.py": {"_tensors": "tensors by the operator's names"},
    "ascend_sim/acl/state.py": {"guarded": "a decorator"},
    "ascend_sim/check/findings.py": {"of": LATER},
    "ascend_sim/checking.py": {"check_kernel": "the kernel's own fields"},
    "ascend_sim/cli/app.py": {"main": ANYTHING},
    "ascend_sim/cli/kernel.py": {"called": ANYTHING},
    "ascend_sim/cli/options.py": {"command": ANYTHING, "run": "a decorator"},
    "ascend_sim/isa/moves.py": {"moves": LATER},
    "ascend_sim/kernel/function.py": {"__call__": "the kernel's own fields"},
    "ascend_sim/launching.py": {"launch": "the options, and the kernel's own fields"},
    "ascend_sim/keywords.py": {"face": "a decorator"},
    "ascend_sim/options/description.py": {"face": "a decorator", "with_options": "defaults of a face, by option"},
    "ascend_sim/report/figures.py": {"new_figure": ANYTHING},
    "ascend_sim/torch/export.py": {"export_network": ANYTHING},
    "ops/kernels/cube/fields.py": {"but": "fields of a tiling"},
    "ops/kernels/vector/common.py": {"found": "a decorator", "require_positive": "sizes by name"},
}
"""Functions with a `**` that is no class of options: it may not stand for parameters that have names."""

NUMBERS = 5
"""Numbers of a row from which on they have to have names."""

SHAPE = "a shape, whose order the field knows"
MAY_BE_ROWS = {
    "ascend_sim/isa/load.py": "the blocks of a map that a load touches, as a walk over them reads it",
    "ascend_sim/engine/core.py": "six columns of a program's row, read for every instruction",
    "ops/convolution/call.py": SHAPE,
    "ops/problem/normal.py": SHAPE,
}

UNNAMED = {
    "ascend_sim/kernel/described.py": "an instruction's class and fields: the key under which it is interned",
    "ascend_sim/kernel/stamp.py": "a phase, whatever it holds",
    "ascend_sim/check/accesses.py": "columns of one space, joined by position at once",
    "ascend_sim/torch/calls.py": "what PyTorch calls an operator with",
    "ascend_sim/acl/c/shim.py": "arguments of a call from C, in its order",
    "ascend_sim/studies/precision/run.py": "what a truth depends on, as the key of a cache",
}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Path and tree of every file of the package."""
    paths = [*python_files("ascend_sim"), *python_files("ops")]
    return [(path.relative_to(ROOT).as_posix(), parsed(path)) for path in paths]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len(named) + bool(given.vararg) + bool(given.kwarg)


def is_open(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a function has a `**` whose names no type says."""
    rest = function.args.kwarg
    return rest is not None and not (rest.annotation and ast.unparse(rest.annotation).startswith("Unpack["))


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its file."""
    for path, tree in sources():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


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


def listed(table: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    assert all(reason for names in table.values() for reason in names.values())
    return {(path, name) for path, names in table.items() for name in names}


def test_functions_have_few_parameters() -> None:
    many = {
        (path, node.name)
        for path, node in functions()
        if parameters(node) + (HIDDEN.get((path, node.name), 0) if is_open(node) else 0) > MOST
    }
    assert many == listed(MAY_HAVE_MORE)
    assert len(many) < FEW


def test_no_parameters_hide_behind_two_stars() -> None:
    assert {(path, node.name) for path, node in functions() if is_open(node)} == listed(OPEN)


def test_rows_of_numbers_have_names() -> None:
    found = {path for path, tree in sources() if any(is_row(node) for node in nodes(tree))}
    assert found == set(MAY_BE_ROWS)


def test_tuples_say_what_they_hold() -> None:
    found = {path for path, tree in sources() for node in nodes(tree) if is_anything(node)}
    assert found == set(UNNAMED)


def is_anything(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and ast.unparse(node) == "tuple[Any, ...]"


@pytest.mark.parametrize(("text", "count"), [("def f(self, a, b=1, *, c): ...", 4), ("def f(a, *rest, b, **more): ...", 4)])
def test_the_count_itself(text: str, count: int) -> None:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef) and parameters(function) == count


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("def f(**more): ...", True),
        ("def f(**more: Any): ...", True),
        ("def f(**more: Unpack[RunOptions]): ...", False),
        ("def f(a): ...", False),
    ],
)
def test_what_is_open(text: str, opened: bool) -> None:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef) and is_open(function) == opened


def test_only_tables_are_kept_from_the_formatter() -> None:
    """`fmt: skip` stands behind a display of several rows: a table is easier to read as one."""
    for folder in ("ascend_sim", "ops", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for first, last in skipped(path):
                assert last > first, f"{path.relative_to(ROOT)}:{first} is no table"


LONGEST = 450
"""Lines of a file."""
MAY_BE_LONGER = {"ascend_sim/engine/core.py": "one core: what each kind of row does to its pipes"}


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
