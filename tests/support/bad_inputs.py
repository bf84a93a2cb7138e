"""Bad inputs: what is typed, and the files that it finds. What each gets stands in expected.yaml, which this module writes.

python -m tests.support.bad_inputs      # runs all, writes expected.yaml and docs/bad-input.md; read the difference
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import yaml
from typer.main import get_command

from ascend_sim.chip import chip_names
from ascend_sim.chip.files import shipped_files
from ascend_sim.ops.case import case_names
from ascend_sim.ops.network import network_names
from ascend_sim.ops.operators import OPERATORS
from tests.support.places import DOCS, TESTS

EXPECTED = TESTS / "bad_inputs" / "expected.yaml"
PAGE = DOCS / "bad-input.md"

Content = str | bytes | Callable[[Path], None]

CASE = {
    "operator": "convolution_backward",
    "input": "{shape: [1, 16, 6, 6], dtype: float16}",
    "weight": "{shape: [16, 16, 3, 3]}",
    "padding": "[1, 1]",
}
TBC = {"operator": "conv_tbc_backward", "input": "{shape: [5, 2, 3], dtype: float32}", "weight": "{shape: [3, 3, 4]}"}
FORWARD = {**CASE, "operator": "convolution"}
NETWORK = {
    "defaults": "{padding: 1, dtype: float16}",
    "layers": "[{name: a, input: [1, 16, 4, 4], weight: [16, 16, 3, 3]}]",
}
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


@dataclass(frozen=True)
class Bad:
    """One command that cannot be right; `kind` groups them on the page, `what` says what is wrong in a few words."""

    kind: str
    what: str
    command: str
    files: Mapping[str, Content] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its key in expected.yaml."""
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True)
class Got:
    """Result of a command: exit code, its words on stderr, and the files that it left."""

    code: int
    said: str
    left: tuple[str, ...]


def text_of(entries: Mapping[str, str | None]) -> str:
    """A YAML file of these lines; None leaves one out."""
    return "".join(f"{key}: {value}\n" for key, value in entries.items() if value is not None)


@cache
def commands() -> Any:
    """Return the group of all commands of `ascend-sim`."""
    from ascend_sim.cli import app

    return get_command(app)


def tried(bad: Bad, folder: Path) -> Got:
    """Run it in this process, in `folder`."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        for name, content in bad.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        there = set(Path().rglob("*"))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            commands().main(shlex.split(bad.command), prog_name="ascend-sim")
        left = tuple(sorted(str(path) for path in set(Path().rglob("*")) - there if "__pycache__" not in path.parts))
        said = (err.getvalue() or out.getvalue()).replace(str(folder), ".").replace(str(folder.resolve()), ".")
        return Got(int(ended.value.code or 0), said, left)
    finally:
        os.chdir(before)


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

    return {"out/report.json": write, "out/timeline.npz": lambda path: _write(path, run_folder()["timeline.npz"])}


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

    return {"out/report.json": lambda path: _write(path, run_folder()["report.json"]), "out/timeline.npz": write}


def _write(path: Path, data: bytes) -> None:
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


def cases() -> Iterator[Bad]:
    """Case files, field by field."""
    for entries, rows in (
        (CASE, CASE_FIELDS),
        (TBC, TBC_FIELDS),
        (FORWARD, FORWARD_FIELDS),
    ):
        for what, changes in rows.items():
            yield Bad("a case file", what, "run case.yaml", {"case.yaml": text_of({**entries, **changes})})
    for what, content in WHOLE_FILES.items():
        yield Bad("a YAML file", what, "run case.yaml", {"case.yaml": content})
        chip = content if isinstance(content, bytes) else content.replace("operator:", "extends:")
        yield Bad("a chip file", what, "chips chip.yaml", {"chip.yaml": chip})
        yield Bad("a network file", what, "run-network net.yaml", {"net.yaml": content})
        yield Bad("a tiling file", what, "run by_hand --tiling tiling.yaml", {"tiling.yaml": content})


CASE_FIELDS: dict[str, dict[str, str | None]] = {
    "no operator": {"operator": None},
    "an unknown operator": {"operator": "conv"},
    "an operator that is a list": {"operator": "[1]"},
    "an unknown key": {"paddin": "[1, 1]"},
    "a key that is a number": {"7": "1"},
    "no input": {"input": None},
    "an input that is a number": {"input": "5"},
    "an input without shape": {"input": "{dtype: float16}"},
    "a shape that is a text": {"input": "{shape: abc, dtype: float16}"},
    "a shape with a fraction": {"input": "{shape: [1, 16, 6.5, 6]}"},
    "a shape with a text": {"input": "{shape: [1, 16, x, 6]}"},
    "a shape with null": {"input": "{shape: [1, null, 6, 6]}"},
    "a shape in base 60": {"input": "{shape: [1:30, 16, 8, 8]}"},
    "a shape in octal": {"input": "{shape: [1, 020, 6, 6]}"},
    "a negative size": {"input": "{shape: [1, 16, -6, 6]}"},
    "a size of 2^63": {"input": f"{{shape: [1, 16, {1 << 63}, 6]}}"},
    "a size of 2^62": {"input": f"{{shape: [1, 16, {1 << 62}, 6], dtype: float16}}"},
    "sizes whose product is beyond 64 bits": {"input": f"{{shape: [{1 << 40}, 16, {1 << 40}, 6], dtype: float16}}"},
    "tensors beyond the chip's memory": {"input": "{shape: [100000, 16, 600, 600], dtype: float16}"},
    "a shape of seven axes": {"input": "{shape: [1, 1, 1, 1, 1, 1, 1]}"},
    "an empty shape": {"input": "{shape: []}"},
    "an unknown dtype": {"input": "{shape: [1, 16, 6, 6], dtype: float64}"},
    "a dtype that is a number": {"input": "{shape: [1, 16, 6, 6], dtype: 16}"},
    "a weight of other channels": {"weight": "{shape: [16, 7, 3, 3]}"},
    "a weight of another rank": {"weight": "{shape: [16, 16, 3]}"},
    "a kernel that does not fit": {"weight": "{shape: [16, 16, 33, 3]}"},
    "a kernel of 0": {"weight": "{shape: [16, 16, 0, 3]}"},
    "a gradOutput that does not follow": {"grad_output": "{shape: [1, 16, 9, 9]}"},
    "a stride of 0": {"stride": "[0, 1]"},
    "a stride of 2^64": {"stride": f"[{1 << 64}, 1]"},
    "three strides": {"stride": "[1, 1, 1]"},
    "no strides": {"stride": "[]"},
    "a stride that is a text": {"stride": "one"},
    "a stride that is true": {"stride": "[true, 1]"},
    "a negative padding": {"padding": "[-1, 1]"},
    "a padding of 2^62": {"padding": f"[{1 << 62}, 1]"},
    "three paddings": {"padding": "[1, 1, 1]"},
    "a dilation of 0": {"dilation": "[0, 1]"},
    "a dilation of 2^62": {"dilation": f"[{1 << 62}, 1]"},
    "groups of 0": {"groups": "0"},
    "groups that do not divide": {"groups": "3"},
    "groups that are a text": {"groups": "two"},
    "groups of a quintillion": {"groups": "1000000000000000000"},
    "transposed that is a number": {"transposed": "3"},
    "an output padding of its own": {"output_padding": "[1, 1]"},
    "an output mask of two": {"output_mask": "[true, true]"},
    "an output mask of numbers": {"output_mask": "[1, 0, 7]"},
    "an unknown chip": {"chip": "ascend911"},
    "a chip that is a number": {"chip": "910"},
    "a chip file that is not there": {"chip": "mine.yaml"},
    "a cubeMathType of 9": {"cube_math_type": "9"},
    "a cubeMathType that is a text": {"cube_math_type": "high"},
    "deterministic that is a text": {"deterministic": "maybe"},
    "an unknown conformance": {"conformance": "strict"},
    "an unknown l2": {"l2": "hot"},
    "an unknown distribution": {"data": "{distribution: gauss}"},
    "a negative seed": {"data": "{seed: -1}"},
    "a scale of 0": {"data": "{scale: 0}"},
    "a scale of infinity": {"data": "{scale: .inf}"},
    "a scale of NaN": {"data": "{scale: .nan}"},
    "a file and a seed": {"data": "{file: t.npz, seed: 1}"},
    "a file that is not there": {"data": "{file: t.npz}"},
    "a file that is a folder": {"data": "{file: .}"},
    "data that are a list": {"data": "[1]"},
    "an unknown kernel to tile": {"tiling": "{grad_inputs: {baseM: 16}}"},
    "an unknown field of a tiling": {"tiling": "{grad_input: {baseQ: 16}}"},
    "a tiling of 2^62": {"tiling": f"{{grad_input: {{baseM: {1 << 62}}}}}"},
    "a tiling that does not fit": {"tiling": "{grad_input: {baseM: 4096}}"},
    "a tiling of 0": {"tiling": "{grad_input: {baseM: 0}}"},
    "a tiling that is a fraction": {"tiling": "{grad_input: {baseM: 16.5}}"},
    "a tiling that is a list": {"tiling": "[16]"},
    "blocks of 0": {"block_dim": "0"},
    "more blocks than a launch takes": {"block_dim": "100000"},
    "blocks of an unknown kernel": {"block_dim": "{matmul: 3}"},
}
TBC_FIELDS: dict[str, dict[str, str | None]] = {
    "TBC: a negative pad": {"pad": "-1"},
    "TBC: a pad of 2^62": {"pad": str(1 << 62)},
    "TBC: an input of four axes": {"input": "{shape: [5, 2, 3, 1], dtype: float32}"},
    "TBC: a weight of other channels": {"weight": "{shape: [3, 5, 4]}"},
    "TBC: a kernel that does not fit": {"weight": "{shape: [33, 3, 4]}"},
    "TBC: a bias of other channels": {"bias": "{shape: [9]}"},
    "TBC: a stride, which it has not": {"stride": "[1]"},
}
FORWARD_FIELDS: dict[str, dict[str, str | None]] = {
    "forward: an output mask, which it has not": {"output_mask": "[true, true, true]"},
    "forward: a bias of other channels": {"bias": "{shape: [9]}"},
}
WHOLE_FILES: dict[str, str | bytes] = {
    "nothing in it": "",
    "a list": "- 1\n- 2\n",
    "a number": "7\n",
    "a key twice": "operator: x\noperator: y\n",
    "a bracket that is not closed": "operator: [1, 2\n",
    "a tab": "operator:\tx\n\tinput: y\n",
    "anchors inside each other": nested(28),
    "an alias of itself": "operator: &a [*a]\n",
    "an alias of nothing": "operator: *a\n",
    "3,000 brackets": "operator: " + "[" * 3000 + "]" * 3000 + "\n",
    "a number of 400 digits": f"operator: {'9' * 400}\n",
    "a number of 5,000 digits": f"operator: {'9' * 5000}\n",
    "a day that is not": "operator: 2001-02-30\n",
    "an object of Python": "operator: !!python/object/apply:os.system ['true']\n",
    "two documents": "operator: x\n---\noperator: y\n",
    "more than a megabyte": "#" * (1 << 20) + "\noperator: x\n",
    "bytes that are no text": b"\xff\xfe\x00operator",
    "a null byte": b"operator: \x00\n",
    "an image": b"\x89PNG\r\n\x1a\n\x00\x00",
}


def tensors() -> Iterator[Bad]:
    """Tensor files of a case."""
    good = {"grad_output": array(1, 16, 6, 6), "input": array(1, 16, 6, 6), "weight": array(16, 16, 3, 3)}
    bits = {name: one.view(np.uint16) for name, one in good.items()}
    files: dict[str, Content] = {
        "nothing in it": b"",
        "a text": "hello",
        "an archive without arrays": npz(),
        "a missing tensor": npz(input=good["input"], weight=good["weight"]),
        "another shape": npz(**{**good, "weight": array(16, 16, 3, 1)}),
        "another rank": npz(**{**good, "weight": array(16, 16, 3)}),
        "another dtype": npz(**{**good, "weight": array(16, 16, 3, 3, dtype=np.float32)}),
        "float64": npz(**{**good, "weight": array(16, 16, 3, 3, dtype=np.float64)}),
        "complex numbers": npz(**{**good, "weight": array(16, 16, 3, 3, dtype=np.complex64)}),
        "Python objects": npz(**{**good, "weight": np.array([{}], object)}),
        "texts": npz(**{**good, "weight": np.array(["a"])}),
        "bit patterns without a name": npz(**bits),
        "a name that is no dtype": npz(**{**good, "weight": bits["weight"], "weight_dtype": "float12"}),
        "a name of another width": npz(**{**good, "weight": bits["weight"], "weight_dtype": "hifloat8"}),
        "a name that is a number": npz(**{**good, "weight": bits["weight"], "weight_dtype": np.array(3)}),
        "bfloat16 as numpy saves it": npz(**{**good, "weight": array(16, 16, 3, 3, dtype=ml_dtypes.bfloat16)}),
        "headers of 800 MB": declared(200_000_000),
        "headers of 2^70 bytes": declared(1 << 40, 1 << 30),
        "headers of a negative size": declared(-4),
    }
    for what, content in files.items():
        case = {"case.yaml": text_of(CASE), "t.npz": content}
        yield Bad("a file of tensors", what, "run case.yaml --input t.npz", case)
        if what in ("headers of 800 MB", "a missing tensor", "another shape"):
            yield Bad("a file of tensors", f"{what}, for precision", "precision case.yaml --inputs t.npz", case)


def chips() -> Iterator[Bad]:
    """Overlays on a shipped chip."""
    number = "{{value: {}, unit: {}, source: 'assumed: x'}}"
    for what, text in {
        "a parent that is not there": "extends: ascend911\n",
        "a parent that is a list": "extends: [a]\n",
        "a loop": "extends: chip.yaml\n",
        "an unknown section": "extends: ascend910b3\nclocks: {}\n",
        "a number without source": "extends: ascend910b3\nclock: {cube_mhz: {value: 1800, unit: MHz}}\n",
        "another unit": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format(1800, 'GHz')}}}\n",
        "a clock with an underscore": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format('1_800', 'MHz')}}}\n",
        "a clock of 0": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format(0, 'MHz')}}}\n",
        "a negative clock": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format(-5, 'MHz')}}}\n",
        "a clock of infinity": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format('.inf', 'MHz')}}}\n",
        "a clock of NaN": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format('.nan', 'MHz')}}}\n",
        "a clock that is a text": f"extends: ascend910b3\nclock: {{cube_mhz: {number.format('fast', 'MHz')}}}\n",
        "no cores": f"extends: ascend910b3\ncores: {{aic: {number.format(0, 'cores')}}}\n",
        "half a core": f"extends: ascend910b3\ncores: {{aic: {number.format(1.5, 'cores')}}}\n",
        "a buffer of 2^63": f"extends: ascend910b3\nbuffers: {{L1: {number.format(1 << 63, 'bytes')}}}\n",
        "nothing removed": "extends: ascend910b3\nnothing: null\n",
    }.items():
        yield Bad("a chip file", what, "chips chip.yaml", {"chip.yaml": text})


def networks() -> Iterator[Bad]:
    """Network files, key by key."""
    layer = "{{name: a, input: [1, 16, 4, 4], weight: [16, 16, 3, 3]{}}}"
    for what, changes in {
        "no layers": {"layers": None},
        "an empty list of layers": {"layers": "[]"},
        "layers that are a text": {"layers": "abc"},
        "a layer that is a number": {"layers": "[5]"},
        "a layer without channels": {"layers": "[{name: a, input: [1, 4, 4], weight: [16, 16, 3, 3]}]"},
        "a layer without a name": {"layers": "[{input: [1, 16, 4, 4], weight: [16, 16, 3, 3]}]"},
        "two layers of one name": {"layers": f"[{layer.format('')}, {layer.format('')}]"},
        "an unknown key of a layer": {"layers": f"[{layer.format(', strides: 1')}]"},
        "an unknown key": {"layer": "[]"},
        "a stride of 0": {"layers": f"[{layer.format(', stride: 0')}]"},
        "a kernel that does not fit": {"layers": "[{name: a, input: [1, 16, 4, 4], weight: [16, 16, 33, 33]}]"},
        "groups that do not divide": {"layers": f"[{layer.format(', groups: 3')}]"},
        "three paddings": {"layers": f"[{layer.format(', padding: [1, 1, 1]')}]"},
        "an unknown dtype": {"layers": f"[{layer.format(', dtype: int8')}]"},
        "a cubeMathType of 9": {"layers": f"[{layer.format(', cube_math_type: 9')}]"},
        "defaults that are a list": {"defaults": "[]"},
        "a stride in hexadecimal": {"layers": f"[{layer.format(', stride: 0x1')}]"},
        "a bias that is a text": {"layers": f"[{layer.format(', bias: maybe')}]"},
        "a size of 2^62": {"layers": f"[{{name: a, input: [1, 16, {1 << 62}, 4], weight: [16, 16, 3, 3]}}]"},
    }.items():
        yield Bad(
            "a network file", what, "run-network net.yaml --jobs 1", {"net.yaml": text_of({**NETWORK, **changes})}
        )


def options() -> Iterator[Bad]:
    """Yield wrong words of command lines."""
    big = 1 << 70
    for what, command in {
        "no case of that name": "run nothing_like_it",
        "no case at all": "run",
        "an empty case": "run ''",
        "a folder": "run .",
        "an unknown command": "runs by_hand",
        "an unknown option": "run by_hand --fast",
        "an option of the program behind its command": "run by_hand --engine simpy",
        "an unknown chip": "run by_hand --chip ascend911",
        "a family for a chip": "run by_hand --chip dav-2201",
        "a chip file that is not there": "run by_hand --chip mine.yaml",
        "an unknown mode": "run by_hand --mode quick",
        "an unknown engine": "--engine fast run by_hand",
        "an unknown conformance": "run by_hand --conformance strict",
        "an unknown l2": "run by_hand --l2 hot",
        "an unknown model of sums": "run by_hand --accumulate kahan",
        "an unknown overflow": "run by_hand --overflow wrap",
        "an overflow that the chip lacks": "run by_hand --overflow inf_nan --chip ascend910a",
        "a cubeMathType that is a text": "run by_hand --cube-math-type high",
        "a cubeMathType of 2^70": f"run by_hand --cube-math-type {big}",
        "a cubeMathType of 9": "run by_hand --cube-math-type 9",
        "a limit of 0 cycles": "run by_hand --max-cycles 0",
        "a limit that is a text": "run by_hand --max-cycles many",
        "a limit that is reached": "run by_hand --max-cycles 10",
        "a limit of memory that is a text": "--max-memory much run by_hand",
        "a limit of memory of 0": "--max-memory 0 run by_hand",
        "no events in the trace": "run by_hand --trace-limit 0",
        "a tiling without value": "run by_hand --tiling grad_input.baseM",
        "a tiling without kernel": "run by_hand --tiling baseM=16",
        "a tiling of an unknown kernel": "run by_hand --tiling x.baseM=16",
        "a tiling with a text": "run by_hand --tiling grad_input.baseM=x",
        "a tiling of 19 digits": "run by_hand --tiling grad_input.baseM=9999999999999999999",
        "a tiling with a leading zero": "run by_hand --tiling grad_input.baseM=016",
        "a tiling twice": "run by_hand --tiling grad_input.baseM=16,grad_input.baseM=32",
        "a tiling file that is not there": "run by_hand --tiling t.yaml",
        "an empty tiling": "run by_hand --tiling ''",
        "blocks that are a text": "run by_hand --block-dim many",
        "blocks of 0": "run by_hand --block-dim 0",
        "blocks of -1": "run by_hand --block-dim -1",
        "blocks of an unknown kernel": "run by_hand --block-dim x=3",
        "a tensor file that is not there": "run by_hand --input t.npz",
        "a tensor file that is a folder": "run by_hand --input .",
        "msprof without a folder": "run by_hand --msprof",
        "msprof in functional mode": "run by_hand --mode functional --msprof --out out",
        "lines that nobody gets to see": "run by_hand --lines",
        "a flag without its kernel": "run by_hand --disarm full",
        "a flag of a kernel that is not there": "run by_hand --mode timing --disarm nobody.full",
        "a flag that is not there": "run by_hand --mode timing --disarm 'grad_input.A1[0] half'",
        "the beginning of a flag's name": "run by_hand --mode timing --disarm grad_input.A1",
        "a flag in functional mode": "run by_hand --mode functional --disarm 'grad_input.A1[0] full'",
        "flags to list and one to disarm": "run by_hand --flags --disarm 'grad_input.A1[0] full'",
        "flags to list into a folder": "run by_hand --flags --out out",
        "a page in functional mode": "run by_hand --mode functional --html page.html",
        "a page in no folder": "run by_hand --html no/page.html",
        "a page that is a folder": "run by_hand --html .",
        "explain: an element of another rank": "explain by_hand --element 1,2",
        "explain: an element outside": "explain by_hand --element 0,0,0,99",
        "explain: an element that is a text": "explain by_hand --element a,b,c,d",
        "explain: an element of 30 digits": f"explain by_hand --element 0,0,0,{10**30}",
        "explain: an unknown case": "explain nothing_like_it",
        "explain-status: an unknown case": "explain-status nothing_like_it",
        "explain-status: an unknown conformance": "explain-status by_hand --conformance strict",
        "format: an unknown format": "format float12",
        "format: a value that is a text": "format float16 --value one",
        "format: a rounding that it lacks": "format float16 --rounding hybrid --value 1",
        "format: bits that hf32 has not": "format hf32 --mantissa-bits 99",
        "format: a value of 400 digits": f"format float16 --value 1{'0' * 400}e1000000000",
        "chips: an unknown name": "chips ascend911",
        "chips: two without --compare": "chips ascend910a ascend910b3",
        "chips: one to compare": "chips --compare ascend910a",
        "precision: an unknown distribution": "precision by_hand --inputs gauss",
        "precision: an unknown model": "precision by_hand --accumulate kahan",
        "precision: an unknown chip": "precision by_hand --chips ascend910b3,x",
        "precision: an empty chip": "precision by_hand --chips ascend910b3,",
        "precision: JSON and CSV": "precision by_hand --json --csv",
        "precision: a file that is not there": "precision by_hand --inputs t.npz",
        "sweep: values in base 60": "sweep by_hand --vary batch=1:2:3:4",
        "sweep: values in octal": "sweep by_hand --vary batch=010,020",
        "sweep: a column that is none": "sweep by_hand --vary batch=1,2 --columns us,nope",
        "run-network: an unknown network": "run-network resnet5000",
        "run-network: a batch of 0": "run-network resnet50 --batch 0",
        "run-network: a batch of 2^70": f"run-network resnet50 --batch {big} --jobs 1",
        "run-network: a batch of a billion": "run-network resnet50 --batch 1000000000 --jobs 1",
        "run-network: no processes": "run-network resnet50 --jobs 0",
        "run-network: an unknown chip": "run-network resnet50 --chip x",
        "run-network: an unknown l2": "run-network resnet50 --l2 hot --jobs 1",
        "run-network: an unknown conformance": "run-network resnet50 --conformance strict --jobs 1",
        "tile: an unknown kernel": "tile by_hand --kernel matmul",
        "tile: a forward convolution": "tile forward_2d",
        "tile: an unknown field": "tile by_hand --field baseQ=16",
        "tile: a field without a number": "tile by_hand --field baseM=x",
        "tile: a field that fits nothing": "tile by_hand --kernel grad_input --field baseM=4096,baseN=16,baseK=16",
        "tile: a negative time": "tile by_hand --time-limit -1",
        "tile: a time that is a text": "tile by_hand --time-limit soon",
        "tile: a share beyond 100 %": "tile by_hand --within 200",
        "tile: a plot in no folder": "tile by_hand --plot no/plot.png",
        "tile: an unknown l2": "tile by_hand --l2 hot",
        "validate: rows that are not there": "validate --rows rows.csv",
        "validate: an unknown chip": "validate --chip x",
        "validate: a table in no folder": "validate --csv no/rows.csv",
        "report: no such folder": "report out",
        "report: an empty folder": "report .",
        "kernel: no such file": "kernel mine.py",
        "kernel: a folder": "kernel .",
    }.items():
        yield Bad("a command line", what, command)


def kernels() -> Iterator[Bad]:
    """Kernels of one's own."""
    for what, (text, rest) in {
        "no Python": ("def (:\n", ""),
        "a null byte": ("\0", ""),
        "no kernel in it": ("def arguments(rng):\n    return []\n", ""),
        "no arguments": (KERNEL.replace("def arguments", "def other"), ""),
        "it raises": ("raise KeyError('x')\n", ""),
        "it ends Python": ("raise SystemExit(3)\n", ""),
        "it recurses": ("def f():\n    return f()\nf()\n", ""),
        "a module that is not there": ("import nothing_like_it\n", ""),
        "another name": (KERNEL, "something"),
        "a chip that is not there": (KERNEL, "--chip x"),
        "an unknown mode": (KERNEL, "--mode quick"),
        "no blocks": (KERNEL, "--blocks 0"),
        "more blocks than a launch takes": (KERNEL, f"--blocks {1 << 70}"),
        "an unknown keyword": (KERNEL, "--tiling size=3"),
        "a keyword without value": (KERNEL, "--tiling size"),
        "a negative seed": (KERNEL, "--seed -1"),
        "an unknown flag": (KERNEL, "--disarm x"),
        "BLOCKS that are a text": (KERNEL + "BLOCKS = 'many'\n", ""),
        "arguments that are a text": (KERNEL.replace("np.zeros(64, np.float32)", "'x'"), ""),
        "arguments of float64": (KERNEL.replace("np.float32", "np.complex128"), ""),
        "an address outside": (KERNEL.replace("k.scalar(1)", "k.gm_to_ub(1 << 40, x)"), ""),
        "an unknown method": (KERNEL.replace("k.scalar(1)", "k.scale(1)"), ""),
    }.items():
        yield Bad("a kernel file", what, f"kernel mine.py {rest}".strip(), {"mine.py": text})


def rows() -> Iterator[Bad]:
    """Measured rows."""
    for what, text in {
        "nothing in it": "",
        "only a head": ROWS.splitlines()[0] + "\n",
        "an unknown chip": ROWS.replace("ascend910b2", "x"),
        "a time of 0": ROWS.replace("fp16,3", "fp16,0"),
        "a time that is a text": ROWS.replace("fp16,3", "fp16,fast"),
        "a negative size": ROWS.replace("32,32,32", "-32,32,32"),
        "an unknown column": ROWS.replace("dtype", "kind"),
        "a short row": ROWS.splitlines()[0] + "\nascend910b2,MatMul\n",
        "a null byte": ROWS.splitlines()[0] + "\n\0\n",
        "bytes that are no text": "\udcff\udcfe",
    }.items():
        yield Bad("measured rows", what, "validate --rows rows.csv --jobs 1", {"rows.csv": text})


def stored() -> Iterator[Bad]:
    """Files of earlier runs that were changed."""
    for what, files in {
        "a report that is a list": report(lambda data: [1]),
        "a report of another version": report(lambda data: data.update(version=99)),
        "a report without version": report(lambda data: data.pop("version") and None),
        "a report with another time": report(lambda data: data.update(total_us=1.0)),
        "a report without kernels": report(lambda data: data.pop("kernels") and None),
        "a report that is no JSON": {**report(lambda data: None), "out/report.json": "{"},
        "a report of 100,000 brackets": {**report(lambda data: None), "out/report.json": "[" * 100_000},
        "no timeline": {"out/report.json": "{}"},
        "a timeline that is a text": {**report(lambda data: None), "out/timeline.npz": "hello"},
        "a timeline cut in half": {
            **report(lambda data: None),
            "out/timeline.npz": lambda path: _write(path, run_folder()["timeline.npz"][:5000]),
        },
        "a timeline 2^62 cycles later": timeline(rows__start=lambda column: column + (1 << 62)),
        "a timeline with pipe 200": timeline(rows__pipe=lambda column: column * 0 + 200),
        "a timeline of another version": timeline(version=lambda column: column * 0 + 1),
        "a timeline without a column": timeline(rows__end=None),
        "a timeline with a short column": timeline(rows__end=lambda column: column[:-1]),
        "a timeline with a column of texts": timeline(rows__end=lambda column: column.astype(str)),
        "a timeline of another chip": timeline(chip_file=lambda column: np.asarray("{}")),
        "a timeline with other names": timeline(tasks__name=lambda column: column + "<script>"),
    }.items():
        yield Bad("a folder of a run", what, "report out", files)
    for what, content in {
        "a text": "hello, this is no database, but it is longer than a hundred bytes " * 3,
        "a database of something else": database("create table mine (id integer)"),
        "a version to come": database(
            "create table searches (id)",
            "create table results (id)",
            "pragma application_id = 1095975764",
            "pragma user_version = 9",
        ),
    }.items():
        yield Bad(
            "a store of results",
            what,
            "tile by_hand --kernel grad_input --limit 0 --jobs 1 --out out",
            {"out/results.sqlite": content},
        )


def places() -> Iterator[Bad]:
    """Where results cannot go, and names with something in them."""
    yield Bad("a place to write", "a file of the folder's name", "run by_hand --mode timing --out out", {"out": "x"})
    yield Bad("a place to write", "a folder below a file", "run by_hand --mode timing --out file/out", {"file": "x"})
    yield Bad(
        "a place to write",
        "somebody else's msprof",
        "run by_hand --mode timing --msprof --out out",
        {"out/msprof/a.txt": "x"},
    )
    yield Bad(
        "a place to write", "a page below a file", "run by_hand --mode timing --html file/page.html", {"file": "x"}
    )
    yield Bad("a name", "that steers a terminal", "run 'a\x1b[31mb\x07.yaml'")
    yield Bad("a name", "of two lines", "run 'a\nb.yaml'")
    yield Bad("a name", "of two lines, of a file that is there", "run 'a\nb.yaml'", {"a\nb.yaml": "groups: 1\n"})
    yield Bad("a name", "of 5,000 letters", f"run {'a' * 5000}")
    yield Bad("a name", "with a null byte", "run 'a\0b'")
    yield Bad("a name", "that a shell would run", "run '$(touch here);`touch here`'")


ALL: tuple[Bad, ...] = tuple(
    bad for part in (options, cases, tensors, chips, networks, kernels, rows, stored, places) for bad in part()
)


def without_lists(said: str) -> str:
    """Return a message with a word for each list of all that ships: one more chip or case leaves what is expected as it is."""
    shipped = {
        "(all chip files)": shipped_files(),
        "(all chips)": chip_names(),
        "(all operators)": OPERATORS,
        "(all cases)": case_names(),
        "(all networks)": network_names(),
    }
    for word, names in shipped.items():
        said = said.replace(", ".join(names), word)
    return said


def page(expected: Mapping[str, str]) -> str:
    """docs/bad-input.md."""
    lines = ["# What bad input gets", "", _INTRODUCTION.format(count=len(ALL)), "", _ONCE, ""]
    kind = ""
    for bad in ALL:
        if bad.kind != kind:
            kind = bad.kind
            lines += [
                "",
                f"## {kind[0].upper()}{kind[1:]}",
                "",
                "| what is wrong | command | it says |",
                "|---|---|---|",
            ]
        command = repr(bad.command)[1:-1]
        if len(command) > 60:
            command = f"{command[:56]} ..."
        said = expected[bad.name].removeprefix("ascend-sim: ")
        if len(said) > 160:
            said = f"{said[:156]} ..."
        cells = (text.replace("|", "\\|").replace("<", "&lt;") for text in (bad.what, f"`{command}`", said))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


_INTRODUCTION = """\
For whoever reads an error message: every bad input ends in one line on stderr, which begins with `ascend-sim: `, and exit
code 2, without a traceback and with no file left behind. `tests/bad_inputs` tries these {count}; `python -m
tests.support.bad_inputs` makes the page. Long commands and lines are cut here."""


_ONCE = """\
## What some of it got once

Typed again at a revision before these checks (2c6c7d7) and now, on a busy machine; Python's start alone takes some 0.5 to
1 s of CPU. Kernels were given to the builder then, and to `ascend-sim kernel` now.

| what is wrong | then | now |
|---|---|---|
| YAML of 3,000 nested brackets | `RecursionError`, a traceback | more than 32 lists and mappings inside each other |
| YAML with anchors for 43 million values | refused once they were built, 2.0 s of CPU | refused before, 1.2 s |
| an npz of three arrays of 800 MB | refused once they were read, 15.6 s of CPU | refused by their headers, 1.4 s |
| report.json with another time | exit code 0 and a page with that time | not the report that was written with timeline.npz |
| timeline.npz, 2^62 cycles later | exit code 0 and a page of nonsense | was changed after it was written |
| timeline.npz with pipe 200 | exit code 0 and a page of nonsense | was changed after it was written |
| a row of a store of results with another time | exit code 0 and ranked by that time | was changed after it was written |
| a row of a store of results that is no JSON | `JSONDecodeError`, a traceback | was changed after it was written |
| `run --msprof --out out` four times at once | three fail, 6 of 10 kernels are there | all end, files are of one run |
| `--max-cycles 1000` on a 3x3 layer of ResNet-50 | ended at cycle 67,939, when a block did | ends at the limit |
| `k.scalar(-10**6)` | taken | time does not run backwards |
| a cross-core flag of mode 7 | taken | mode 7; allowed are 0, 1, 2 |
| a flag of a pipe with itself | taken | a flag orders two pipes |
| an atomic copy out of GM | taken | only GM can be added to |
| an atomic copy of 30 bytes as float32 | taken | rows of 30 bytes are not whole elements of 4 bytes |
| SIGINT, SIGTERM or SIGKILL to `run-network resnet50 --jobs 2` | three or four processes left after 45 s | none after 2.6 s |
| a barrier of a pipe that there is not | `KeyError`, a traceback | pipe_barrier is on pipe X; an AIV has V, MTE2, MTE3 |
"""


def main() -> None:
    expected: dict[str, str] = {}
    for bad in ALL:
        with tempfile.TemporaryDirectory() as folder:
            try:
                got = tried(bad, Path(folder))
            except Exception as error:
                print(f"{bad.name}: {type(error).__name__}: {str(error)[:200]}")
                continue
        if got.code != 2 or got.said.count("\n") != 1 or got.left:
            print(f"{bad.name}: exit code {got.code}, left {got.left}: {got.said[:300]!r}")
            continue
        expected[bad.name] = without_lists(got.said).removesuffix("\n")
    if len(expected) < len(ALL):
        raise SystemExit(f"{len(ALL) - len(expected)} of {len(ALL)} do not end as they should")
    PAGE.write_text(page(expected), encoding="utf-8")
    EXPECTED.write_text(yaml.safe_dump(expected, sort_keys=False, allow_unicode=True, width=10_000), encoding="utf-8")
    print(f"{len(expected)} of {len(ALL)} end as they should")


if __name__ == "__main__":
    main()
