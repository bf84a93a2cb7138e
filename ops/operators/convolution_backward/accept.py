"""Phase one of convolution backward: the checks, what the call comes down to, and its plan on a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError, SimError, TilingError
from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.call import GRADIENTS, INPUTS, AcceptedCall
from ascend_sim.ops.checks import load_product
from ascend_sim.ops.checks.rules import show
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.operators.convolution_backward.checks.rules import check_conv_backward
from ascend_sim.ops.operators.convolution_backward.normalise import normalise
from ascend_sim.ops.operators.convolution_backward.plans import plan_call
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.status import Status

MOST_BLOCKS = 65535
"""Blocks of one launch (assumed: a 16-bit field; no launch on record has more than 64)."""
MOST_WORKSPACE = (1 << 64) - 1
"""Bytes that the out-parameter workspaceSize of phase one can hold."""


def accept(
    call: ConvBackwardCall, chip: ChipSpec, *, conformance: str, deterministic: bool | None,
    tiling: Mapping[str, Mapping[str, Any]] | None = None, block_dim: int | Mapping[str, int] | None = None,
    disarm: Mapping[str, Sequence[str]] | None = None,
) -> AcceptedCall:  # fmt: skip
    """Phase one's checks; raises AclnnError with the status of the first rule that fails."""
    product = load_product("convolution_backward", chip.identity.product)
    profile = product.profile(conformance)
    if deterministic is None:
        deterministic = profile.deterministic_default.value
    result = check_conv_backward(call, product, conformance, deterministic)  # type: ignore[arg-type]
    if result.failure is not None:
        raise AclnnError(result.status, result.failure.message)
    normal = normalise(call)
    inputs = {name: tensor for name in INPUTS if (tensor := getattr(call, name)) is not None}
    choice = product.compute_dtype(promote(*(t.dtype for t in inputs.values())), call.cube_math_type, conformance)
    if choice.compute_dtype is None:
        raise AclnnError(choice.status, f"cubeMathType = {call.cube_math_type}: {choice.source}")
    mask = call.output_mask or ()
    outputs = {
        name: tensor
        for name, wanted in zip(GRADIENTS, mask, strict=True)
        if wanted and (tensor := getattr(call, name)) is not None
    }
    return AcceptedCall(
        normal.problem, normal.transposed, normal.rank, inputs, outputs, choice.compute_dtype, deterministic, conformance,
        tuple(result.warnings),
        per_kernel("tiling", tiling or {}), launch_sizes(block_dim), disarm or {},
        routes=frozenset(product.routes), kernel_limits=tuple(profile.kernel_limits),
        cube_math_type=call.cube_math_type, padded=any(normal.declared_padding),
    )  # fmt: skip


def make_plan(call: AcceptedCall, chip: ChipSpec) -> Plan:
    """The kernels of an accepted call on this chip.

    Raises TilingError for the user's own tiling, else AclnnError 561103, for TBC under `library` 161001: there any failure
    behind the checks comes back as a null pointer's status (ops-nn op_api of conv_tbc: stated).
    """
    status = Status.INNER_NULLPTR
    if call.operator == "conv_tbc_backward" and call.conformance == "library":
        status = Status.PARAM_NULLPTR
    try:
        plan = plan_call(call, chip)
    except TilingError as error:
        if call.tiling:
            raise
        raise AclnnError(status, f"no tiling fits: {error}") from error
    if plan.workspace_bytes > MOST_WORKSPACE:
        needs = f"the call needs {plan.workspace_bytes} bytes of workspace"
        raise AclnnError(status, f"{needs}: workspaceSize is a uint64, at most {MOST_WORKSPACE}")
    return plan


def per_kernel(what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The user's values by cube kernel; SimError for a kernel that there is not."""
    known = ("grad_input", "grad_weight")
    for name in values:
        if name not in known:
            raise SimError(f"{what}: no cube kernel {name!r}; allowed are {' and '.join(known)}")
    return values


def launch_sizes(block_dim: int | Mapping[str, int] | None) -> Mapping[str, int]:
    """Blocks to launch by cube kernel; a bare number means every one. SimError for anything but whole numbers from 1."""
    if block_dim is None:
        return {}
    each = block_dim if isinstance(block_dim, Mapping) else {"grad_input": block_dim, "grad_weight": block_dim}
    for name, count in per_kernel("block_dim", each).items():
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_BLOCKS:
            raise SimError(f"block_dim of {name}: {show(count)}; allowed is a whole number from 1 to {MOST_BLOCKS}")
    return each
