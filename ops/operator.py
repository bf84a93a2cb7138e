"""Interface of an operator for everything that runs, checks, explains or counts its calls.

    class Scale(Operator[ScaleArguments, AcceptedCall]):
        name = "scale"
        ...
    OPERATORS.add(Scale())          # ascend_sim.ops.operators

A call goes arguments -> checks -> accept -> plan; the plan's kernels run; the outputs are judged against `sums`. A part that
an operator leaves out (a formula, a search of tilings) is refused in one line when a command needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError, SimError, TilingError
from ascend_sim.frozen import frozen
from ascend_sim.numerics import Verdict, check_correct, numpy_dtype, round_to
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import AcceptedCall, stored_as
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.checks.common import CallFacts
from ascend_sim.ops.checks.product import ProductSpec, any_arguments, has_file, load_product
from ascend_sim.ops.checks.rules import CheckResult, RuleList, show
from ascend_sim.ops.convolution.formula import Formula
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.kinds import ArgumentKind
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.status import Status
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import CONFORMANCES, AcceptOptions
from ascend_sim.options.short_names import with_full_names
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]
Arguments = TypeVar("Arguments")
Call = TypeVar("Call", bound=AcceptedCall)

MOST_WORKSPACE = (1 << 64) - 1
"""Bytes that the out-parameter workspaceSize of phase one can hold."""


@frozen
class MatrixProduct:
    """Output that is a product of matrices: `sizes` has (letter, size, meaning) of M, K and N; `why` is the reason in words."""

    sizes: tuple[tuple[str, int, str], ...]
    why: str


@frozen(eq=False)
class Sums:
    """The float64 sums of an output: `total` (sum ab), and `weights` (sum (ab)^2, or sum |ab| if `absolute`) of finite
    products.

    `doubtful` elements may be NaN by a zero that met an infinity or NaN (see `Operator.meets_zeros`); None if there are none.
    """

    total: Array
    weights: Array
    doubtful: NDArray[np.bool_] | None = None
    absolute: bool = False

    def shaped(self, shape: tuple[int, ...]) -> Sums:
        """Return the sums with their arrays reshaped to that of a result, which must have as many elements."""
        doubtful = None if self.doubtful is None else self.doubtful.reshape(shape)
        return Sums(self.total.reshape(shape), self.weights.reshape(shape), doubtful, self.absolute)


class Operator(ABC, Generic[Arguments, Call]):
    """Base class of an operator: its tensors and rules, and the plan of kernels for a call.

    `Arguments` is the type of a call's arguments as the checks see them, `Call` that of an accepted call.
    """

    name: ClassVar[str]
    """Name in case files and in configs/operators."""
    tensors: ClassVar[tuple[str, ...]]
    """Tensors by the caller's names, in the order of the Python function."""
    attributes: ClassVar[tuple[str, ...]]
    """Other arguments, without cubeMathType, in that order."""
    kinds: ClassVar[Mapping[str, ArgumentKind]] = {}
    """Kind of each argument, as a caller writes it."""
    batch_axes: ClassVar[Mapping[str, int]] = {}
    """The axis that is the batch, of the caller's tensors that have one."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Tensors that a call may leave out (None)."""
    outputs: ClassVar[tuple[str, ...]]
    """Outputs that it can return."""
    names: ClassVar[Mapping[str, str]] = {}
    """Our names, in plans, of those of the caller's tensors that have another: {"self": "grad_output"}."""
    added: ClassVar[tuple[str, ...]] = ()
    """Tensors, by our names, that are added to sums of products as they are: the cube does not multiply them."""
    formats: ClassVar[Mapping[int, str]] = {}
    """The format label of a tensor by its rank; ND for others."""
    case: ClassVar[type[Case]]
    """Class of the operator's case files."""
    cube_kernels: ClassVar[tuple[str, ...]]
    """The launches that take a tiling and a number of blocks."""
    explained: ClassVar[Mapping[str, str]] = {}
    """The options of `explain` ("element", "weight") and the output that each chooses an element of."""
    layer_direction: ClassVar[Literal["forward", "backward"] | None] = None
    """The pass of a network's layer that a call computes."""
    layer_kind: ClassVar[str] = "conv"
    """Kind of the layers whose pass it computes: `kind` in a network file."""
    layer_parts: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Parts of a layer's time: part -> (the launch that makes it, the head of its column)."""
    rules: ClassVar[RuleList]
    """Every rule that a call must pass, in order."""
    facts: ClassVar[type[CallFacts]] = CallFacts
    """Class of the facts that the rules read."""

    # -- phase one -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def arguments(
        self, tensors: Mapping[str, TensorArg | None], attributes: Mapping[str, Any], *, cube_math_type: int, conformance: str
    ) -> Arguments:
        """Return the vendor's arguments of a call from Python or from a case, with the outputs that the documents ask for; only
        `optional` tensors may be None.
        """

    def check(self, arguments: Arguments, product: ProductSpec, conformance: str, deterministic: bool) -> CheckResult:
        """Return the result of all rules for a call: no values in `arguments` raise, a failure is in the result."""
        return self.rules.run(self.facts(arguments, product, conformance, deterministic), conformance)

    @abstractmethod
    def accepted(self, arguments: Arguments, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings) -> Call:
        """Return the accepted call for arguments that passed all rules. AclnnError where the product computes in no dtype for
        them.
        """

    @abstractmethod
    def kernels(self, call: Call, chip: ChipSpec) -> Plan:
        """Return the plan of an accepted call, with its workspace placed. Raises TilingError where no tiling fits."""

    def product(self, chip: ChipSpec) -> ProductSpec:
        """Return the accepted arguments of the operator on a chip; AclnnError 161002 for an unknown product.

        An operator without cube kernels needs no file in configs/operators; it then has `any_arguments`.
        """
        if not self.cube_kernels and not has_file(self.name):
            return any_arguments(self.name, chip.identity.product)
        return load_product(self.name, chip.identity.product)

    def accept(self, arguments: Arguments, chip: ChipSpec, **options: Unpack[AcceptOptions]) -> Call:
        """Check a call's arguments; return the accepted call. AclnnError with the status of the first rule that fails; SimError
        for an unknown library, for a tiling or block_dim of an unknown cube kernel, for a number of blocks out of range, and
        for a kernel named twice; ConfigError for an unknown profile. Tiling fields and disarmed flags are not checked.

        `deterministic` None means the default of product and profile.
        """
        how = filled(AcceptOptions, options)
        product, conformance, deterministic = self.product(chip), how["conformance"], how["deterministic"]
        if deterministic is None:
            deterministic = product.profile(conformance).deterministic_default.value
        result = self.checked(arguments, product, conformance, deterministic)
        if result.failure is not None:
            raise AclnnError(result.status, result.failure.message)
        settings = Settings(
            product,
            conformance,
            deterministic,
            self.per_kernel("tiling", how["tiling"] or {}),
            self.launch_sizes(how["block_dim"], chip),
            with_full_names("disarm", how["disarm"] or {}),
            known_library(how["library"]),
        )
        return self.accepted(arguments, chip, tuple(result.warnings), settings)

    def checked(self, arguments: Arguments, product: ProductSpec, conformance: str, deterministic: bool) -> CheckResult:
        """Return the result of `check`; a refusal's message also says if the other conformance profile accepts the call."""
        result = self.check(arguments, product, conformance, deterministic)
        (other,) = (name for name in CONFORMANCES if name != conformance)
        if result.failure is None or self.check(arguments, product, other, deterministic).failure is not None:
            return result
        accepting = {"documented": "the operator documents accept", "library": "the released library accepts"}[other]
        message = f"{result.failure.message}; {accepting} this call (conformance {other})"
        return replace(result, failure=replace(result.failure, message=message))

    def graph_plan(self, call: Call, chip: ChipSpec, op_type: str) -> Plan:
        """Return the plan of a call that a graph runs as the library's operator `op_type`, without aclnn's conversions.

        This default raises SimError: an operator overrides it if such calls are known.
        """
        raise SimError(f"{self.name}: graph calls of {op_type} are not simulated")

    def plan(self, call: Call, chip: ChipSpec) -> Plan:
        """Return the plan of an accepted call on this chip (`kernels`), after checking that a uint64 holds its bytes of
        workspace.

        Where no tiling fits, raises TilingError if the user gave a tiling, else AclnnError with `failure_status`; AclnnError
        with that status too for a larger workspace.
        """
        status = self.failure_status(call.conformance)
        try:
            plan = self.kernels(call, chip)
        except TilingError as error:
            if call.tiling:
                raise
            raise AclnnError(status, f"no tiling fits: {error}") from error
        if plan.workspace_bytes > MOST_WORKSPACE:
            needs = f"the call needs {plan.workspace_bytes} bytes of workspace"
            raise AclnnError(status, f"{needs}: workspaceSize is a uint64, at most {MOST_WORKSPACE}")
        return plan

    def failure_status(self, conformance: str) -> int:
        """Return the status of a call that passes the rules but has no plan: INNER_NULLPTR here; operators may override it."""
        return Status.INNER_NULLPTR

    def per_kernel(self, what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return cube kernel -> the user's value of option `what`, under full names. SimError for an unknown kernel, and for
        one named twice; values are not checked.
        """
        named = with_full_names(what, values)
        for name in named:
            if name not in self.cube_kernels:
                raise SimError(f"{what}: no cube kernel {name!r}; allowed are {' and '.join(self.cube_kernels)}")
        return named

    def launch_sizes(self, block_dim: int | Mapping[str, int] | None, chip: ChipSpec) -> Mapping[str, int]:
        """Return cube kernel -> blocks to launch; a bare number means every kernel, None is {}. SimError for other values."""
        if block_dim is None:
            return {}
        each = block_dim if isinstance(block_dim, Mapping) else dict.fromkeys(self.cube_kernels, block_dim)
        each = self.per_kernel("block_dim", each)
        for name, count in each.items():
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= chip.launch.blocks_max:
                raise SimError(
                    f"block_dim of {name}: {show(count)}; allowed is a whole number from 1 to {chip.launch.blocks_max} "
                    f"(chip {chip.name}, launch.blocks_max)"
                )
        return each

    # -- names ---------------------------------------------------------------------------------------------------------

    def label(self, rank: int) -> str:
        """Return the format label of a tensor of rank `rank`: that in `formats`, else "ND"."""
        return self.formats.get(rank, "ND")

    def given_name(self, tensor: str) -> str:
        """Return the caller's name of the tensor that plans call `tensor`: the name itself unless `names` has another."""
        return next((given for given, ours in self.names.items() if ours == tensor), tensor)

    def by_our_names(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping by the caller's tensor names with the names that plans use as keys; other keys stay."""
        return {self.names.get(name, name): value for name, value in given.items()}

    # -- reports -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, arguments: Arguments) -> dict[str, Any]:
        """Return name -> value of the attributes that a report of a call shows."""

    @abstractmethod
    def macs(self, call: Call) -> dict[str, int]:
        """Return output -> multiply-accumulates, for the outputs that the cube computes."""

    # -- values --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def sums(
        self, call: Call, output: str, operands: Mapping[str, Array], inputs: Mapping[str, Array], *, absolute: bool = False
    ) -> tuple[Array, ...]:
        """Return (sum ab, sum (ab)^2) of one output in float64 and, with `absolute`, sum |ab| as a third array.

        `operands` are the inputs that the cube multiplies, as it sees them, `inputs` all of them as the caller gave them; both
        have their axes in the order of the problem, and so have the results.
        """

    def factors(self, call: Call, output: str) -> tuple[str, ...]:
        """Return the names, in plans, of the two tensors whose elements an output's products multiply.

        () (the default): the output is not a sum of products, and its infinities and NaN are those of `sums` itself.
        """
        return ()

    def meets_zeros(
        self, call: Call, output: str, special: Mapping[str, NDArray[np.bool_]], met: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return a mask, broadcastable to `met`, of an output's elements in which a kernel may multiply a zero by an
        infinity or NaN.

        `special` marks the infinities and NaN of both factors, `met` the elements that have one in a product of their
        own. This default marks all.
        """
        return np.ones(met.shape, np.bool_)

    @abstractmethod
    def products(self, call: Call) -> dict[str, int]:
        """Return output -> number of products in its longest sum; outputs that the call does not make may be among them."""

    @abstractmethod
    def roundings(self, call: Call, output: str) -> list[str]:
        """Return the dtypes to which an output's float32 sum is rounded on its way to the caller, in order; float32 may be
        among them.
        """

    def summed(self, output: str) -> str | None:
        """Return the one tensor that an output sums in its own dtype; None (the default) for the cube's sums of products."""
        return None

    def computed_in(self, call: Call, output: str) -> str:
        """Return the dtype of the values that are multiplied for an output, or only added where the cube does not compute
        it. The default is the call's compute dtype.
        """
        return call.compute_dtype

    def saturates(self, call: Call, output: str, model: ValueModel) -> bool:
        """Return True if a value beyond the output's format becomes its largest number, not infinity; here as the model says
        for all outputs.
        """
        return model.saturate

    def rounded(self, call: Call, output: str, total: Array, model: ValueModel, *, inputs: Mapping[str, Array]) -> Array:
        """Return an output without errors of summation, in float64: exact sums `total` rounded to float32 and by `roundings`,
        clamped if the output `saturates`. `inputs` serves operators that override it.
        """
        return chain(total, self.roundings(call, output), self.saturates(call, output, model))

    def in_problem_order(self, call: Call, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return tensor name -> array with its axes in the order of `sums`; unchanged here, but TBC has another order."""
        return dict(arrays)

    def verdict(
        self, call: Call, output: str, result: Array, sums: Sums, model: ValueModel, *, inputs: Mapping[str, Array]
    ) -> Verdict:
        """Return the verdict on the array `result` of one output: errors against the bound of `sums` and roundings. `sums` may
        have another shape of as many elements; `inputs` serves operators that override it.
        """
        own = sums.shaped(result.shape)
        return check_correct(
            result,
            own.total,
            own.weights,
            self.products(call)[output],
            self.roundings(call, output),
            sum_abs=own.weights if own.absolute else None,
            doubtful=own.doubtful,
            exact_terms=self.summed(output) is not None,
            saturate=self.saturates(call, output, model),
        )

    # -- questions -----------------------------------------------------------------------------------------------------

    def formula(self, call: Call, output: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]) -> Formula:
        """Return the products of element `index` of an output; `shapes` and `index` in the caller's order. This default raises
        SimError.
        """
        raise SimError(f"explain: {self.name} has no formula to follow")

    def matrix_product(self, call: Call, output: str) -> MatrixProduct | None:
        """Return M, K and N of an output that is a matrix product without im2col; None (the default) for any other."""
        return None

    def cube_call(self, call: Call, chip: ChipSpec, kernel: str) -> CubeCall:
        """Return the cube call (problem, dtype, options) of a kernel of an accepted call, for a search of tilings. This default
        raises SimError: nothing is searched.
        """
        raise SimError(f"tile: the tilings of {self.name} are not searched")

    def of_layer(self, layer: Layer) -> Case:
        """Return this operator's case for its pass of a layer, from the layer's own entries; a forward case has no
        `output_mask`.

        Raises pydantic's ValidationError for an invalid one.
        """
        said = layer.given
        if self.layer_direction == "forward":
            said.pop("output_mask", None)
        return self.case.model_validate({"operator": self.name, **said})


def chain(values: Array, formats: Sequence[str], saturate: bool) -> Array:
    """Return `values` rounded to float32, then to each format in order, as float64. With `saturate` every step clamps to the
    largest number instead of infinity.
    """
    for name in ("float32", *formats):
        values = round_to(values, name, saturate=saturate)
    return values.astype(np.float64)


@frozen
class Settings:
    """Settings under which a call is accepted, beside its arguments: the product's rules, the profile, and the user's choices.

    `tiling`, `block_dim` and `disarm` are the user's, by kernel; `library` is the version of the vendor's kernels, ""
    for the newest.
    """

    product: ProductSpec
    conformance: str
    deterministic: bool
    tiling: Mapping[str, Mapping[str, Any]]
    block_dim: Mapping[str, int]
    disarm: Mapping[str, Sequence[str]]
    library: str = ""

    def compute_dtype(self, promoted: str | None, cube_math_type: int) -> str:
        """Return the dtype in which the cube multiplies inputs whose common dtype is `promoted` (None: they have none);
        AclnnError where the product has none.
        """
        choice = self.product.compute_dtype(promoted, cube_math_type, self.conformance)
        if choice.compute_dtype is None:
            raise AclnnError(choice.status, f"cubeMathType = {cube_math_type}: {choice.source}")
        return choice.compute_dtype

    @property
    def fields(self) -> dict[str, Any]:
        """Return name -> value of the settings that are fields of `AcceptedCall`."""
        return {
            "conformance": self.conformance,
            "deterministic": self.deterministic,
            "tiling": self.tiling,
            "block_dim": self.block_dim,
            "disarm": self.disarm,
            "library": self.library,
        }


def itemsize_in_memory(compute_dtype: str) -> int:
    """Return the bytes in memory of a number that the cube multiplies as `compute_dtype`: 4 for hf32."""
    return int(numpy_dtype(stored_as(compute_dtype)).itemsize)
