"""ASCEND_SIM_OUT and ASCEND_SIM_MODE: what a process leaves behind, and what its environment may say."""

import json

import numpy as np
import pytest

from ascend_sim import acl, load_chip
from ascend_sim.acl import state
from ascend_sim.report.timeline_file import load_recording
from tests.support.acl.acl_calls import AclConvolution, ok, open_device, refused, upload

pytestmark = pytest.mark.fast


def written(folder):
    return sorted(path.name for path in folder.iterdir())


def test_every_kernel_of_the_process_is_in_its_files(tmp_path, monkeypatch):
    """Two runs, two streams tied by an event; run again from the file, the kernels come at the same cycles."""
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path / "out"))
    first = open_device()
    second, third = ok(acl.aclrtCreateStream()), ok(acl.aclrtCreateStream())
    spans = []
    for _ in range(2):
        early, late = AclConvolution().prepare(), AclConvolution(channels=3).prepare()
        scratch = upload(np.zeros(64, np.uint8))
        event, passed_on = ok(acl.aclrtCreateEvent()), ok(acl.aclrtCreateEvent())
        ok(early.launch(first))
        ok(acl.aclrtRecordEvent(event, first))
        ok(acl.aclrtMemsetAsync(scratch, 64, 1, 64, first))
        ok(acl.aclrtStreamWaitEvent(third, event))  # a stream without a kernel hands the event on
        ok(acl.aclrtRecordEvent(passed_on, third))
        ok(acl.aclrtStreamWaitEvent(second, passed_on))
        ok(late.launch(second))
        ok(acl.aclrtSynchronizeDevice())
        timeline = acl.last_run().timeline
        spans += [(one.task.name, one.launch, one.finish) for one in timeline.tasks if one.task.core_kind != "HOST"]
    assert written(tmp_path / "out") == []
    state.PROCESS.end()
    assert written(tmp_path / "out") == ["report.json", "timeline.npz", "trace.json.gz"]
    chip = load_chip("ascend910b3")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    told = [(kernel["name"], kernel["start_us"], kernel["task_us"]) for kernel in report["kernels"]]
    assert told == [(n, round(chip.us(start), 4), round(chip.us(end - start), 4)) for n, start, end in spans]
    assert (report["problem"]["synchronised"], report["findings"], report["warnings"]) == (2, [], [])
    recording, _ = load_recording(tmp_path / "out" / "timeline.npz")
    again = recording.rerun(chip)
    assert [(one.task.name, one.launch, one.finish) for one in again.tasks] == spans
    state.PROCESS.end()  # told once: what is there stays
    ok(acl.aclFinalize())


def test_closing_the_device_writes_too_and_every_device_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path))
    monkeypatch.setenv("ASCEND_SIM_MODE", "functional")
    for _ in range(2):
        stream = open_device()
        ok(AclConvolution().prepare().launch(stream))
        ok(acl.aclFinalize())  # which runs what is queued
    open_device()
    ok(acl.aclFinalize())  # nothing ran
    assert written(tmp_path) == ["device_2", "device_3", "report.json"]
    assert written(tmp_path / "device_2") == ["report.json"]
    assert written(tmp_path / "device_3") == []
    report = json.loads((tmp_path / "device_2" / "report.json").read_text())
    assert (report["mode"], report["total_us"]) == ("functional", None)
    assert [kernel["op_type"] for kernel in report["kernels"]].count("TransData") == 5
    assert all(kernel["counts"]["instructions"] for kernel in report["kernels"])


def test_a_race_is_told_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path))
    stream = open_device()
    other = ok(acl.aclrtCreateStream())
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtMemsetAsync(conv.addresses["gradInput"], 64, 1, 64, other))
    with pytest.warns(RuntimeWarning, match="race"):
        ok(acl.aclrtSynchronizeDevice())
    ok(acl.aclFinalize())
    (warning,) = json.loads((tmp_path / "report.json").read_text())["warnings"]
    assert "race: aclnnConvolutionBackward and aclrtMemsetAsync" in warning


def test_a_folder_that_cannot_be_made_is_told_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path / "file"))
    ok(acl.aclInit(None))
    refused(acl.aclrtSetDevice(0), "no device", "ASCEND_SIM_OUT", "file")


def test_a_folder_that_is_gone_at_the_end_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path / "out"))
    stream = open_device()
    ok(AclConvolution().prepare().launch(stream))
    (tmp_path / "out").rmdir()
    (tmp_path / "out").touch()
    with pytest.warns(RuntimeWarning, match="ASCEND_SIM_OUT.*out"):
        ok(acl.aclFinalize())


def test_a_mode_of_the_environment(monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_MODE", "functional")
    stream = open_device()
    event = ok(acl.aclrtCreateEvent())
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    refused(acl.aclrtEventElapsedTime(event, event), "no time")
    ok(acl.aclFinalize())
    monkeypatch.setenv("ASCEND_SIM_MODE", "fast")
    ok(acl.aclInit(None))
    refused(acl.aclrtSetDevice(0), "no device", "ASCEND_SIM_MODE", "fast", "full and functional")
