"""One interface told three times: the headers, the Python names, the documents' signatures."""

import inspect
import re
import shutil
import subprocess

import pytest

from ascend_sim import acl
from ascend_sim.acl import enums, state
from ascend_sim.acl.c.headers import headers
from ascend_sim.acl.c.prototypes import COUNTS, FUNCTIONS
from ascend_sim.acl.operators import aclOpExecutor
from tests.support.acl.toolkit_calls import documents_signatures

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
