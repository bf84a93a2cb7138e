"""C++ kernels of tests: text that is compiled, and the words that it records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.ascend_c import compiler
from ascend_sim.ascend_c.function import CppKernel, cpp_kernel
from ascend_sim.ascend_c.recorder import ProgramRecorder, RecordedCore
from ascend_sim.ascend_c.stream import WordStream
from ascend_sim.errors import SimError
from ascend_sim.launching import launch


def there_is_a_compiler() -> bool:
    """Return True if this machine has a compiler for kernels."""
    try:
        compiler.compiler()
    except SimError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not there_is_a_compiler(), reason="no compiler: pip install '.[ascendc]'")

BEGIN = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
"""The two lines before the text of a kernel."""
IN = "DataCopy(a, xg, 64); SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);"
OUT = "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0); DataCopy(zg, d, 64);"
"""Code that brings 64 elements of x to a, and 64 of d to z (`vector_kernel`)."""


def written(folder: Path, text: str, name: str = "kernel.cpp") -> Path:
    """Return a file of this text."""
    path = folder / name
    path.write_text(BEGIN + text)
    return path


def made(folder: Path, text: str, **options: Any) -> CppKernel:
    """Return the kernel of this text."""
    return cpp_kernel(written(folder, text), **options)


BUFFERS = (196_608, 524_288, 65_536, 65_536, 131_072, 1024, 2048)
"""Bytes of the buffers of dav-2201, as a request has them."""


def recorded(kernel: CppKernel, *arguments: int, block: int = 0, blocks: int = 1, core: str = "") -> WordStream:
    """Return all words of a block, on the first kind of core unless `core` names one; scalar code reads zeros."""
    recorder: ProgramRecorder = kernel._recorder((), core)
    session = recorder.begin(RecordedCore(block, blocks, BUFFERS), arguments, registers=True)
    while session.goes_on():
        session.answer(0)
    return session.recording


def vector_kernel(body: str, name: str = "kernel", tensors: str = "x y z", numbers: str = "") -> str:
    """Return a kernel of float tensors of GM xg, yg, ... with 32 KiB of UB for each of a, b, d."""
    names = tensors.split()
    parameters = ", ".join([f"GM_ADDR {one}" for one in names] + ([numbers] if numbers else []))
    views = " ".join(f"GlobalTensor<float> {one}g; {one}g.SetGlobalBuffer((__gm__ float *){one});" for one in names)
    buffers = " ".join(
        f"LocalTensor<float> {one}(TPosition::VECCALC, {number * 32768}, 8192);" for number, one in enumerate("abd")
    )
    return f'extern "C" __global__ __aicore__ void {name}({parameters}) {{ {views} {buffers}\n{body}\n}}\n'


def refusal(kernel: CppKernel, *tensors: Any, **fields: Any) -> str:
    """Return the message of the error that a launch of one block raises."""
    with pytest.raises(SimError) as caught:
        launch(kernel, 1, *tensors, **fields)
    return str(caught.value)


def floats(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return normal values."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)
