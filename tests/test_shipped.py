"""Files that ship are parsed once by a user; a cache that cannot be used changes nothing but the time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ascend_sim import shipped
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.shipped import CACHE_VARIABLE, cache_folder, from_cache, load_shipped, read_config
from ascend_sim.yaml_file import read_yaml
from tests.support.cli.commands import loaded
from tests.support.places import ROOT

pytestmark = pytest.mark.fast

TEXT = "rates: {1: 0.5, 2: [a, null, true]}\n"
VALUE = {"rates": {1: 0.5, 2: ["a", None, True]}}


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts that were parsed, with an empty cache in `tmp_path`."""
    found: list[str] = []
    parsed = shipped._parsed
    monkeypatch.setattr(shipped, "_parsed", lambda text: found.append(text) or parsed(text))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return found


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "ascend-sim"
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    with pytest.raises(SimError, match="cannot make the cache folder"):
        cache_folder()


def test_a_text_is_parsed_once_and_another_text_anew(parses: list[str]) -> None:
    first = load_shipped(TEXT)
    first["rates"][1] = "changed"
    assert load_shipped(TEXT) == VALUE
    assert load_shipped(TEXT.replace("0.5", "0.25"))["rates"][1] == 0.25
    assert parses == [TEXT, TEXT.replace("0.5", "0.25")]


@pytest.mark.parametrize("content", [b"", b"{", b"\xe9\x01", b"\xff" * 40])
def test_a_damaged_entry_is_parsed_and_written_again(parses: list[str], content: bytes) -> None:
    load_shipped(TEXT)
    (kept,) = (cache_folder() / "shipped").iterdir()
    kept.write_bytes(content)
    assert [load_shipped(TEXT), load_shipped(TEXT)] == [VALUE, VALUE]
    assert parses == [TEXT, TEXT]


def test_what_is_made_of_other_texts_or_for_another_name_is_made_anew(parses: list[str]) -> None:
    assert from_cache("sum", ("a",), lambda: 1) == 1
    assert from_cache("sum", ("a", "b"), lambda: 2) == 2
    assert from_cache("other", ("a",), lambda: 3) == 3
    assert from_cache("sum", ("a",), lambda: 4) == 1


def test_a_chip_comes_from_the_cache_whole_and_without_its_validator(tmp_path: Path) -> None:
    code = (
        "import sys; from ascend_sim.chip import load_chip; chip = load_chip('910b3');"
        "print('pydantic' in sys.modules, chip.to_json())"
    )
    environment = {CACHE_VARIABLE: str(tmp_path)}
    runs = [subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True) for _ in "ab"]
    (first, made), (second, kept) = (run.stdout.split(maxsplit=1) for run in runs)
    assert (first, second) == ("True", "False")
    assert made == kept and ChipSpec.from_json(kept) == load_chip("ascend910b3")


def test_without_a_cache_folder_a_text_is_parsed(parses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    assert load_shipped(TEXT) == VALUE
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert load_shipped(TEXT) == VALUE
    assert parses == [TEXT, TEXT]


def test_a_parser_is_imported_for_a_text_that_was_not_parsed_yet(tmp_path: Path) -> None:
    code = f"import sys; from ascend_sim.shipped import load_shipped; load_shipped({TEXT!r}); print('yaml' in sys.modules)"
    environment = {CACHE_VARIABLE: str(tmp_path)}
    runs = [subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True) for _ in "ab"]
    assert [one.stdout for one in runs] == ["True\n", "False\n"]


@pytest.mark.parametrize("folder", ["cases", "networks", "operators"])
def test_a_shipped_file_has_the_values_that_a_users_file_would_have(folder: str) -> None:
    paths = sorted((ROOT / "configs" / folder).glob("*.yaml"))
    assert paths
    for path in paths:
        assert read_config(f"{folder}/{path.name}") == read_yaml(path, "a mapping")


@pytest.mark.parametrize("case", ["document_example_2d", "wav2vec2:1"])
def test_a_run_of_a_shipped_case_needs_no_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    command = ["run", case, "--mode", "timing", "--json"]
    assert loaded(command, {"yaml"}) == ["yaml"]
    assert loaded(command, {"yaml"}) == []


def test_a_broken_text_is_refused(parses: list[str]) -> None:
    with pytest.raises(ConfigError, match="broken YAML: while parsing"):
        load_shipped("a: [1, 2")
