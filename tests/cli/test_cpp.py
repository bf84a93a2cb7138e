"""`kernel` and `check` with C++ files: arguments from options or from the file beside, verdicts and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ascend_sim.ascend_c import compiler
from ascend_sim.cli import app
from ascend_sim.cli.cpp import CppOptions, compiled
from ascend_sim.shipped import CACHE_VARIABLE
from tests.support.ascend_c.kernels import BEGIN, needs_compiler, vector_kernel
from tests.support.cli.commands import UNUSED_BY_A_RUN, loaded
from tests.support.places import DOCS
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
SCALE = vector_kernel(
    "DataCopy(a, xg, 64); SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);\n"
    "Muls(d, a, (float)factor + more, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\n"
    "DataCopy(zg, d, 64);",
    name="scale",
    tensors="x z",
    numbers="float factor, int32_t more",
)
BESIDE = """
import numpy as np
import ascend_sim as asim
BLOCKS = 1
def arguments(rng):
    return np.arange(64, dtype=np.float32), asim.empty(64, "float32"), 2.5, {more}
def expected(x, factor, *, more=None):
    return x * (factor + 1)
"""
OPTIONS = ("--blocks", 1, "--tensor", "x=float32:64", "--output", "z=float32:64")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """Return a kernel's file; it is compiled without optimisation, in less time."""
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    monkeypatch.setattr(compiler, "FLAGS", tuple(one.replace("-O1", "-O0") for one in compiler.FLAGS))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scale.cpp"
    path.write_text(BEGIN + SCALE)
    return Path("scale.cpp")


def command(*arguments: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert "Traceback" not in done.stderr and "Traceback" not in done.stdout
    return done.exit_code, done.stdout, done.stderr


def beside(file: Path, more: int = 1) -> None:
    file.with_suffix(".py").write_text(BESIDE.format(more=more))


def test_the_file_beside_gives_arguments_and_what_is_expected(file: Path) -> None:
    beside(file)
    code, text, _ = command("kernel", file)
    assert code == 0 and "scale  ascend910b3" in text and "values: correct" in text


def test_the_recording_process_starts_before_the_arguments_are_made(file: Path) -> None:
    kernel = compiled(file, None, CppOptions())
    assert kernel._recorder(())._process is not None


def test_a_wrong_value_ends_in_1(file: Path) -> None:
    beside(file, more=2)
    code, text, _ = command("kernel", file)
    assert code == 1 and "WRONG" in text.upper()


def test_the_file_beside_names_a_kernel_and_macros(file: Path) -> None:
    beside(file)
    other = vector_kernel("", name="other", tensors="x z")
    file.write_text(file.read_text().replace("(float)factor + more", "FACTOR + MORE") + other)
    settings = 'ENTRY = "scale"\nDEFINES = {"FACTOR": 2.5, "MORE": 1}\n'
    file.with_suffix(".py").write_text(file.with_suffix(".py").read_text() + settings)
    for name in ("kernel", "check"):
        assert command(name, file)[0] == 0
        assert "several kernels" in command(name, file, *OPTIONS)[2]
        assert "kernel other takes x, z" in command(name, file, "--entry", "other")[2]
    assert "values: WRONG" in command("kernel", file, "--define", "MORE=2")[1]
    done = json.loads(command("judge", file)[1])
    assert done["passed"], done


@pytest.mark.parametrize("wrong", ["ENTRY = 3", 'DEFINES = ["MORE"]'])
def test_wrong_settings_are_one_line(file: Path, wrong: str) -> None:
    beside(file)
    file.with_suffix(".py").write_text(f"{file.with_suffix('.py').read_text()}{wrong}\n")
    name, value = wrong.split(" = ")
    code, _, said = command("kernel", file)
    assert code == 2 and said.startswith(f"ascend-sim: scale.py: {name} is {value.replace(chr(34), chr(39))}; a "), said


def test_options_give_arguments(file: Path) -> None:
    for numbers in (("--arg", 2.5, "--arg", 1), ("--arg", "more=1", "--arg", "factor=2.5"), ("--arg", "more=1", "--arg", 2.5)):
        code, text, said = command("kernel", file, "--entry", "scale", *OPTIONS, *numbers, "--out", "out", "--json")
        assert code == 0, said
        problem = json.loads(text)["problem"]
        assert (problem["factor"], problem["more"], problem["blocks"]) == (2.5, 1, 1)
        with np.load("out/outputs.npz") as outputs:
            x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
            np.testing.assert_array_equal(outputs["z"], x * np.float32(3.5))


def test_a_list_of_tensors_has_its_numbers(file: Path) -> None:
    text = file.read_text().replace("(__gm__ float *)x", "ListTensorDesc((__gm__ void *)x).GetDataPtr<float>(1)")
    file.write_text(text)
    given = ("--tensor", "x[1]=float32:64", "--output", "z=float32:64", "--arg", 1, "--arg", 1, "--blocks", 1)
    code, out, _ = command("kernel", file, "--tensor", "x[0]=float32:8", *given, "--json")
    assert code == 0 and list(json.loads(out)["problem"]["tensors"]) == ["x[0]", "x[1]", "z"]
    assert command("kernel", file, *given)[2].startswith("ascend-sim: kernel scale: no tensor for x[0]; give --tensor or")


def test_out_may_name_a_tensor(file: Path) -> None:
    given = ("--tensor", "x=float32:8x8", "--out", "z=float32:64", "--arg", 1, "--arg", 1, "--blocks", 1)
    assert command("kernel", file, *given)[0] == 0
    assert command("check", file, *given)[0] == 0
    assert not Path("z=float32:64").exists()
    assert command("kernel", file, *given, "--out", "results")[0] == 0
    with np.load("results/outputs.npz") as outputs:
        assert outputs["z"].shape == (64,)
    assert "one folder is allowed" in command("kernel", file, *given, "--out", "one", "--out", "two")[2]
    assert (
        command("check", "by_hand", "--out", "x")[2]
        == "ascend-sim: --out: by_hand is not a C++ file; this option is for C++ kernels\n"
    )


def test_scalar_work_is_not_timed_or_an_experiment(file: Path) -> None:
    given = ("--tensor", "x=float32:64", "--output", "z=float32:64", "--arg", 1, "--arg", 1, "--blocks", 1)
    assert "scalar work not timed: 0 loop turns, 0 calls" in command("kernel", file, *given)[1]
    assert "C++ between the instructions: 0 loop turns, 0 calls" in command("kernel", file, *given, "--full")[1]
    _, out, _ = command("kernel", file, *given, "--json", "--scalar-cycles-per-word", 40)
    told = json.loads(out)
    assert told["problem"]["scalar_work"] == "40 cycles before each instruction"
    assert told["verdict"]["unknown"][0].startswith("scalar work is 40 cycles before each instruction: loops, calls")
    plain = json.loads(command("kernel", file, *given, "--json")[1])
    assert plain["problem"]["scalar_work"] == "not timed" and plain["total_us"] < told["total_us"]
    assert plain["scalar_code"] == told["scalar_code"] == {"AIV": {"loop_turns": 0, "calls": 0}}
    _, out, _ = command("check", file, *given, "--json")
    for unknown in (plain["verdict"]["unknown"], json.loads(out)["verdict"]["unknown"]):
        assert unknown[0].startswith("scalar work is not timed: loops, calls")
        assert unknown[0].endswith("(0 loop turns, 0 calls)")


def test_a_tensor_may_be_a_file(file: Path) -> None:
    np.save("x.npy", np.ones(64, np.float32))
    given = ("--tensor", "x=x.npy", "--output", "z=float32:64", "--arg", 1, "--arg", 1, "--blocks", 1, "--out", "out")
    assert command("kernel", file, *given)[0] == 0
    with np.load("out/outputs.npz") as outputs:
        assert (outputs["z"] == 2).all()


def test_lines_of_the_page_are_those_of_the_file(file: Path) -> None:
    beside(file)
    assert command("kernel", file, "--html", "page.html", "--lines")[0] == 0
    assert "scale.cpp" in Path("page.html").read_text() and "Muls(d, a, (float)factor" in Path("page.html").read_text()


def test_check_is_clean_and_finds_what_is_not(file: Path) -> None:
    beside(file)
    code, text, _ = command("check", file)
    assert code == 0 and "0 errors" in text
    file.write_text(BEGIN + SCALE.replace("SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);", ""))
    code, text, _ = command("check", file)
    assert code == 1 and "scale.cpp:5" in text


def test_a_broken_kernel_is_told_with_its_lines(file: Path) -> None:
    file.write_text(BEGIN + SCALE.replace("Muls(", "Mulz("))
    for name in ("kernel", "check"):
        code, _, said = command(name, file, *OPTIONS[2:])
        assert code == 2
        first, second = said.splitlines()
        assert (
            first.startswith("ascend-sim: scale.cpp:5: error: use of undeclared identifier 'Mulz'; docs/")
            and "Mulz(d, a" in second
        )


def test_an_error_has_a_verdict_for_machines(file: Path) -> None:
    beside(file)
    right = file.read_text()

    def verdict(text: str, *more: str) -> tuple[dict[str, Any], str]:
        file.write_text(text)
        code, out, _ = command("kernel", file, "--json", *more)
        found = json.loads(out)
        assert code == 2 and found["status"] is None and not found["verdict"]["passed"]
        return found["verdict"], found["error"]

    broken, error = verdict(right.replace("Muls(", "Mulz("))
    assert broken["stage"] == "compile" and broken["compile"]["messages"] == error.splitlines() and broken["race"] is None
    code, out, _ = command("check", file, "--json")
    assert code == 2 and json.loads(out)["verdict"] == broken
    raised = right.replace("DataCopy(zg", "SetFlag<HardEvent::MTE2_V>(1); DataCopy(zg")
    found, error = verdict(raised)
    assert found["stage"] == "sync" and found["sync"]["messages"] == [error] and found["race"]["passed"]
    assert [one["kind"] for one in found["sync"]["findings"]] == ["unpaired set_flag"] and found["values"] is None
    found, error = verdict(raised, "--no-check")
    assert found["stage"] == "values" and found["values"]["messages"] == [error] and found["sync"] is None
    found, _ = verdict(right.replace("SetFlag<HardEvent::MTE2_V>(0);", ""))
    assert found["stage"] == "race" and not found["sync"]["passed"] and "messages" not in found["sync"]


REFUSED = {
    ("missing.cpp",): "missing.cpp: no such file",
    ("scale.cpp", "other"): "no kernel 'other'; give one of scale",
    ("scale.cpp", "other", "--entry", "scale"): "NAME other and --entry scale: give one of them",
    ("scale.cpp",): "kernel scale: no tensor for x; give --tensor or --output x=DTYPE:SHAPE, or arguments(rng) in scale.py",
    ("scale.cpp", "--tensor", "x"): "--tensor x: allowed is NAME=DTYPE:SHAPE",
    ("scale.cpp", "--tensor", "x=float32:0"): "--tensor x=float32:0: allowed is NAME=DTYPE:SHAPE",
    ("scale.cpp", "--tensor", "x=floaty:8"): "--tensor x=floaty:8: ",
    ("scale.cpp", "--tensor", "w=float32:8"): "kernel scale has no tensor w; it has x, z",
    ("scale.cpp", "--tensor", "x=no.npy"): "--tensor no.npy: cannot be read",
    ("scale.cpp", "--tensor", "x=float32:8", "--output", "x=float32:8"): "x is given twice",
    ("scale.cpp", *map(str, OPTIONS)): "kernel scale: no value for factor; give --arg factor=VALUE",
    ("scale.cpp", *map(str, OPTIONS), "--arg", "1", "--arg", "2", "--arg", "3"): "--arg 3: kernel scale takes 2 numbers",
    ("scale.cpp", *map(str, OPTIONS), "--arg", "no=1"): "kernel scale has no number no; it has factor, more",
    ("scale.cpp", "--include", "no"): "include no: there is no such folder",
    ("scale.cpp", "--with", "no.cpp"): "no.cpp: no such file",
    ("scale.cpp", "--chip", "ascend310p3", *map(str, OPTIONS), "--arg", "1", "--arg", "1"): "run on dav-2201",
    ("other.py", "--entry", "scale"): "--entry: other.py is not a C++ file; this option is for C++ kernels",
}


@part_of_cases(6)
@pytest.mark.parametrize("arguments", REFUSED)
def test_bad_input_is_one_line(file: Path, arguments: tuple[str, ...]) -> None:
    Path("other.py").touch()
    for name in ("kernel", "check"):
        code, _, said = command(name, *arguments)
        assert code == 2 and REFUSED[arguments] in said and said.count("\n") == 1, said


def test_every_name_of_an_arg_is_a_number_of_the_kernel(file: Path) -> None:
    code, _, said = command("kernel", "scale.cpp", *map(str, OPTIONS), "--arg", "factor=1,no=2")
    assert code == 2 and "--arg factor=1,no=2: kernel scale has no number no; it has factor, more" in said


def test_a_file_beside_that_does_not_fit_is_told(file: Path) -> None:
    for text, said in (
        ("x = 1", "scale.py: no function arguments(rng)"),
        (
            "def arguments(rng):\n    return 1, 2, 3, 4, 5",
            "scale.py: arguments(rng) gives 5; kernel scale takes x, z, factor, more",
        ),
        ("def arguments(rng):\n    return {'x': 1}", "scale.py: arguments(rng) gives nothing for z"),
    ):
        file.with_suffix(".py").write_text(text)
        code, _, told = command("kernel", file)
        assert code == 2 and said in told


def test_fields_of_a_structure_come_by_tiling(file: Path) -> None:
    text = SCALE.replace("int32_t more", "Tiling t").replace("more", "t.parts[1]")
    file.write_text(f"{BEGIN}struct Tiling {{ int32_t count; float parts[2]; }};\n{text}")
    code, _, told = command("kernel", file, *OPTIONS, "--arg", 1, "--tiling", "parts[1]=0.5,count=3", "--json", "--out", "out")
    assert code == 0, told
    with np.load("out/outputs.npz") as outputs:
        x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
        np.testing.assert_array_equal(outputs["z"], x * np.float32(1.5))


def test_arguments_may_be_given_by_name(file: Path) -> None:
    beside(file)
    text = (
        file.with_suffix(".py")
        .read_text()
        .replace(
            'return np.arange(64, dtype=np.float32), asim.empty(64, "float32"), 2.5, 1',
            'return {"more": 1, "z": asim.empty(64, "float32"), "x": np.arange(64, dtype=np.float32), "factor": 2.5}',
        )
    )
    file.with_suffix(".py").write_text(text)
    assert command("kernel", file)[0] == 0


def test_a_kernel_in_the_cache_imports_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start and imports are most of its time: what a compiler, an error or another kernel needs is not loaded."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    unused = {
        f"ascend_sim.ascend_c.{name}"
        for name in ("ahead", "auto_sync", "counted", "diagnostics", "matmul_tilings", "unit_flags")
    }
    command = ["kernel", str(DOCS / "ascend-c" / "add_custom.cpp")]
    assert "ascend_sim.ascend_c.diagnostics" in loaded(command, unused)  # compiled now
    assert loaded(command, {*unused, *UNUSED_BY_A_RUN, "rich", "ascend_sim.calls", "ascend_sim.studies"}) == []
