"""Contents of a YAML file, against PyYAML itself where they are let in, and one line where they are not."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import yaml_file
from ascend_sim.errors import ConfigError
from ascend_sim.shipped import load_shipped
from ascend_sim.yaml_file import MOST_BYTES, MOST_DEPTH, MOST_VALUES, parse_yaml, read_yaml
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

SCALARS = st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans() | st.none() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=20
)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml", "must be a mapping")
    message = str(caught.value)
    assert message.startswith("f.yaml: ") and "\n" not in message and len(message) < 200
    return message


@sampled(30, 100)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5))
def test_what_is_let_in_reads_as_ever(value: dict[str, Any]) -> None:
    assert parse_yaml(yaml.safe_dump(value), "f.yaml", "") == value


def nested(anchors: int, each: int = 9) -> str:
    """The billion laughs: every anchor means the one before it `each` times."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * each)}]" for i in range(1, anchors)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("anchors", [10, 28, 300])
def test_nested_anchors_are_refused_before_they_are_built(anchors: int) -> None:
    assert f"more than {MOST_VALUES:,} values" in refusal(nested(anchors))


def test_aliases_within_the_limit_mean_what_they_say() -> None:
    assert parse_yaml(nested(4), "f", "") == yaml.safe_load(nested(4))
    base = "one: &one {k: 3, s: [1, 1]}\ntwo: {<<: *one, k: 5}\nthree: *one\n"
    assert parse_yaml(base, "f", "") == yaml.safe_load(base)
    # An anchor may be given again: from there on the alias means the new one.
    assert "such alias" not in refusal("a: &x 1\nb: &x 2\nc: *x\n")


def test_an_alias_inside_of_itself_is_refused() -> None:
    assert "line 1, column 9: broken YAML: alias 'a' is used inside" in refusal("a: &a [ *a ]\n")


@pytest.mark.parametrize("depth", [MOST_DEPTH, 3000, 100_000])
def test_brackets_inside_each_other(depth: int) -> None:
    assert f"more than {MOST_DEPTH} lists" in refusal("a: " + "[" * depth + "]" * depth)


def test_the_deepest_that_is_let_in() -> None:
    depth = MOST_DEPTH - 2  # the mapping of the file, and the innermost value
    value = parse_yaml("a: " + "[" * depth + "1" + "]" * depth, "f", "")["a"]
    for _ in range(depth):
        (value,) = value
    assert value == 1


def test_many_values_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping, its key and the list count too."""
    monkeypatch.setattr(yaml_file, "MOST_VALUES", 1_000)
    assert len(parse_yaml("a: [" + "1," * 997 + "]", "f", "")["a"]) == 997
    assert "more than 1,000 values" in refusal("a: [" + "1," * 998 + "]")


@pytest.mark.parametrize("text", [str(1 << 63), str(-(1 << 63) - 1), "9" * 300, "9" * 5000, "0x" + "f" * 17])
def test_whole_numbers_beyond_64_bits(text: str) -> None:
    assert "line 1, column 4: broken YAML: " in refusal(f"a: {text}")


@pytest.mark.parametrize("text", ["a: 2001-99-99", "a: !!python/object/apply:os.system [ls]", "a: !!int x"])
def test_values_that_cannot_be(text: str) -> None:
    assert "line 1, column 4: broken YAML: " in refusal(text)


@pytest.mark.parametrize("text", ["a: 1\na: 2", "1: x\n+1: y", "a: {b: 1, b: 2}", "yes: 1\ntrue: 2"])
def test_a_key_twice(text: str) -> None:
    assert "is given twice" in refusal(text)


@pytest.mark.parametrize("text", ["010", "0x10", "1_0", "0b11", "1:30", "190:20:30.15", "1_0.5", "-012", "[1, 1:30]"])
def test_numbers_are_plain_decimal(text: str) -> None:
    assert "numbers are plain decimal, like 16, -3 or 0.5, and " in refusal(f"a: {text}")
    quoted = text.strip("[]").rpartition(" ")[2]
    assert parse_yaml(f"a: '{quoted}'", "f.yaml", "") == {"a": quoted}


def test_a_file_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_bytes(b"#" * MOST_BYTES)
    with pytest.raises(ConfigError, match="this one is empty"):
        read_yaml(path, "must be a mapping")
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ConfigError, match=re.escape(f"{path}: more than {MOST_BYTES:,} bytes")):
        read_yaml(path, "must be a mapping")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_and_an_endless_device_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "zero.yaml"):
        with pytest.raises(ConfigError, match=r"is a device or a pipe, not a file$"):
            read_yaml(tmp_path / name, "")


def test_files_that_ship_are_read_as_those_of_a_user() -> None:
    """Within the limits, no key twice, and the same by the scanner in C."""
    shipped = sorted(Path(str(files("ascend_sim.configs"))).rglob("*.yaml"))
    assert len(shipped) > 30
    for path in shipped:
        text = path.read_text(encoding="utf-8")
        assert repr(load_shipped(text)) == repr(parse_yaml(text, path.name, ""))
