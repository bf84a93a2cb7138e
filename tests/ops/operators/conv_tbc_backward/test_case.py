"""Cases of a convolution over time."""

from __future__ import annotations

import pytest
import yaml

from ascend_sim.ops.case import load_case
from ascend_sim.ops.operators.conv_tbc_backward.case import ConvTbcBackwardCase

pytestmark = pytest.mark.fast


TBC = {"operator": "conv_tbc_backward", "input": {"shape": [5, 2, 3], "dtype": "float32"}, "weight": {"shape": [3, 3, 4]}}


def write(directory, entries):
    path = directory / "my_case.yaml"
    path.write_text(entries if isinstance(entries, str) else yaml.safe_dump(entries))
    return path


def load(directory, base, **entries):
    return load_case(write(directory, base | entries))


def test_tbc_shapes(tmp_path):
    case = load(tmp_path, TBC, pad=1)
    assert isinstance(case, ConvTbcBackwardCase)
    assert {name: shape for name, (shape, _) in case.tensors.items()} == {
        "self": (5, 2, 4),
        "input": (5, 2, 3),
        "weight": (3, 3, 4),
        "bias": (4,),
    }
    assert case.attributes == {"pad": 1, "grad_weight_dtype": None}
    assert load(tmp_path, TBC, self={"shape": [3, 2, 4], "dtype": "float16"}).tensors["self"] == ((3, 2, 4), "float16")
