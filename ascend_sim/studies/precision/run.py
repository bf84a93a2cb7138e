"""One case in every precision that a product offers, with the cost and the errors of each.

    table = ascend_sim.precision("fp32_keep", chips=["ascend910b3"], accumulate="all")
    table.rows, table.to_dict(), table.passed

A row is an input dtype with a cubeMathType (and a model of the cube's additions). The same values are rounded to each input
dtype; errors are against float64 of those inputs, `correct` is the report's verdict, against float64 of what is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ascend_sim.calls.cases import call_case, check_case
from ascend_sim.calls.result import Result
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.host import one_thread
from ascend_sim.numerics import cast, compare, encode
from ascend_sim.numerics.accumulate import ACCUMULATIONS
from ascend_sim.numerics.cube_math import CUBE_MATH_TYPES
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.operator import Sums
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.verdicts.sums import sums_of
from ascend_sim.ops.verdicts.values import numbers, operand
from ascend_sim.ops.verdicts.values import typed as as_format
from ascend_sim.options.description import with_options
from ascend_sim.report.report import plain
from ascend_sim.report.shown import ShownResult
from ascend_sim.runtime import Progress, ValueModel
from ascend_sim.settings import check_options
from ascend_sim.studies.precision.errors import effective_bits, error_histogram, mean_error, rounding_effect
from ascend_sim.studies.precision.inputs import base_tensors, given_tensors, source_of, with_inputs
from ascend_sim.studies.precision.options import PrecisionOptions

Array = NDArray[Any]
DTYPES = ("float16", "bfloat16", "float32")
"""Input dtypes of the rows of every table."""


@frozen
class PrecisionRow:
    """One run of the case: an input dtype with a cubeMathType and a model of additions on one chip, with its cost and errors.

    `status` 0: ran; another code: refused, `message` says why; None: accepted, but it could not be simulated. `same_as` names
    an earlier cubeMathType with the same computation, whose figures stand here too. `total_us` is the end of the last kernel,
    `cube_cycles` the work of all cubes; a row that runs as a call for each gradient has their sums. `operands` maps a name to
    the effect of rounding (`rounding_effect`), `outputs` to figures: the metrics of `numerics.compare`, "computed_in",
    "products", "roundings", "correct", "decided_by", "worst_error_over_bound", "operand_bits" (loss of the operands alone),
    "machine_bits" (of the rest), "bias", "error_log2", and with `probe` "probe".
    """

    chip: str
    dtype: str
    cube_math_type: int
    accumulate: str
    status: int | None
    message: str = ""
    warning: str = ""
    compute_dtype: str | None = None
    same_as: int | None = None
    total_us: float | None = None
    cube_cycles: int = 0
    findings: int = 0
    operands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        what = f"{self.dtype} on {self.chip}, cube_math_type {self.cube_math_type}, {self.accumulate}"
        told = self.compute_dtype if self.status == 0 else "no kernels" if self.status is None else f"refused: {self.status}"
        return f"<PrecisionRow: {what}: {told}>"

    @property
    def passed(self) -> bool:
        """Return True if the row has no findings and every output is correct (also where nothing ran)."""
        return not self.findings and all(figures["correct"] for figures in self.outputs.values())


@frozen
class PrecisionTable(ShownResult):
    """The rows of one case in every precision, by input dtype, cubeMathType, chip and model; `inputs` says where the values
    are from, `l2` the state of the L2 before each call.

    `overflow` and `hf32_bits` are those of each chip. A table that was interrupted is not `complete`: it has the rows of the
    input dtypes that were finished.
    """

    case: str
    operator: str
    inputs: str
    conformance: str
    overflow: Mapping[str, str]
    hf32_bits: Mapping[str, int | None]
    rows: tuple[PrecisionRow, ...]
    complete: bool = True
    l2: str = "cold"

    _drawn = "ascend_sim.studies.precision.summary:render_summary"
    _options = MappingProxyType({"more": ""})

    def __repr__(self) -> str:
        verdict = "all correct" if self.passed else f"{sum(not row.passed for row in self.rows)} wrong"
        return f"<PrecisionTable of {self.case}, {self.inputs}: {len(self.rows)} rows, {verdict}>"

    @property
    def passed(self) -> bool:
        """Return True if no row has findings and each output is correct; rows that did not run count as passed."""
        return all(row.passed for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain dicts, lists and numbers for JSON; non-finite values are None."""
        return plain(asdict(self))


@with_options(PrecisionOptions)
def precision(
    case: str | Path | Case,
    *,
    chips: str | Sequence[str | Path | ChipSpec] | None = None,
    inputs: str | Path | None = None,
    dtypes: Sequence[str] | None = None,
    tensors: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
    **options: Unpack[PrecisionOptions],
) -> PrecisionTable:
    """Run a case in every precision of each chip (default: the case's chip) and return the table.

    `inputs`: a distribution ("uniform", "normal", "relu", "wide", "ones", "adversarial") or a `.npz` file; None: the case's.
    `dtypes`: of the inputs, row by row; None: the 16- and 32-bit ones, and the case's own if it has 8 bits. `tensors`: the
    caller's values in the case's shapes, by name, in place of `inputs`. With `probe` "decided_by" of an output names the test
    that decided its verdict. With adversarial inputs `correct` uses the rigorous bound. An interrupt (Ctrl-C) ends it with the
    input dtypes that were finished; before the first one it is raised. Raises SimError for unknown names, for `inputs` and
    `tensors` together, and for values that do not fit the case.
    """
    how = PrecisionOptions(**options)
    check_options(PrecisionOptions, {name: value for name, value in how.items() if value is not None})
    accumulate, overflow = how["accumulate"], how["overflow"]
    named = case if isinstance(case, Case) else load_case(case)
    name = "case" if isinstance(case, Case) else str(case)
    named = with_inputs(named, inputs)
    specs = [chip_of(chip) for chip in ([chips] if isinstance(chips, str) else chips or [named.chip])]
    names = list(ACCUMULATIONS) if accumulate == "all" else [accumulate] if isinstance(accumulate, str) else accumulate
    models = [[ValueModel.of(spec, model, overflow) for model in names] for spec in specs]
    if dtypes is None:
        dtypes = [*DTYPES, *dict.fromkeys(named.codes.values())]
    for dtype in dtypes:
        if dtype not in (*DTYPES, *EIGHT_BIT):
            raise SimError(f"dtype {dtype!r}: allowed are {', '.join((*DTYPES, *EIGHT_BIT))}")
    if tensors is not None and inputs is not None:
        raise SimError("inputs and tensors: give only one of them")
    base = base_tensors(named) if tensors is None else given_tensors(named, tensors)
    steps = len(dtypes) * len(CUBE_MATH_TYPES) * sum(map(len, models))
    bench = _Bench(named, base, how, progress, steps)
    rows: list[PrecisionRow] = []
    complete = True
    try:
        for dtype in dtypes:
            per_chip = [bench.rows(dtype, own) for own in models]
            rows += [row for number in CUBE_MATH_TYPES for own in per_chip for row in own if row.cube_math_type == number]
    except KeyboardInterrupt:
        if not rows:
            raise
        complete = False
    return PrecisionTable(
        case=name,
        operator=named.operator,
        inputs="given" if tensors is not None else source_of(named),
        conformance=bench.conformance,
        overflow={spec.name: own[0].overflow for spec, own in zip(specs, models, strict=True)},
        hf32_bits={spec.name: spec.cube.hf32_mantissa_bits for spec in specs},
        rows=tuple(rows),
        complete=complete,
        l2=named.l2,
    )


class _Bench:
    """Runner of the rows of one case.

    It keeps float64 sums of one input dtype, as other cubeMathTypes and chips use them too.
    """

    def __init__(
        self, case: Case, base: Mapping[str, Array], options: PrecisionOptions, progress: Progress | None, steps: int
    ) -> None:
        self.case = case
        self.base = base
        self.operator = OPERATORS[case.operator]
        self.conformance = options["conformance"] or case.conformance
        self.library, self.probe = options["library"], options["probe"]
        self.absolute = case.data.file is None and case.data.distribution == "adversarial"
        self._progress, self._steps, self._done = progress, steps, 0
        self._dtype = ""
        self._alone = False
        self._truths: dict[tuple[Any, ...], Sums] = {}

    def rows(self, dtype: str, models: Sequence[ValueModel]) -> list[PrecisionRow]:
        """Return the rows of one input dtype on one chip, by cubeMathType and then model, with values rounded to `dtype`."""
        if dtype != self._dtype:
            self._dtype = dtype
            self._truths.clear()
        case = self.case.in_dtype(dtype)
        with np.errstate(over="ignore"):
            round_input = encode if dtype in EIGHT_BIT else cast
            tensors = {name: round_input(array, dtype) for name, array in self.base.items()}
        known: dict[tuple[str, str], PrecisionRow] = {}
        found = []
        for number in CUBE_MATH_TYPES:
            for model in models:
                found.append(self._row(case, tensors, dtype, number, model, known))
                self._done += 1
                if self._progress:
                    self._progress("precision", self._done, self._steps)
        return found

    def _row(
        self,
        case: Case,
        tensors: Mapping[str, Array],
        dtype: str,
        number: int,
        model: ValueModel,
        known: dict[tuple[str, str], PrecisionRow],
    ) -> PrecisionRow:
        row = PrecisionRow(model.chip.name, dtype, number, model.accumulate, None)
        try:
            checked, _ = check_case(case, model.chip, cube_math_type=number, conformance=self.conformance)
            product = self.operator.product(model.chip)
        except AclnnError as error:  # the operator does not know the chip's product
            return replace(row, status=error.status, message=error.message)
        if checked.failure is not None:
            refused = replace(row, status=checked.status, message=checked.failure.message)
            return self._one_by_one(case, tensors, refused, model, known) or refused
        choice = product.compute_dtype(dtype, number, self.conformance)
        if choice.compute_dtype is None:
            return replace(row, status=choice.status, message=choice.source)
        row = replace(row, compute_dtype=choice.compute_dtype, warning=choice.warning or "")
        # Nothing behind the checks sees the cubeMathType, only the compute dtype that the table gives for it.
        same = known.get((choice.compute_dtype, model.accumulate))
        if same is not None:
            return replace(same, cube_math_type=number, warning=row.warning, same_as=same.cube_math_type)
        try:
            result = self._run(case, tensors, number, model)
        except AclnnError as error:
            return replace(row, status=error.status, message=error.message)
        except SimError as error:
            return replace(row, message=str(error))
        row = self._judged(row, result, tensors, model)
        known[choice.compute_dtype, model.accumulate] = row
        return row

    def _one_by_one(
        self,
        case: Case,
        tensors: Mapping[str, Array],
        refused: PrecisionRow,
        model: ValueModel,
        known: dict[tuple[str, str], PrecisionRow],
    ) -> PrecisionRow | None:
        """Run a refused 8-bit row as a call for each of grad_input and grad_weight that the case asks for, under conformance
        "library"; return one row with times, cycles and findings added.

        A later cubeMathType takes the first one's figures. None if the row has no 8-bit inputs or is such a call itself, the
        operator no output mask, or no such call runs.
        """
        mask = case.attributes.get("output_mask")
        if refused.dtype not in EIGHT_BIT or mask is None or self._alone:
            return None
        known_as = ("one by one", model.accumulate)
        if known_as in known:
            same = known[known_as]
            return replace(same, cube_math_type=refused.cube_math_type, same_as=same.cube_math_type)
        bench = copy(self)
        bench.conformance, bench._alone, bench._truths = "library", True, {}
        rows = []
        for index in (index for index in (0, 1) if mask[index]):
            alone = case.model_copy(update={"output_mask": tuple(number == index for number in range(3))})
            rows.append(bench._row(alone, tensors, refused.dtype, refused.cube_math_type, model, {}))
        ran = [row for row in rows if row.outputs]
        if not ran:
            return None
        outputs = {name: figures for row in ran for name, figures in row.outputs.items()}
        asked = zip(("grad_input", "grad_weight", "grad_bias"), mask, strict=True)
        left_out = [name for name, wanted in asked if wanted and name not in outputs]
        known[known_as] = replace(
            ran[0],
            warning="8-bit tensors take one gradient a call, under conformance library: a call each, times added"
            + (f"; {' and '.join(left_out)} refused" if left_out else ""),
            total_us=sum(row.total_us or 0.0 for row in ran),
            cube_cycles=sum(row.cube_cycles for row in ran),
            findings=sum(row.findings for row in ran),
            operands={name: effect for row in ran for name, effect in row.operands.items()},
            outputs=outputs,
        )
        return known[known_as]

    def _run(self, case: Case, tensors: Mapping[str, Array], number: int, model: ValueModel) -> Result:
        return call_case(
            case,
            tensors,
            cube_math_type=number,
            chip=model.chip,
            conformance=self.conformance,
            library=self.library,
            accumulate=model.accumulate,
            overflow=model.overflow,
            probe=self.probe,
        )

    # -- figures -------------------------------------------------------------------------------------------------------

    def _judged(self, row: PrecisionRow, result: Result, tensors: Mapping[str, Array], model: ValueModel) -> PrecisionRow:
        call = result.call
        assert call is not None
        ours = self.operator.by_our_names(tensors)
        given = {name: numbers(ours[name], tensor.dtype) for name, tensor in call.inputs.items()}
        with one_thread(), np.errstate(invalid="ignore", over="ignore"):
            inputs = self.operator.in_problem_order(call, given)
            returned = {name: as_format(codes, call.outputs[name].dtype) for name, codes in result.outputs.items()}
            outputs = self.operator.in_problem_order(call, returned)
            operands = self._operands(inputs, call.compute_dtype, model)
            figures = {name: self._figures(call, name, array, inputs, operands, model) for name, array in outputs.items()}
        for name, reported in result.report.outputs.items() if self.probe else ():
            # Both tests must find the output correct; a wrong one is decided by the bound, any other by the probe.
            probe, correct = reported["probe"], figures[name]["correct"]
            if probe["ran"]:
                decided_by = "probe" if correct else "bound"
                figures[name] |= {"correct": correct and probe["correct"], "decided_by": decided_by}
            figures[name]["probe"] = probe
        return replace(
            row,
            status=0,
            total_us=result.report.total_us,
            cube_cycles=sum(sum(kernel["cube_work_cycles"]) for kernel in result.report.kernels),
            findings=len(result.report.findings),
            operands={name: rounding_effect(inputs[name], seen) for name, seen in operands.items()},
            outputs=figures,
        )

    def _operands(self, inputs: Mapping[str, Array], compute: str, model: ValueModel) -> dict[str, Array]:
        """Return {name: array} of the operands that the cube multiplies, rounded to the `compute` dtype; inputs that are
        only added are left out.
        """
        factors = {name: array for name, array in inputs.items() if name not in self.operator.added}
        return {name: operand(array, compute, model) for name, array in factors.items()}

    def _figures(
        self,
        call: AcceptedCall,
        name: str,
        result: Array,
        inputs: Mapping[str, Array],
        operands: Mapping[str, Array],
        model: ValueModel,
    ) -> dict[str, Any]:
        operator, on_cube = self.operator, self.operator.summed(name) is None
        sums = self._truth(call, name, inputs, inputs, ())
        truth, compute = sums.total, operator.computed_in(call, name)
        if compute != call.compute_dtype and on_cube:
            operands = self._operands(inputs, compute, model)
        rounds = any(seen is not inputs[other] for other, seen in operands.items())
        if rounds and on_cube:
            key = (compute, model.chip.cube.hf32_mantissa_bits, model.saturate)
            sums = self._truth(call, name, operands, inputs, key)
        verdict = operator.verdict(call, name, result, sums, model, inputs=inputs)
        truth, total = truth.reshape(result.shape), sums.total.reshape(result.shape)
        dtype = call.outputs[name].dtype
        values = numbers(result, dtype).astype(np.float64)
        comparison = compare(result, truth, dtype=dtype, compute_dtype=compute).to_dict()
        return {
            "dtype": dtype,
            "computed_in": compute,
            "products": operator.products(call)[name],
            "roundings": operator.roundings(call, name),
            "correct": verdict.correct,
            "decided_by": "bound",
            "worst_error_over_bound": verdict.worst_error_over_bound,
            **{key: value for key, value in comparison.items() if key not in ("dtype", "compute_dtype")},
            "operand_bits": effective_bits(total, truth),
            "machine_bits": effective_bits(values, total),
            "bias": mean_error(values, truth),
            "error_log2": error_histogram(values, truth),
        }

    def _truth(
        self, call: AcceptedCall, name: str, operands: Mapping[str, Array], inputs: Mapping[str, Array], key: Any
    ) -> Sums:
        """Return the float64 sums of an output over `operands`; they are kept until the next input dtype by output and `key`,
        which identifies the rounding of the operands.
        """
        found = self._truths.get((name, key))
        if found is None:
            found = sums_of(self.operator, call, name, operands, inputs, absolute=self.absolute)
            self._truths[name, key] = found
        return found
