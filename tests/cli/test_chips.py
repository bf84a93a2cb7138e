"""`ascend-sim chips`."""

from __future__ import annotations

from tests.support.cli.commands import run


def test_chips() -> None:
    listed = run("chips")
    assert listed.code == 0 and all(
        f"ascend910{name}" in listed.out for name in ("b1", "b2", "b2c", "b3", "b4", "b4-1")
    )
    one = run("chips", "ascend910b3")
    assert one.code == 0 and "platform_config/Ascend910B3.ini" in one.out and "1800" in one.out
