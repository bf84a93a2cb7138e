"""docs/instructions.md against the code that it is made from."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ascend_sim import isa
from ascend_sim.chip import load_chip
from ascend_sim.isa.base import Instruction
from ascend_sim.report.timeline_file import _instructions

TOOL = Path(__file__).resolve().parents[1] / "tools" / "instruction_reference.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    sys.path.append(str(TOOL.parent))
    spec = importlib.util.spec_from_file_location("instruction_reference", TOOL)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_says(tool: ModuleType) -> None:
    """After a change: python tools/instruction_reference.py"""
    assert tool.page() == tool.PAGE.read_text(encoding="utf-8")


def test_every_method_and_every_instruction_is_on_it(tool: ModuleType) -> None:
    assert tool.undocumented() == []
    made = set()
    for samples in tool.SECTIONS.values():
        for sample in samples:
            for chip in map(load_chip, tool.CHIPS):
                found = tool.made_on(sample, chip)
                if not isinstance(found, str):
                    made |= {type(one) for one in found.table.instructions}
    concrete = {one for one in _instructions().values() if one.__dict__.get("pipe", one.__module__) and one.name}
    left = {one.__name__ for one in concrete - made}
    # A padded copy, instructions between two formats, gathers of blocks and by bits, a scalar of the mask register, stores to
    # L1, pieces and halves come from Ascend C alone, a recorded one from a file.
    # A read past the L2 is data_copy with l2_bypass; unit flags are fixpipe and wait_flag with one more argument.
    ways = {
        "DataCopyExtreme",
        "DataCopyPadded",
        "DataCopyPastL2",
        "FixpipeExtreme",
        "FixpipeNdExtreme",
        "FixpipeToL1",
        "FixpipeUnitFlag",
        "GatherBlocks",
        "GatherMask",
        "ReducePieces",
        "SelectRegisterScalar",
        "TransposeHalves",
        "VectorBinaryCast",
        "VectorMulAddWide",
    }
    assert left <= ways | {"Recorded", "WaitUnitFlag"}
    assert all(issubclass(one, Instruction) and one.__module__.startswith(isa.__name__) for one in made)


def line(tool: ModuleType, chips: list[Any], method: str) -> str:
    sample = next(one for samples in tool.SECTIONS.values() for one in samples if one.method == method)
    return str(tool.row(sample, chips))


def test_a_cost_is_the_chips_and_its_marks_are_those_of_the_numbers_in_it(tool: ModuleType) -> None:
    chip = load_chip("ascend910b3")
    cube = chip.cube
    plain = line(tool, [chip], "mmad")
    told = f"{cube.head_first} or {cube.head_stream} + {64 * 4 * 4 // 16} + {cube.latency}"
    names = ("cube.head_first", "cube.head_stream", "cube.latency", "cube.rates.float16.k0", "cube.rates.float16.k_per_cycle")
    marks = sorted({chip.sources[name].mark for name in names}, key=tool.MARKS.index)
    assert f"| {told} {', '.join(marks)} |" in plain
    slower = chip.model_copy(update={"cube": cube.model_copy(update={"head_first": 999})})
    assert line(tool, [slower], "mmad") == plain.replace(f"{cube.head_first} or", "999 or")


def test_the_regions_are_the_instructions(tool: ModuleType) -> None:
    text = line(tool, [load_chip("ascend910b3")], "data_copy")
    assert "src0 GM 4 x 96 every 128" in text and "dst UB 4 x 96 every 96" in text
    assert re.search(r"\| - \|$", line(tool, [load_chip("ascend910a"), load_chip("ascend910b3")], "l0c_to_ub"))


def test_what_no_chip_takes_ends_the_tool(tool: ModuleType) -> None:
    wrong = tool.Demo("mmad", lambda k, gm, dtype: k.mmad(0, 0, 0, 16, 16, 16, "float64", False))
    with pytest.raises(SystemExit, match="no chip takes the sample"):
        tool.row(wrong, [load_chip("ascend910b3")])
