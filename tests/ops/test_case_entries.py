"""Entries of case files: a format of numbers has the names that people give it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ascend_sim.errors import ConfigError
from ascend_sim.ops.case import load_case

CASE = {"operator": "convolution_backward", "input": [2, 4, 8, 8]}
pytestmark = pytest.mark.fast


def write(folder: Path, dtype: str) -> Path:
    path = folder / "my_case.yaml"
    path.write_text(yaml.safe_dump(CASE | {"dtype": dtype, "weight": {"shape": [6, 4, 3, 3], "dtype": dtype}}))
    return path


@pytest.mark.parametrize(
    ("given", "name"), [("fp16", "float16"), ("half", "float16"), ("BF16", "bfloat16"), ("fp32", "float32")]
)
def test_a_format_has_the_names_that_people_give_it(tmp_path: Path, given: str, name: str) -> None:
    case = load_case(write(tmp_path, given))
    assert (case.dtype, case.weight.dtype) == (name, name)


@pytest.mark.parametrize("given", ["int8", "fp15", ""])
def test_another_name_is_refused_with_those_allowed(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match=f"'{given}' given; allowed: float32, float16, bfloat16"):
        load_case(write(tmp_path, given))


def test_a_misspelled_key_is_named_before_the_one_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"operator": "convolution_backward", "inputt": [2, 4, 8, 8], "weight": [6, 4, 3, 3]}))
    with pytest.raises(ConfigError, match="inputt: unknown key; did you mean 'input'"):
        load_case(path)


def test_what_is_missing_is_said_with_what_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(CASE | {"weight": [6, 4, 3, 3]}))
    with pytest.raises(ConfigError, match="dtype: missing; allowed: float32, float16, bfloat16"):
        load_case(path)
    path.write_text(yaml.safe_dump(CASE))
    with pytest.raises(ConfigError, match=r"weight: missing; its shape is \[C_out, C_in / groups, kernel...\]"):
        load_case(path)
