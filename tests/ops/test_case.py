"""Case files: shapes that follow (against torch's forward), defaults, values, shipped cases and one-line errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.case import case_names, load_case, make_tensors
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.ops.tensor_files import save_tensors

pytestmark = pytest.mark.fast

CONV = {
    "operator": "convolution_backward",
    "input": {"shape": [2, 4, 8, 8], "dtype": "float16"},
    "weight": {"shape": [6, 4, 3, 3]},
}
TBC = {"operator": "conv_tbc_backward", "input": {"shape": [5, 2, 3], "dtype": "float32"}, "weight": {"shape": [3, 3, 4]}}


def write(directory, entries):
    path = directory / "my_case.yaml"
    path.write_text(entries if isinstance(entries, str) else yaml.safe_dump(entries))
    return path


def load(directory, base, **entries):
    return load_case(write(directory, base | entries))


def error_of(directory, entries):
    path = write(directory, entries)
    with pytest.raises(ConfigError) as caught:
        load_case(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


# Shapes and defaults


@st.composite
def convolutions(draw):
    dims = draw(st.integers(1, 3))

    def values(low, high):
        return draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims))

    groups, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    channels = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    kernel, stride, padding, dilation = values(1, 4), values(1, 3), values(0, 3), values(1, 3)
    sizes = [max(size, d * (k - 1) + 1) for size, k, d in zip(values(1, 9), kernel, dilation, strict=True)]
    output_padding = [draw(st.integers(0, s - 1)) for s in stride] if transposed else [0] * dims
    first, second = (channels[0] * groups, channels[1]) if transposed else (channels[1] * groups, channels[0])
    return {
        "operator": "convolution_backward",
        "input": {"shape": [draw(st.integers(1, 3)), channels[0] * groups, *sizes], "dtype": "float32"},
        "weight": {"shape": [first, second, *kernel]},
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "transposed": transposed,
        "output_padding": output_padding,
        "groups": groups,
    }


@settings(deadline=None)
@given(entries=convolutions())
def test_grad_output_has_the_shape_of_torchs_forward(tmp_path_factory, entries):
    torch = pytest.importorskip("torch")
    attributes = [entries[name] for name in ("stride", "padding", "dilation", "transposed", "output_padding", "groups")]
    input, weight = (torch.zeros(entries[name]["shape"]) for name in ("input", "weight"))
    directory = tmp_path_factory.mktemp("case")
    try:
        expected = tuple(torch.ops.aten.convolution(input, weight, None, *attributes).shape)
    except RuntimeError:
        expected = (0,)
    if 0 in expected:  # a transposed convolution whose padding eats the whole output
        assert "does not fit" in error_of(directory, entries)
        return
    case = load_case(write(directory, entries))
    assert case.tensors["grad_output"] == (expected, "float32")
    given_back = {**entries, "grad_output": {"shape": list(expected)}}
    assert load_case(write(directory, given_back)).tensors == case.tensors


def test_four_paddings_are_up_down_left_right(tmp_path):
    case = load(tmp_path, CONV, padding=[0, 1, 2, 3])
    assert case.tensors["grad_output"][0] == (2, 6, 8 + 0 + 1 - 2, 8 + 2 + 3 - 2)
    assert case.attributes["padding"] == (0, 1, 2, 3)
    transposed = load(tmp_path, CONV, padding=[0, 1, 2, 3], transposed=True, weight={"shape": [4, 6, 3, 3]})
    assert transposed.tensors["grad_output"][0] == (2, 6, 8 - 0 - 1 + 2, 8 - 2 - 3 + 2)


def test_what_is_left_out_has_the_operators_default(tmp_path):
    case = load(tmp_path, CONV)
    assert isinstance(case, ConvolutionBackwardCase)
    assert case.attributes == {
        "bias_sizes": None,
        "stride": (1, 1),
        "padding": (0, 0),
        "dilation": (1, 1),
        "transposed": False,
        "output_padding": (0, 0),
        "groups": 1,
        "output_mask": (True, True, True),
    }
    assert (case.cube_math_type, case.deterministic, case.conformance, case.l2) == (0, None, "documented", "cold")
    assert (case.tiling, case.block_dim, case.data.distribution, case.data.seed) == ({}, {}, "normal", 0)


def test_a_single_number_is_for_every_axis_and_a_bare_list_a_shape(tmp_path):
    short = load(tmp_path, CONV, stride=2, padding=1, dilation=2, input=[2, 4, 8, 8], dtype="float16")
    long = load(tmp_path, CONV, stride=[2, 2], padding=[1, 1], dilation=[2, 2])
    assert (short.attributes, short.tensors, short.results) == (long.attributes, long.tensors, long.results)


def test_what_requires_no_grad_is_masked_off(tmp_path):
    def masks(**entries):
        return load(tmp_path, CONV, **entries).attributes["output_mask"]

    frozen = {"shape": [6, 4, 3, 3], "requires_grad": False}
    assert masks(bias=False) == masks(bias={"requires_grad": False}) == masks(output_mask=[True, True, False])
    assert masks(weight=frozen) == (True, False, True)
    assert masks(weight=frozen, output_mask=[True, False, False]) == (True, False, False)
    assert set(load(tmp_path, CONV, weight=frozen, bias=False).results) == {"grad_input"}


def test_one_dtype_for_all_unless_a_tensor_has_its_own(tmp_path):
    case = load(tmp_path, CONV, dtype="bfloat16", input=[2, 4, 8, 8], weight={"shape": [6, 4, 3, 3], "dtype": "float32"})
    assert {name: dtype for name, (_, dtype) in case.tensors.items()} == {
        "grad_output": "bfloat16", "input": "bfloat16", "weight": "float32"
    }  # fmt: skip


def test_dtypes_follow_input_unless_given(tmp_path):
    case = load(tmp_path, CONV, weight={"shape": [6, 4, 3, 3], "dtype": "bfloat16"})
    assert {name: dtype for name, (_, dtype) in case.tensors.items()} == {
        "grad_output": "float16",
        "input": "float16",
        "weight": "bfloat16",
    }


def test_empty_batch_is_a_case(tmp_path):
    case = load(tmp_path, CONV, input={"shape": [0, 4, 8, 8], "dtype": "float16"})
    assert case.tensors["grad_output"][0] == (0, 6, 6, 6)
    assert make_tensors(case)["grad_output"].shape == (0, 6, 6, 6)


def test_block_dim_alone_means_every_cube_kernel(tmp_path):
    assert load(tmp_path, CONV, block_dim=8).block_dim == {"grad_input": 8, "grad_weight": 8}
    assert load(tmp_path, CONV, block_dim={"grad_weight": 8}).block_dim == {"grad_weight": 8}


def test_tiling_keeps_the_vendors_field_names(tmp_path):
    tiling = {"grad_input": {"baseM": 64, "baseN": 32}}
    assert load(tmp_path, CONV, tiling=tiling).tiling == tiling


# Values


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_have_the_cases_shape_and_dtype(tmp_path, dtype):
    case = load(tmp_path, CONV, input={"shape": [2, 4, 8, 8], "dtype": dtype})
    for name, array in make_tensors(case).items():
        expected = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        assert (array.shape, array.dtype) == (case.tensors[name][0], expected)


def test_one_stream_per_tensor_and_seed(tmp_path):
    first = make_tensors(load(tmp_path, CONV))
    again = make_tensors(load(tmp_path, CONV))
    other_weight = make_tensors(load(tmp_path, CONV, weight={"shape": [2, 4, 3, 3]}))
    other_seed = make_tensors(load(tmp_path, CONV, data={"seed": 1}))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other_seed[name])
    np.testing.assert_array_equal(first["input"], other_weight["input"])
    assert not np.array_equal(first["input"].ravel()[:200], first["grad_output"].ravel()[:200])


def values_of(directory, base=CONV, **data):
    tensors = make_tensors(load(directory, base, data=data))
    return {name: array.astype(np.float64) for name, array in tensors.items()}


def test_distributions(tmp_path):
    big = CONV | {"input": {"shape": [8, 16, 32, 32], "dtype": "float32"}, "weight": {"shape": [16, 16, 3, 3]}}
    ones = values_of(tmp_path, big, distribution="ones", scale=3)
    assert all((array == 3).all() for array in ones.values())

    uniform = values_of(tmp_path, big, distribution="uniform", scale=2)["input"]
    assert -2 <= uniform.min() < -1.99
    assert 1.99 < uniform.max() < 2
    assert abs(uniform.mean()) < 0.02

    normal = values_of(tmp_path, big, distribution="normal", scale=4)["input"]
    assert abs(normal.std() - 4) < 0.05
    assert abs(normal.mean()) < 0.05

    relu = values_of(tmp_path, big, distribution="relu")
    assert relu["input"].min() == 0
    assert abs((relu["input"] == 0).mean() - 0.5) < 0.01
    assert relu["weight"].min() < 0 and relu["grad_output"].min() < 0

    wide = values_of(tmp_path, big, distribution="wide")["input"]
    counts, _ = np.histogram(np.log2(np.abs(wide)), np.arange(-8, 5))
    assert counts.sum() == wide.size
    assert counts.min() > 0.9 * wide.size / 12
    assert abs((wide < 0).mean() - 0.5) < 0.01


@pytest.mark.parametrize("batch", [1, 4])
def test_adversarial_sums_climb_and_cancel(tmp_path, batch):
    big = CONV | {"input": {"shape": [batch, 16, 33, 34], "dtype": "float32"}, "weight": {"shape": [16, 16, 2, 3]}}
    tensors = values_of(tmp_path, big, distribution="adversarial")
    grad_output = tensors["grad_output"]
    products = {
        "grad_input": (grad_output[0, :, 5, 5] * tensors["weight"][:, 0, 0, 0]),
        "grad_weight": (grad_output[:, 2] * tensors["input"][:, 3, :32, :32]).ravel(),
        "grad_bias": grad_output[:, 0].ravel(),
    }
    for values in products.values():
        assert abs(values.sum()) < 0.05 * np.abs(values).sum()
        assert np.abs(values.cumsum()).max() > 0.4 * np.abs(values).sum()


def test_tensors_from_a_file_beside_the_case(tmp_path):
    (tmp_path / "deep").mkdir()
    tensors = make_tensors(load(tmp_path, CONV))
    save_tensors(tmp_path / "deep" / "t.npz", {name: (array, "float16") for name, array in tensors.items()})
    loaded = make_tensors(load(tmp_path / "deep", CONV, data={"file": "t.npz"}))
    replaced = make_tensors(load(tmp_path, CONV).with_file(tmp_path / "deep" / "t.npz"))
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array)
        np.testing.assert_array_equal(replaced[name], array)


def test_a_file_that_does_not_fit_the_case(tmp_path):
    tensors = make_tensors(load(tmp_path, CONV))
    save_tensors(tmp_path / "t.npz", {name: (array, "float16") for name, array in tensors.items()})
    case = load(tmp_path, CONV, input={"shape": [3, 4, 8, 8], "dtype": "float16"}, data={"file": "t.npz"})
    with pytest.raises(SimError, match=r"t\.npz: grad_output: shape \[2, 6, 6, 6\] given, the case needs \[3, 6, 6, 6\]"):
        make_tensors(case)


# Shipped cases


def test_every_shipped_case_loads_and_says_what_it_shows():
    assert {"resnet50_conv2_3x3", "document_example_2d", "strided", "depthwise", "padding_4"} <= set(case_names())
    for name in case_names():
        case = load_case(name)
        if name != "resnet50_conv2_3x3":
            assert all(np.isfinite(array.astype(np.float32)).all() for array in make_tensors(case).values())


def test_the_main_example():
    case = load_case("resnet50_conv2_3x3")
    assert case.tensors["grad_output"] == ((32, 64, 56, 56), "float16")
    assert case.attributes["padding"] == (1, 1)
    assert (case.chip, case.cube_math_type) == ("ascend910b3", 0)


def test_the_documents_example_gives_2_98_98():
    case = load_case("document_example_2d")
    tensors = make_tensors(case)
    assert case.cube_math_type == 1
    assert np.einsum("nohw,oiyx->nihw", tensors["grad_output"], tensors["weight"]).tolist() == np.full((2, 2, 7, 7), 2).tolist()
    assert np.einsum("nohw,nihw->oi", tensors["grad_output"], tensors["input"]).tolist() == [[98, 98], [98, 98]]
    assert tensors["grad_output"].sum((0, 2, 3)).tolist() == [98, 98]


# Errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"operator": "convolution_backwards"},
            "operator: 'convolution_backwards' is unknown; did you mean 'convolution_backward'?; allowed: ",
        ),
        ({"operator": ["convolution_backward"]}, "operator: ['convolution_backward'] is unknown"),
        ({"operator": None}, "operator: missing; allowed: convolution_backward, conv_tbc_backward"),
        ({"strides": [1, 1]}, "strides: unknown key; did you mean 'stride'?; allowed: operator, chip, "),
        ({"data": {"seeds": 1}}, "data.seeds: unknown key; did you mean 'seed'?; allowed: distribution, seed, scale, file"),
        ({"weight": {"shpe": [1]}}, "weight.shpe: unknown key; did you mean 'shape'?; allowed: shape, dtype, requires_grad"),
        ({"grad_output": {"dtype": "float64"}}, "grad_output.dtype: 'float64' given; allowed: float32, float16, bfloat16"),
        ({"conformance": "strict"}, "conformance: 'strict' given; allowed: documented, library"),
        ({"data": {"distribution": "gauss"}}, "data.distribution: 'gauss' given; allowed: uniform, normal, relu, "),
        ({"data": {"file": "t.npz", "seed": 1}}, "data: 'file' excludes distribution, seed and scale"),
        ({"data": {"scale": "big"}}, "data.scale: 'big' given; must be a number"),
        ({"data": {"scale": 0}}, "data.scale: 0 given; must be > 0"),
        ({"stride": 0}, "stride.0: 0 given; must be >= 1"),
        ({"stride": "2"}, "stride: '2' given; must be a list"),
        ({"stride": [0, 1]}, "stride.0: 0 given; must be >= 1"),
        ({"stride": []}, "stride: [] given; allowed: 2 values for a 2-D problem"),
        ({"padding": [1, 1, 1]}, "padding: [1, 1, 1] given; allowed: 2 or 4 values for a 2-D problem"),
        ({"padding": [1, -1]}, "padding.1: -1 given; must be >= 0"),
        ({"groups": 1.5}, "groups: 1.5 given; must be a whole number"),
        ({"output_mask": [True, False]}, "output_mask: [True, False] given; must have 3 values"),
        (
            {"output_mask": [True, True, True], "bias": False},
            "output_mask: [True, True, True] given; requires_grad and bias leave [True, True, False]",
        ),
        ({"bias": [7]}, "bias.shape: [7] given; the other arguments give [6] (the output channels of weight = 6)"),
        ({"bias": {"grad": 1}}, "bias.grad: unknown key; allowed: shape, dtype, requires_grad"),
        ({"bias": "no"}, "bias: 'no' given; must be true, false, a shape, or a mapping"),
        ({"output_mask": [1, 0, 1]}, "output_mask.0: 1 given; must be true or false"),
        ({"output_padding": [1, 0]}, "output_padding: [1, 0] given; allowed: 0 unless transposed"),
        ({"tiling": {"grad_inptu": {}}}, "tiling.grad_inptu: 'grad_inptu' given; allowed: grad_input, grad_weight"),
        ({"tiling": {"grad_input": {"baseM": "x"}}}, "tiling.grad_input.baseM: 'x' given; must be a whole number"),
        ({"block_dim": "all"}, "block_dim: 'all' given; must be a mapping"),
        ({"input": 5}, "input: 5 given; must be a mapping"),
        ({"input": {"dtype": "float16"}}, "input.shape: missing"),
        ({"input": {"shape": [2, 4, 8, 8]}}, "input.dtype: missing"),
        ({"groups": 2}, "input.shape: 4 channels given; weight.shape[1] x groups is 8 (groups 2)"),
        ({"groups": 4, "weight": {"shape": [6, 1, 3, 3]}}, "groups: 4 given; it must divide weight.shape[0], which is 6"),
        ({"transposed": True}, "input.shape: 4 channels given; weight.shape[0] is 6 (groups 1)"),
        ({"weight": {"shape": [6, 4, 3]}}, "weight.shape: [6, 4, 3] has 3 axes, input [2, 4, 8, 8] has 4"),
        ({"input": {"shape": [2, 4], "dtype": "float16"}}, "input.shape: [2, 4] has 2 axes; allowed: "),
        (
            {"grad_output": {"shape": [2, 6, 6, 7]}, "padding": [0, 0]},
            "grad_output.shape: [2, 6, 6, 7] given; the other arguments give [2, 6, 6, 6] "
            "(W = floor((8 + 0 + 0 - (1 x (3 - 1) + 1)) / 1) + 1 = 6)",
        ),
        (
            {"grad_output": {"shape": [2, 5, 6, 6]}},
            "grad_output.shape: [2, 5, 6, 6] given; the other arguments give [2, 6, 6, 6] (the output channels of weight = 6)",
        ),
        ({"grad_output": {"shape": [2, 6, 6]}}, "grad_output.shape: [2, 6, 6] given; the other arguments give [2, 6, 6, 6]"),
        (
            {"dilation": [1, 4]},
            "weight.shape: a kernel of 3 does not fit in W: floor((8 + 0 + 0 - (4 x (3 - 1) + 1)) / 1) + 1 = 0, must be >= 1",
        ),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(tmp_path, change, message):
    assert error_of(tmp_path, CONV | change).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": [1]}, "stride: unknown key"),
        ({"self": {"shape": [4, 2, 4]}}, "self.shape: [4, 2, 4] given; the other arguments give [3, 2, 4] (T = floor("),
        ({"bias": {"shape": [3]}}, "bias.shape: [3] given; the other arguments give [4] (the output channels of weight = 4)"),
        ({"weight": {"shape": [3, 2, 4]}}, "input.shape: 3 channels given; weight.shape[1] is 2"),
        ({"weight": {"shape": [3, 3]}}, "weight.shape: [3, 3] given; allowed: three axes [K, C_in, C_out]"),
        ({"weight": {"shape": [6, 3, 4]}}, "weight.shape: a kernel of 6 does not fit in T"),
        ({"pad": -1}, "pad: -1 given; must be >= 0"),
    ],
)
def test_errors_of_tbc_cases(tmp_path, change, message):
    assert error_of(tmp_path, TBC | change).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operator: convolution_backward\nstride: [1,\n", "line 3, column 1: broken YAML: "),
        ("groups: 1\nchip: x\ngroups: 2\n", "line 3, column 1: broken YAML: 'groups' is given twice"),
        ("[a]: 1\n", "line 1, column 1: broken YAML: found unhashable key"),
        ("", "a case file is a mapping of field names to values, this one is empty"),
        ("- 1\n", "a case file is a mapping of field names to values, this one is a list"),
        ("word\n", "a case file is a mapping of field names to values, this one is text"),
    ],
)
def test_broken_yaml_names_the_line(tmp_path, text, message):
    assert error_of(tmp_path, text).startswith(message)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "case.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as YAML text"):
        load_case(path)


def test_a_missing_case_lists_the_shipped_ones(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_case("resnet50_conv2_3x")
    message = str(caught.value)
    assert "did you mean 'resnet50_conv2_3x3'?" in message
    assert all(name in message for name in case_names())
    with pytest.raises(ConfigError, match="is a folder"):
        load_case(tmp_path)


@pytest.mark.parametrize("name", [*case_names(), "resnet18:conv1", "unet:up1:forward", "mobilenet_v2:2", "wav2vec2:1"])
def test_a_case_prints_as_a_file_that_gives_it_again(tmp_path, name):
    case = load_case(name)
    assert load_case(write(tmp_path, str(case))) == case


def test_entries_with_usual_values_are_not_printed(tmp_path):
    text = str(load(tmp_path, CONV, stride=2, bias=True))
    lines = ["operator: convolution_backward", "chip: ascend910b3", "input:", "  shape: [2, 4, 8, 8]", "  dtype: float16"]
    assert text.splitlines() == [*lines, "weight:", "  shape: [6, 4, 3, 3]", "stride: [2]"]
