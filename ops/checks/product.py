"""Products: the accepted arguments of an operator on each, read from `configs/operators/<operator>.yaml` and validated."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ascend_sim.errors import AclnnError, ConfigError
from ascend_sim.numerics.cube_math import CUBE_MATH_TYPES, ComputeChoice
from ascend_sim.ops.status import Status
from ascend_sim.options.run_options import CONFORMANCES
from ascend_sim.shipped import load_shipped

Trait = Literal[
    "depthwise_output_channels",
    "deterministic_grouped_3d_refused",
    "eight_bit_rules",
    "empty_refused",
    "empty_signal_without_output",
    "empty_skips_shape_rules",
    "grad_bias_is_nd",
    "grouped_float32_grad_weight_limited",
    "outputs_follow_input_dtypes",
]
Route = Literal[
    "deterministic_filter_3d",
    "dilation_kernel",
    "filter_as_1x1",
    "matmul_long_patches",
    "matmul_patches",
    "matmul_pixels",
    "matmul_whole_map",
]
Source = Annotated[str, Field(min_length=1)]
FLOATS = ("float16", "bfloat16", "float32")
"""Dtypes that an operator without a file takes."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    source: Source


class SourcedFlag(_Entry):
    """Entry of an operator's file: a boolean `value` with its source."""

    value: bool


class Ranks(_Entry):
    """Entry of an operator's file: the tensor ranks that the operator takes on a product, with their source."""

    values: list[int]


class Dtypes(_Entry):
    """Entry of an operator's file: allowed dtypes. `values` hold for every call, `not_transposed_only` are added for
    calls that are not transposed; `per_argument` replaces both for one argument.
    """

    values: list[str]
    not_transposed_only: list[str] = []
    per_argument: dict[str, list[str]] = {}

    def of(self, argument: str, *, transposed: bool = False) -> list[str]:
        """Return the dtypes that `argument` may have: its own list in `per_argument`, else `values` and, unless
        `transposed`, also `not_transposed_only`.
        """
        general = self.values if transposed else self.values + self.not_transposed_only
        return self.per_argument.get(argument, general)


class ValueRange(_Entry):
    """A closed interval for the values of one argument, for tensors of `ranks` and a direction (`transposed` None: both).

    `axes` "plane" leaves out depth and the channels of a weight.
    """

    argument: str
    axes: Literal["all", "plane"]
    min: int
    max: int
    ranks: list[int] = [3, 4, 5]
    transposed: bool | None = None


class KernelLimit(_Entry):
    """Limit of the library's operator `op_type`: a closed interval for each of `fields`, names in ConvProblem or products of
    them ("h_in * w_in").

    `at_most` names a field whose value is the upper end in place of `max`. `dilation_*` of an axis whose kernel is 1
    counts as 1 (ops-nn: stated).
    """

    op_type: str
    fields: list[str]
    min: int = 0
    max: int = 2**31 - 2
    at_most: str | None = None


class CubeEntry(_Entry):
    """One cell of the cubeMathType table: a compute dtype (perhaps with a warning), or a refusal with its status."""

    compute: str | None = None
    status: int = 0
    warning: str | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> CubeEntry:
        if (self.compute is None) == (self.status == 0):
            raise ValueError("give either compute or a status other than 0")
        return self


class ProductProfile(BaseModel):
    """Accepted arguments of an operator on one product under one profile: ranks, dtypes, ranges, limits, special traits."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    supported: SourcedFlag = SourcedFlag(value=True, source="listed in this file")
    ranks: Ranks
    dtypes: Dtypes
    deterministic_default: SourcedFlag
    cube_math_type: dict[str, dict[int, CubeEntry]]
    ranges: list[ValueRange] = []
    kernel_limits: list[KernelLimit] = []
    traits: dict[Trait, Source] = {}


class ProductSpec(BaseModel):
    """Accepted arguments of one operator on one product, in both conformance profiles; `routes` are the library's
    special kernels there.

    `unsupported` begins the error text for a product that is not listed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    operator: str
    unsupported: Source
    product: str
    aliases: list[str] = []
    routes: dict[Route, Source] = {}
    documented: ProductProfile
    library: ProductProfile

    def profile(self, conformance: str) -> ProductProfile:
        """Return the profile "documented" or "library"; ConfigError for any other name."""
        if conformance not in CONFORMANCES:
            raise ConfigError(f"conformance {conformance!r}: allowed are {' and '.join(CONFORMANCES)}")
        return self.documented if conformance == "documented" else self.library

    def compute_dtype(self, promoted_dtype: str | None, cube_math_type: int, conformance: str = "documented") -> ComputeChoice:
        """Return the cube's dtype for inputs of a promoted dtype (`numerics.cube_math.promote`) by the product's table.

        A refusal has compute dtype None, a status and the reason as source: cubeMathType beyond 0 to 3, no entry for the dtype
        (None has none), or an entry that refuses. ConfigError for an unknown profile.
        """
        table = self.profile(conformance).cube_math_type
        if cube_math_type not in CUBE_MATH_TYPES:
            return ComputeChoice(None, Status.PARAM_INVALID, source="cubeMathType is an enumeration of 0, 1, 2, 3")
        entry = table.get(promoted_dtype or "", {}).get(cube_math_type)
        if entry is None:
            return ComputeChoice(None, Status.PARAM_INVALID, source=f"no cubeMathType entry on product {self.product}")
        return ComputeChoice(entry.compute, entry.status, entry.warning, entry.source)


def _file(operator: str) -> Traversable:
    return resources.files("ascend_sim.configs") / "operators" / f"{operator}.yaml"


def has_file(operator: str) -> bool:
    """Return True if configs/operators has a file for an operator."""
    return _file(operator).is_file()


@cache
def products(operator: str) -> dict[str, ProductSpec]:
    """Return upper-case name or alias -> product, for all products of an operator's file; cached.

    ConfigError for an operator without a file, and for an invalid one, with file and field.
    """
    file = _file(operator)
    if not file.is_file():
        raise ConfigError(f"no operator {operator!r}: there is no configs/operators/{operator}.yaml")
    return parse_products(file.read_text(encoding="utf-8"), file.name)


def parse_products(text: str, name: str) -> dict[str, ProductSpec]:
    """Return upper-case name or alias -> product, from the text of an operator file.

    ConfigError for an invalid text, with `name` as the file's name and the field.
    """
    try:
        document: Any = load_shipped(text)
        specs = [
            ProductSpec.model_validate(
                {"operator": document["operator"], "unsupported": document["unsupported"], "product": product, **fields}
            )
            for product, fields in document["products"].items()
        ]
    except (ConfigError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{name}: not an operator file with the keys operator, unsupported and products ({error})") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return {key.upper(): spec for spec in specs for key in (spec.product, *spec.aliases)}


def any_arguments(operator: str, product: str) -> ProductSpec:
    """Return the accepted arguments of an operator without a file and without cube kernels: ranks 0 to 8 of float16,
    bfloat16 and float32, in both profiles, each computed in itself with every cubeMathType.

    The operator's own rules decide the rest.
    """
    source = f"assumed: there is no configs/operators/{operator}.yaml"
    compute = {dtype: {n: CubeEntry(compute=dtype, source=source) for n in CUBE_MATH_TYPES} for dtype in FLOATS}
    profile = ProductProfile(
        ranks=Ranks(values=list(range(9)), source=source),
        dtypes=Dtypes(values=list(FLOATS), source=source),
        deterministic_default=SourcedFlag(value=False, source=source),
        cube_math_type=compute,
    )
    return ProductSpec(operator=operator, unsupported=source, product=product, documented=profile, library=profile)


def load_product(operator: str, product: str) -> ProductSpec:
    """Return the accepted arguments of `operator` on `product`, a name ("910B") or alias of its file, in any case of letters.

    AclnnError 161002 for a product that the operator's file does not name; ConfigError as `products`.
    """
    listed = products(operator)
    if product.upper() in listed:
        return listed[product.upper()]
    known = ", ".join(sorted({entry.product for entry in listed.values()}))
    said = next(iter(listed.values())).unsupported
    raise AclnnError(
        Status.PARAM_INVALID,
        f"{said}: product {product!r} of {operator}, supported are {known} (configs/operators/{operator}.yaml)",
    )
