"""C++ programs as users have them: those of the operator documents, unchanged, and the same calls in programs of our own."""

import json

import pytest

from ascend_sim import load_chip
from ascend_sim.acl.c.build import compile_flags
from tests.support.acl.toolkit_calls import HERE, compiler_call, documents_programs, numbers, run

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
