"""Every rung of every ladder is reached by a call, and the walk to a tiling is short.

`CALLS` has a call for each rung that a family reaches; a rung that none reaches fails here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FrameType
from typing import Any

import pytest

from ascend_sim.calls.checks import tasks_of_call
from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.conv_forward.ladder import LADDER as FORWARD
from ascend_sim.ops.kernels.cube.ladder import MARKS
from ascend_sim.ops.kernels.grad_input.ladder import LADDER as GRAD_INPUT
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import LADDER as GRAD_WEIGHT
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.operators import OPERATORS
from tests.support.places import ROOT
from tests.support.sampling import part_of_cases

OPERATOR = OPERATORS["convolution_backward"]
CHIPS = {"910": "ascend910a", "310": "ascend310p3", "910B": "ascend910b3", "950": "ascend950pr_9589"}
LADDERS: dict[str, Any] = {"fw": FORWARD, "gi": GRAD_INPUT, "gw": GRAD_WEIGHT}
NEVER_ANSWER = ("exact shape", "library's own")


@dataclass(frozen=True)
class Ask:
    """A call and the rung that it reaches: of kernel "fw" (dx of a transposed call), "gi" or "gw", on a chip of a family.

    `size` and the first of the `channels` are those of the larger map (dy of a transposed call, else x), the other channels
    those of the map behind the window.
    """

    kernel: str
    family: str
    rung: str
    size: tuple[int, ...]
    window: tuple[int, ...]
    channels: tuple[int, int]
    n: int = 1
    stride: tuple[int, ...] = ()
    pad: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    dtype: str = "float16"
    cube_math_type: int = 0
    transposed: bool = False
    deterministic: bool | None = None
    fields: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.kernel}-{self.family}-{self.rung}"

    def ladder(self) -> list[dict[str, Any]]:
        """The rungs that the plan of the call climbed, as its report has them."""
        rank, transposed = len(self.size), self.transposed or self.kernel == "fw"
        stride, dilation = self.stride or (1,) * rank, self.dilation or (1,) * rank
        pad, (c_x, c_y), chip = self.pad or (0,) * rank, self.channels, load_chip(CHIPS[self.family])
        over = [s + 2 * p - d * (k - 1) - 1 for s, p, d, k in zip(self.size, pad, dilation, self.window, strict=True)]
        out = [size // step + 1 for size, step in zip(over, stride, strict=True)]
        x, y = (self.n, c_x, *self.size), (self.n, c_y, *out)
        maps = {"grad_output": x, "input": y} if transposed else {"grad_output": y, "input": x}
        made = "grad_weight" if self.kernel == "gw" else "grad_input"
        shapes = {**maps, "weight": (c_y, c_x // self.groups, *self.window)}
        case = OPERATOR.case.model_validate({
            "operator": OPERATOR.name,
            **{name: {"shape": shape, "dtype": self.dtype} for name, shape in shapes.items()},
            "stride": list(stride),
            "padding": list(pad),
            "dilation": list(dilation),
            "transposed": transposed,
            "output_padding": [one % step for one, step in zip(over, stride, strict=True)] if transposed else [0] * rank,
            "groups": self.groups,
            "output_mask": [made == "grad_input", made == "grad_weight", False],
            "cube_math_type": self.cube_math_type,
        })  # fmt: skip
        tiling = {made: dict(self.fields)} if self.fields else None
        options: dict[str, Any] = {"deterministic": self.deterministic, "tiling": tiling}
        _, tasks = tasks_of_call(case, chip, conformance="library", **options)
        (found,) = [task.info["ladder"] for task in tasks if task.name == made]
        return list(found)


# fmt: off
WALKED = [
    Ask("gi", "910", "own whole rows", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gi", "910", "vendor's procedure", (56, 56), (3, 3), (64, 64), n=2, pad=(1, 1)),
    Ask("gi", "310", "vendor's procedure", (28, 28), (3, 3), (64, 64), n=8, pad=(1, 1)),
    Ask("gi", "310", "columns of a long row", (4000,), (3,), (64, 64), n=2, pad=(1,)),
    Ask("gi", "910B", "library's own", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gi", "910B", "own whole rows", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1), dtype="float32"),
    Ask("gi", "910B", "vendor's procedure", (8, 80, 80), (3, 3, 3), (64, 64), n=2, pad=(1, 1, 1), dtype="bfloat16"),
    Ask("gi", "910B", "columns of a long row", (4000,), (3,), (64, 64), n=4, pad=(1,)),
    Ask("gi", "910B", "strips", (4, 30000), (3, 3), (64, 64), pad=(1, 1)),
    Ask("gi", "910B", "kernel row by row", (300, 300), (100, 100), (16, 16)),
    Ask("gi", "950", "vendor's procedure", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gi", "950", "vendor's procedure", (56, 56), (3, 3), (64, 64), n=32, stride=(2, 2), pad=(1, 1)),
    Ask("gw", "910", "vendor's procedure", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gw", "310", "own whole rows", (28, 28), (3, 3), (64, 64), n=8, pad=(1, 1)),
    Ask("gw", "910B", "older kernel", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gw", "910B", "older kernel", (4000,), (3,), (64, 64), n=4, pad=(1,)),
    Ask("gw", "910B", "vendor's procedure", (8, 80, 80), (3, 3, 3), (64, 64), n=2, pad=(1, 1, 1), deterministic=True),
    Ask("gw", "910B", "base template", (8, 20, 20), (3, 3, 3), (16, 16), n=2, pad=(1, 1, 1), dtype="float32",
          deterministic=False),
    Ask("gw", "950", "vendor's procedure", (56, 56), (3, 3), (64, 64), n=32, pad=(1, 1)),
    Ask("gw", "950", "tap by tap", (600, 600), (200, 200), (16, 16)),
]
"""Calls of sizes that networks have, and of some that make a ladder long; the first ways of every family."""
OTHERS = [
    Ask("fw", "310", "columns of a long row", (4000,), (1,), (1, 16), n=16),
    Ask("fw", "310", "columns of a long row, one buffer", (18500,), (66,), (16, 16), dilation=(250,)),
    Ask("fw", "310", "own whole rows", (66,), (31,), (3, 1), stride=(26,), dilation=(2,), deterministic=False),
    Ask("fw", "310", "own whole rows, one buffer", (56, 200), (5, 200), (64, 3)),
    Ask("fw", "310", "strips", (20000,), (16,), (32, 128), n=64, groups=2, deterministic=True),
    Ask("fw", "310", "strips, one buffer", (84, 309), (64, 16), (3, 3), stride=(52, 2), deterministic=False),
    Ask("fw", "910", "columns of a long row", (4000,), (31,), (1024, 2), n=16, pad=(15,), groups=2),
    Ask("fw", "910", "columns of a long row, one buffer", (18500,), (66,), (16, 16), dilation=(250,)),
    Ask("fw", "910", "own whole rows", (3,), (3,), (16, 3), stride=(2,), pad=(1,), deterministic=False),
    Ask("fw", "910", "own whole rows, one buffer", (80, 355), (7, 200), (3, 64), stride=(2, 1), pad=(3, 0),
          deterministic=False),
    Ask("fw", "910", "strips", (60000,), (1,), (1, 1), n=16, deterministic=False),
    Ask("fw", "910", "strips, one buffer", (128, 60000), (128, 7), (48, 48), stride=(21, 3), pad=(64, 0),
          dilation=(1, 2), groups=16, deterministic=False),
    Ask("fw", "910B", "columns of a long row", (389,), (1,), (8192, 48), groups=16, deterministic=False),
    Ask("fw", "910B", "columns of a long row, one buffer", (10001,), (33,), (16, 16), dilation=(250,)),
    Ask("fw", "910B", "own whole rows", (2,), (2,), (1, 1), n=2, pad=(1,), dtype="float32", cube_math_type=1,
          deterministic=False),
    Ask("fw", "910B", "own whole rows", (8, 1500), (3, 3), (16, 16), pad=(1, 1)),
    Ask("fw", "910B", "own whole rows, one buffer", (128, 7), (128, 7), (1, 1), stride=(2, 2), deterministic=False),
    Ask("fw", "910B", "strips", (60000,), (1,), (16, 512), n=64, stride=(2,)),
    Ask("fw", "910B", "strips, one buffer", (255, 300), (255, 1), (256, 1), stride=(3, 3), pad=(127, 0),
          dtype="bfloat16", deterministic=True),
    Ask("fw", "950", "columns of a long row", (4000,), (1,), (3, 16), stride=(2,), dtype="bfloat16", deterministic=True),
    Ask("fw", "950", "columns of a long row, one buffer", (10001,), (33,), (16, 16), dilation=(250,)),
    Ask("fw", "950", "own whole rows", (28,), (16,), (1, 16), stride=(8,), dtype="float32", cube_math_type=1),
    Ask("fw", "950", "own whole rows, one buffer", (122, 45), (64, 7), (1, 1), stride=(3, 2), dilation=(1, 2),
          dtype="bfloat16"),
    Ask("fw", "950", "strips", (20000,), (5,), (1, 512), stride=(3,), dtype="float32", cube_math_type=1, deterministic=True),
    Ask("fw", "950", "strips, one buffer", (158, 256), (128, 3), (1, 256), n=64, stride=(2, 1), pad=(64, 0),
          dilation=(1, 11), dtype="float32", deterministic=True),
    Ask("gi", "310", "own whole rows", (2,), (2,), (1, 3), stride=(3,), deterministic=True),
    Ask("gi", "310", "strips", (60000,), (3,), (1, 16), n=16, stride=(3,), deterministic=False),
    Ask("gi", "910", "columns of a long row", (4000,), (1,), (16, 1), stride=(3,), deterministic=True),
    Ask("gi", "910", "strips", (60000,), (255,), (3, 3), stride=(2,), pad=(127,), deterministic=True),
    Ask("gi", "910B", "exact shape", (4, 64, 64), (1, 1, 1), (256, 1376), n=4),
    Ask("gi", "910B", "tap by tap", (40, 40), (3, 3), (16, 16), pad=(1, 1), fields={"loadB1Condition": 3}),
    Ask("gi", "950", "kernel not split", (1, 59), (7, 4), (16, 64), n=2, stride=(2, 1), pad=(3, 0), dtype="float32"),
    Ask("gi", "950", "kernel row by row", (228, 28), (200, 7), (3, 512), n=16, stride=(29, 1), pad=(0, 3),
          deterministic=True),
    Ask("gi", "950", "own whole rows", (1, 7), (7, 7), (1, 2048), pad=(6, 0)),
    Ask("gi", "950", "strips", (60000,), (3,), (512, 16), n=64, stride=(23,), dilation=(2,), dtype="float32",
          cube_math_type=1),
    Ask("gi", "950", "tap by tap", (4000,), (200,), (512, 1), n=2, stride=(62,), dilation=(9,)),
    Ask("gi", "950", "tuned table", (6, 6, 6), (3, 3, 3), (768, 384), n=4, pad=(1, 1, 1), dtype="float32", cube_math_type=1),
    Ask("gw", "310", "columns of a long row", (20000,), (255,), (1, 256), stride=(2,), pad=(127,), deterministic=False),
    Ask("gw", "310", "library's own", (1,), (1,), (3, 1), n=2, stride=(2,), deterministic=True),
    Ask("gw", "310", "narrow strips", (104, 371), (64, 200), (512, 256), stride=(2, 2), pad=(0, 100)),
    Ask("gw", "310", "older kernel, last resort", (255, 179), (255, 128), (16, 1), n=2, stride=(58, 3), pad=(0, 64)),
    Ask("gw", "310", "strips", (60000,), (31,), (512, 1), n=2, transposed=True, deterministic=False),
    Ask("gw", "910", "columns of a long row", (1000,), (64,), (3, 16), n=2, pad=(32,), deterministic=True),
    Ask("gw", "910", "library's own", (1,), (1,), (1, 3), stride=(2,), dilation=(2,), deterministic=True),
    Ask("gw", "910", "narrow strips", (104, 371), (64, 200), (512, 256), stride=(2, 2), pad=(0, 100)),
    Ask("gw", "910", "older kernel, last resort", (70, 20000), (31, 128), (3, 3), stride=(3, 3), dilation=(2, 24),
          transposed=True),
    Ask("gw", "910", "own whole rows", (1,), (1,), (1, 3), stride=(2,), dilation=(2,), deterministic=True),
    Ask("gw", "910", "strips", (60000,), (5,), (64, 1), stride=(3,), deterministic=False),
    Ask("gw", "910B", "exact shape", (22, 66, 66), (3, 3, 3), (128, 128), n=16, deterministic=True),
    Ask("gw", "910B", "library's own", (20000,), (3,), (1, 1), n=16, dilation=(35,), transposed=True, deterministic=True),
    Ask("gw", "910B", "narrow strips", (5, 60000), (5, 31), (16, 16), n=2, stride=(3, 2), pad=(0, 15),
          dilation=(1, 2), groups=16, dtype="float32", cube_math_type=1, deterministic=True),
    Ask("gw", "910B", "older kernel, last resort", (255, 100), (255, 2), (64, 3), stride=(1, 2), pad=(127, 0),
          dilation=(1, 2), dtype="float32", cube_math_type=1, transposed=True, deterministic=True),
    Ask("gw", "910B", "own whole rows", (100, 143), (64, 128), (2, 1024), n=64, stride=(2, 3), groups=2,
          dtype="float32", deterministic=True),
    Ask("gw", "910B", "strips", (64, 30000), (3, 3), (16, 16), pad=(1, 1), deterministic=True),
    Ask("gw", "950", "narrow strips", (64, 285), (64, 128), (256, 256), stride=(1, 2)),
    Ask("gw", "950", "own whole rows", (300, 255), (31, 200), (3, 16), n=2, stride=(2, 26), pad=(15, 0), dtype="bfloat16"),
    Ask("gw", "950", "strips", (64, 4000), (3, 3), (16, 16), pad=(1, 1), fields={"splitWo": 256}),
    Ask("gw", "950", "tuned table", (6, 6, 6), (3, 3, 3), (768, 384), n=4, pad=(1, 1, 1), dtype="float32", cube_math_type=1),
]
"""One call for each other rung that a family reaches."""
CALLS = [*WALKED, *OTHERS]
# fmt: on


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_reaches_its_rung(call: Ask) -> None:
    *refused, answer = call.ladder()
    assert answer["refused"] is None and all(step["refused"] for step in refused)
    assert {step["mark"] for step in (*refused, answer)} <= set(MARKS)
    if call.rung in NEVER_ANSWER:
        assert call.rung in [step["rung"] for step in refused]
    else:
        assert answer["rung"] == call.rung
    rungs = [rung.name for rung in LADDERS[call.kernel]]
    climbed = [step["rung"] for step in (*refused, answer)]
    assert sorted(climbed, key=rungs.index) == climbed


@pytest.mark.fast
@pytest.mark.parametrize("kernel", LADDERS)
def test_every_rung_is_reached(kernel: str) -> None:
    rungs = [rung.name for rung in LADDERS[kernel]]
    assert len(set(rungs)) == len(rungs)
    called = {call.rung for call in CALLS if call.kernel == kernel}
    assert called <= set(rungs)
    assert [name for name in rungs if name not in called] == [], "each of them needs a call in WALKED or OTHERS"


# ---- the walk ------------------------------------------------------------------------------------------------------

FILES, PAIRS = 10, 50
"""Source files that a choice may enter; pairs of functions in different files of which one calls the other."""
MOST_FILES, MOST_PAIRS = 12, 70
"""Limits for a call that climbs a ladder to its last resorts, which ask most procedures on the way."""

Place = tuple[str, str]


def counted(code: CodeType, properties: set[Place]) -> Place | None:
    """File and function of a code object, with the functions inside of it; None for what does not count.

    Left out are data classes and arithmetic: `ops/problem`, fields.py, a procedure's problem.py, properties of value objects.
    """
    file = code.co_filename.removeprefix(f"{ROOT}/")
    if not file.startswith("ops/kernels/") or file.endswith(("/fields.py", "/problem.py")):
        return None
    place = file, code.co_qualname.split(".<locals>")[0]
    return None if place in properties else place


def properties_of_kernels() -> set[Place]:
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("ascend_sim.ops.kernels"):
            for kind in [value for value in vars(module).values() if isinstance(value, type)]:
                for one in vars(kind).values():
                    get = one.fget if isinstance(one, property) else one.func if isinstance(one, cached_property) else None
                    if get is not None and hasattr(get, "__code__"):
                        found.add((get.__code__.co_filename.removeprefix(f"{ROOT}/"), get.__qualname__))
    return found


def forget() -> None:
    """Clear the caches that earlier calls filled, but for files of `configs/`."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ascend_sim.ops"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and value.__wrapped__.__code__.co_argcount:
                    value.cache_clear()


def walk_of(choose: Callable[[], Any]) -> tuple[set[str], set[tuple[Place, Place]]]:
    """Files that are entered, and the pairs (caller, called) that change the file."""
    properties, files, pairs = properties_of_kernels(), set[str](), set[tuple[Place, Place]]()

    def seen(frame: FrameType, event: str, _: object) -> None:
        place = counted(frame.f_code, properties) if event == "call" else None
        if place is None:
            return
        files.add(place[0])
        back = frame.f_back
        while back is not None and not back.f_code.co_filename.startswith(f"{ROOT}/"):
            back = back.f_back
        caller = None if back is None else counted(back.f_code, properties)
        if caller is not None and caller[0] != place[0]:
            pairs.add((caller, place))

    forget()
    sys.setprofile(seen)
    try:
        choose()
    finally:
        sys.setprofile(None)
    return files, pairs


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The walks from the plan's questions to their answers."""
    found: list[Any] = []
    for kind in (GradInputQuestion, GradWeightQuestion):
        plain = kind.answer

        def answer(self: Any, plain: Any = plain) -> Any:
            if sys.getprofile() is not None:  # a rung that asks its own ladder
                return plain(self)
            given: list[Any] = []
            found.append(walk_of(lambda: given.append(plain(self))))
            return given[0]

        monkeypatch.setattr(kind, "answer", answer)
    yield found


@pytest.mark.parametrize("call", WALKED, ids=str)
def test_the_walk_to_a_tiling_is_short(call: Ask, walks: list[Any]) -> None:
    call.ladder()
    ((files, pairs),) = walks
    assert files and (len(files) <= FILES, len(pairs) <= PAIRS) == (True, True), (len(files), len(pairs), sorted(pairs))


@part_of_cases(4)
@pytest.mark.parametrize("call", [call for call in OTHERS if call.kernel != "fw"], ids=str)
def test_no_walk_is_much_longer(call: Ask, walks: list[Any]) -> None:
    call.ladder()
    ((files, pairs),) = walks
    assert (len(files) <= MOST_FILES, len(pairs) <= MOST_PAIRS) == (True, True), (len(files), len(pairs), sorted(pairs))
