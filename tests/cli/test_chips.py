"""`ascend-sim chips`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.cli.commands import run


def test_chips() -> None:
    listed = run("chips")
    assert listed.code == 0 and all(f"ascend910{name}" in listed.out for name in ("b1", "b2", "b2c", "b3", "b4", "b4-1"))
    one = run("chips", "ascend910b3")
    assert one.code == 0 and "platform_config/Ascend910B3.ini" in one.out and "1800" in one.out


pytestmark = pytest.mark.fast


def test_the_command_compares_two_chips_or_more() -> None:
    result = CliRunner().invoke(app, ["chips", "--compare", "ascend910a", "Ascend910B3"])
    assert result.exit_code == 0
    assert "ascend910a" in result.stdout
    assert "ascend910b3" in result.stdout
    assert "clock.cube_mhz" in result.stdout


def test_names_may_have_commas_between_them() -> None:
    assert run("chips", "--compare", "ascend910a,ascend910b3") == run("chips", "--compare", "ascend910a", "ascend910b3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compare", "ascend910a"], "give two chips or more"),
        (["ascend910a", "ascend910b3"], "one chip at a time, got 2; --compare"),
        (["--compare", "ascend910a", "nochip"], "'nochip' is not a known chip"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["chips", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("ascend-sim: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_chip_whose_name_misleads_has_its_note_here_too() -> None:
    with pytest.warns(UserWarning, match="first Ascend 910"):
        assert CliRunner().invoke(app, ["chips", "ascend910b"]).exit_code == 0
