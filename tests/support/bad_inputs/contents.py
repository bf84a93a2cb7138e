"""Contents of the files of bad inputs: a good case, network, kernel and row, and what is made wrong of a run's files."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.bad_inputs.bad_input import Content

CASE = {
    "operator": "convolution_backward",
    "input": "{shape: [1, 16, 6, 6], dtype: float16}",
    "weight": "{shape: [16, 16, 3, 3]}",
    "padding": "[1, 1]",
}
TBC = {"operator": "conv_tbc_backward", "input": "{shape: [5, 2, 3], dtype: float32}", "weight": "{shape: [3, 3, 4]}"}
FORWARD = {**CASE, "operator": "convolution"}
NETWORK = {"defaults": "{padding: 1, dtype: float16}", "layers": "[{name: a, input: [1, 16, 4, 4], weight: [16, 16, 3, 3]}]"}
KERNEL = """
import numpy as np
import ascend_sim

@ascend_sim.kernel_function(core="AIV")
def nothing(k, x):
    k.scalar(1)

def arguments(rng):
    return np.zeros(64, np.float32)
"""
ROWS = "chip,op_type,M,N,K,dtype,duration_us\nascend910b2,MatMul,32,32,32,fp16,3\n"


def text_of(entries: Mapping[str, str | None]) -> str:
    """A YAML file of these lines; None leaves one out."""
    return "".join(f"{key}: {value}\n" for key, value in entries.items() if value is not None)


def array(*shape: int, dtype: Any = np.float16) -> Any:
    return np.zeros(shape, dtype)


def npz(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def declared(*shape: int) -> Callable[[Path], None]:
    """Arrays whose headers say `shape` and which hold a few bytes."""

    def write(path: Path) -> None:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f2", "fortran_order": False, "shape": shape})  # type: ignore[arg-type]
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("grad_output", "input", "weight"):
                archive.writestr(f"{name}.npy", head.getvalue() + b"00")

    return write


@cache
def run_folder() -> dict[str, bytes]:
    """report.json and timeline.npz of a small run."""
    import ascend_sim
    from ascend_sim.report.run_files import write_run

    result = ascend_sim.convolution_backward(
        array(1, 16, 4, 4), array(1, 16, 4, 4), array(16, 16, 1, 1), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1,
        (True, False, False), mode="timing",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder), result.report, result.recording, "gradients", {})
        return {name: (Path(folder) / name).read_bytes() for name in ("report.json", "timeline.npz")}


def report(change: Callable[[dict[str, Any]], Any]) -> dict[str, Content]:
    """The folder of a run whose report was changed."""

    def write(path: Path) -> None:
        data = json.loads(run_folder()["report.json"])
        path.write_text(json.dumps(change(data) or data))

    return {"out/report.json": write, "out/timeline.npz": lambda path: write_bytes(path, run_folder()["timeline.npz"])}


def timeline(**changes: Callable[[Any], Any] | None) -> dict[str, Content]:
    """The folder of a run some of whose columns were changed; None takes one away."""

    def write(path: Path) -> None:
        with np.load(io.BytesIO(run_folder()["timeline.npz"])) as archive:
            arrays = {name: archive[name] for name in archive.files}
        for key, change in changes.items():
            name = key.replace("__", ".")
            column = arrays.pop(name)
            if change is not None:
                arrays[name] = change(column)
        np.savez(path, **arrays)

    return {"out/report.json": lambda path: write_bytes(path, run_folder()["report.json"]), "out/timeline.npz": write}


def write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def database(*statements: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with sqlite3.connect(path) as opened:
            for statement in statements:
                opened.execute(statement)

    return write


def nested(anchors: int) -> str:
    lines = ["a0: &a0 [1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, anchors))]
    return "\n".join(lines) + "\n"
