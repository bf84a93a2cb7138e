"""C++ programs as users have them: those of the operator documents, unchanged, and the same calls in programs of our own."""

import json
import re

import pytest

from ascend_sim import acl, load_chip
from ascend_sim.acl import state
from ascend_sim.acl.c.build import compile_flags
from ascend_sim.acl.c.prototypes import FUNCTIONS
from ascend_sim.acl.c.shim import Handles, Pointer
from tests.support.acl import misuse
from tests.support.acl.toolkit_calls import HERE, compiler_call, documents_programs, numbers, run


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


CONV = {"gradInput": [2.0] * 196, "gradWeight": [98.0] * 4, "gradBias": [98.0] * 2}
TBC = {"gradInput": [2.0] * 10, "gradWeight": [5.0] * 4, "gradBias": [5.0] * 2}
"""The sums that the formulas give out of ones, as tests/acl/test_document_programs.py has them."""


@pytest.fixture(scope="module")
def conv(compiled):
    return compiled(HERE / "convolution_backward.cpp")


@pytest.fixture
def without_documents():
    if not documents_programs():
        pytest.skip("the operator documents are not beside the repository")


def document(name, toolkit, tmp_path):
    """A document's program, compiled as it stands."""
    source = tmp_path / "main.cpp"
    source.write_text(dict(documents_programs())[name], encoding="utf-8")
    return compiler_call(["g++"], source, tmp_path / "main", compile_flags(toolkit))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("000", CONV),
        pytest.param("001", TBC, marks=pytest.mark.slow),
        pytest.param("002", TBC, marks=pytest.mark.slow),
        pytest.param("004", CONV, marks=pytest.mark.slow),
    ],
)
def test_a_documents_program_prints_its_sums(toolkit, tmp_path, without_documents, name, expected):
    profile = {"ASCEND_SIM_CONFORMANCE": "documented"} if name == "000" else {}
    done = run(document(name, toolkit, tmp_path), **profile)
    assert numbers(done.stdout) == expected
    assert done.stderr == ""


@pytest.mark.fast
def test_no_document_with_a_program_is_left_out(without_documents):
    assert [name for name, _ in documents_programs()] == ["000", "001", "002", "004"]


@pytest.mark.slow
def test_the_label_of_000_fails_in_the_released_library(conv):
    done = run(conv, "NCDHW", code=1)
    assert "GetWorkspaceSize(" in done.stdout
    assert "= 161002: " in done.stdout
    assert "NCDHW" in done.stdout


def test_a_whole_call_with_its_time_and_its_files(conv, tmp_path):
    """On another chip; the kernels of the report take what the events tell."""
    done = run(conv, ASCEND_SIM_CHIP="ascend910a", ASCEND_SIM_OUT=str(tmp_path / "out"))
    assert numbers(done.stdout) == CONV
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines() if not line.startswith("grad"))
    assert int(printed["memory"]) == load_chip("ascend910a").memory.hbm_bytes
    code, milliseconds = printed["elapsed"].split()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (code, report["chip"]) == ("0", "ascend910a")
    assert float(milliseconds) * 1e3 == pytest.approx(report["total_us"], abs=1e-3)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.json", "trace.json.gz", "timeline.npz"}


@pytest.mark.slow
def test_functional_mode_has_values_and_no_time(conv):
    done = run(conv, ASCEND_SIM_MODE="functional")
    assert numbers(done.stdout) == CONV
    assert "elapsed 200006 0.000000" in done.stdout


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OUT", "/dev/null/out"),
        pytest.param("CHIP", "ascend000", marks=pytest.mark.slow),
        pytest.param("CONFORMANCE", "strict", marks=pytest.mark.slow),
        pytest.param("MODE", "fast", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_variable_ends_in_a_code_and_a_message(conv, variable, value):
    done = run(conv, code=1, **{f"ASCEND_SIM_{variable}": value})
    assert "aclrtSetDevice(0) = 200002: " in done.stdout
    assert value in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_the_tbc_program(compiled):
    assert numbers(run(compiled(HERE / "conv_tbc_backward.cpp")).stdout) == TBC


def test_threads_with_a_context_and_a_stream_each(compiled):
    assert run(compiled(HERE / "threads.cpp", "-pthread"), 4).stdout == "4 of 4 threads\n"


UNFINISHED = """
#include "device.hpp"

int main(int argc, char **)
{
    static Device device;
    static Tensor ones({64}, 1), zeros({64}, 0);
    aclrtStream other;
    MUST(aclrtCreateStream(&other));
    MUST(aclrtMemsetAsync(ones.memory, 256, 0, 256, device.stream));
    MUST(aclrtMemsetAsync(ones.memory, 256, 1, 256, other));
    MUST(aclrtSynchronizeDevice());
    if (argc > 1) {
        std::_Exit(3); // without a word to anybody
    }
    std::exit(4); // objects that live as long as the process end after main
}
"""


@pytest.mark.slow
def test_a_race_is_one_line_on_stderr_and_a_process_may_end_anywhere(toolkit, tmp_path):
    source = tmp_path / "unfinished.cpp"
    source.write_text(UNFINISHED)
    flags = [f"-I{HERE}", *compile_flags(toolkit)]
    program = compiler_call(["g++"], source, tmp_path / "unfinished", flags)
    for arguments, code in (((), 4), (("now",), 3)):
        (line,) = run(program, *arguments, code=code).stderr.splitlines()
        assert line.startswith("ascend-sim: warning: race: aclrtMemsetAsync and aclrtMemsetAsync run at the same time")
