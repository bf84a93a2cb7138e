"""`ascend-sim check`: a case, a kernel file, a folder; exit codes, tools, JSON, the shape of the vendor's sanitizer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ascend_sim.check.run import chosen_tools
from ascend_sim.cli import app
from ascend_sim.errors import SimError

pytestmark = pytest.mark.fast

KERNEL = """
import numpy as np
import ascend_sim as asim

@asim.kernel_function(core="AIV")
def move(k, x, y):
    held = k.local_tensor(64, "float32", "held")
    k.gm_to_ub(held, x[0])
    flag = k.flag("MTE2", "MTE3", "there")
    k.set_flag(flag)
    k.wait_flag(flag)
    k.ub_to_gm(y[0], held)

BLOCKS = 1

def arguments(rng):
    return np.zeros((1, 64), np.float32), asim.empty((1, 64), "float32")
"""


def command(*arguments: Any) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "move.py"
    path.write_text(KERNEL)
    return path


def test_a_kernel_without_mistakes(file: Path) -> None:
    code, text = command(file)
    assert code == 0
    assert text.startswith("====== SUMMARY: 0 errors, 0 warnings in 1 programs")


def test_a_race_in_the_vendors_shape(file: Path) -> None:
    code, text = command(file, "--disarm", "there", "--blocks", "1", "--chip", "ascend910b3")
    assert code == 1
    lines = text.splitlines()
    assert lines[0] == "====== ERROR: Potential RAW hazard detected at UB in move:"
    assert lines[2] == "======    PIPE_MTE2 Write at RAW()+0x0 in block 0 (aiv) on device 0"
    assert lines[3].startswith(f"======    #0 {file}:8 data_copy (row 0, cycle ")
    assert lines[4] == "======    PIPE_MTE3 Read at RAW()+0x0 in block 0 (aiv) on device 0"
    assert "a flag MTE2 -> MTE3" in lines[6]


def test_only_the_tools_that_are_asked_for(file: Path) -> None:
    assert command(file, "--disarm", "there", "--tool", "memcheck", "--blocks", "1")[0] == 0
    assert command(file, "--disarm", "there", "--tool", "racecheck", "--blocks", "1")[0] == 1
    code, text = command(file, "--tool", "lint")
    assert code == 2 and "tool 'lint': allowed are memcheck, racecheck, initcheck, synccheck" in text
    with pytest.raises(SimError, match="tool 3: allowed are memcheck"):
        chosen_tools(3)  # type: ignore[arg-type]


def test_json(file: Path) -> None:
    code, text = command(file, "--disarm", "there", "--blocks", "1", "--json")
    told = json.loads(text)
    assert code == 1 and not told["passed"] and told["programs"] == 1
    (finding,) = told["findings"]
    assert (finding["tool"], finding["kind"], finding["space"], finding["bytes"]) == ("racecheck", "RAW", "UB", 256)
    assert [(place["pipe"], place["access"], place["line"]) for place in finding["places"]] == [
        ("MTE2", "write", 8),
        ("MTE3", "read", 12),
    ]
    assert finding["places"][0]["cycle"] > 0


@pytest.mark.parametrize(
    ("subject", "flag", "said"),
    [
        (None, "nothing", "disarm: no flag 'nothing' in "),
        ("by_hand", "grad_weight.nothing", "disarm: no flag 'nothing' in grad_weight; it has A1"),
        ("by_hand", "grad_wait.nothing", "disarm: no kernel 'grad_wait'; this call has "),
    ],
)
def test_a_flag_that_is_not_there_cannot_be_disarmed(file: Path, subject: str | None, flag: str, said: str) -> None:
    done = CliRunner().invoke(app, ["check", subject or str(file), "--disarm", flag])
    assert done.exit_code == 2 and said in done.stderr and not done.stdout


def test_a_case_and_its_run() -> None:
    assert command("by_hand")[0] == 0
    code, text = command("by_hand", "--disarm", "grad_weight.A1[0] full")
    assert code in (0, 1) and "SUMMARY" in text
    assert command("by_hand", "--blocks", "3") == (2, "ascend-sim: --blocks: by_hand is a case, which does not take it\n")


def test_a_folder_of_a_run(tmp_path: Path, file: Path) -> None:
    plain, broken = tmp_path / "plain", tmp_path / "broken"
    runner = CliRunner()
    runner.invoke(app, ["kernel", str(file), "--out", str(plain), "--blocks", "1"])
    runner.invoke(app, ["kernel", str(file), "--out", str(broken), "--blocks", "1", "--disarm", "there"])
    assert command(plain)[0] == 0
    code, text = command(broken)
    assert code == 1 and "Potential RAW hazard" in text and "cycle" in text
    code, text = command(tmp_path)
    assert code == 2 and "no timeline.npz in it" in text


def test_a_kernel_that_breaks_off_is_checked_as_far_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(KERNEL.replace("    k.ub_to_gm(y[0], held)", "    k.ub_to_gm(y[0], held[:32])\n    k.ub_to_gm(y[9], held)"))
    code, text = command(path, "--blocks", "1")
    assert code == 2  # as of `kernel`
    assert "refused: ub_to_gm" in text and f"{path}:12" in text


PROGRAM = """
from ascend_sim import acl

acl.aclInit(None)
acl.aclrtSetDevice(0)
ret, kept = acl.aclrtMalloc(100, 0)
ret, freed = acl.aclrtMalloc(64, 0)
acl.aclrtFree(freed)
acl.aclrtResetDevice(0)
acl.aclFinalize()
"""


def test_memory_that_a_program_does_not_give_back(tmp_path: Path) -> None:
    leaking, clean = tmp_path / "leaking.py", tmp_path / "clean.py"
    leaking.write_text(PROGRAM)
    clean.write_text(PROGRAM.replace("acl.aclrtFree(freed)", "acl.aclrtFree(freed)\nacl.aclrtFree(kept)"))
    code, text = command(leaking)
    assert code == 1
    assert text.startswith("====== ERROR: LeakCheck: detected memory leaks\n======    Direct leak of 100 byte(s)\n")
    assert f"on GM allocated in {leaking}:6" in text and text.count("Direct leak") == 1
    assert command(clean)[0] == 0


STREAMS = """
import numpy as np
from ascend_sim import acl

acl.aclInit(None)
acl.aclrtSetDevice(0)
streams = [acl.aclrtCreateStream()[1] for _ in range(2)]
given = []


def tensor(shape):
    host = np.ones(shape, np.float32)
    ret, address = acl.aclrtMalloc(host.nbytes, 0)
    given.append(address)
    acl.aclrtMemcpy(address, host.nbytes, host, host.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE)
    return acl.aclCreateTensor(shape, len(shape), acl.ACL_FLOAT, None, 0, acl.ACL_FORMAT_NCHW, shape, len(shape), address)


maps, filters = [1, 2, 3, 3], [2, 2, 1, 1]
weight_gradient = tensor(filters)
ints = [acl.aclCreateIntArray(values, len(values)) for values in ([2], [1, 1], [0, 0], [1, 1], [0, 0])]
mask = acl.aclCreateBoolArray([False, True, False], 3)
ret, event = acl.aclrtCreateEvent()
for number, stream in enumerate((streams[0], streams[0], streams[1])):
    if number == 2:
        acl.aclrtStreamWaitEvent(stream, event)
    operands = [tensor(maps), tensor(maps), tensor(filters)]
    ret, size, made = acl.aclnnConvolutionBackwardGetWorkspaceSize(
        *operands, *ints[:4], False, ints[4], 1, mask, 1, tensor(maps), weight_gradient, None
    )
    ret, work = acl.aclrtMalloc(size, 0)
    given.append(work)
    acl.aclnnConvolutionBackward(work, size, made, stream)
    if number == 1:
        acl.aclrtRecordEvent(event, stream)
for stream in streams:
    acl.aclrtSynchronizeStream(stream)
for address in given:
    acl.aclrtFree(address)
acl.aclrtResetDevice(0)
acl.aclFinalize()
"""


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_what_a_program_launches_on_two_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Two calls of one stream and one of the other write one gradient; an event orders them."""
    monkeypatch.setenv("ASCEND_SIM_MODE", mode)
    racing, clean = tmp_path / "racing.py", tmp_path / "clean.py"
    clean.write_text(STREAMS)
    racing.write_text(STREAMS.replace("    if number == 2:\n        acl.aclrtStreamWaitEvent(stream, event)\n", ""))
    code, text = command(clean)
    assert code == 0 and "0 errors, 0 warnings" in text and "0 programs" not in text, text
    code, text = command(racing)
    assert code == 1 and re.search(r"streams \d+ and \d+$", text, re.MULTILINE), text
    assert "Potential WAW hazard detected at GM in TransData_grad_weight and TransData_grad_weight" in text
    if mode == "full":  # three tasks of one name, each with its own cycles
        starts = [int(line.rpartition("cycle ")[2][:-1]) for line in text.splitlines() if "cycle" in line]
        assert len(starts) == 4 and starts[2] != starts[3], starts
    assert len(remarks := [line for line in text.splitlines() if "REMARK" in line]) == len(set(remarks))


def test_a_program_that_launches_nothing_is_no_clean_one(tmp_path: Path) -> None:
    opens, without = tmp_path / "opens.py", tmp_path / "without.py"
    opens.write_text(PROGRAM.replace("acl.aclrtFree(freed)", "acl.aclrtFree(freed)\nacl.aclrtFree(kept)"))
    without.write_text("from ascend_sim import acl\n")
    code, text = command(opens)
    assert code == 0 and "nothing was launched: looked at is device memory alone" in " ".join(text.split())
    code, text = command(opens, "--tool", "racecheck")
    assert code == 2 and f"{opens}: it launches nothing, so there is nothing to check" in " ".join(text.split())
    code, text = command(without)
    assert code == 2 and f"{without}: it opens no device" in " ".join(text.split())


@pytest.mark.parametrize("at", ["in the kernel", "in the file"])
def test_an_end_of_python_is_no_success(tmp_path: Path, at: str) -> None:
    path = tmp_path / "ends.py"
    line = "    raise SystemExit(0)\n" if at == "in the kernel" else "raise SystemExit(0)\n"
    path.write_text(KERNEL.replace("    flag = k", f"{line}    flag = k") if at == "in the kernel" else KERNEL + line)
    code, text = command(path)
    assert code == 2 and "it ends Python (exit code 0)" in text
    done = CliRunner().invoke(app, ["kernel", str(path)])
    assert done.exit_code == 2 and "it ends Python (exit code 0)" in " ".join(done.output.split())


def test_the_limit_of_memory_ends_a_check(file: Path) -> None:
    """It comes as an error inside whatever runs, which may be a kernel: that is no finding of it."""
    file.write_text(
        KERNEL.replace("    flag = k", '    stopping._too_much.append("too much")\n    stopping._stop(15, None)\n    flag = k')
        .replace("import ascend_sim as asim", "import ascend_sim as asim\nfrom ascend_sim.cli import stopping")
    )  # fmt: skip
    code, text = command(file)
    assert code == 2 and "kernel move: too much" in " ".join(text.split()) and "SUMMARY" not in text


def test_what_is_refused_in_every_block_is_told_once(file: Path) -> None:
    file.write_text(KERNEL.replace("    k.ub_to_gm(y[0], held)", "    k.flag('V', 'V', 'none')"))
    code, text = command(file, "--blocks", "3", "--json")
    refused = [one for one in json.loads(text)["findings"] if one["kind"] == "refused"]
    assert code == 2 and [one["count"] for one in refused] == [3], refused
    assert refused[0]["details"][0] == "in block 0 AIV0"
