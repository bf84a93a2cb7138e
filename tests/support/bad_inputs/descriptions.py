"""Bad descriptions of work: files of cases, tensors, chips and networks."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tests.support.bad_inputs.bad_input import Bad, Content
from tests.support.bad_inputs.contents import CASE, FORWARD, NETWORK, TBC, array, declared, nested, npz, text_of


def cases() -> Iterator[Bad]:
    """Case files, field by field."""
    for entries, rows in ((CASE, CASE_FIELDS), (TBC, TBC_FIELDS), (FORWARD, FORWARD_FIELDS)):
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
        yield Bad("a network file", what, "run-network net.yaml --jobs 1", {"net.yaml": text_of({**NETWORK, **changes})})
