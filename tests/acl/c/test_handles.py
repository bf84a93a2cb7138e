"""Handles that are null, destroyed, foreign or of another kind: Python's status, never a crash; and nothing is kept."""

import re

import pytest

from ascend_sim import acl
from ascend_sim.acl import state
from ascend_sim.acl.c.build import compile_flags
from ascend_sim.acl.c.handles import Handles, Pointer
from ascend_sim.acl.c.prototypes import FUNCTIONS
from tests.support.acl import misuse
from tests.support.acl.toolkit_calls import HERE, compiler_call, run


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("misuse") / "misuse.c"
    path.write_text(misuse.c_program())
    return path


@pytest.fixture(scope="module")
def python_lines():
    state.PROCESS.__init__()
    yield misuse.python_lines()
    state.PROCESS.__init__()


def check(printed, python_lines):
    lines = printed.splitlines()
    about_handles = lines[: len(python_lines)]
    assert about_handles == python_lines
    codes = {int(line.rpartition(" ")[2]) for line in python_lines}
    assert codes == {0, 100000, 161001, 161002, 200005}
    assert sum(line.endswith(" 0") for line in python_lines) < 12  # null streams, where that is the default stream
    for line in lines[len(python_lines) :]:
        family = FUNCTIONS[line.split(" | ")[0]].returns
        assert line.endswith(" | no result | 100000" if family == "aclError" else " | no result | 161001")
    assert len(lines) == len(python_lines) + sum(len(function.outputs) for function in FUNCTIONS.values())


def test_every_wrong_handle_ends_in_pythons_status(toolkit, source, python_lines, tmp_path):
    program = compiler_call(["gcc", "-std=c11"], source, tmp_path / "misuse", compile_flags(toolkit))
    assert len(python_lines) > 300
    check(run(program).stdout, python_lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["misuse", "leaks.c"])
def test_the_address_sanitizer_finds_nothing(toolkit, source, python_lines, tmp_path, name):
    """Leaks apart: Python leaves memory behind when a process ends."""
    sanitized = ["-g", "-fsanitize=address", "-fno-omit-frame-pointer"]
    path = source if name == "misuse" else HERE / name
    program = compiler_call(["gcc", "-std=c11"], path, tmp_path / "sanitized", [*sanitized, *compile_flags(toolkit)])
    done = run(program, *(["20"] if name == "leaks.c" else []), ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc")
    assert "AddressSanitizer" not in done.stderr
    if name == "misuse":
        check(done.stdout, python_lines)


@pytest.mark.parametrize("pairs", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_nothing_is_kept_of_what_is_destroyed(compiled, pairs):
    """One object of Python is 16 bytes and more: kept for each pair it would be 1,600 KiB in 100,000."""
    grown = dict(re.findall(r"^(.+): (-?\d+) KiB$", run(compiled(HERE / "leaks.c"), pairs).stdout, re.MULTILINE))
    assert len(grown) == 9
    assert {name: size for name, size in grown.items() if int(size) > pairs // 100 + 200} == {}


@pytest.mark.fast
def test_a_number_says_its_kind_and_is_not_given_out_twice():
    state.PROCESS.__init__()
    handles = Handles()
    arrays = [acl.aclCreateIntArray([number], 1) for number in range(3)]
    numbers = [handles.number(array) for array in arrays]
    assert len(set(numbers)) == 3
    assert [handles.thing(number) for number in numbers] == arrays
    assert (handles.number(None), handles.thing(0)) == (0, None)
    acl.aclDestroyIntArray(arrays[1])
    handles.forget_dead()
    assert len(handles) == 2
    gone = handles.thing(numbers[1])
    assert (type(gone), gone.alive) == (type(arrays[1]), False)
    assert acl.aclDestroyIntArray(gone) == acl.ACLNN_ERR_PARAM_INVALID
    assert "destroyed" in acl.aclGetRecentErrMsg()
    assert handles.number(arrays[0]) == numbers[0]
    assert handles.number(acl.aclCreateIntArray([9], 1)) > max(numbers)
    for foreign in (1, numbers[0] + 1, numbers[2] + (1 << 20), 1 << 63, numbers[0] & 0xFFFF_FFFF):
        assert type(handles.thing(foreign)) is Pointer
