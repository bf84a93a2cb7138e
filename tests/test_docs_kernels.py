"""The kernels of docs/kernels: right on every architecture that they name, and every wait of theirs matters.

A wait is disarmed by its flag's name (it takes the flag down but holds nothing). Which timing shows the mistake depends on
which side is late, so each runs on chips with one slow part.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import DeadlockError
from ascend_sim.isa.sync import CrossCoreWaitFlag, WaitFlag, cross_name
from ascend_sim.kernel.builder import KernelBuilder
from tests.support.sampling import part_of_cases

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "kernels"
COUPLED, SPLIT = ("ascend910a", "ascend310p3"), ("ascend910b3", "ascend950pr_9589")
RUNS_ON = {
    "matmul": SPLIT,
    "matmul_split_k": SPLIT,
    "vector_add": COUPLED + SPLIT,
    "softmax": ("ascend310p3", *SPLIT),
    "layer_norm": ("ascend310p3", *SPLIT),
    "flash_attention": SPLIT,
}
SLOW = 20_000
"""Cycles; longer than anything else that a small kernel does between two waits."""


@cache
def kernel_file(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_kernels_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(name: str) -> tuple[Any, ...]:
    return tuple(kernel_file(name).arguments(np.random.default_rng(0)))


def run(name: str, chip: str | ChipSpec, *tensors: Any, blocks: int = 0, **options: Any) -> asim.KernelRun:
    module = kernel_file(name)
    kernel = getattr(module, name)
    return asim.launch(kernel, blocks or getattr(module, "BLOCKS", 8), *tensors, chip=chip, **options)


def test_every_file_is_here_and_short() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(RUNS_ON)
    assert all(len(path.read_text(encoding="utf-8").splitlines()) < 80 for path in FOLDER.glob("*.py"))


@part_of_cases(3)
@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize(("name", "chip"), [(name, chip) for name, chips in RUNS_ON.items() for chip in chips])
def test_a_kernel_is_right_and_nothing_is_found(name: str, chip: str, mode: str) -> None:
    given = run(name, chip, *arguments(name), mode=mode, expected=kernel_file(name).expected)
    assert given.findings == []
    assert given.passed and all(figures["correct"] for figures in given.report.outputs.values())
    assert len(given.report.outputs) == len(given.outputs) == 1


@pytest.mark.parametrize(
    ("name", "chip"), [(name, chip) for name, chips in RUNS_ON.items() for chip in COUPLED + SPLIT if chip not in chips]
)
def test_elsewhere_it_is_refused_with_what_the_chip_has(name: str, chip: str) -> None:
    with pytest.raises(asim.SimError) as caught:
        run(name, chip, *arguments(name), mode="timing")
    lacks = rf"kernel {name} runs on (AIC|MIX); {chip} \(dav-\d+\) has AI_CORE"
    instruction = rf"{name}\.py:\d+: kernel {name}: \w+: {chip} \(dav-\d+\) has no \w+"
    assert re.search(f"{lacks}|{instruction}", str(caught.value))


@pytest.mark.parametrize("name", RUNS_ON)
def test_a_wrong_element_is_found(name: str) -> None:
    """The verdict of the file is tight: what any element is off by, it sees."""
    given, module = arguments(name), kernel_file(name)
    found = run(name, RUNS_ON[name][-1], *given, mode="functional")
    ((output, values),) = found.outputs.items()
    code = module.expected.__code__
    wanted = module.expected(*given[: code.co_argcount])
    wanted = wanted if isinstance(wanted, asim.Expected) else asim.Expected(wanted)
    shifted = np.array(wanted.values)
    shifted.flat[7] += 0.02 * max(abs(shifted.flat[7]), float(np.abs(shifted).mean()))
    moved = asim.Expected(shifted, wanted.magnitude, wanted.products, wanted.precision)
    again = run(name, RUNS_ON[name][-1], *given, mode="functional", expected={output: moved})
    assert again.report.outputs[output]["wrong"] == 1, values.dtype


@part_of_cases(5)
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize(("name", "chip"), [(name, chip) for name, chips in RUNS_ON.items() for chip in chips])
def test_loops_that_repeat_write_what_they_write_turn_by_turn(
    name: str, chip: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, times, values and findings of `k.range`, once before and once after its launches share stamps."""
    runs = []
    for stamping in (False, True, True):
        monkeypatch.setattr(KernelBuilder, "stamping", stamping)
        runs.append(run(name, chip, *arguments(name), blocks=2, engine=engine, check=True))
    first, *others = runs
    for other in others:
        assert [[str(row) for row in one] for one in first.programs] == [[str(row) for row in one] for one in other.programs]
        assert first.report.total_us == other.report.total_us and first.findings == other.findings == []
        for output, values in first.outputs.items():
            np.testing.assert_array_equal(values, other.outputs[output])
    repeated = [{number for number in one.sheet.which if number >= 0} for one in others[0].programs]
    assert any(len(stamps) < len(one.sheet.which) for stamps, one in zip(repeated, others[0].programs, strict=True))


# -- every wait matters ------------------------------------------------------------------------------------------------

SMALL: dict[str, tuple[Any, ...]] = {
    # Enough work for one block that every buffer comes round three times.
    "matmul": (((160, 160), "float16"), ((160, 96), "float16"), ((160, 96), "float32", "out")),
    "matmul_split_k": (((80, 640), "float16"), ((640, 64), "float16"), ((80, 64), "float32")),
    "vector_add": (((1700,), "float16"), ((1700,), "float16"), ((1700,), "float16", "out")),
    "softmax": (((30, 64), "float32"), ((30, 64), "float32", "out")),
    "layer_norm": (((30, 64), "float32"), ((64,), "float32"), ((64,), "float32"), ((30, 64), "float32", "out")),
    "flash_attention": (
        *(((1, 256, 64), "float16"),) * 3, ((1, 256, 64), "float16", "out"),
        *(((1, 2, 64, 64), dtype, "workspace") for dtype in ("float32", "float16", "float32")),
    ),
}  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "matmul": {"base_m": 32, "base_n": 32, "base_k": 32},
    "matmul_split_k": {"base_m": 32, "base_n": 32, "base_k": 32, "parts": 4},
    "vector_add": {"tile": 256},
}
PARTS = ("nothing", "MTE2", "latency", "MTE1", "M", "FIX", "V", "MTE3", "cross")


def small(name: str) -> list[Any]:
    """Whole numbers where the kernel is linear, so that sums are exact in any order."""
    rng = np.random.default_rng(1)
    whole = name in ("matmul", "matmul_split_k", "vector_add")
    tensors: list[Any] = []
    for shape, dtype, *role in SMALL[name]:
        if role:
            tensors.append(asim.empty(shape, dtype, workspace=role == ["workspace"]))
        else:
            values = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
            tensors.append(values.astype(dtype))
    if name == "matmul_split_k":
        tensors[-1] = np.zeros_like(tensors[-1])
    return tensors


@cache
def slow(chip_name: str, part: str) -> ChipSpec:
    """A chip with one slow part: a pipe, "latency" (what GM gives comes late), "cross" (flags between cores), or nothing."""
    chip = load_chip(chip_name)
    paths = dict(chip.paths)
    for key, path in chip.paths.items():
        if part == "latency" and key.startswith("GM->"):
            paths[key] = path.model_copy(update={"latency": SLOW})
        elif path.pipe == part:
            paths[key] = path.model_copy(update={"head": SLOW})
    changes: dict[str, Any] = {"paths": paths}
    # Long queues: where a pipe's queue is full the scalar unit stalls, and that may do what a wait does.
    depths = dict.fromkeys(chip.sync.queue_depth, 10_000)
    changes["sync"] = chip.sync.model_copy(update={"queue_depth": depths})
    if part == "M":
        changes["cube"] = chip.cube.model_copy(update={"head_first": SLOW, "head_stream": SLOW})
    if part == "V":
        ops = {op: entry.model_copy(update={"head": float(SLOW)}) for op, entry in chip.vector.ops.items()}
        changes["vector"] = chip.vector.model_copy(update={"head": float(SLOW), "ops": ops})
    if part == "FIX" and chip.fixpipe is not None:
        changes["fixpipe"] = chip.fixpipe.model_copy(update={"head": SLOW})
    if part == "MTE1" and chip.load3d is not None:
        changes["load3d"] = chip.load3d.model_copy(update={"head": SLOW})
    if part == "cross":
        changes["sync"] = changes["sync"].model_copy(update={"cross_latency": SLOW})
    return chip.model_copy(update=changes)


def small_run(name: str, chip: ChipSpec, disarm: Sequence[str] = ()) -> asim.KernelRun:
    return run(name, chip, *small(name), blocks=1, disarm=disarm, **FIELDS.get(name, {}))


def waits(given: asim.KernelRun) -> dict[str, str]:
    """The flags that the programs wait for: name -> the part that raises it."""
    found: dict[str, str] = {}
    for program in given.programs:
        used = [program.table.instructions[i] for i in np.unique(program.rows[:, 0])]
        waited = {(i.source, i.destination, i.flag) for i in used if isinstance(i, WaitFlag)}
        found |= {name: key[0] for name, key in program.flags.items() if key in waited}
        found |= {cross_name(i.flag): "cross" for i in used if isinstance(i, CrossCoreWaitFlag)}
    return found


def goes_wrong(name: str, chip: str, known: bytes, flag: str, part: str) -> bool:
    """Return True if a run on a chip with that slow part shows it: another result, a finding, a deadlock or a flag run over."""
    try:
        given = small_run(name, slow(chip, part), [flag])
    except DeadlockError:
        return True
    except asim.SimError as error:
        assert "is raised more than" in str(error)
        return True
    return bool(given.findings) or b"".join(array.tobytes() for array in given.outputs.values()) != known


@part_of_cases(3)
@pytest.mark.parametrize("name", RUNS_ON)
def test_every_wait_matters(name: str) -> None:
    chip = RUNS_ON[name][-1]
    plain = small_run(name, slow(chip, "nothing"))
    assert plain.findings == []
    known = b"".join(array.tobytes() for array in plain.outputs.values())
    found = waits(plain)
    assert len(found) >= 4
    useless = []
    for flag, likely in found.items():
        order = [*({"MTE2": ["latency"]}.get(likely, [likely])), *PARTS]
        if not any(goes_wrong(name, chip, known, flag, part) for part in dict.fromkeys(order)):
            useless.append(flag)
    assert useless == [], useless


@part_of_cases(5)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", RUNS_ON)
def test_no_part_can_be_slow_enough_to_spoil_the_result(name: str, part: str) -> None:
    chip = RUNS_ON[name][-1]
    given = small_run(name, slow(chip, part))
    assert given.findings == []
    for output, values in small_run(name, slow(chip, "nothing")).outputs.items():
        np.testing.assert_array_equal(given.outputs[output], values)


@pytest.mark.parametrize("name", ["matmul", "matmul_split_k"])
@pytest.mark.parametrize("base", [0, -16, 17])
def test_a_product_refuses_blocks_that_are_no_fractals(name: str, base: int) -> None:
    with pytest.raises(asim.SimError, match=f"= 64, {base}, 64; allowed: multiples of 16"):
        run(name, "ascend910b3", *arguments(name), base_m=64, base_n=base, base_k=64)
