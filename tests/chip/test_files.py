"""Chip files of users: overlays, and one clear line for everything that can be wrong with one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError
from tests.support.places import DOCS

DOC = DOCS / "adding-a-chip.md"


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
    overlay(tmp_path, 'extends: ascend910b3\nclock: {cube_mhz: {value: 1000, unit: MHz, source: "assumed: slow"}}\n', "a.yaml")
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
    with pytest.raises(ConfigError, match=r"nowhere.yaml: no such file$"):
        load_chip(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match=r"^nowhere.yaml: no such file$"):  # named as it was given
        load_chip("nowhere.yaml")
    with pytest.raises(ConfigError, match=r"mine.yaml: must be a mapping of sections, this one is a list"):
        load_chip(overlay(tmp_path, "[1, 2]\n"))
    with pytest.raises(ConfigError, match=r"no such file$"):
        load_chip(overlay(tmp_path, 'extends: "no\\0where.yaml"\n'))  # a path that cannot be resolved
    for name in (5, None, b"ascend910b3"):
        with pytest.raises(ConfigError, match="is not a known chip"):
            load_chip(name)  # type: ignore[arg-type]


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
