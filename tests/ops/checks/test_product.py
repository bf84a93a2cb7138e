"""The operator files: complete, with sources, and refused with file and field when wrong."""

from __future__ import annotations

import itertools

import pytest

from ascend_sim.errors import AclnnError, ConfigError
from ascend_sim.ops.checks.product import load_product, parse_products, products
from ascend_sim.options.run_options import CONFORMANCES

pytestmark = pytest.mark.fast

OPERATORS = ("convolution_backward", "conv_tbc_backward")
PRODUCTS = {"310P", "910", "910B", "910_93", "910_95"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_product_of_the_documents_is_there(operator):
    assert {spec.product for spec in products(operator).values()} == PRODUCTS
    assert load_product(operator, "950") is load_product(operator, "910_95")
    assert load_product(operator, "310p").product == "310P"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_accepted_input_dtype_has_a_row_with_all_four_options(operator):
    for spec, conformance in itertools.product(products(operator).values(), CONFORMANCES):
        profile = spec.profile(conformance)
        if not profile.supported.value:
            continue
        for dtype in profile.dtypes.values + profile.dtypes.not_transposed_only:
            assert set(profile.cube_math_type[dtype]) == {0, 1, 2, 3}, (spec.product, conformance, dtype)


LIBRARY_TABLE = {
    "float32": (["float32", "hf32", "float16", "hf32"], [None, "float16", "float16", None]),
    "float16": (["float16"] * 4, ["float16"] * 4),
    "bfloat16": (["bfloat16", "bfloat16", "float16", "bfloat16"], [None] * 4),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_cube_math_type_of_the_library(operator):
    for product, dtype in itertools.product(PRODUCTS, LIBRARY_TABLE):
        expected = LIBRARY_TABLE[dtype][product in ("310P", "910")]
        spec = load_product(operator, product)
        choices = [spec.compute_dtype(dtype, option, "library") for option in range(4)]
        assert [choice.compute_dtype for choice in choices] == expected, (product, dtype)
        assert [choice.status for choice in choices] == [0 if dtype_ else 161002 for dtype_ in expected]
        warned = {("float16", 3), ("bfloat16", 2), ("bfloat16", 3)} if expected[0] and product not in ("310P", "910") else set()
        assert {(dtype, option) for option in range(4) if choices[option].warning} == {key for key in warned if key[0] == dtype}
        assert spec.compute_dtype(dtype, 4, "library").status == spec.compute_dtype(dtype, -1, "library").status == 161002


def test_an_unknown_product_is_161002_with_the_documents_sentence():
    with pytest.raises(AclnnError, match="the current processor does not support convolution backward") as error:
        load_product("convolution_backward", "310B")
    assert error.value.status == 161002 and "310B" in error.value.message and "910_93" in error.value.message


def test_unknown_operators_and_profiles_are_config_errors():
    with pytest.raises(ConfigError, match="forward_convolution"):
        load_product("forward_convolution", "910B")
    with pytest.raises(ConfigError, match="strict"):
        load_product("convolution_backward", "910B").profile("strict")


GOOD = """
operator: convolution_backward
unsupported: no such product
products:
  X1:
    documented: &same
      ranks: {values: [3], source: assumed}
      dtypes: {values: [float16], source: assumed}
      deterministic_default: {value: false, source: assumed}
      cube_math_type: {float16: {0: {compute: float16, source: assumed}}}
    library: *same
"""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("ranks: {values: [3], source: assumed}", "ranks: {values: [3]}", "documented.ranks.source"),
        ("values: [3]", "values: [three]", "documented.ranks.values.0"),
        ("source: assumed}}}", "source: assumed, status: 1}}}", "cube_math_type.float16.0"),
        ("library: *same", "library: *same\n    speed: 3", "speed"),
        ("    library: *same", "", "library"),
        ("library: *same", "library: *same\n    aliases: !!set {X2: null}", "aliases"),
        ("operator:", "operators:", "operator"),
    ],
)
def test_a_wrong_operator_file_names_file_and_field(old, new, field):
    assert parse_products(GOOD, "mine.yaml")["X1"].documented.ranks.values == [3]
    with pytest.raises(ConfigError) as error:
        parse_products(GOOD.replace(old, new), "mine.yaml")
    assert "mine.yaml" in str(error.value) and field in str(error.value)
