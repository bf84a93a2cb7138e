"""The operators in Python: arrays in, gradients and a report out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.critical_path import critical_path
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.numerics import canonical, numpy_dtype
from ascend_sim.ops.arguments import EIGHT_BIT, TensorArg
from ascend_sim.ops.call import GRADIENTS, INPUTS, AcceptedCall
from ascend_sim.ops.case import Case
from ascend_sim.ops.checks import load_product
from ascend_sim.ops.checks.rules import CheckResult, Failure, Rule
from ascend_sim.ops.execute import Execution, execute, gradient
from ascend_sim.ops.operators.conv_tbc_backward import checks as conv_tbc
from ascend_sim.ops.operators.conv_tbc_backward.accept import accept_tbc
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.conv_tbc_backward.checks import check_conv_tbc
from ascend_sim.ops.operators.convolution_backward.accept import accept, make_plan
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.operators.convolution_backward.checks import rules as conv_backward
from ascend_sim.ops.operators.convolution_backward.checks.rules import check_conv_backward
from ascend_sim.ops.operators.convolution_backward.verdicts import judge
from ascend_sim.report.report import Report
from ascend_sim.report.words import words
from ascend_sim.runtime import Observer, Progress, Recording, ValueModel
from ascend_sim.settings import check_kinds, is_whole_number

Array = NDArray[Any]
_FORMATS = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor without values, for `timing` mode: shape and dtype (a name such as "float16", or a numpy dtype)."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        check_kinds({"shape": self.shape})
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))


@dataclass
class Result:
    """Gradients in the caller's layout and dtype (None where masked off or in timing mode), and the report.

    `dtypes` names every gradient's format; `timeline`, `call` and `tasks` are what the report was made from, `recording`
    (None in functional mode) is what pictures and further runs are made from.
    """

    grad_input: Array | None
    grad_weight: Array | None
    grad_bias: Array | None
    report: Report
    dtypes: dict[str, str]
    timeline: Timeline | None = field(repr=False, default=None)
    call: AcceptedCall | None = field(repr=False, default=None)
    tasks: list[Any] = field(repr=False, default_factory=list)
    recording: Recording | None = field(repr=False, default=None)

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradients that there are, by name."""
        found = {name: getattr(self, name) for name in GRADIENTS}
        return {name: value for name, value in found.items() if value is not None}

    def write_html(self, path: str | Path, *, what_if: bool = True) -> None:
        """Write the run as one page; with `what_if` the programs run again with each rate of the chip doubled.

        Raises SimError in functional mode, which has no times, and without Plotly.
        """
        from ascend_sim.report import page
        from ascend_sim.report.what_if import what_if as run_again

        if self.recording is None:
            raise SimError("write_html: a run in functional mode has no times to show")
        page.check_plotly()
        outcomes = run_again(self.recording) if what_if else None
        page.write_page(path, self.recording, self.report.to_dict(), outcomes)

    def _repr_html_(self) -> str:
        """For notebooks: the report, and where the time went."""
        if self.recording is None:
            return self.report._repr_html_()
        path = critical_path(self.recording.timeline)
        said = words(self.recording, self.report.to_dict(), path, None)
        return self.report._repr_html_() + "".join(f"<p>{escape(text)}</p>" for text in said)


def convolution_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
    *,
    cube_math_type: int = 0,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    deterministic: bool | None = None,
    conformance: str = "documented",
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    block_dim: int | Mapping[str, int] | None = None,
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    disarm: Mapping[str, Sequence[str]] | None = None,
    dtypes: str | Mapping[str, str] | None = None,
) -> Result:
    """Run convolution backward on a simulated chip; arguments in the order of torch's `convolution_backward`.

    `grad_output` [N, C_out, H_out, W_out], `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w] are numpy
    arrays (fp16, fp32, ml_dtypes bfloat16 and float8_e4m3fn; strided views allowed) or, in timing mode, `TensorSpec`s.
    uint8 arrays are codes, whose format `dtypes` names: "hifloat8" or "float8_e4m3fn" for all of them, or by tensor. 8-bit
    results are uint8 codes too, named in `Result.dtypes`; gradWeight of 8-bit tensors is float32. `bias_sizes` None means
    [C_out]. `tiling` and `block_dim` say which kernel they mean ({"grad_input": {"baseM": 336}}); a bare number of
    blocks means both. `accumulate` names a model of the cube's additions ("blas", "chunk", "exact_group"), `overflow` is
    "inf_nan" or "saturate" (None: the chip's default). `disarm` names flags whose waits hold nothing, per kernel (an
    experiment), `observer` looks at memory while `full` mode computes values. `engine` is "auto" (None), "simpy" or "compiled":
    the same results at another speed.

    Raises AclnnError (with `.status`) where the operator refuses the call, TilingError for a tiling that does not fit, and
    other SimErrors for arguments that the simulator itself cannot take.
    """
    check_kinds(locals())
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
    given = {"grad_output": grad_output, "input": input, "weight": weight}
    call = _call(
        given, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask, cube_math_type,
        conformance, dtypes,
    )  # fmt: skip
    accepted = accept(
        call,
        spec,
        conformance=conformance,
        deterministic=deterministic,
        tiling=tiling,
        block_dim=block_dim,
        disarm=disarm,
    )
    model = ValueModel.of(spec, accumulate, overflow)
    return _run_call(
        accepted, model, given, _describe(accepted, call, l2), mode, l2, progress, max_cycles, observer, engine
    )


def conv_tbc_backward(
    self: Any,
    input: Any,
    weight: Any,
    bias: Any,
    pad: int,
    *,
    grad_weight_dtype: str | None = None,
    cube_math_type: int = 0,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    deterministic: bool | None = None,
    conformance: str = "documented",
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    block_dim: int | Mapping[str, int] | None = None,
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    dtypes: str | Mapping[str, str] | None = None,
) -> Result:
    """Run the backward of a convolution over time on a simulated chip.

    `self` is the gradient of the output [T_out, B, C_out], `input` [T_in, B, C_in], `weight` [K, C_in, C_out], `bias`
    [C_out] (only its shape and dtype matter). `grad_weight_dtype` may name another dtype for gradWeight where the product
    allows it; 8-bit results are uint8 codes, named in `dtypes`. The rest is as in `convolution_backward`.
    """
    check_kinds(locals())
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
    given = {"grad_output": self, "input": input, "weight": weight}
    tensors = {"self": self, "input": input, "weight": weight, "bias": bias}
    call = _tbc_call(tensors, pad, grad_weight_dtype, cube_math_type, dtypes)
    accepted = accept_tbc(
        call, spec, conformance=conformance, deterministic=deterministic, tiling=tiling, block_dim=block_dim
    )
    model = ValueModel.of(spec, accumulate, overflow)
    return _run_call(
        accepted, model, given, _describe_tbc(accepted, call, l2), mode, l2, progress, max_cycles, observer, engine
    )


def call_case(case: Case, values: Mapping[str, Any], **options: Any) -> Result:
    """Run a case with `values` by name, as `make_tensors` gives them; `options` are the keywords of its operator."""
    operator: Any = conv_tbc_backward if case.operator == "conv_tbc_backward" else convolution_backward
    return operator(*(values[name] for name in case.tensors), **case.attributes, dtypes=case.codes, **options)  # type: ignore[no-any-return]


def check_fits(tensors: Mapping[str, tuple[Sequence[int], str]], spec: ChipSpec) -> None:
    """SimError when tensors (name -> shape, dtype) alone are larger than the chip's memory: no plan is worth making."""
    total = sum(prod(shape) * int(numpy_dtype(dtype).itemsize) for shape, dtype in tensors.values())
    if total > spec.memory.hbm_bytes:
        raise SimError(
            f"the tensors {', '.join(tensors)} take {total} bytes; {spec.name} has {spec.memory.hbm_bytes} "
            f"(chip file, memory.hbm_bytes)"
        )


def _run_call(
    accepted: AcceptedCall, model: ValueModel, given: Mapping[str, Any], problem: dict[str, Any], mode: str, l2: str,
    progress: Progress | None, max_cycles: int | None, observer: Observer | None = None, engine: str | None = None,
) -> Result:  # fmt: skip
    """Plan, run and report an accepted call; `given` are the caller's arrays or TensorSpecs by our names."""
    spec = model.chip
    problem |= {"accumulate": model.accumulate, "overflow": model.overflow}
    check_fits({name: (tensor.shape, tensor.dtype) for name, tensor in accepted.inputs.items()}, spec)
    plan = make_plan(accepted, spec)
    arrays = {name: value for name, value in given.items() if not isinstance(value, TensorSpec)}
    if mode != "timing" and len(arrays) < len(given):
        missing = [name for name in given if name not in arrays]
        raise SimError(
            f"mode {mode!r} needs values, but {', '.join(missing)} is a TensorSpec; only timing runs without"
        )
    storages = {name: None if mode == "timing" else _storage(given[name])[0] for name in INPUTS}
    run = execute(
        plan,
        spec,
        storages,
        mode,
        l2=l2,
        progress=progress,
        max_cycles=max_cycles,
        model=model,
        observer=observer,
        engine=engine,
    )
    gradients = {}
    if mode != "timing":
        gradients = {name: gradient(accepted, allocation, name) for name, allocation in run.outputs.items()}
    outcome = run.outcome
    _check_disarmed(accepted, run)
    report = Report.build(
        spec,
        outcome.timeline if outcome.timeline is not None else outcome.programs,
        run.tasks,
        mode=mode,
        problem=problem,
        gradients=partial(judge, accepted, spec, arrays, gradients, model) if gradients else None,
        findings=outcome.findings,
        warnings=accepted.warnings,
        workspace_bytes=plan.workspace_bytes,
        l2=l2,
        plan=plan.rows(),
    )
    dtypes = {name: tensor.dtype for name, tensor in accepted.outputs.items()}
    found: dict[str, Any] = {name: gradients.get(name) for name in GRADIENTS}
    timeline = outcome.timeline
    return Result(
        **found,
        report=report,
        dtypes=dtypes,
        timeline=timeline,
        call=accepted,
        tasks=run.tasks,
        recording=None if timeline is None else Recording(spec, timeline, run.tasks, run.warm),
    )


def _check_disarmed(call: AcceptedCall, run: Execution) -> None:
    """Refuse names of kernels and flags that the run did not have: an experiment without effect misleads."""
    names = [task.name for task in run.tasks]
    for kernel, wanted in call.disarm.items():
        if kernel not in names:
            raise SimError(f"disarm: no kernel {kernel!r}; this call has {', '.join(names)}")
        flags = {
            flag for task, program in run.outcome.programs if names[task] == kernel for flag in program.flag_names()
        }
        unknown = [flag for flag in wanted if flag not in flags]
        if unknown:
            known = ", ".join(sorted(flags)) or "none"
            raise SimError(f"disarm: no flag {unknown[0]!r} in {kernel}; it has {known}")


def _tbc_call(
    given: Mapping[str, Any], pad: int, grad_weight_dtype: str | None, cube_math_type: int,
    dtypes: str | Mapping[str, str] | None = None,
) -> ConvTbcCall:  # fmt: skip
    """The vendor's argument list; outputs have the shapes and dtypes that the documents ask for."""
    formats = _code_formats(given, dtypes)
    tensors: dict[str, Any] = {name: _argument(name, value, "ND", formats.get(name)) for name, value in given.items()}
    wanted = tensors["weight"].dtype if grad_weight_dtype is None else _dtype_name(grad_weight_dtype)
    grad_output, features, weight, bias = tensors.values()
    return ConvTbcCall(
        grad_output, features, weight, bias, int(pad), int(cube_math_type),
        TensorArg(tensors["input"].shape, tensors["input"].dtype),
        TensorArg(tensors["weight"].shape, wanted),
        TensorArg(tensors["bias"].shape, tensors["bias"].dtype),
    )  # fmt: skip


def check_case(case: Case, spec: ChipSpec, cube_math_type: int, conformance: str) -> tuple[CheckResult, list[Rule]]:
    """What the checks of the case's operator say of it, and all their rules in order."""
    product = load_product(case.operator, spec.identity.product)
    default = product.profile(conformance).deterministic_default.value
    deterministic = default if case.deterministic is None else case.deterministic
    specs = {name: TensorSpec(shape, dtype) for name, (shape, dtype) in case.tensors.items()}
    if case.operator == "conv_tbc_backward":
        call = _tbc_call(specs, case.attributes["pad"], case.attributes["grad_weight_dtype"], cube_math_type)
        return check_conv_tbc(call, product, conformance, deterministic), list(conv_tbc.RULES)  # type: ignore[arg-type]
    arguments = _call(specs, **_in_order(case.attributes), cube_math_type=cube_math_type, conformance=conformance)
    return check_conv_backward(arguments, product, conformance, deterministic), list(conv_backward.RULES)  # type: ignore[arg-type]


def phase_one_of_case(
    case: Case, spec: ChipSpec, cube_math_type: int, conformance: str
) -> tuple[CheckResult, list[Rule]]:
    """`check_case`, and behind the rules the plan as one more: the whole of GetWorkspaceSize."""
    result, rules = check_case(case, spec, cube_math_type, conformance)
    rules.append(Rule("plan", "ruling 9: kernels and tilings that take the problem", lambda _: None))
    if result.failure is not None:
        return replace(result, trace=[*result.trace, ("plan", "not reached")]), rules
    try:
        make_plan(accept_case(case, spec, cube_math_type=cube_math_type, conformance=conformance), spec)
    except AclnnError as error:
        failed = Failure(int(error.status), error.message)
        return CheckResult(failed.status, failed, [*result.trace, ("plan", "fail")]), rules
    return replace(result, trace=[*result.trace, ("plan", "pass")]), rules


def accept_case(
    case: Case, spec: ChipSpec, *, cube_math_type: int | None = None, deterministic: bool | None = None,
    conformance: str | None = None,
) -> AcceptedCall:  # fmt: skip
    """A case as an accepted call on `spec`, without values; what is None is the case's. Raises AclnnError as the call does."""
    specs = {name: TensorSpec(shape, dtype) for name, (shape, dtype) in case.tensors.items()}
    number = case.cube_math_type if cube_math_type is None else cube_math_type
    profile, fixed = conformance or case.conformance, case.deterministic if deterministic is None else deterministic
    attributes = case.attributes
    if case.operator == "conv_tbc_backward":
        tbc = _tbc_call(specs, attributes["pad"], attributes["grad_weight_dtype"], number)
        return accept_tbc(tbc, spec, conformance=profile, deterministic=fixed)
    call = _call(specs, **_in_order(attributes), cube_math_type=number, conformance=profile)
    return accept(call, spec, conformance=profile, deterministic=fixed)


def _in_order(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of convolution_backward between its tensors and cubeMathType."""
    order = ("bias_sizes", "stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask")
    return {name: attributes[name] for name in order}


def _call(
    given: Mapping[str, Any], bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, output_mask: Any, cube_math_type: int, conformance: str = "documented",
    dtypes: str | Mapping[str, str] | None = None,
) -> ConvBackwardCall:  # fmt: skip
    """The vendor's argument list; outputs have the shapes and dtypes that the documents ask for.

    Outputs that are masked off are null where they may be, in the library: its 8-bit rules look at every output given.
    """
    formats = _code_formats(given, dtypes)
    tensors: dict[str, Any] = {name: _argument(name, value, None, formats.get(name)) for name, value in given.items()}
    dy, weight = tensors["grad_output"], tensors["weight"]
    channels = dy.shape[1] if len(dy.shape) > 1 else 0
    lists = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    for name, value in lists.items():
        if is_whole_number(value):
            lists[name] = (int(value),) * max(len(weight.shape) - 2, 1)
    mask = None if output_mask is None else tuple(bool(wanted) for wanted in output_mask)
    wanted = (*(mask or ()), False, False, False)
    pointers = conformance != "library"  # the documents want them whatever the mask (ruling 5)
    grad_input = TensorArg(tensors["input"].shape, tensors["input"].dtype, tensors["input"].format)
    grad_weight = TensorArg(weight.shape, "float32" if weight.dtype in EIGHT_BIT else weight.dtype, weight.format)
    return ConvBackwardCall(
        **tensors,
        bias_sizes=(channels,) if bias_sizes is None else bias_sizes,
        **lists,
        transposed=bool(transposed),
        groups=int(groups),
        output_mask=mask,
        cube_math_type=int(cube_math_type),
        grad_input=grad_input if wanted[0] or pointers else None,
        grad_weight=grad_weight if wanted[1] or pointers else None,
        grad_bias=TensorArg((channels,), dy.dtype, "ND") if wanted[2] else None,
    )


def _code_formats(given: Mapping[str, Any], dtypes: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """The format of every tensor that is uint8 codes; SimError for a name or a format that there is not."""
    codes = [name for name, value in given.items() if isinstance(value, np.ndarray) and value.dtype == np.uint8]
    formats = dict.fromkeys(codes, dtypes) if isinstance(dtypes, str) else dict(dtypes or {})
    if isinstance(dtypes, str) and not codes:
        raise SimError(f"dtypes {dtypes!r}: no tensor is an array of uint8 codes")
    for name, format in formats.items():
        if name not in given:
            raise SimError(f"dtypes: no tensor {name!r}; there are {', '.join(given)}")
        if format not in EIGHT_BIT:
            raise SimError(f"dtypes: {format!r} given for {name}; uint8 codes are {' or '.join(EIGHT_BIT)}")
        if isinstance(given[name], np.ndarray) and name not in codes:
            raise SimError(f"dtypes: {name} is an array of {given[name].dtype}; only uint8 codes need a format")
    return formats


def _argument(name: str, value: Any, format: str | None = None, codes: str | None = None) -> TensorArg:
    """An array or a TensorSpec as an argument of the operator; `codes` is the format of uint8 codes."""
    if isinstance(value, TensorSpec):
        return TensorArg(value.shape, _dtype_name(value.dtype), format or _FORMATS.get(len(value.shape), "ND"))
    if not isinstance(value, np.ndarray):
        raise SimError(f"{name} must be a numpy array or a TensorSpec, not {type(value).__name__}")
    if not value.dtype.isnative:
        raise SimError(f"{name} has byte order {value.dtype.str!r}; allowed is the machine's own, {value.dtype.name}")
    dtype = codes or _dtype_name(value.dtype)
    format = format or _FORMATS.get(value.ndim, "ND")
    if value.flags.c_contiguous:
        return TensorArg(value.shape, dtype, format)
    storage, strides, offset = _storage(value)
    return TensorArg(value.shape, dtype, format, strides, offset, storage.shape)


def _dtype_name(dtype: Any) -> str:
    """Our name of a dtype; names that we do not know stay, for the checks to refuse."""
    try:
        return canonical(dtype)
    except SimError:
        return str(dtype)


def _storage(array: Array) -> tuple[Array, tuple[int, ...] | None, int]:
    """The flat memory under an array, its strides in elements and the offset of its first element."""
    if array.flags.c_contiguous:
        return array.reshape(-1), None, 0
    if array.size == 0 or any(stride % array.itemsize for stride in array.strides):
        return np.ascontiguousarray(array).reshape(-1), None, 0
    strides = tuple(stride // array.itemsize for stride in array.strides)
    steps = [(size - 1) * stride for size, stride in zip(array.shape, strides, strict=True)]
    offset = -sum(step for step in steps if step < 0)
    count = offset + sum(step for step in steps if step > 0) + 1
    first = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    return np.lib.stride_tricks.as_strided(first, (count,), (array.itemsize,)).copy(), strides, offset


def _describe(call: AcceptedCall, given: ConvBackwardCall, l2: str) -> dict[str, Any]:
    """The problem in the report."""
    macs = {name: call.problem.macs for name in ("grad_input", "grad_weight") if name in call.outputs}
    return {
        "operator": "convolution_backward",
        "tensors": {name: {"shape": list(t.shape), "dtype": t.dtype} for name, t in call.inputs.items()},
        "stride": list(given.stride or ()),
        "padding": list(given.padding or ()),
        "dilation": list(given.dilation or ()),
        "groups": given.groups,
        "output_mask": list(given.output_mask or ()),
        "cube_math_type": given.cube_math_type,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        "l2": l2,
        "macs": macs,
    }


def _describe_tbc(call: AcceptedCall, given: ConvTbcCall, l2: str) -> dict[str, Any]:
    """The problem in the report."""
    tensors = {"self": given.self, "input": given.input, "weight": given.weight, "bias": given.bias}
    return {
        "operator": "conv_tbc_backward",
        "tensors": {name: {"shape": list(t.shape), "dtype": t.dtype} for name, t in tensors.items() if t is not None},
        "pad": given.pad,
        "cube_math_type": given.cube_math_type,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        "l2": l2,
        "macs": {} if call.empty else dict.fromkeys(("grad_input", "grad_weight"), call.problem.macs),
    }
