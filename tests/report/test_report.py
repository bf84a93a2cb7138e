"""The report: its schema, its sums, and that nothing in it depends on chance."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.report.files import write_json
from ascend_sim.report.report import Report, RunFacts, plain
from tests.support.report.small_kernels import CHIP, KIB, cast_task, cube_task, run_three

KERNEL_KEYS = {
    "op_type", "name", "core_type", "block_dim", "task_us", "core_us", "core_us_max", "start_us", "pipes_us",
    "cube_work_cycles", "counts", "tiling", "tiling_source", "dtypes", "formats",
}  # fmt: skip
TIMES = ("task_us", "core_us", "core_us_max", "start_us", "pipes_us", "bottleneck_pipe", "main_stall", "stalls", "roofline")


@pytest.fixture(scope="module")
def run():
    return run_three()


@pytest.fixture(scope="module")
def report(run):
    tasks, timeline = run
    return replace(Report.build(CHIP, timeline, tasks), workspace_bytes=512).to_dict()


def test_schema(report):
    assert {"chip", "status", "total_us", "workspace_bytes", "kernels", "outputs"} <= set(report)
    assert (report["chip"], report["status"], report["workspace_bytes"]) == ("ascend910b3", 0, 512)
    for kernel in report["kernels"]:
        assert set(kernel) >= KERNEL_KEYS
        assert set(kernel["pipes_us"]) == {"scalar", "cube", "vec", "mte1", "mte2", "mte3", "fixpipe"}
        assert set(kernel["counts"]) == {"tiles", "instructions", "bytes"}
    kinds = [(k["op_type"], k["core_type"], k["block_dim"]) for k in report["kernels"]]
    assert kinds == [("Cast", "AIV", 45), ("Conv2DBackpropInput", "AIC", 3), ("Mixed", "MIX", 2)]
    cube = report["kernels"][1]
    assert cube["tiling"] == {"baseM": 128} and cube["tiling_source"] == "manual"
    assert cube["cube_work_cycles"] == [2048, 1024, 2048]


def test_times_follow_the_timeline(run, report):
    _, timeline = run
    mhz = CHIP.clock.cube_mhz
    assert report["total_us"] == round(timeline.finish / mhz, 4)
    assert report["kernels"][0]["start_us"] == 0
    for index, kernel in enumerate(report["kernels"]):
        span = timeline.tasks[index]
        assert kernel["task_us"] == round((span.finish - span.launch) / mhz, 4)
        if index:  # one stream: a kernel starts where the one before it ended
            assert kernel["start_us"] == pytest.approx(sum(k["task_us"] for k in report["kernels"][:index]), abs=1e-3)
        assert kernel["core_us"] <= kernel["core_us_max"] < kernel["task_us"]


def test_times_count_from_the_launch_of_the_first_kernel(run, report):
    """A run with a clock that was at 700 when it began has equal times."""
    tasks, timeline = run
    later = Timeline(
        [shifted(span, "launch begin finish") for span in timeline.tasks],
        [shifted_program(program) for program in timeline.programs],
    )
    told = Report.build(CHIP, later, tasks)
    assert told.total_us == report["total_us"]
    assert [kernel["start_us"] for kernel in told.kernels] == [kernel["start_us"] for kernel in report["kernels"]]


def shifted(one, names):
    return replace(one, **{name: getattr(one, name) + 700 for name in names.split()})


def shifted_program(one):
    times = {name: getattr(one, name) + 700 for name in ("start", "end", "retire")}
    return replace(shifted(one, "launch begin finish"), columns={**one.columns, **times})


def test_core_time_adds_up_the_blocks_of_a_core(run, report):
    """45 blocks on 40 cores: five cores run two, and the mean is over the cores."""
    _, timeline = run
    cores = {}
    for one in timeline.of(0):
        cores.setdefault(one.core, []).append(one.finish - one.launch)
    assert sorted(map(len, cores.values())) == [1] * 35 + [2] * 5
    kernel = report["kernels"][0]
    assert kernel["core_cycles_max"] == max(map(sum, cores.values()))
    assert kernel["core_us"] == round(np.mean([sum(blocks) for blocks in cores.values()]) / CHIP.clock.cube_mhz, 4)


def test_busy_and_stalls_add_up_to_the_span_of_every_pipe(run):
    _, timeline = run
    for one in timeline.programs:
        pipes = CHIP.cores.kinds[one.program.core_kind].pipes
        for pipe in pipes:
            assert one.busy()[pipe] + sum(one.stalls(pipe).values()) == one.finish - one.begin


def test_reported_busy_and_stalls_add_up_to_the_mean_span(run, report):
    _, timeline = run
    for index in (0, 1):  # kernels whose cores are all of one kind
        runs = timeline.of(index)
        mean = sum(one.finish - one.begin for one in runs) / len({one.core for one in runs}) / CHIP.clock.cube_mhz
        kernel = report["kernels"][index]
        assert kernel["stalls"]
        for pipe, stalls in kernel["stalls"].items():
            assert kernel["pipes_us"][pipe] + sum(stalls.values()) == pytest.approx(mean, abs=1e-3)
            assert sum(kernel["held_us"].get(pipe, {}).values()) <= kernel["pipes_us"][pipe]


def test_bottleneck_is_the_busiest_pipe_and_its_main_stall_the_largest(report):
    for kernel in report["kernels"]:
        pipe = kernel["bottleneck_pipe"]
        assert kernel["pipes_us"][pipe] == max(kernel["pipes_us"].values())
        lost = dict(kernel["stalls"][pipe])
        for cause, us in kernel["held_us"].get(pipe, {}).items():
            lost[cause] = lost.get(cause, 0) + us
        assert lost[kernel["main_stall"]["cause"]] == max(lost.values())
        # Of what a core has, not of what its pipe works: the share is that of the pipe's whole span.
        span = kernel["pipes_us"][pipe] + sum(kernel["stalls"][pipe].values())
        assert kernel["main_stall"]["share"] == pytest.approx(max(lost.values()) / span, abs=2e-3)


def test_a_full_chip_stream_names_its_shared_bandwidth(report):
    """40 vector cores read cold data at once: HBM holds MTE2 back, and the report says so."""
    held = report["kernels"][0]["held_us"]["mte2"]
    assert max(held, key=held.__getitem__) == "HBM share"
    assert report["kernels"][0]["roofline"]["bound_by"] == "HBM"


def test_cube_efficiency_is_ideal_over_longest_core(run, report):
    kernel = report["kernels"][1]
    macs = 20 * 128 * 64 * 128
    assert kernel["ideal_cycles"] == macs / (4096 * 20) == 256
    longest = max(one.finish - one.launch for one in run[1].of(1))
    assert kernel["cube_efficiency"] == round(256 / longest, 4)
    assert "ideal_cycles" not in report["kernels"][0]


def test_two_runs_and_other_cores_give_the_same_bytes(tmp_path):
    texts = []
    for order in (None, None, lambda count: list(range(count))[::-1], lambda count: [*range(7, count), *range(7)]):
        tasks, timeline = run_three(order)
        path = tmp_path / f"{len(texts)}.json"
        write_json(path, Report.build(CHIP, timeline, tasks).to_dict())
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] == texts[2] == texts[3]
    assert {one.core for one in timeline.of(1)} == {7, 8, 9}


def test_functional_has_counts_and_no_times(tmp_path):
    def two():
        device = Device(CHIP)
        wide = device.allocate(120 * KIB, "wide")
        wide.data[:] = 0
        tasks = [cast_task(device, wide), cube_task(device)]
        for tensor in tasks[1].tensors:
            tensor.data[:] = 0
        return device, tasks

    device, tasks = two()
    facts = RunFacts(CHIP, bounds=False)
    FunctionalEngine(device, on_program=facts.add).run(tasks)
    values = Report.build(CHIP, None, tasks, facts).to_dict()
    device, tasks = two()
    timed = Report.build(CHIP, Engine(device).run(tasks), tasks).to_dict()
    assert values["mode"] == "functional" and values["total_us"] is None
    for without, with_time in zip(values["kernels"], timed["kernels"], strict=True):
        assert all(without[key] is None for key in TIMES)
        assert without["counts"] == with_time["counts"]
        assert without["cube_work_cycles"] == with_time["cube_work_cycles"]
    json.dumps(values, allow_nan=False)


def test_gradients_are_worked_out_once_and_only_when_asked(run):
    tasks, timeline = run
    calls = []

    def gradients():
        calls.append(1)
        return {"grad_input": {"correct": False, "worst_error_over_bound": np.float64(np.inf), "shape": (1, np.int64(2))}}

    report = Report.build(CHIP, timeline, tasks, verdicts=gradients)
    assert not calls
    assert report.to_dict()["outputs"] == {"grad_input": {"correct": False, "worst_error_over_bound": None, "shape": [1, 2]}}
    report.to_dict()
    assert not report.passed and len(calls) == 1


def test_a_hazard_fails_a_report_with_correct_gradients(run):
    tasks, timeline = run
    good = {"grad_input": {"correct": True}}
    assert Report.build(CHIP, timeline, tasks, verdicts=good).passed
    bad = Report.build(CHIP, timeline, tasks, verdicts=good, findings=[Finding("hazard", "cast", "two writes")])
    assert not bad.passed
    assert bad.to_dict()["findings"] == [{"kind": "hazard", "task": "cast", "text": "two writes"}]


def test_plain_values_only():
    assert plain({1: (np.float32(0.5), float("nan"), None, True, np.arange(2))}) == {"1": [0.5, None, None, True, [0, 1]]}
