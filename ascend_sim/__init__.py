"""ascend-sim: convolution backward, and kernels of one's own, executed on a model of the Ascend AI Core.

import ascend_sim
result = ascend_sim.convolution_backward(grad_output, input, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
                                         (True, True, True), chip="ascend910b3")
result.grad_input, result.report.to_dict()
"""

from __future__ import annotations

from os import path
from typing import TYPE_CHECKING, Any

from ascend_sim.errors import AclnnError, ConfigError, SimError, TilingError

__version__ = "0.1.0"

# In a checkout `ops` and `configs` stand beside this folder; an install puts them into it.
if not path.isdir(path.join(__path__[0], "ops")):
    __path__.append(path.dirname(__path__[0]))

if TYPE_CHECKING:
    from ascend_sim.acl.c.build import build_c
    from ascend_sim.acl.state import use
    from ascend_sim.api import conv_tbc_backward, convolution, convolution_backward
    from ascend_sim.ascend_c.function import cpp_kernel
    from ascend_sim.calls.cases import explain_status, run_case
    from ascend_sim.calls.result import Result
    from ascend_sim.calls.tensors import TensorSpec
    from ascend_sim.checking import check_kernel
    from ascend_sim.chip import chip_names, load_chip
    from ascend_sim.expected import Expected
    from ascend_sim.isa.base import Cost, GmAccess, Instruction
    from ascend_sim.isa.memory import Memory
    from ascend_sim.isa.quantisation import Quantisation
    from ascend_sim.kernel.function import KernelError, KernelFunction, kernel_function
    from ascend_sim.kernel.kernel import Kernel
    from ascend_sim.kernel.local_tensor import LocalTensor
    from ascend_sim.kernel.operands import ChannelMatrices, MapWindow, Span, TilePiece, TurnLayout
    from ascend_sim.kernel.queue import BufferQueue
    from ascend_sim.kernel.tensor import Tensor
    from ascend_sim.launching import KernelRun, empty, launch
    from ascend_sim.memory.regions import Region
    from ascend_sim.numerics import compare
    from ascend_sim.ops.case import case_names
    from ascend_sim.ops.network import network_names
    from ascend_sim.report.page import open_run
    from ascend_sim.studies.compare.run import compare_runs
    from ascend_sim.studies.explain.run import explain
    from ascend_sim.studies.lookup.formats import explain_format
    from ascend_sim.studies.lookup.templates import write_template
    from ascend_sim.studies.network.run import run_network
    from ascend_sim.studies.precision.run import precision
    from ascend_sim.studies.sweep.run import sweep
    from ascend_sim.studies.tiles.command import search_tilings
    from ascend_sim.studies.validate.run import validate

__all__ = [
    "AclnnError",
    "BufferQueue",
    "ChannelMatrices",
    "ConfigError",
    "Cost",
    "Expected",
    "GmAccess",
    "Instruction",
    "Kernel",
    "KernelError",
    "KernelFunction",
    "KernelRun",
    "LocalTensor",
    "MapWindow",
    "Memory",
    "Quantisation",
    "Region",
    "Result",
    "SimError",
    "Span",
    "Tensor",
    "TensorSpec",
    "TilePiece",
    "TilingError",
    "TurnLayout",
    "build_c",
    "case_names",
    "check_kernel",
    "chip_names",
    "compare",
    "compare_runs",
    "conv_tbc_backward",
    "convolution",
    "convolution_backward",
    "cpp_kernel",
    "empty",
    "explain",
    "explain_format",
    "explain_status",
    "kernel_function",
    "launch",
    "load_chip",
    "network_names",
    "open_run",
    "precision",
    "run_case",
    "run_network",
    "search_tilings",
    "sweep",
    "use",
    "validate",
    "write_template",
]

_HOME = {
    "BufferQueue": "ascend_sim.kernel.queue",
    "ChannelMatrices": "ascend_sim.kernel.operands",
    "Cost": "ascend_sim.isa.base",
    "Expected": "ascend_sim.expected",
    "GmAccess": "ascend_sim.isa.base",
    "Instruction": "ascend_sim.isa.base",
    "Kernel": "ascend_sim.kernel.kernel",
    "KernelError": "ascend_sim.kernel.function",
    "KernelFunction": "ascend_sim.kernel.function",
    "KernelRun": "ascend_sim.launching",
    "LocalTensor": "ascend_sim.kernel.local_tensor",
    "MapWindow": "ascend_sim.kernel.operands",
    "Memory": "ascend_sim.isa.memory",
    "Quantisation": "ascend_sim.isa.quantisation",
    "Region": "ascend_sim.memory.regions",
    "Result": "ascend_sim.calls.result",
    "Span": "ascend_sim.kernel.operands",
    "Tensor": "ascend_sim.kernel.tensor",
    "TensorSpec": "ascend_sim.calls.tensors",
    "TilePiece": "ascend_sim.kernel.operands",
    "TurnLayout": "ascend_sim.kernel.operands",
    "build_c": "ascend_sim.acl.c.build",
    "case_names": "ascend_sim.ops.case",
    "check_kernel": "ascend_sim.checking",
    "chip_names": "ascend_sim.chip",
    "compare": "ascend_sim.numerics",
    "compare_runs": "ascend_sim.studies.compare.run",
    "conv_tbc_backward": "ascend_sim.api",
    "convolution": "ascend_sim.api",
    "convolution_backward": "ascend_sim.api",
    "cpp_kernel": "ascend_sim.ascend_c.function",
    "empty": "ascend_sim.launching",
    "explain": "ascend_sim.studies.explain.run",
    "explain_format": "ascend_sim.studies.lookup.formats",
    "explain_status": "ascend_sim.calls.cases",
    "kernel_function": "ascend_sim.kernel.function",
    "launch": "ascend_sim.launching",
    "load_chip": "ascend_sim.chip",
    "network_names": "ascend_sim.ops.network",
    "open_run": "ascend_sim.report.page",
    "precision": "ascend_sim.studies.precision.run",
    "run_case": "ascend_sim.calls.cases",
    "run_network": "ascend_sim.studies.network.run",
    "search_tilings": "ascend_sim.studies.tiles.command",
    "sweep": "ascend_sim.studies.sweep.run",
    "use": "ascend_sim.acl.state",
    "validate": "ascend_sim.studies.validate.run",
    "write_template": "ascend_sim.studies.lookup.templates",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module at its first use and return it, so that lower layers import without upper ones."""
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "torch":  # a room of its own, whose import needs PyTorch
        return importlib.import_module("ascend_sim.torch")
    raise AttributeError(f"module 'ascend_sim' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, whether or not they were imported yet."""
    return sorted([*__all__, "__version__", "__doc__", "__name__", "__path__"])
