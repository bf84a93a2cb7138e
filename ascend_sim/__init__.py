"""ascend-sim: convolution backward, and kernels of one's own, executed on a model of the Ascend AI Core.

import ascend_sim
result = ascend_sim.convolution_backward(grad_output, input, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
                                         (True, True, True), chip="ascend910b3")
result.grad_input, result.report.to_dict()
"""

from __future__ import annotations

from functools import cache
from os import path
from typing import Any

__version__ = "0.1.0"

# In a checkout `ops` and `configs` stand beside this folder; an install puts them into it.
if not path.isdir(path.join(__path__[0], "ops")):
    __path__.append(path.dirname(__path__[0]))

_ELSEWHERE = {
    "run": "run_case",
    "kernel": "launch",
    "check": "check_kernel",
    "tile": "search_tilings",
    "init": "write_template",
    "format": "explain_format",
    "simulate": "ascend_sim.torch.simulate",
    "compare_training": "ascend_sim.torch.compare_training",
    "export_network": "ascend_sim.torch.export_network",
}
"""Command or name of PyTorch's room -> the public name for it, where the names alone do not lead there."""


@cache
def _modules() -> dict[str, str]:
    """Return {public name: its module}, read once from the stub `__init__.pyi`, which lists each once."""
    import ast

    with open(path.join(__path__[0], "__init__.pyi"), encoding="utf-8") as stub:
        statements = ast.parse(stub.read()).body
    return {name.name: str(one.module) for one in statements if isinstance(one, ast.ImportFrom) for name in one.names}


def __getattr__(name: str) -> Any:
    """Return a public name from its module, imported when it is first needed, so that lower layers import without upper ones.
    `torch` is that room, `__all__` the sorted list of names.

    Raises AttributeError for any other name, with near names unless it begins with an underscore.
    """
    import importlib

    if name == "__all__":
        return sorted(_modules())
    if name == "torch":  # a room of its own, whose import needs PyTorch
        return importlib.import_module("ascend_sim.torch")
    if name.startswith("_"):
        raise AttributeError(f"module 'ascend_sim' has no attribute {name!r}")
    if name in _modules():
        return getattr(importlib.import_module(_modules()[name]), name)
    from ascend_sim.keywords import near_known

    near = [_ELSEWHERE[name]] if name in _ELSEWHERE else near_known(name, sorted(_modules()))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"module 'ascend_sim' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """Return all public names, whether or not they were imported yet."""
    return sorted([*_modules(), "__version__", "__doc__", "__name__", "__path__", "__all__"])
