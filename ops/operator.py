"""Interface of an operator for everything that runs, checks, explains or counts its calls.

    class Scale(Operator[ScaleArguments, AcceptedCall]):
        name = "scale"
        ...
    OPERATORS.add(Scale())          # ascend_sim.ops.operators

A call goes arguments -> checks -> accept -> plan; the plan's kernels run; the outputs are judged against `sums`. What an
operator leaves out (a formula, a search of tilings) is refused in one line when somebody asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ascend_sim.ops.checks import CONFORMANCES, load_product
from ascend_sim.ops.checks.product import ProductSpec, any_arguments, has_file
from ascend_sim.ops.checks.rules import CheckResult, Rule, show
from ascend_sim.ops.convolution.formula import Formula
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.kinds import ArgumentKind
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.status import Status
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import AcceptOptions
from ascend_sim.options.short_names import with_full_names
from ascend_sim.runtime import ValueModel

__all__ = ["MatrixProduct", "Operator", "Settings", "Sums", "chain", "itemsize_in_memory"]

Array = NDArray[Any]
Arguments = TypeVar("Arguments")
Call = TypeVar("Call", bound=AcceptedCall)

MOST_WORKSPACE = (1 << 64) - 1
"""Bytes that the out-parameter workspaceSize of phase one can hold."""


@frozen
class MatrixProduct:
    """An output that is a product of matrices in memory: (letter, size, meaning) of M, K, N, and the reason."""

    sizes: tuple[tuple[str, int, str], ...]
    why: str


@dataclass(frozen=True, eq=False)
class Sums:
    """The float64 sums of an output: `total` (sum ab), and `weights` (sum (ab)^2, or sum |ab| where `absolute`) of the finite
    products. `doubtful` elements may be NaN by a zero that met an infinity (see `Operator.meets_zeros`); None where none is.
    """

    total: Array
    weights: Array
    doubtful: NDArray[np.bool_] | None = None
    absolute: bool = False

    def shaped(self, shape: tuple[int, ...]) -> Sums:
        """Return the sums in the shape of a result."""
        doubtful = None if self.doubtful is None else self.doubtful.reshape(shape)
        return Sums(self.total.reshape(shape), self.weights.reshape(shape), doubtful, self.absolute)


class Operator(ABC, Generic[Arguments, Call]):
    """One operator; `Arguments` holds a call's arguments as its checks see them, `Call` the call once it is accepted."""

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

    # -- phase one -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def arguments(
        self,
        tensors: Mapping[str, TensorArg | None],
        attributes: Mapping[str, Any],
        *,
        cube_math_type: int,
        conformance: str,
    ) -> Arguments:
        """Return a call from Python or from a case: the vendor's argument list, outputs as the documents ask for."""

    @abstractmethod
    def check(self, arguments: Arguments, product: ProductSpec, conformance: str, deterministic: bool) -> CheckResult:
        """Return the result of the rules for a call; no argument makes them raise."""

    @property
    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Return every rule, in order."""

    @abstractmethod
    def accepted(self, arguments: Arguments, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings) -> Call:
        """Return a call that passed its rules."""

    @abstractmethod
    def kernels(self, call: Call, chip: ChipSpec) -> Plan:
        """Return the placed plan of an accepted call; TilingError where no tiling fits."""

    def product(self, chip: ChipSpec) -> ProductSpec:
        """Return the arguments that the operator accepts on a chip; AclnnError 161002 for an unknown product.

        An operator without cube kernels needs no file in configs/operators.
        """
        if not self.cube_kernels and not has_file(self.name):
            return any_arguments(self.name, chip.identity.product)
        return load_product(self.name, chip.identity.product)

    def accept(self, arguments: Arguments, chip: ChipSpec, **options: Unpack[AcceptOptions]) -> Call:
        """Run phase one's checks and return the accepted call. Raises AclnnError with the status of the first rule that
        fails.
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
        """Return the result of `check`; a refusal that the other profile does not give says so."""
        result = self.check(arguments, product, conformance, deterministic)
        (other,) = (name for name in CONFORMANCES if name != conformance)
        if result.failure is None or self.check(arguments, product, other, deterministic).failure is not None:
            return result
        accepting = {"documented": "the operator documents accept", "library": "the released library accepts"}[other]
        message = f"{result.failure.message}; {accepting} this call (conformance {other})"
        return replace(result, failure=replace(result.failure, message=message))

    def graph_plan(self, call: Call, chip: ChipSpec, op_type: str) -> Plan:
        """Return the kernels of a call as the graph's operator `op_type`, without the conversions that aclnn adds.

        Raises SimError where nothing is known of such calls.
        """
        raise SimError(f"{self.name}: nothing is known of calls of {op_type} by a graph")

    def plan(self, call: Call, chip: ChipSpec) -> Plan:
        """Return the kernels of an accepted call on this chip.

        Raises TilingError for the user's own tiling, else AclnnError with `failure_status`.
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
        """Return the status of a call that passes the rules and has no kernels."""
        return Status.INNER_NULLPTR

    def per_kernel(self, what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the user's values by cube kernel, under full names; SimError for a kernel that there is not."""
        named = with_full_names(what, values)
        for name in named:
            if name not in self.cube_kernels:
                raise SimError(f"{what}: no cube kernel {name!r}; allowed are {' and '.join(self.cube_kernels)}")
        return named

    def launch_sizes(self, block_dim: int | Mapping[str, int] | None, chip: ChipSpec) -> Mapping[str, int]:
        """Return the blocks to launch by cube kernel; a bare number means every one. SimError for anything but whole numbers
        from 1.
        """
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
        """Return the format label of a tensor of that rank."""
        return self.formats.get(rank, "ND")

    def given_name(self, tensor: str) -> str:
        """Return the caller's name of one of our tensors."""
        return next((given for given, ours in self.names.items() if ours == tensor), tensor)

    def by_our_names(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping by the caller's tensor names under our names."""
        return {self.names.get(name, name): value for name, value in given.items()}

    # -- reports -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, arguments: Arguments) -> dict[str, Any]:
        """Return the attributes that a report names."""

    @abstractmethod
    def macs(self, call: Call) -> dict[str, int]:
        """Return the multiply-accumulates of each output that the cube computes."""

    # -- values --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def sums(
        self,
        call: Call,
        output: str,
        operands: Mapping[str, Array],
        inputs: Mapping[str, Array],
        *,
        absolute: bool = False,
    ) -> tuple[Array, ...]:
        """Return the float64 sum ab and sum (ab)^2 of one output, and sum |ab| with `absolute`.

        `operands` are the inputs that the cube multiplies, as it sees them, `inputs` all of them as the caller gave them; both
        stand in the order of the problem.
        """

    def factors(self, call: Call, output: str) -> tuple[str, ...]:
        """Return our names of the two tensors whose elements an output's products multiply.

        Empty: sums of something else, whose infinities and NaN are those of `sums` itself.
        """
        return ()

    def meets_zeros(
        self, call: Call, output: str, special: Mapping[str, NDArray[np.bool_]], met: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return the elements of an output in which a kernel may multiply a zero by an infinity or NaN; broadcasts to those of
        `met`.

        `special` marks the infinities and NaN of both factors, `met` the elements that have one in a product of their own.
        """
        return np.ones(met.shape, np.bool_)

    @abstractmethod
    def products(self, call: Call) -> dict[str, int]:
        """Return the products that the longest sum of each output has."""

    @abstractmethod
    def roundings(self, call: Call, output: str) -> list[str]:
        """Return the formats that an output's fp32 sum is rounded to on its way out, in order."""

    def summed(self, output: str) -> str | None:
        """Return the tensor that an output is the plain sum of, in its own dtype; None for sums of products, which the cube
        makes.
        """
        return None

    def computed_in(self, call: Call, output: str) -> str:
        """Return the dtype whose values are multiplied, or added where the cube has no part."""
        return call.compute_dtype

    def saturates(self, call: Call, output: str, model: ValueModel) -> bool:
        """Return True if values beyond the output's format become its largest number."""
        return model.saturate

    def rounded(
        self, call: Call, output: str, total: Array, model: ValueModel, *, inputs: Mapping[str, Array]
    ) -> Array:
        """Return the exact sums `total` of an output as a machine without any error would return them, in float64."""
        return chain(total, self.roundings(call, output), self.saturates(call, output, model))

    def in_problem_order(self, call: Call, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the caller's arrays, by our names, with their axes in the order of the sums."""
        return dict(arrays)

    def verdict(
        self,
        call: Call,
        output: str,
        result: Array,
        sums: Sums,
        model: ValueModel,
        *,
        inputs: Mapping[str, Array],
    ) -> Verdict:
        """Return the verdict on one output; `sums` are those of its operands."""
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

    def formula(
        self, call: Call, output: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]
    ) -> Formula:
        """Return the products of element `index` of an output, in the order of the caller's `shapes`."""
        raise SimError(f"explain: {self.name} has no formula to follow")

    def matrix_product(self, call: Call, output: str) -> MatrixProduct | None:
        """Return the matrices where an output is their product without im2col, else None."""
        return None

    def cube_call(self, call: Call, chip: ChipSpec, kernel: str) -> CubeCall:
        """Return the work of a cube kernel of an accepted call, before its tiling; SimError where none has fields to set."""
        raise SimError(f"tile: the tilings of {self.name} are not searched")

    def of_layer(self, layer: Layer) -> Case:
        """Return the case of a layer's pass `layer_direction`. Raises pydantic's ValidationError for an invalid one."""
        said = layer.said
        if self.layer_direction == "forward":
            said.pop("output_mask", None)
        return self.case.model_validate({"operator": self.name, **said})


def chain(values: Array, formats: Sequence[str], saturate: bool) -> Array:
    """Return `values` rounded to float32, then to each of the formats in order."""
    for name in ("float32", *formats):
        values = round_to(values, name, saturate=saturate)
    return values.astype(np.float64)


@frozen
class Settings:
    """Settings with which a call is accepted, beside its arguments.

    `tiling`, `block_dim` and `disarm` are the user's, by kernel; `library` is the version of the vendor's kernels, "" for the
    newest.
    """

    product: ProductSpec
    conformance: str
    deterministic: bool
    tiling: Mapping[str, Mapping[str, Any]]
    block_dim: Mapping[str, int]
    disarm: Mapping[str, Sequence[str]]
    library: str = ""

    def compute_dtype(self, promoted: str | None, cube_math_type: int) -> str:
        """Return the dtype in which the cube multiplies inputs of `promoted` dtype; AclnnError where the product has none."""
        choice = self.product.compute_dtype(promoted, cube_math_type, self.conformance)
        if choice.compute_dtype is None:
            raise AclnnError(choice.status, f"cubeMathType = {cube_math_type}: {choice.source}")
        return choice.compute_dtype

    @property
    def fields(self) -> dict[str, Any]:
        """Return the settings as fields of `AcceptedCall`."""
        return {
            "conformance": self.conformance,
            "deterministic": self.deterministic,
            "tiling": self.tiling,
            "block_dim": self.block_dim,
            "disarm": self.disarm,
            "library": self.library,
        }


def itemsize_in_memory(compute_dtype: str) -> int:
    """Return the bytes of a number that the cube multiplies as `compute_dtype`."""
    return int(numpy_dtype(stored_as(compute_dtype)).itemsize)
