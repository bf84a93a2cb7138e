"""A search against the call: the kernel of the call is the first row, and what a tiling promises comes true in the call."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

import ascend_sim as asim
from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.errors import SimError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.kernels.tilings import settable
from ascend_sim.studies.tiles import pages
from ascend_sim.studies.tiles.command import kernels_of
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.outcome import SearchOutcome
from ascend_sim.studies.tiles.search import search
from tests.support.sampling import part_of_cases
from tests.support.studies.searched import case

OLDER = "Conv2DBackpropFilter"
LAYERS = (
    "resnet50:conv1", "resnet50:conv2_1_1x1_in", "resnet50:conv2_1_3x3", "resnet50:conv3_1_3x3", "resnet50:conv4_1_3x3",
    "resnet50:conv5_1_3x3", "resnet18:conv2_1_a", "resnet18:conv4_1_a", "vgg16:conv1_1", "vgg16:conv4_2",
    "mobilenet_v2:block5_depthwise", "mobilenet_v2:9", "unet:down4_1", "unet:down1_1", "r3d_18:layer2_1_a",
    "r3d_18:layer4_1_a", "unet:merge4_1", "resnet50:conv4_1_1x1_out", "fp32_keep", "strided",
)  # fmt: skip
"""Twenty layers of six networks and two cases: 2-D and 3-D, grouped, strided, in 16 and 32 bits."""
SAMPLE = ("mobilenet_v2:block5_depthwise", "fp32_keep", "strided")
"""Layers that the suite tries, with fewer simulations."""


def kernel_us(loaded: Case, name: str, **settings: Any) -> float:
    """The oracle: the kernel's time in a run of the whole call."""
    report = asim.run_case(loaded, mode="timing", timeline=False, **settings).report
    return next(kernel["task_us"] for kernel in report.kernels if kernel["name"] == name)


def in_call(name: str, chip: str = "ascend910b3", **problem: Any) -> tuple[Case, CubeKernel]:
    loaded = case(**problem).model_copy(update={"chip": chip})
    spec = load_chip(chip)
    return loaded, CubeKernel.of(accept_case(loaded, spec), spec, name, "call")


@part_of_cases(3)
@pytest.mark.parametrize(
    ("name", "chip", "problem"),
    [
        ("grad_input", "ascend910b3", {"c_in": 32, "size": 14}),
        ("grad_weight", "ascend910b3", {"c_in": 32, "size": 14}),
        ("grad_weight", "ascend910b3", {"c_in": 32, "size": 9, "deterministic": True}),
        ("grad_weight", "ascend910a", {"size": 9, "groups": 2, "c_in": 32, "c_out": 32}),
        ("grad_input", "ascend950pr_9589", {"size": 9, "stride": 2, "dtype": "float32"}),
        ("grad_weight", "ascend950pr_9589", {"size": 9}),
    ],
)
def test_a_kernel_takes_as_long_as_in_the_call(name: str, chip: str, problem: dict[str, Any]) -> None:
    loaded, kernel = in_call(name, chip, **problem)
    assert kernel.simulate(None)["us"] == kernel_us(loaded, name)
    outcome = search(kernel, limit=3)
    for result in outcome.results:
        assert result["us"] == kernel_us(loaded, name, tiling={name: dict(result["fields"])})


def test_the_l2_of_the_call_is_neither_warm_nor_cold() -> None:
    """A layer larger than the L2: its kernel finds a part of its operands there."""
    loaded = load_case("resnet50:conv1").model_copy(update={"chip": "ascend910b3"})
    spec = load_chip(loaded.chip)
    kernel = CubeKernel.of(accept_case(loaded, spec), spec, "grad_weight", "call")
    cycles = {l2: replace(kernel, l2=l2).simulate(None)["cycles"] for l2 in ("cold", "call", "warm")}
    assert cycles["cold"] != cycles["call"]
    assert kernel.simulate(None)["us"] == kernel_us(loaded, "grad_weight")


@pytest.mark.parametrize("l2", ["call", "warm"])
def test_code_is_as_cold_as_in_the_call(l2: str) -> None:
    """A chip whose cube cores fetch cold code for 1 us; on chips as they are only vector cores are known to."""
    loaded, spec = case(c_in=32, size=14), load_chip("ascend910b3")
    slow = spec.model_copy(update={"launch": spec.launch.model_copy(update={"cold_us": {"AIC": 1.0}})})
    us = {}
    for launches in ("cold", "warm"):
        kernel = CubeKernel.of(accept_case(loaded, slow), slow, "grad_weight", l2, launches)
        us[launches] = kernel.simulate(None)["us"]
        assert l2 == "warm" or us[launches] == kernel_us(loaded, "grad_weight", chip=slow, launches=launches)
    assert us["cold"] - us["warm"] == pytest.approx(1.0, abs=1e-3)


def test_a_search_of_a_case_has_its_launches() -> None:
    loaded = case(c_in=32, size=14).model_copy(update={"launches": "warm"})
    given = {None: "warm", "warm": "warm", "cold": "cold"}
    assert {one: kernels_of(loaded, ["ascend910b3"], "grad_input", launches=one)[0].launches for one in given} == given
    with pytest.raises(SimError, match="launches 'tepid': allowed are cold and warm"):
        kernels_of(loaded, ["ascend910b3"], "grad_input", launches="tepid")


def test_a_kernel_leaves_the_state_for_the_next_as_it_was() -> None:
    _, kernel = in_call("grad_input", c_in=32, size=14)
    assert kernel.simulate({})["cycles"] == kernel.simulate({})["cycles"]
    one = L2Cache(8)
    one.warm(0, 4)
    other = one.copy()
    other.warm(4, 16)
    assert one.resident(slice(0, 4)).all() and not other.resident(slice(0, 4)).any() and one.clock < other.clock


def searched(name: str, **limits: Any) -> SearchOutcome:
    (kernel,) = kernels_of(load_case("resnet50_conv2_3x3"), ["ascend910b3"], name)
    return search(kernel, **limits)


def shown(outcome: SearchOutcome, top: int = 3) -> list[str]:
    screen = Console(file=StringIO(), width=200)
    pages.render(outcome, screen, top)
    return screen.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_first_row_is_the_kernel_of_the_call_and_all_is_against_it() -> None:
    """grad_weight of this layer goes to an older kernel without fields, which is faster than the own choice of fields."""
    outcome = searched("grad_weight", limit=4, top=3)
    assert outcome.call["op_type"] == OLDER and not outcome.call["fields"]
    assert outcome.call["cycles"] < outcome.own["cycles"]
    lines = shown(outcome)
    gain = 100 * (outcome.best["cycles"] / outcome.call["cycles"] - 1)
    assert lines[1].startswith(f"in your call: {OLDER} {outcome.call['us']:.2f} us. ")
    assert lines[1].endswith(f" The best tiling takes {outcome.best['us']:.2f} us, {gain:+.1f} %.")
    rows = [line.split() for line in lines if line.startswith(("call  ", "own   ", "1.  "))][:3]
    assert [row[0] for row in rows] == ["call", "own", "1."]
    assert [row[1] for row in rows] == ["aclnn", "own", "own"]
    assert f"{gain:+.1f}%" in rows[2] and f"{100 * (outcome.own['cycles'] / outcome.call['cycles'] - 1):+.1f}%" in rows[1]
    assert outcome.to_dict()["call"] == outcome.call


def test_a_choice_that_the_call_makes_too_is_one_row() -> None:
    outcome = searched("grad_input", limit=4, top=3)
    assert outcome.call["fields"] == outcome.own["fields"]
    assert not [line for line in shown(outcome) if line.startswith("own:")]


def test_what_is_slower_than_the_call_is_no_best(tmp_path: Path) -> None:
    outcome = searched("grad_weight", limit=0)
    assert outcome.best["cycles"] > outcome.call["cycles"]
    pages.write_best(tmp_path / "best.yaml", [outcome])
    text = (tmp_path / "best.yaml").read_text()
    assert yaml.safe_load(text) == {} and "left out, for the kernel of the call is faster" in text
    assert "No tiling that was simulated is faster." in shown(outcome)[1]


def test_nothing_is_simulated_that_cannot_beat_the_call() -> None:
    """The best of 1,880 tilings of this layer take 2.7 times as long as its older kernel, and their bounds tell."""
    (found,) = kernels_of(load_case("resnet18:conv5_1_b"), ["ascend910b3"], "grad_weight")
    outcome = search(found, limit=2)
    assert outcome.reason == "done" and outcome.open == 0 and outcome.simulated == 1
    assert "No tiling is faster." in shown(outcome)[1]
    grid, bounds = list(found.grid()), found.bounds()
    least, _ = bounds.least(grid)
    for number in least.argsort()[:3]:
        assert found.simulate(settable(grid[number], found.inp))["cycles"] > outcome.call["cycles"]


@pytest.mark.parametrize(("chip", "way"), [("ascend910b3", "own kernel"), ("ascend950pr_9589", "tuned table")])
def test_the_way_to_a_device_is_that_of_the_chips_library(chip: str, way: str) -> None:
    _, kernel = in_call("grad_input", chip, size=9)
    outcome = search(kernel, limit=1)
    assert outcome.reach[0] == way
    larger = kernel.chip.with_numbers({"buffers.L1": 2 * kernel.chip.buffers["L1"]})
    other = search(replace(kernel, chip=larger), limit=1)
    assert other.reach[0] == "not at all"


def check_promises(layer: str, **limits: Any) -> None:
    """Compare the promised and the real change of each kernel of a layer: within two percent points."""
    loaded = load_case(layer).model_copy(update={"chip": "ascend910b3"})
    outcomes = asim.search_tilings(loaded, **limits)
    assert outcomes
    for outcome in outcomes:
        name = outcome.kernel.name
        promised = outcome.best["cycles"] / outcome.call["cycles"] - 1
        before, after = kernel_us(loaded, name), kernel_us(loaded, name, tiling={name: dict(outcome.best["fields"])})
        print(f"{layer} {name}: promised {100 * promised:+.2f} %, in the call {100 * (after / before - 1):+.2f} %")
        assert abs(after / before - 1 - promised) < 0.02


@pytest.mark.parametrize("layer", SAMPLE)
def test_a_promise_comes_true_in_the_call(layer: str) -> None:
    check_promises(layer, limit=2)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
def test_promises_come_true_in_the_call(layer: str) -> None:
    check_promises(layer, limit=6, seconds=20.0)


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
def test_a_call_of_a_long_row_takes_every_tiling_of_its_grid(chip: str) -> None:
    """The library would cut the row into strips of its own: a tiling that leaves it whole says so."""
    for found in kernels_of(load_case("wav2vec2:conv3"), [chip], None):
        widths = set()
        for fields, tiling in islice(found.tilings(), 0, 4000, 197):
            launched = found.launch(fields)[1].info["tiling"]
            assert settable(type(tiling).from_vendor(launched), found.inp) == fields
            widths.add(getattr(tiling, "split_wi", 0))
        assert found.name == "grad_weight" or chip == "ascend950pr_9589" or 0 in widths
