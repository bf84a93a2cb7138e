"""Cycles of a call's cube kernel after a change: the call is planned again and the kernel simulated alone.

    trials = Trials(operator, given, attributes, options, chip)
    trials.added("grad_input", {"batch": 2})                        # cycles, below zero where the kernel gets shorter
    trials.added("grad_input", {"tiling": {"grad_input": {"baseN": 128}}})

A kernel of few instructions is run whole. Of a long one block 0 alone, which takes milliseconds: it is assumed to have as much
work as any block, and to lose as much time to others on the same memories as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import ref

from ascend_sim.calls.tensors import TensorSpec, tensor_args
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.execute import tasks_without_values
from ascend_sim.ops.operator import Operator
from ascend_sim.ops.plan import Plan
from ascend_sim.options.commands import changed
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import AcceptOptions, PlanOptions, RunOptions
from ascend_sim.runtime import Recording, Task, run_tasks


class Trials:
    """Trials of changes to one call, of which it keeps shapes and options, no values; results are cached."""

    def __init__(
        self,
        operator: Operator[Any, Any],
        given: Mapping[str, Any],
        attributes: Mapping[str, Any],
        options: RunOptions,
        chip: ChipSpec,
    ) -> None:
        tensors = tensor_args(operator, given, options["dtypes"])
        self._specs = {name: None if one is None else TensorSpec(one.shape, one.dtype) for name, one in tensors.items()}
        self._operator, self._attributes, self._chip = operator, dict(attributes), chip
        self._options, self._warm = filled(PlanOptions, options), options["l2"] != "cold"
        self._known: dict[tuple[str, str, bool], int | None] = {}
        self._plans: dict[str, Plan | None] = {}
        self._run: Callable[[], Recording | None] = lambda: None

    def reuse(self, recording: Recording) -> None:
        """Use the programs in `recording`, of the unchanged call, in place of building them; only a weak reference is kept."""
        self._run = ref(recording)

    @property
    def batch(self) -> int:
        """Return the batch size of the call; 0 if it has none."""
        sizes = (spec.shape[axis] for name, axis in self._operator.batch_axes.items() if (spec := self._specs[name]))
        return next(sizes, 0)

    def added(self, kernel: str, change: Mapping[str, Any], *, whole: bool) -> int | None:
        """Return by how many cycles `kernel` gets longer with `change` (negative: shorter); `whole`: all its blocks, else block
        0 alone.

        `change` is {"batch": f} for f times the batch, or keywords of the call. None if either call is refused, or, without
        `whole`, if there are more blocks than cores, so that block 0 does not show the difference.
        """
        before, after = (self._cycles(kernel, one, whole) for one in ({}, change))
        return None if before is None or after is None else after - before

    def _cycles(self, kernel: str, change: Mapping[str, Any], whole: bool) -> int | None:
        """Return the result of `_tried`, cached by kernel, change and `whole`, because parts of a waterfall share changes."""
        key = (kernel, json.dumps(change, sort_keys=True), whole)
        if key not in self._known:
            self._known[key] = self._tried(kernel, change, whole)
        return self._known[key]

    def _tried(self, kernel: str, change: Mapping[str, Any], whole: bool) -> int | None:
        """Return the cycles of the kernel's launch, all blocks or block 0 alone, in the L2 that the call's earlier kernels
        leave if each moves its tensors once.

        None if the changed call is refused or has no such kernel, and, without `whole`, if it has more blocks than cores.
        """
        plan = self._plan_of(change)
        if plan is None:
            return None
        try:
            device, tasks = tasks_without_values(plan, self._chip, warm=self._warm)
        except SimError:
            return None
        task = next((one for one in tasks if one.name == kernel), None)
        for step, earlier in zip(plan.steps, tasks, strict=True):
            if earlier is task:
                break
            device.pass_over([(one, name not in step.inputs) for name, one in zip(step.tensors, earlier.tensors, strict=True)])
        if task is None or (task.block_dim > self._cores(task.core_kind) and not whole):
            return None
        if not change:
            task = self._built(task)
        if not whole:
            task = replace(task, block_dim=1)
        try:
            outcome = run_tasks(device, [task], {"mode": "timing", "timeline": False})
        except SimError:
            return None
        assert outcome.timeline is not None
        (span,) = outcome.timeline.tasks
        return span.finish - span.launch

    def _built(self, task: Task) -> Task:
        """Return a task of the unchanged call with the programs of its run; as it is if that is not held any more."""
        run = self._run()
        for index, launched in enumerate(run.tasks if run is not None else ()):
            if run is not None and launched.name == task.name:
                return replace(task, build=run.programs_of(index).__getitem__)
        return task

    def _plan_of(self, change: Mapping[str, Any]) -> Plan | None:
        """Return the plan of the call with a change, cached; None if the changed call is refused."""
        key = json.dumps(change, sort_keys=True)
        if key not in self._plans:
            try:
                self._plans[key] = self._planned(change)
            except SimError:
                self._plans[key] = None
        return self._plans[key]

    def _planned(self, change: Mapping[str, Any]) -> Plan:
        fields = dict(change)
        times = fields.pop("batch", 1)
        specs = self._specs
        if times != 1:
            specs = {name: self._larger(name, spec, times) for name, spec in specs.items()}
        how = filled(PlanOptions, changed(self._options, fields, self._operator.cube_kernels))
        arguments = self._operator.arguments(
            tensor_args(self._operator, specs),
            self._attributes,
            cube_math_type=how["cube_math_type"],
            conformance=how["conformance"],
        )
        call = self._operator.accept(arguments, self._chip, **filled(AcceptOptions, how))
        return self._operator.plan(call, self._chip)

    def _cores(self, kind: str) -> int:
        return self._chip.cores.aiv if kind == "AIV" else self._chip.cores.aic

    def _larger(self, name: str, spec: TensorSpec | None, times: int) -> TensorSpec | None:
        axis = self._operator.batch_axes.get(name)
        if spec is None or axis is None:
            return spec
        shape = list(spec.shape)
        shape[axis] *= times
        return TensorSpec(tuple(shape), spec.dtype)
