"""A chip that was loaded: the names that it answers to, its times, and what makes two chips equal."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from itertools import pairwise

import pytest

from ascend_sim.chip import ChipSpec, chip_names, chip_of, load_chip, spec
from ascend_sim.errors import ConfigError

pytestmark = pytest.mark.fast


def test_cycles_and_microseconds() -> None:
    chip = load_chip("ascend910b3")
    assert chip.us(1800) == 1
    assert chip.cycles(1.1) == 1980  # 1.1 * 1800 is 1980.0000000000002
    assert chip.cycles(1.0001) == 1801
    assert all(chip.cycles(chip.us(n)) == n for n in (0, 1, 57, 12345, 10**9 + 1))
    assert all(later - earlier == 1800 for earlier, later in pairwise(chip.cycles(us) for us in range(5)))


def test_names_are_taken_in_any_case_and_loaded_once() -> None:
    assert load_chip("Ascend910B3") is load_chip("ascend910b3")
    assert len({load_chip(name) for name in chip_names()}) == len(chip_names())


@pytest.mark.parametrize("given", ["910b3", "910B3", "Ascend910B3", " ascend910b3 "])
def test_one_chip_has_the_names_that_people_write(given: str) -> None:
    assert load_chip(given) is load_chip("ascend910b3")


@pytest.mark.parametrize(
    ("given", "name"), [("ascend910b", "ascend910b"), ("910b4", "ascend910b4"), ("910_95", "ascend910_95")]
)
def test_a_name_that_begins_another_is_still_a_chip(given: str, name: str) -> None:
    assert load_chip(given).name == name


@pytest.mark.parametrize("given", ["910B", "910b", "910_93", "Ascend910_93", "950", "ascend950", "310P", "910"])
def test_the_name_of_a_family_lists_its_chips(given: str) -> None:
    short = "ascend" + given.lower().removeprefix("ascend")
    members = [name for name in chip_names() if load_chip(name).identity.short_soc.lower() == short]
    assert len(members) > 1
    with pytest.raises(ConfigError, match=f"{given!r} is a family, not a chip; its chips: {', '.join(members)};"):
        load_chip(given)


@pytest.mark.parametrize(
    ("given", "first", "count"), [("Ascend950PR", "ascend950pr_9579", 3), ("950dt", "ascend950dt_9572", 3)]
)
def test_the_beginning_of_several_names_lists_them(given: str, first: str, count: int) -> None:
    begun = [name for name in chip_names() if name.startswith(first.partition("_")[0])]
    assert len(begun) == count and begun[0] == first
    with pytest.raises(ConfigError, match=f"{given!r} is a family, not a chip; its chips: {', '.join(begun)};"):
        load_chip(given)


@pytest.mark.parametrize("given", ["", "ascend", "Ascend950x"])
def test_no_name_begins_so(given: str) -> None:
    with pytest.raises(ConfigError, match=f"{given!r} is not a known chip"):
        load_chip(given)


def test_a_shipped_file_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**spec.shipped_files(), "my_chip": "configs/chips/my_chip.yaml"}
    monkeypatch.setattr(spec, "shipped_files", lambda: files)
    assert (spec.shipped_name("my_chip"), spec.shipped_name("My_Chip")) == ("my_chip", "my_chip")


def test_an_unknown_chip_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'ascend910b33' is not a known chip; did you mean ascend910b3, .*910_9362.*b4-1"):
        load_chip("ascend910b33")
    with pytest.raises(ConfigError, match=r"'dav-2201' is a family, not a chip"):
        load_chip("dav-2201")


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_comes_back_from_json(name: str) -> None:
    chip = load_chip(name)
    back = ChipSpec.from_json(chip.to_json())
    assert back == chip and back.sources == chip.sources


@pytest.mark.parametrize("sources", [None, 1, "x", [1], ["x"], {"clock": 1}])
def test_a_text_that_holds_no_chip(sources: object) -> None:
    text = json.dumps(json.loads(load_chip("ascend910b3").to_json()) | {"sources": sources})
    with pytest.raises((ValueError, KeyError, TypeError)):
        ChipSpec.from_json(text)


def test_what_was_worked_out_of_a_chip_does_not_make_it_another() -> None:
    chip = load_chip("ascend310p3")
    again = chip.model_copy()
    assert chip.seen_by("AIV") is not chip
    assert again == chip and hash(again) == hash(chip)
    assert chip != chip.seen_by("AIV") and chip != load_chip("ascend310p1") and chip != chip.name


@pytest.mark.parametrize(("given", "near"), [("910b9", "ascend910b"), ("b3", "ascend910b3"), ("Ascend950PR_9999", "950pr_9")])
def test_a_wrong_name_has_near_ones_however_it_begins(given: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"{given!r} is not a known chip; did you mean [^?]*{near}"):
        load_chip(given)


def test_a_chip_whose_name_misleads_warns_with_its_note() -> None:
    with pytest.warns(UserWarning, match="^ascend910b is the first Ascend 910, 30 cores; the 910B family is ascend910b1"):
        chip_of("Ascend910B")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chip_of(load_chip("ascend910b")).name == "ascend910b"
        assert chip_of("910b3").name == "ascend910b3"


def test_a_chip_is_named_or_given() -> None:
    spec = load_chip("ascend910a")
    assert chip_of("ascend910a") == spec and chip_of(spec) is spec


def test_the_note_of_a_chip_stands_once_without_our_lines() -> None:
    """Python prints a warning once for each place that warns, with its line of source: all calls are one place, without one."""
    code = "import ascend_sim as a\nfor _ in range(2): a.run_case('by_hand', chip='ascend910b', mode='timing')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("first Ascend 910") == 1 and len(done.stderr.splitlines()) == 1 and ".py" not in done.stderr
