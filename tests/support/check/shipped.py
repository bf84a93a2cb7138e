"""The kernels of this project as subjects of mutations: those of the pages, and of the operators one case for each family."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

import numpy as np

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.launching import prepared
from ascend_sim.ops.case import load_case
from ascend_sim.ops.execute import bind, roles_of
from ascend_sim.ops.operators import OPERATORS
from tests.support.check.mutations import MutatedSubject
from tests.support.places import DOCS

PAGES = {
    "matmul": "ascend910b3",
    "matmul_split_k": "ascend950pr_9589",
    "vector_add": "ascend910a",
    "softmax": "ascend310p3",
    "layer_norm": "ascend910b3",
    "flash_attention": "ascend950pr_9589",
}
CASES = (
    ("by_hand", "ascend910a"), ("by_hand", "ascend910b3"), ("by_hand", "ascend950pr_9589"),
    ("grouped", "ascend910b3"), ("conv_3d", "ascend950pr_9589"), ("forward_2d", "ascend910b3"),
)  # fmt: skip
"""Both gradients and the forward kernel with the vector kernels around them, on a coupled and on both split architectures."""


@cache
def page(name: str) -> ModuleType:
    """A kernel file of docs/kernels."""
    spec = importlib.util.spec_from_file_location(f"checked_{name}", DOCS / "kernels" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_subject(name: str, chip: str) -> MutatedSubject:
    """A kernel of the pages on three cores."""
    module, spec = page(name), load_chip(chip)
    tensors = module.arguments(np.random.default_rng(0))
    blocks = getattr(module, "BLOCKS", 3)
    device = Device(spec, with_values=False)
    made = prepared(getattr(module, name), blocks, tensors, {}, spec, device, "timing", ())
    return MutatedSubject(spec, [made.task], made.roles, True)


def case_subject(name: str, chip: str) -> MutatedSubject:
    """The kernels of a case."""
    case, spec = load_case(name), load_chip(chip)
    plan = OPERATORS[case.operator].plan(accept_case(case, spec), spec)
    device = Device(spec, with_values=False)
    held = {one.name: device.allocate(one.size, one.name) for one in plan.tensors.values() if one.role != "workspace"}
    tasks = bind(plan, spec, held, device.allocate(plan.workspace_bytes, "workspace"))
    return MutatedSubject(spec, tasks, roles_of(plan), False)
