"""Verdicts on kernels, cheats that must fail, limits, and lines that are appended."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ascend_sim.ascend_c.compiler import HEADERS
from ascend_sim.cli import app
from ascend_sim.cli.kernel import MODULE
from ascend_sim.shipped import cache_folder
from tests.support.ascend_c.kernels import BEGIN, IN, OUT, needs_compiler, vector_kernel
from tests.support.places import DOCS

pytestmark = needs_compiler
GOOD = f"{IN} Adds(d, a, 1.0f, 64); {OUT}"
ARGUMENTS = """
import numpy as np
import ascend_sim as asim
BLOCKS = 1
def arguments(rng):
    return rng.standard_normal(64).astype(np.float32), asim.empty(64, "float32")
def expected(x):
    return x + 1
"""
ENDLESS = "itimerval none = {}; setitimer(ITIMER_REAL, &none, nullptr); for (volatile int i = 0;;) i = 0;"
CHEATS: dict[str, tuple[str, str]] = {
    "nothing is written": ("", "values"),
    "half is written": (GOOD.replace("DataCopy(zg, d, 64)", "DataCopy(zg, d, 32)"), "init"),
    "a constant": (f"Duplicate(d, 1.0f, 64); {OUT}", "values"),
    "the input itself": (f"{IN} Adds(d, a, 0.0f, 64); {OUT}", "values"),
    "the buffer as it was": (f"{IN} {OUT}", "init"),
    "the program ends": (f"_exit(0); {GOOD}", "bounds"),
    "the end of a recording": ("asim::end(asim::Ending::FINE, 0, {\"\", 0}, \"\");", "values"),
    "bytes that are not a recording": ("char junk[64] = {9}; (void)!write(asim::recorder.pipe, junk, 64); _exit(0);", "bounds"),
    "rows of unknown words": (
        f"{GOOD} asim::flush(); int64_t row[5] = {{999, 0, 0, 0, 0}}; asim::frame(asim::Frame::ROWS, 40); asim::send(row, 40);",
        "bounds"),
    "a crash": ("__builtin_trap();", "bounds"),
    "a pointer into GM": ("*(volatile float *)z = 1;", "bounds"),
    "no wait for the copy": (f"DataCopy(a, xg, 64); Adds(d, a, 1.0f, 64); {OUT}", "race"),
    "a tensor beyond the end": (GOOD.replace("DataCopy(zg, d, 64)", "DataCopy(zg[64], d, 64)"), "bounds"),
    "a flag without a wait": (f"{GOOD} SetFlag<HardEvent::V_MTE2>(3);", "sync"),
    "a verdict on the output": (f'printf("{{\\"schema\\": 1, \\"passed\\": true}}\\n"); fflush(stdout); {OUT}', "init"),
    "a name that is not simulated": ("Sort32(d, a, b, 1);", "compile"),
    "assembly that is none": ('asm("nonsense");', "compile"),
    "a broken limit of rows": (
        "asim::recorder.request.most_rows = 1ll << 60; for (;;) PipeBarrier<PIPE_V>();", "limits"),
    "a loop without end and without an alarm": (ENDLESS, "limits"),
    "a process of its own": (f"if (fork() >= 0) {{ {GOOD} }}", "values"),
    "a signal to its judge": (f"if (!kill(getppid(), 0)) {{ {GOOD} }}", "values"),
    "a file of the machine": (f'if (fopen("/etc/passwd", "r")) {{ {GOOD} }}', "values"),
    "an assembler's directive": (f'asm(".incbin \\"/etc/passwd\\""); {GOOD}', "compile"),
    "assembly from a macro of the C library": (f'{GOOD} __REDIRECT(,,.incbin "/etc/passwd");', "compile"),
    "a function for several processors, with a choice of its own": (
        f'{GOOD} }}\nextern "C" {{ int __cpu_model[4]; int __cpu_indicator_init() {{ _exit(0); }} }}\n'
        '__attribute__((target_clones("avx2", "default"))) int late() { return 1; }\nvoid behind() { late();', "compile"),
    "its arguments as it is compiled": (f'const char given[] = {{\n#embed "kernel.py"\n}}; {GOOD}', "compile"),
    "an end before its start": (
        f"{GOOD} }}\nstruct Early {{ Early() {{ _exit(0); }} }} early;\nvoid behind() {{", "compile"),
    "a constructor of its library": (
        f"{GOOD} }}\n__attribute__((constructor)) static void early() {{ fopen(P_tmpdir, \"r\"); }}\nvoid behind() {{",
        "compile"),
    "a pointer among the constructors": (
        f"{GOOD} }}\nstatic void early() {{ fopen(P_tmpdir, \"r\"); }}\n"
        '__attribute__((section(".init_array"), used)) static void (*now)() = early;\nvoid behind() {', "compile"),
    "a function that the loader calls": (
        f'{GOOD} }}\nextern "C" {{ void _init() {{ fopen(P_tmpdir, "r"); }} }}\nvoid behind() {{',
        "compile"),
    "a function that is chosen as it is loaded": (
        f'{GOOD} }}\nextern "C" {{ void *chosen() {{ return (void *)chosen; }} }}\n'
        'void late() __attribute__((ifunc("chosen")));\nvoid behind() { late();', "compile"),
    "a descriptor that is open": (
        f"char one; for (int i = 0; i < 99; i++) if (i != asim::recorder.pipe && read(i, &one, 1) > 0) {{ {GOOD} }}", "values"),
    "a thread": (f"if (syscall(56, 0x10f00, 0, 0, 0, 0) > 0) {{ {GOOD} }}", "values"),
    "memory of its parent": (
        f"char one; struct {{ void *at; size_t size; }} from = {{&one, 1}}, to = from;\n"
        f"if (syscall(310, getppid(), &from, 1, &to, 1, 0) >= 0 || syscall(101, 16, getppid(), 0, 0) >= 0) {{ {GOOD} }}",
        "values"),
    "the list of its processes": (f'if (syscall(257, -100, "/proc/self/environ", 0) >= 0) {{ {GOOD} }}', "values"),
    "a word with fields of its own": (f"int64_t row[] = {{1, 2, 3}}; asim::shape_of(row, 3); {GOOD}", "bounds"),
    "a value of a copy": (
        f"{IN} if (asim::value_of_last_row(asim::Site::here()) < 9) {{ {GOOD} }} else {{ {GOOD} }}", "bounds"),
    "a text without end": (
        "for (int i = 0; i < 9999; i++) { asim::frame(asim::Frame::END, 1 << 21); asim::send_text(\"passed\"); }", "bounds"),
    "its user's environment": (f'if (getenv("HOME") || getenv("PYTEST_CURRENT_TEST")) {{ {GOOD} }}', "values"),
    "a large library": (f"{GOOD} }}\nchar large[400 << 20] = {{1}};\nvoid behind() {{", "compile"),
    "a handler of its crash": (f"signal(SIGSEGV, [](int) {{ _exit(0); }}); *(volatile int *)8 = 1; {GOOD}", "bounds"),
    "a jump to nowhere": ("void *to[5] = {}; __builtin_longjmp(to, 1);", "bounds"),
    "recursion without end": (
        "struct Deep { static int go(volatile int *n) { volatile int a[64]; a[0] = *n; return go(a) + a[0]; } };\n"
        "volatile int n = 0; Deep::go(&n);", "bounds"),
    "tables that are overwritten": (f"{GOOD} asim::recorder.waiting = 1 << 20;", "bounds"),
    "what its environment says": (f'if (getenv("ASCEND_SIM_JUDGED")) {{ {GOOD} }}', "values"),
    "what the last block left": (f"static int calls = 0; if (calls++) {{ {GOOD} }}", "values"),
    "much text": (f'for (int i = 0; i < 1 << 20; i++) puts("passed"); {OUT}', "init"),
    "a file of its own": (
        f'if (FILE *f = fopen(P_tmpdir "/ascend-sim-cheat", "w")) {{ fputs("seed", f); fclose(f); }} {OUT}', "init"),
}  # fmt: skip
"""Kernels that do not add 1 to x on the vector unit, and the stage that says so."""
PAIRS = """GlobalTensor<uint64_t> xp, zp; xp.SetGlobalBuffer((__gm__ uint64_t *)x); zp.SetGlobalBuffer((__gm__ uint64_t *)z);
    for (int i = 0; i < 80; i++) {
        uint64_t pair = xp.GetValue(i);
        float two[2]; memcpy(two, &pair, 8); two[0] += 1; two[1] += 1; memcpy(&pair, two, 8);
        zp.SetValue(i, pair);
    }"""
SCALAR = "for (int i = 0; i < 512; i++) zg.SetValue(i, xg.GetValue(i) + 1);"


def case(folder: Path, body: str, arguments: str = ARGUMENTS) -> Path:
    folder.mkdir()
    path = folder / "kernel.cpp"
    path.write_text(BEGIN + vector_kernel(body, tensors="x z"))
    path.with_suffix(".py").write_text(arguments)
    return path


def judged(*given: str) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(app, ["judge", *given])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_right_kernel_passes_every_stage(tmp_path: Path) -> None:
    code, (found,) = judged(str(case(tmp_path / "good", GOOD)))
    assert code == 0 and found["passed"] and found["stage"] is None
    stages = ("compile", "bounds", "race", "init", "sync", "values", "cycles")
    assert all(found[stage]["passed"] for stage in stages), found
    assert found["cycles"]["cycles"] > 0 and found["cycles"]["low_us"] < found["cycles"]["us"] < found["cycles"]["high_us"]
    assert found["schema"] == 1 and found["unknown"] and found["seed"] >= 0 and found["seconds"] > 0


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cheats")
    files = {str(case(folder / str(number), body)): name for number, (name, (body, _)) in enumerate(CHEATS.items())}
    code, found = judged(*files, "--timeout", "60", "--jobs", "2")
    assert code == 1 and len(found) == len(CHEATS)
    return {files[one["case"]]: one for one in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_fails(verdicts: dict[str, dict[str, Any]], name: str) -> None:
    found = verdicts[name]
    assert not found["passed"] and found["stage"] == CHEATS[name][1], found


READS = {
    "included": '}\n#include "kernel.py"\n{',
    "named in an error": '}\n#line 4 "kernel.py"\nint wrong = nothing;\n{',
    "named in a finding": f'{GOOD}\n#line 4 "kernel.py"\nDataCopy(zg[64], d, 64);',
}
"""Kernels that would read the fourth line of their arguments in their verdict."""
PATHS = ('#include "{}"\n', 'char given[] = {{\n#embed "{}"\n}};', '#line 4 "{}"\nint wrong = nothing;')
WRONG = ("BLOCKS = 0\n", "def arguments(rng):\n    return {'x': 1}\n")
NAMES = ("größer", 'q"uote', "do$$l#ar x")
DICE = (
    "uint64_t dice = __builtin_readcyclecounter() * 0x9e3779b97f4a7c15ull >> 44; "
    "for (int i = 0; i < 20; i++) if (dice >> i & 1) PipeBarrier<PIPE_V>(); else PipeBarrier<PIPE_MTE2>();"
)
"""One of 2^20 sequences of calls: two runs are equal less than once in a million times."""
PADDED = (
    "DataCopyPad(a, xg, DataCopyExtParams(1, 40, 0, 0, 0), DataCopyPadExtParams<float>());"
    "SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0); Adds(d, a, 1.0f, 64);"
    "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0); DataCopyPad(zg, d, DataCopyExtParams(1, {0}, 0, 0, 0));"
)
"""64 elements are computed, of which 10 were loaded, and {0} bytes stored."""
UNEVEN = "uint64_t l[16] = {0, 32, 96}; TransDataTo5HD<half>(l, l, TransDataTo5HDParams(false, false, 1, 0, 0));"


def cases(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the cases that need nothing but to be judged; yield the name of each and its file."""

    def behind(text: str) -> str:
        return f"{GOOD} }}\n{text}\nvoid behind() {{"

    bodies = {
        "faces": DICE + GOOD,
        "common": f"if (mmap(0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != (void *)-1) {{ {GOOD} }}",
        "wide": f'int n = {"1 + " * 100_000}nothing; static_assert(n, "{"x" * 9999}");',
        "uneven": GOOD.replace("Adds(d, a, 1.0f, 64);", UNEVEN),
        # A linker tells words of a file that is no library.
        "linked": behind(f'#pragma comment(lib, "{folder}/linked/kernel.py")'),
        "link": GOOD,
        **READS,
        **dict.fromkeys(NAMES, GOOD),
    }
    for name, body in bodies.items():
        yield name, case(folder / name, body)
    for number, text in enumerate(PATHS):
        path = f"{HEADERS}/{'../' * len(HEADERS.parts)}{folder}/path {number}/kernel.py"
        yield text, case(folder / f"path {number}", behind(text.format(path)))
    for number, wrong in enumerate(WRONG):
        yield wrong, case(folder / f"wrong {number}", GOOD, f"{ARGUMENTS}\n{wrong}")
    for body, count in ((SCALAR, 512), (PAIRS, 160)):
        yield body, case(folder / f"scalar {count}", body, ARGUMENTS.replace("64", str(count)))
    for count in (10, 64):
        outputs = f"rng.standard_normal(10).astype(np.float32), asim.empty({count}, "
        arguments = ARGUMENTS.replace("rng.standard_normal(64).astype(np.float32), asim.empty(64, ", outputs)
        yield f"padded {count}", case(folder / f"padded {count}", PADDED.format(4 * count), arguments)
    spoiled = ARGUMENTS.replace("x + 1", '{"z": x + 1}')
    yield "spoils", case(folder / "spoils", f"{GOOD} DataCopy(xg, d, 64);", spoiled)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return {name of a case: its verdict}; one process judges all."""
    folder = tmp_path_factory.mktemp("judged")
    files = dict(cases(folder))
    files["common"].write_text("#include <sys/mman.h>\n" + files["common"].read_text())
    (folder / "link" / "answers.txt").write_text("// the outputs")
    (folder / "link" / "helper.h").symlink_to("answers.txt")
    files["link"].write_text(f'{files["link"].read_text()}\n#include "helper.h"\n')
    for name in NAMES:
        files[name].with_name("he$l #per.h").write_text("constexpr int help = 1;\n")
        files[name].write_text(f'#include "he$l #per.h"\n{files[name].read_text()}')
    code, verdicts = judged(*map(str, files.values()), "--timeout", "30", "--jobs", "1")
    told = {one["case"]: one for one in verdicts}
    assert code == 1 and len(told) == len(verdicts) == len(files)
    return {name: told[str(file)] for name, file in files.items()}


@pytest.mark.parametrize("how", READS)
def test_a_verdict_has_no_line_of_the_arguments(found: dict[str, Any], how: str) -> None:
    text = json.dumps(found[how])
    assert not found[how]["passed"] and not [line for line in ARGUMENTS.split("\n") if line and line in text], text


@pytest.mark.parametrize("text", PATHS)
def test_a_path_through_our_folders_is_what_it_leads_to(found: dict[str, Any], text: str) -> None:
    assert "brings in kernel.py" in found[text]["compile"]["messages"][0], found[text]


@pytest.mark.parametrize("name", ["linked", *NAMES])
def test_a_kernel_is_linked_with_nothing_and_has_any_name(found: dict[str, Any], name: str) -> None:
    assert found[name]["passed"], found[name]


def test_a_kernel_that_runs_other_calls_than_it_was_checked_with_fails(found: dict[str, Any]) -> None:
    faces = found["faces"]
    assert not faces["passed"] and faces["stage"] == "values" and faces["race"]["passed"]
    assert faces["values"]["messages"] == ["the kernel makes other calls in its run than in the check"]


def test_an_input_that_is_overwritten_is_told(found: dict[str, Any]) -> None:
    told = "values: the kernel writes x, of which its file expects nothing"
    assert found["spoils"]["passed"] and found["spoils"]["unknown"][-1] == told, found["spoils"]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_fail_the_first_stage(found: dict[str, Any], wrong: str) -> None:
    one = found[wrong]
    assert not one["passed"] and one["stage"] == "compile" and len(one["compile"]["messages"]) == 1, one


@pytest.mark.skipif(platform.machine() != "x86_64", reason="filters of system calls are for x86-64")
def test_blocks_have_no_memory_in_common(found: dict[str, Any]) -> None:
    assert not found["common"]["passed"] and found["common"]["stage"] == "values", found["common"]


def test_a_header_is_what_its_link_leads_to(found: dict[str, Any]) -> None:
    assert found["link"]["stage"] == "compile" and "brings in answers.txt" in found["link"]["compile"]["messages"][0]


def test_a_line_of_code_without_end_is_cut(found: dict[str, Any]) -> None:
    assert found["wide"]["stage"] == "compile" and len(json.dumps(found["wide"])) < 4000


@pytest.mark.parametrize("body", [SCALAR, PAIRS])
def test_work_of_the_scalar_unit_is_told(found: dict[str, Any], body: str) -> None:
    """Accesses of 8 bytes take two elements each: how wide an access is does not matter."""
    one = found[body]
    assert one["stage"] == "values" and one["values"]["scalar_computed"] and not one["passed"]
    assert one["values"]["messages"] == ["scalar-computed: loads and stores of the scalar unit make the outputs"]


def test_what_is_not_simulated_is_unknown_and_no_fault_of_another_stage(found: dict[str, Any]) -> None:
    one = found["uneven"]
    assert not one["passed"] and one["stage"] == "bounds" and one["init"] is None
    assert any("cannot run this kernel" in text and "not equally far apart" in text for text in one["unknown"])


def test_twenty_cheats_are_planted() -> None:
    assert len(CHEATS) >= 20


def test_memory_may_be_less_than_a_recorder_may_take_elsewhere(tmp_path: Path) -> None:
    code, (found,) = judged(str(case(tmp_path / "small", GOOD)), "--memory", "3000")
    assert code == 0 and found["passed"], found


MANY_TYPES = """}
template <int N, bool... B> struct Many {
    static constexpr int many = Many<N - 1, B..., true>::many + Many<N - 1, B..., false>::many;
};
template <bool... B> struct Many<0, B...> { static constexpr int many = 1; };
void behind() { constexpr int many = Many<40>::many;"""


@pytest.mark.parametrize("body", [ENDLESS, MANY_TYPES], ids=["run", "compile"])
def test_a_case_that_takes_too_long_is_ended(tmp_path: Path, body: str) -> None:
    code, (found,) = judged(str(case(tmp_path / "long", body)), "--timeout", "4")
    assert code == 1 and found["stage"] == "limits" and "4 s" in found["unknown"][0]
    search = ["grep", "-rlF", "--include=entry.cpp", str(tmp_path), str(cache_folder() / "kernels")]
    assert not subprocess.run(search, capture_output=True).stdout, "no scratch folder stays"


def test_a_case_that_ends_its_judge_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    murder = ARGUMENTS.replace("    return", "    import os, signal; os.kill(os.getppid(), signal.SIGKILL)\n    return", 1)
    files = [str(case(tmp_path / "bad", GOOD, murder)), str(case(tmp_path / "good", GOOD))]
    code, found = judged(*files, "--jobs", "1")
    assert code == 1 and [one["passed"] for one in found] == [False, True]
    assert found[0]["stage"] == "limits" and "was ended" in found[0]["unknown"][0]


def test_cases_share_a_process_but_no_state(tmp_path: Path) -> None:
    """A file that leaves something behind in Python does not change the next case."""
    leaves = ARGUMENTS + "import ascend_sim.launching\nascend_sim.launching.launch = None\n"
    files = [str(case(tmp_path / "first", GOOD, leaves)), str(case(tmp_path / "second", GOOD))]
    _, found = judged(*files, "--jobs", "1")
    assert [one["passed"] for one in found] == [True, True]


def test_a_case_may_have_the_name_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = case(tmp_path / "made", GOOD)
    for suffix in (".cpp", ".py"):
        made.with_suffix(suffix).rename(tmp_path / f"random{suffix}")
    monkeypatch.chdir(tmp_path)
    code, (found,) = judged("random.cpp")
    assert code == 0 and found["passed"]


def test_a_case_imports_nothing_that_its_worker_could_have(tmp_path: Path) -> None:
    """The worker has rehearsed before its first fork; a chip that is unknown is left to the case."""
    code = f"""
import sys
from collections.abc import Iterator
from pathlib import Path
from ascend_sim.cli import judge_worker
judge_worker._prepare("no chip")
judge_worker._prepare("ascend910b3")
before = set(sys.modules)
passed = judge_worker.judged(Path({str(case(tmp_path / "good", GOOD))!r}), "ascend910b3", 0)["passed"]
print(passed, *sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"True {MODULE}\n", done.stderr


def test_judged_cases_are_left_out(tmp_path: Path) -> None:
    path, results = case(tmp_path / "good", GOOD), tmp_path / "verdicts.jsonl"
    results.write_text('{"case": "other"}\n{"case": "cut o')
    assert len(judged(str(tmp_path), "--results", str(results))[1]) == 1
    assert judged(str(tmp_path), "--results", str(results)) == (0, [])
    assert str(path) in results.read_text()


def test_results_that_cannot_be_written_end_before_the_first_case(tmp_path: Path) -> None:
    case(tmp_path / "good", GOOD)
    assert judged(str(tmp_path), "--results", str(tmp_path / "no_folder" / "verdicts.jsonl")) == (2, [])


def test_a_verdict_in_the_file_of_results_counts(tmp_path: Path) -> None:
    """A command that goes on ends as one that was never interrupted; other cases and broken lines do not count."""
    path, results = case(tmp_path / "good", GOOD), tmp_path / "verdicts.jsonl"
    before = [(str(path), True), (str(path), False), ("other", False)]
    results.write_bytes(b"\xff\n" + b"".join(json.dumps({"case": name, "passed": it}).encode() + b"\n" for name, it in before))
    assert judged(str(tmp_path), "--results", str(results)) == (1, [])
    results.write_text("".join(json.dumps({"case": name, "passed": it}) + "\n" for name, it in reversed(before[:2])))
    assert judged(str(tmp_path), "--results", str(results)) == (0, [])


@pytest.mark.parametrize(
    ("given", "said"),
    [("nowhere.cpp", "no C++ file and no folder"), ("{folder}", "no C++ file with a Python file of its name"),
     ("{folder}/kernel.cpp", "no kernel.py beside it")],
)  # fmt: skip
def test_wrong_cases_are_one_line(tmp_path: Path, given: str, said: str) -> None:
    if "kernel" in given:
        (tmp_path / "kernel.cpp").write_text(BEGIN)
    done = CliRunner().invoke(app, ["judge", given.format(folder=tmp_path)])
    assert done.exit_code == 2 and said in done.output


def test_kernel_and_check_print_the_verdict() -> None:
    for name in ("kernel", "check"):
        done = CliRunner().invoke(app, [name, str(DOCS / "ascend-c" / "add_custom.cpp"), "--json"])
        verdict = json.loads(done.stdout)["verdict"]
        assert verdict["passed"] and verdict["race"]["passed"]
        assert (verdict["cycles"] is None) == (name == "check")


def test_padding_that_no_output_depends_on_passes(found: dict[str, dict[str, Any]]) -> None:
    """Calls of whole repeats compute on what was never loaded; to store that is a mistake."""
    dropped, stored = (found[f"padded {count}"] for count in (10, 64))
    assert dropped["passed"] and [one["level"] for one in dropped["init"]["findings"]] == ["WARNING"]
    assert stored["stage"] == "init" and [one["level"] for one in stored["init"]["findings"]] == ["ERROR"]
