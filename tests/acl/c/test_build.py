"""`ascend-sim c`: what it writes and prints, what it says where it cannot, and the pages that show it."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim import acl
from ascend_sim.acl import enums, state
from ascend_sim.acl.c import build as library
from ascend_sim.acl.c.build import headers
from ascend_sim.acl.c.prototypes import COUNTS, FUNCTIONS
from ascend_sim.acl.operators import aclOpExecutor
from ascend_sim.cli import app
from ascend_sim.engine.choice import VARIABLE, chosen_engine
from tests.support.acl.toolkit_calls import (
    HERE,
    LINKABLE,
    compiler_call,
    documents_programs,
    documents_signatures,
    numbers,
    run,
)
from tests.support.places import DOCS, ROOT

pytestmark = pytest.mark.fast

HEADERS = headers()
TEXT = "\n".join(HEADERS.values())
PYTHON = {name: getattr(acl, name) for name in acl.__all__ if name.startswith("acl")}
OPAQUE = {"aclTensor", "aclIntArray", "aclBoolArray", "aclOpExecutor"}
ENUMS = {kind.__name__: kind for kind in vars(enums).values() if inspect.isclass(kind) and kind.__module__ == enums.__name__}


def declarations():
    """Every function of the headers, read from their text: name -> (result, [(type, name)])."""
    found = {}
    for result, name, inside in re.findall(r"^((?:const )?\w+ \**)(acl\w+)\(([^;]*)\);", TEXT, re.MULTILINE):
        parts = [] if inside == "void" else inside.split(",")
        found[name] = (result.strip(), [re.fullmatch(r"\s*(.*?)(\w+)", part).groups() for part in parts])
    return found


DECLARED = declarations()


def test_the_headers_have_every_name_of_python_and_no_other():
    functions = {name for name, thing in PYTHON.items() if inspect.isfunction(thing)}
    assert set(DECLARED) == functions == set(FUNCTIONS)
    types = {name for name, thing in PYTHON.items() if inspect.isclass(thing)}
    assert types - OPAQUE - ENUMS.keys() == set()
    assert {aclOpExecutor.__name__} | OPAQUE == OPAQUE
    for name in OPAQUE:
        assert f"typedef struct {name} {name};" in TEXT


@pytest.fixture
def fresh_process():
    state.PROCESS.__init__()
    yield
    state.PROCESS.__init__()


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_parameters_go_in_and_come_out_as_in_python(name, fresh_process):
    """The C parameter list is Python's parameters and its results behind the status, found by calling it before aclInit."""
    function = getattr(acl, name)
    wanted = list(inspect.signature(function).parameters)
    given = [parameter for _, parameter in DECLARED[name][1]]
    assert [parameter for parameter in given if parameter in wanted] == wanted
    result = function(*[None] * len(wanted))
    outputs = len(result) - 1 if isinstance(result, tuple) else 0
    assert len(given) == len(wanted) + outputs
    assert [parameter.name for parameter in FUNCTIONS[name].outputs] == [p for p in given if p not in wanted]
    returns_code = name == "aclFinalize" or isinstance(result, int | tuple)
    assert returns_code == (DECLARED[name][0] in ("aclError", "aclnnStatus"))
    assert (DECLARED[name][0] == "aclnnStatus") == (name.startswith("aclnn") or name.startswith("aclDestroy"))


def test_every_array_has_its_length_beside_it():
    for function in FUNCTIONS.values():
        names = [parameter.name for parameter in function.parameters]
        for parameter in function.parameters:
            if parameter.kind == "array":
                assert COUNTS[parameter.name] in names, function.name


def check(tmp_path, compiler, text):
    """Let a compiler look at a source that includes all headers."""
    source = tmp_path / ("all.c" if compiler[0] == "gcc" else "all.cpp")
    for name, header in HEADERS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(header)
    source.write_text("".join(f'#include "{name}"\n' for name in HEADERS) + text)
    if not shutil.which(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{tmp_path}"]
    done = subprocess.run([*compiler, *strict, str(source)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


COMPILERS = [["gcc", "-std=c11"], ["g++", "-std=c++11"], ["g++", "-std=c++20"]]


@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_a_strict_compiler_takes_the_headers_and_finds_pythons_numbers(tmp_path, compiler):
    equal = "_Static_assert" if compiler[0] == "gcc" else "static_assert"
    members = {name: value for kind in ENUMS.values() for name, value in kind.__members__.items()}
    codes = {name: getattr(acl, name) for name in acl.__all__ if name.startswith(("ACL_ERROR", "ACL_SUCCESS", "ACLNN_"))}
    assert len(members) > 60
    assert len(codes) > 20
    lines = [f'{equal}({name} == {int(value)}, "{name}");' for name, value in members.items()]
    if compiler[0] == "g++":  # in C a static const is no constant expression
        lines += [f'{equal}({name} == {value}, "{name}");' for name, value in codes.items()]
        lines += [f'{equal}({kind}::{name} == {name}, "");' for kind, t in ENUMS.items() for name in t.__members__]
    assert check(tmp_path, compiler, "\n".join(lines) + "\n") == (0, "")
    wrong = f'{equal}(ACL_FORMAT_NCL == 46, "planted");\n'
    assert "planted" in check(tmp_path, compiler, wrong)[1]


@pytest.mark.parametrize(("document", "declaration"), documents_signatures() or [("no", "documents")])
def test_the_documents_signatures_are_those_of_the_headers(tmp_path, document, declaration):
    """Declared once more as a document has it: C refuses another type, and the names are compared as well."""
    if document == "no":
        pytest.skip("the operator documents are not beside the repository")
    assert check(tmp_path, ["gcc", "-std=c11"], f"{declaration};\n") == (0, "")
    name, inside = re.fullmatch(r"aclnnStatus (\w+)\s*\((.*)\)", declaration).groups()
    parameters = [re.search(r"(\w+)\s*$", part)[1] for part in inside.split(",")]
    assert parameters == [parameter.name for parameter in FUNCTIONS[name].parameters]
    other = declaration.replace("uint64_t", "int16_t", 1)
    assert "conflicting types" in check(tmp_path, ["gcc", "-std=c11"], f"{other};\n")[1]


PAGE = (DOCS / "acl.md").read_text(encoding="utf-8")
NAMES = ["libascendcl.so", "libnnopbase.so", "libopapi.so", "libopapi_math.so", "libopapi_nn.so"]


def ascend_sim(*arguments):
    """Exit code and both outputs of the command."""
    done = CliRunner().invoke(app, ["c", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def refusal(*arguments):
    """The one line of a command that is refused."""
    code, printed, told = ascend_sim(*arguments)
    assert (code, printed) == (2, "")
    (line,) = told.splitlines()
    return line


def test_the_folder_looks_like_the_vendors_toolkit(toolkit):
    files = sorted(str(path.relative_to(toolkit)) for path in toolkit.rglob("*") if not path.is_dir())
    assert files == sorted([f"include/{name}" for name in headers()] + [f"lib64/{name}" for name in NAMES])
    for name, text in headers().items():
        assert (toolkit / "include" / name).read_text() == text
    symbols = ["nm", "-D", "--defined-only", toolkit / "lib64" / NAMES[0]]
    table = subprocess.run(symbols, capture_output=True, text=True, check=True)
    exported = set(re.findall(r" T (acl\w+)", table.stdout))
    assert exported == set(FUNCTIONS)


def test_the_flags_are_those_that_a_shell_can_take_apart(toolkit, monkeypatch):
    code, printed, _ = ascend_sim("--compile-flags", toolkit)
    assert code == 0
    monkeypatch.setenv("ASCEND_HOME_PATH", str(toolkit))
    assert ascend_sim("--compile-flags") == (0, printed, "")
    script = f'for word in {printed.strip()}; do echo "$word"; done'
    asked = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert asked.stdout.splitlines() == library.compile_flags(toolkit)
    assert f"-I{toolkit / 'include'}" in library.compile_flags(toolkit)


@pytest.mark.fast
def test_what_is_missing_is_one_line(monkeypatch, tmp_path):
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    assert "give one of --build DIR and --compile-flags DIR" in refusal()
    assert "give one of" in refusal("--build", tmp_path, "--compile-flags", tmp_path)
    assert "ASCEND_HOME_PATH, which is not set" in refusal("--compile-flags")
    assert f"no libascendcl.so is there; `ascend-sim c --build {tmp_path}` writes it" in refusal("--compile-flags", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fast
def test_without_a_compiler_cffi_or_pythons_library(monkeypatch, tmp_path):
    """Each is one line that says what to do, and no folder is begun."""
    folder = tmp_path / "acl"
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    assert "no C compiler: " in refusal("--build", folder)
    monkeypatch.setattr(library.shutil, "which", lambda name: f"/usr/bin/{name}")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cffi", None)
        assert "pip install cffi" in refusal("--build", folder)
    pytest.importorskip("cffi")
    if not LINKABLE:
        pytest.skip("this Python has no headers or no shared library")
    real = library.sysconfig.get_config_var
    asked = {"Py_ENABLE_SHARED": (0, "needs a Python built with one")}
    if shutil.which("cc"):
        monkeypatch.setenv("CC", "cc")
        asked["LDVERSION"] = ("0.0", "cannot build libascendcl.so")
    for name, (value, words) in asked.items():
        changed = {name: value}
        with monkeypatch.context() as patch:
            patch.setattr(library.sysconfig, "get_config_var", lambda key, new=changed: new.get(key, real(key)))
            assert words in refusal("--build", folder)
    with monkeypatch.context() as patch:
        patch.setattr(library.sysconfig, "get_path", lambda name: str(tmp_path))
        assert "python3-dev" in refusal("--build", folder)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written(toolkit, tmp_path):
    (tmp_path / "file").touch()
    assert "file" in refusal("--build", tmp_path / "file")


def test_a_program_runs_without_the_environment_that_built_the_library(compiled):
    """Another Python on PATH, or none, makes no difference."""
    program = compiled(HERE / "convolution_backward.cpp")
    environment = {"PATH": "/usr/bin:/bin", VARIABLE: chosen_engine()}  # else SimPy says that it stands in
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment, cwd=program.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert numbers(done.stdout)["gradBias"] == [98.0, 98.0]


def test_a_library_that_cannot_start_python_ends_the_program(compiled, tmp_path):
    """cffi would return 0 from every function: a program would believe that all went well."""
    (tmp_path / "ascend_sim.py").write_text("raise ImportError('planted')")
    done = run(compiled(HERE / "convolution_backward.cpp"), code=127, PYTHONPATH=str(tmp_path))
    assert done.stderr == "libascendcl.so: cannot start ascend-sim: ImportError: planted\n"
    assert done.stdout == ""


@pytest.mark.slow
def test_the_pages_cpp_program_prints_what_the_page_says(toolkit, tmp_path):
    program, output = re.search(r"```cpp\n(.+?)```\n\nIt prints\n\n```\n(.+?)```", PAGE, re.DOTALL).groups()
    source = tmp_path / "main.cpp"
    source.write_text(program)
    flags = ["-Wno-unused-but-set-variable", *library.compile_flags(toolkit)]
    assert run(compiler_call(["g++"], source, tmp_path / "main", flags)).stdout == output


@pytest.mark.slow
def test_the_users_cmake_project(toolkit, tmp_path):
    """A 3x3 layer, an error on purpose, and an event's time."""
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    steps = (["-S", DOCS / "c", "-B", tmp_path / "build"], ["--build", tmp_path / "build"])
    for step in steps:
        done = run("cmake", *step, ASCEND_HOME_PATH=str(toolkit))
        assert "warning" not in done.stdout + done.stderr
    lines = run(tmp_path / "build" / "layer").stdout.splitlines()
    assert lines[0] == "padding [1, -1]: status 161002"
    assert "padding = [1, -1]: every value must be at least 0" in lines[1]
    assert lines[2:5] == [
        "gradInput: 4608 values, largest error 0",
        "gradWeight: 2304 values, largest error 0",
        "gradBias: 16 values, largest error 0",
    ]
    assert 30 < float(re.fullmatch(r"([\d.]+) us on the chip", lines[5])[1]) < 150


@pytest.mark.fast
def test_cmake_without_the_variable_says_so(tmp_path):
    if not shutil.which("cmake") or not shutil.which("g++"):
        pytest.skip("no cmake")
    done = subprocess.run(
        ["cmake", "-S", DOCS / "c", "-B", tmp_path], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode != 0
    assert "ASCEND_HOME_PATH is not set" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/acl.md"])
def test_the_first_program_of_the_documents_by_copy_and_paste(page, toolkit, tmp_path):
    """The lines of the page as they stand, but for the installation, which has happened."""
    if not documents_programs():
        pytest.skip("the operator documents are not beside the repository")
    text = (ROOT / page).read_text(encoding="utf-8")
    block = next(code for code in re.findall(r"```bash\n(.+?)```", text, re.DOTALL) if "g++" in code)
    (tmp_path / "main.cpp").write_text(documents_programs()[0][1], encoding="utf-8")
    lines = [line for line in block.splitlines() if not line.startswith("pip install")]
    assert len(lines) == 3
    here = Path(sys.executable).parent
    script = f'PATH="{here}:$PATH"; cd "{tmp_path}"; set -e; ' + "\n".join(lines)
    done = run("bash", "-c", script)
    assert numbers(done.stdout) == {"gradInput": [2.0] * 196, "gradWeight": [98.0] * 4, "gradBias": [98.0] * 2}
    assert done.stderr == ""
