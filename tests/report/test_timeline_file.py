"""timeline.npz gives back every column of a Timeline."""

import json
from zipfile import ZipFile

import numpy as np
import pytest

from ascend_sim import empty, kernel_function, launch
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.isa.cube import FixpipeNd
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.vector import VectorScalar
from ascend_sim.isa.vector.base import Mask
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.report.timeline_file import _json, _parameter, _stored, load_recording, load_timeline, write_timeline
from ascend_sim.runtime import Recording
from tests.support.report.small_kernels import CHIP, run_three

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def run():
    return run_three()


def test_round_trip(run, tmp_path):
    tasks, timeline = run
    write_timeline(tmp_path / "timeline.npz", Recording(CHIP, timeline, tasks))
    file = load_timeline(tmp_path / "timeline.npz")
    assert (file.chip, file.cube_mhz) == ("ascend910b3", 1800)
    assert file.tasks["name"].tolist() == ["cast", "cube loop", "mixed"]
    assert file.tasks["finish"].tolist() == [one.finish for one in timeline.tasks]
    assert len(file.programs["task"]) == len(timeline.programs)
    for index, one in enumerate(timeline.programs):
        rows = file.program(index)
        for name in ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait", "hbm_bytes"):
            assert np.array_equal(rows[name], getattr(one, name))
        assert file.programs["core"][index] == one.core and file.programs["task"][index] == one.task
        assert file.programs["core_kind"][index] == one.program.core_kind
        for row, view in enumerate(one.program):
            assert file.instructions["text"][rows["instruction"][row]] == str(view.instruction)
            assert PIPES[rows["pipe"][row]] == view.pipe
            assert (rows["dst"][row], rows["src0"][row], rows["tile"][row]) == (view.dst, view.src0, view.tile)


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    for name, (tasks, timeline) in (("a", run), ("b", run_three())):
        write_timeline(tmp_path / name, Recording(CHIP, timeline, tasks))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_what_numpy_writes_of_whole_columns(run, tmp_path):
    """It is written program by program."""
    tasks, timeline = run
    write_timeline(tmp_path / "a.npz", Recording(CHIP, timeline, tasks))
    with np.load(tmp_path / "a.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(tmp_path / "b.npz", **arrays)
    with ZipFile(tmp_path / "a.npz") as a, ZipFile(tmp_path / "b.npz") as b:  # packed in another way, so entry by entry
        assert a.namelist() == b.namelist() and all(a.read(name) == b.read(name) for name in a.namelist())


def test_nothing_ran(tmp_path):
    write_timeline(tmp_path / "timeline.npz", Recording(CHIP, Timeline(), []))
    file = load_timeline(tmp_path / "timeline.npz")
    assert len(file.rows["start"]) == len(file.programs["task"]) == len(file.tasks["name"]) == 0


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("other.npz", "text.npz", "missing.npz"):
        with pytest.raises(SimError, match=name):
            load_timeline(tmp_path / name)


def changed(source, target, **columns):
    """The file with some columns replaced, left out (None) or added."""
    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files} | {name.replace("__", "."): v for name, v in columns.items()}
    np.savez(target, **{name: column for name, column in arrays.items() if column is not None})
    return target


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (lambda old: {"rows__start": old["rows.start"] + (1 << 62)}, "was changed after it was written"),
        (lambda old: {"rows__pipe": np.full_like(old["rows.pipe"], 200)}, "was changed after it was written"),
        (lambda old: {"chip_file": np.asarray("{}")}, "was changed after it was written"),
        (lambda old: {"digest": np.asarray("")}, "was changed after it was written"),
        (lambda old: {"version": np.asarray(2)}, "a timeline of version 2; this ascend-sim reads version 6"),
        (lambda old: {"version": np.asarray("x")}, "no timeline file"),
        (lambda old: {"rows__end": None}, "rows.end is missing"),
        (lambda old: {"rows__more": old["rows.end"]}, "rows.more is none of it"),
        (lambda old: {"rows__end": old["rows.end"][:-1]}, "where the others of its group have"),
        (lambda old: {"rows__end": old["rows.end"].astype(float)}, "rows.end: is float64"),
        (lambda old: {"rows__end": old["rows.end"].astype(object)}, "Python objects"),
        (lambda old: {"tasks__name": np.arange(len(old["tasks.name"]))}, "tasks.name: is int64"),
        (lambda old: {"rows__end": old["rows.end"].reshape(1, -1)}, "rows.end: has shape"),
        (lambda old: {"digest": None, "version": np.asarray(1)}, "a timeline of version 1"),
    ],
)
def test_a_changed_file_is_one_line(run, tmp_path, columns, said):
    tasks, timeline = run
    write_timeline(tmp_path / "a.npz", Recording(CHIP, timeline, tasks))
    with np.load(tmp_path / "a.npz") as old:
        path = changed(tmp_path / "a.npz", tmp_path / "b.npz", **columns(old))
    with pytest.raises(SimError) as caught:
        load_recording(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and said in message and "\n" not in message


def test_the_same_columns_packed_in_another_way_are_the_same_file(run, tmp_path):
    tasks, timeline = run
    write_timeline(tmp_path / "a.npz", Recording(CHIP, timeline, tasks))
    assert load_recording(changed(tmp_path / "a.npz", tmp_path / "b.npz"))[0].timeline.finish == timeline.finish


@pytest.mark.parametrize("key", [
    (VectorScalar, "adds", "float32", 64, 1, 0, 0, Mask(0x5555, 64), (), 1.0),
    (VectorScalar, "adds", "float32", 64, 2, 256, 256, None, (32, 64), 1.0),
    (FixpipeNd, 16, 16, 16, "float16", 32, False, Quantisation("int32", 0.5)),
], ids=["mask", "block strides", "quantisation"])  # fmt: skip
def test_nested_parameters_come_back_as_what_they_were(key):
    table = InstructionTable(CHIP)
    table.add(key)
    name, *parameters = json.loads(_json(_stored(table, key)))
    assert (name, *map(_parameter, parameters)) == (key[0].__name__, *key[1:])


@kernel_function(core="AIV")
def masked(k, x, y):
    values = k.local_tensor(64, "float32", "values")
    loaded, ready = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "ready")
    k.gm_to_ub(values, x)
    k.set_flag(loaded), k.wait_flag(loaded)
    k.adds(values, values, 1.0, mask=0x5555_5555)
    k.set_flag(ready), k.wait_flag(ready)
    k.ub_to_gm(y, values)


def test_a_launch_with_a_mask_is_read_back(tmp_path):
    run = launch(masked, 1, np.zeros(64, np.float32), empty(64, "float32"))
    write_timeline(tmp_path / "timeline.npz", run.recording)
    again, _ = load_recording(tmp_path / "timeline.npz")
    told = [[str(view.instruction) for view in one.program] for one in again.timeline.programs]
    assert told == [[str(view.instruction) for view in one.program] for one in run.timeline.programs]
