"""Launches of a profile: code is warm where the same kernel is among the last few on such cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.profile_order import note_launches
from ascend_sim.studies.validate.rows import read_rows

CHIP = load_chip("ascend910b2")
HEAD = (
    "Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats"
)


def launches(*kernels: str, cores: str = "AI_VECTOR_CORE") -> list[str]:
    """The states of launches in a row, each an operator by its name."""
    lines = [
        {"Type": name, "Accelerator Core": cores, "Start Time(us)": f"{1000 + at}"} for at, name in enumerate(kernels)
    ]
    note_launches(lines, CHIP)
    return [line["launches"] for line in lines]


@pytest.mark.fast
def test_a_kernel_is_warm_within_the_last_launches_that_are_kept() -> None:
    others = "BCDEF"[: CHIP.launch.kept_launches]
    assert launches("A", *others[:-1], "A")[-1] == "warm"
    assert launches("A", *others, "A")[-1] == "cold"


@pytest.mark.fast
def test_only_launches_on_the_same_kind_of_core_count() -> None:
    lines = [
        {"Type": name, "Accelerator Core": core, "Start Time(us)": f"{at}"}
        for at, (name, core) in enumerate([("A", "AI_VECTOR_CORE"), *[("M", "AI_CORE")] * 5, ("A", "MIX_AIV")])
    ]
    note_launches(lines, CHIP)
    assert [line["launches"] for line in lines] == ["cold", "cold", "warm", "warm", "warm", "warm", "warm"]


@pytest.mark.fast
def test_the_order_is_that_of_the_start_times_and_unknown_without_them() -> None:
    lines = [
        {"Type": "A", "Accelerator Core": "AI_CORE", "Start Time(us)": start} for start in ("2", "1", "N/A", "soon")
    ]
    note_launches(lines, CHIP)
    assert [line.get("launches") for line in lines] == ["warm", "cold", None, None]


def test_rows_of_a_profile_take_the_state_of_their_launch(tmp_path: Path) -> None:
    """A launch that is not simulated lies between as well; another dtype is other code."""
    cast = "Cast,AI_VECTOR_CORE,{},9,1,4096,FLOAT,ND,4096,{},ND"
    other = "Mish,AI_VECTOR_CORE,{},9,1,4096,FLOAT,ND,4096,FLOAT,ND"
    lines = [cast.format(1, "FLOAT16"), cast.format(2, "FLOAT16"), cast.format(3, "DT_BF16")]
    lines += [other.format(at) for at in range(4, 8)] + [cast.format(8, "FLOAT16")]
    path = tmp_path / "kernel_details.csv"
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    rows = [row for row in read_rows(path, chip="ascend910b2") if not row.unlike]
    assert [row.kernel.launches for row in rows] == ["cold", "warm", "cold", "cold"]
