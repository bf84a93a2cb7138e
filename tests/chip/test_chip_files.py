"""Chip files of users: overlays, and one clear line for everything that can be wrong with one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError
from tests.support.places import DOCS

DOC = DOCS / "adding-a-chip.md"


def refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    """The file must be refused in one line that names it, the dotted field and the reason."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: {field}: ")
    assert re.search(said, message), message
    assert "\n" not in message


def overlay(tmp_path: Path, text: str, name: str = "mine.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_an_overlay_changes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    file = overlay(
        tmp_path,
        "extends: Ascend910B3\n"
        'buffers: {L1: {value: 1048576, unit: bytes, source: "assumed: what if"}}\n'
        'paths: {"GM->UB": {head: {value: 3, unit: cycles, source: "fitted: mine"}}}\n',
    )
    chip, base = load_chip(str(file)), load_chip("ascend910b3")
    changed = {"buffers.L1": (1048576, "assumed"), "paths.GM->UB.head": (3, "fitted")}
    assert (chip.name, chip.identity) == ("mine", base.identity)
    assert (chip.buffers["L1"], chip.path("GM", "UB").head) == (1048576, 3)
    assert {place: chip.sources[place].mark for place in changed} == {p: mark for p, (_, mark) in changed.items()}
    assert {p: s for p, s in chip.sources.items() if p not in changed} == {
        p: s for p, s in base.sources.items() if p not in changed
    }
    restored = {
        "name": base.name,
        "buffers": chip.buffers | {"L1": base.buffers["L1"]},
        "paths": chip.paths | {"GM->UB": base.paths["GM->UB"]},
    }
    assert chip.model_copy(update=restored).model_dump() == base.model_dump()


def test_a_file_may_extend_a_file_beside_it(tmp_path: Path) -> None:
    overlay(
        tmp_path,
        'extends: ascend910b3\nclock: {cube_mhz: {value: 1000, unit: MHz, source: "assumed: slow"}}\n',
        "a.yaml",
    )
    chip = load_chip(overlay(tmp_path, "extends: a.yaml\nidentity: {soc: Mine}\n"))
    assert (chip.identity.soc, chip.clock.cube_mhz, chip.cores.aic) == ("Mine", 1000, 20)


def test_a_user_file_is_read_anew(tmp_path: Path) -> None:
    text = 'extends: ascend910b3\nclock: {cube_mhz: {value: %d, unit: MHz, source: "assumed: x"}}\n'
    assert load_chip(overlay(tmp_path, text % 1000)).clock.cube_mhz == 1000
    assert load_chip(overlay(tmp_path, text % 2000)).clock.cube_mhz == 2000


def test_null_removes_an_inherited_path(tmp_path: Path) -> None:
    chip = load_chip(overlay(tmp_path, 'extends: ascend910b3\npaths: {"GM->L0A": null}\n'))
    assert set(load_chip("ascend910b3").paths) - set(chip.paths) == {"GM->L0A"}
    assert not any(place.startswith("paths.GM->L0A.") for place in chip.sources)


def test_a_coupled_chip_without_fixpipe_fits_the_schema(tmp_path: Path) -> None:
    ub = '{value: 262144, unit: bytes, source: "assumed: test"}'
    zero = '{value: 0, unit: cores, source: "assumed: test"}'
    rate = '{value: 256, unit: bytes/cycle, source: "assumed: test"}'
    none = '{value: 0, unit: cycles, source: "assumed: test"}'
    us = '{value: 1, unit: us, source: "assumed: test"}'
    removed = ", ".join(f'"{key}": null' for key in ("L1->BT", "L1->FB", "L1->GM", "L0C->GM", "L0C->L1"))
    text = f"""
extends: ascend910b3
cores:
  coupled: true
  aiv: {zero}
  aiv_per_aic: {zero}
  kinds: {{AIC: null, AIV: null, AI_CORE: {{pipes: [S, V, M, MTE1, MTE2, MTE3], buffers: [L1, L0A, L0B, L0C, UB]}}}}
buffers: {{UB: {ub}, BT: null, FB: null}}
fixpipe: null
paths: {{{removed}, "L0C->UB": {{pipe: V, bytes_per_cycle: {rate}, head: {none}, latency: {none}}}}}
launch: {{task_overhead_us: {{AI_CORE: {us}}}, core_start_us: {{AI_CORE: {us}}}}}
scalar: {{issue_cycles: {{AIC: null, AIV: null, AI_CORE: {none}}}}}
"""
    chip = load_chip(overlay(tmp_path, text))
    assert chip.fixpipe is None
    assert chip.pipes == ("S", "V", "M", "MTE1", "MTE2", "MTE3")
    assert chip.path("L0C", "UB").pipe == "V"


LEAF = 'extends: ascend910b3\nbuffers: {L1: {value: 1, unit: bytes, source: "x"}}\n'


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        (LEAF.replace(', source: "x"', ""), "buffers.L1", "missing source"),
        (LEAF.replace('"x"', '" "'), "buffers.L1", "missing source"),
        (LEAF.replace('"x"', '"assumed:"'), "buffers.L1", "missing source.*`assumed: why`"),
        (LEAF.replace('"x"', "3"), "buffers.L1", "missing source.*got 3"),
        (LEAF.replace("unit: bytes, ", ""), "buffers.L1", "missing unit"),
        (LEAF.replace("value: 1, ", ""), "buffers.L1", "missing value"),
        (LEAF.replace("source", "origin"), "buffers.L1", "unknown key 'origin'"),
        (LEAF.replace("bytes", "KB"), "buffers.L1", "unit is 'KB', this field is in 'bytes'"),
        (LEAF.replace("value: 1,", "value: 1.5,"), "buffers.L1", "valid integer.*got"),
        (LEAF.replace("value: 1,", "value: true,"), "buffers.L1", "valid integer.*got"),
        (LEAF.replace("value: 1,", 'value: "1",'), "buffers.L1", "value must be a number, got '1'"),
        (LEAF.replace("value: 1,", "value: 0,"), "buffers.L1", "greater than 0.*got"),
        ("extends: ascend910b3\nbuffers: {L1: 65536}\n", "buffers.L1", "must be written .*unit: bytes.*got 65536"),
        ("extends: ascend910b3\nbuffers: {L1: null, L9: null}\n", "buffers.L9", "nothing is inherited"),
        (LEAF.replace("L1", "L9"), r"buffers.L9", "'L1', 'L0A'"),
        ("extends: ascend910b3\nmemroy: {}\n", "memroy", "unknown key; did you mean memory?"),
        (
            'extends: ascend910b3\npaths: {"GM->UB": {haed: {value: 1, unit: cycles, source: x}}}\n',
            "paths.GM->UB.haed",
            "unknown key; did you mean head.*Allowed here: pipe, bytes_per_cycle, head, latency, unaligned_row$",
        ),
        ("extends: ascend910b3\nname: mine\n", "name", "unknown key; a chip is called after its file"),
        ("extends: ascend910b3\nsync: {flag_ids: null}\n", "sync.flag_ids", "missing key"),
        (
            "extends: ascend910b3\nsync: {flag_ids: null, flag_idz: {value: 8, unit: count, source: x}}\n",
            "sync.flag_idz",
            "unknown key; did you mean flag_ids?",
        ),
        ("extends: ascend910b3\nclock: null\n", "clock", "missing key"),
        ("extends: ascend910b3\nidentity: {soc: 910}\n", "identity.soc", "valid string, got 910"),
        ("extends: ascend910b3\ncores: {coupled: maybe}\n", "cores.coupled", "valid boolean, got 'maybe'"),
        ('extends: ascend910b3\npaths: {"GM->UB": {pipe: MTE9}}\n', "paths.GM->UB.pipe", "'MTE1'.*got 'MTE9'"),
        ('extends: ascend910b3\npaths: {"GM->UB": 5}\n', "paths.GM->UB", "dictionary or instance of Path, got 5"),
        ("extends: [a, b]\n", "extends", "name of one chip file"),
        (
            "extends: ascend911\n",
            "extends",
            "no shipped chip file 'ascend911'; there are ascend310p1, .*, ascend910_9362",
        ),
        ("extends: mine.yaml\n", "extends", "loop .*mine.yaml -> .*mine.yaml"),
        ("a: {b: 1, b: 2}\n", "line 1, column 11", "'b' is given twice"),
        ("a: [1\n", "line 2, column 1", "expected"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    refused(tmp_path, text, field, said)


ONE = "{value: 1, unit: cycles, source: x}"
PATH = f"{{pipe: MTE3, bytes_per_cycle: {{value: 1, unit: bytes/cycle, source: x}}, head: {ONE}, latency: {ONE}}}"


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("cores: {aiv: {value: 41, unit: cores, source: x}}", "cores.aiv", "41 is not aic x aiv_per_aic = 20 x 2"),
        ("buffers: {BT: null}", "cores.kinds.AIC.buffers", "BT has no size"),
        (f'paths: {{"UB=>GM": {PATH}}}', "paths.UB=>GM", "must be SOURCE->DESTINATION"),
        (f'paths: {{"UB->L7": {PATH}}}', "paths.UB->L7", "L7 is neither a buffer"),
        (
            "cores: {kinds: {AIV: {pipes: [S, MTE2, MTE3]}}}",
            "paths.FILL->UB.pipe",
            "no core of this chip has the pipe V",
        ),
        ("sync: {queue_depth: {V: null}}", "sync.queue_depth", "missing key V"),
    ],
)
def test_sections_that_disagree_are_refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    refused(tmp_path, f"extends: ascend910b3\n{text}\n", field, said)


@pytest.mark.parametrize(
    ("field", "unit", "only"),
    [
        ("cube.m0", "elements", 16),
        ("cube.n0", "elements", 16),
        ("alignment.block", "bytes", 32),
        ("alignment.fractal", "bytes", 512),
        ("alignment.accumulator", "bytes", 1024),
    ],
)
def test_sizes_that_everything_is_written_for(tmp_path: Path, field: str, unit: str, only: int) -> None:
    """What layouts and instructions take for granted a file may repeat, not change."""
    section, key = field.split(".")
    text = f"extends: ascend910b3\n{section}: {{{key}: {{value: %d, unit: {unit}, source: x}}}}\n"
    assert load_chip(overlay(tmp_path, text % only)).name == "mine"
    for other in (only // 2, 2 * only):
        refused(
            tmp_path,
            text % other,
            field,
            f"{other} given; the only value is {only}, for which layouts and instructions",
        )


def test_a_loop_through_several_files(tmp_path: Path) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        overlay(tmp_path, f"extends: {parent}.yaml\n", f"{name}.yaml")
    with pytest.raises(ConfigError, match=r"c\.yaml: extends: loop .*a\.yaml -> .*b\.yaml -> .*c\.yaml -> .*a\.yaml$"):
        load_chip(tmp_path / "a.yaml")


def test_the_error_names_the_file_that_says_the_field(tmp_path: Path) -> None:
    parent = overlay(tmp_path, LEAF.replace("bytes", "KB"), "parent.yaml")
    child = overlay(tmp_path, "extends: parent.yaml\n", "child.yaml")
    with pytest.raises(ConfigError, match=f"^{re.escape(str(parent))}: buffers.L1: "):
        load_chip(child)


def test_a_file_alone_must_be_complete(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml: identity: missing key$"):
        load_chip(overlay(tmp_path, "references: {}\n"))


def test_files_that_are_not_there_or_no_mapping(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot be read as YAML text: No such file"):
        load_chip(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match=r"mine.yaml: must be a mapping of sections, this one is list"):
        load_chip(overlay(tmp_path, "[1, 2]\n"))


def test_the_example_of_the_manual(tmp_path: Path) -> None:
    """docs/adding-a-chip.md: its YAML loads, and its Python shows what it says in the comments."""
    text = DOC.read_text(encoding="utf-8")
    example = re.search(r"```yaml\n# (\S+)\n(.*?)```", text, re.S)
    python = re.search(r"```python\n(.*?)```", text, re.S)
    assert example is not None
    assert python is not None
    chip = load_chip(overlay(tmp_path, example[2], example[1]))
    assert chip.name == "fast_memory"
    checked = 0
    for line in python[1].splitlines():
        if line.startswith("chip.") and "#" in line:
            expression, comment = line.split("#")
            value = eval(expression, {"chip": chip})  # our own page
            shown = f"{value:.1f}" if isinstance(value, float) else repr(value)
            assert comment.strip().endswith(shown), line
            checked += 1
    assert checked == 4


@pytest.mark.parametrize(
    ("section", "field", "number", "said"),
    [
        ("memory", "hbm_latency", "{value: 2147483648, unit: cycles", "is 2147483648; at most 2147483647"),
        ("memory", "l2_line_bytes", "{value: 131072, unit: bytes", "is 131072; at most 65536"),
        ("memory", "hbm_gb_per_s", "{value: 1.0e+30, unit: GB/s", r"comes to .* from 2\*\*-16 to below 2\*\*30"),
        ("sync", "flag_latency", "{value: 9999999999, unit: cycles", "is 9999999999; at most 2147483647"),
    ],
)
def test_numbers_with_which_an_engine_would_wrap(
    tmp_path: Path, section: str, field: str, number: str, said: str
) -> None:
    text = f'extends: ascend910b3\n{section}: {{{field}: {number}, source: "assumed: what if"}}}}\n'
    file = overlay(tmp_path, text)
    with pytest.raises(ConfigError, match=rf"{section}\.{field}: {said}") as caught:
        load_chip(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)
