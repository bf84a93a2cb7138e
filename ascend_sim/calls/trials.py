"""Cycles of a call's cube kernel after a change: the call is planned again and the kernel simulated.

    trials = Trials(operator, given, attributes, options, chip, before)
    trials.added("grad_input", {"batch": 2}, whole=True)            # cycles below zero where the kernel gets shorter
    trials.added("grad_input", {"tiling": {"grad_input": {"baseN": 128}}}, whole=True)

A whole trial says what the kernel takes in the changed call: all its blocks, in the L2 that the earlier kernels leave. Calls
that fit the L2 find it by passing over these kernels, larger ones simulate them. Where that is too long, block 0 alone runs:
it is assumed to have as much work as any block, and to lose as much time to others on the same memories as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

from ascend_sim.calls.tensors import TensorSpec, tensor_args
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.execute import place
from ascend_sim.ops.operator import Operator
from ascend_sim.ops.plan import Plan
from ascend_sim.options.commands import changed
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import STEP, AcceptOptions, PlanOptions, RunOptions
from ascend_sim.report.advice import Added
from ascend_sim.runtime import Device, KernelMoves, Recording, Task, run_tasks

_MOST = 1_000_000
"""Instructions that a whole trial builds and simulates at most."""


class Trials:
    """Trials of changes to one call, of which it keeps shapes and options, no values and no strides; results are cached.

    `before` are the kernels of the training step before the call, for the option `l2="step"`.
    """

    def __init__(
        self,
        operator: Operator[Any, Any],
        given: Mapping[str, Any],
        attributes: Mapping[str, Any],
        options: RunOptions,
        chip: ChipSpec,
        before: Sequence[KernelMoves] | None = None,
    ) -> None:
        tensors = tensor_args(operator, given, options["dtypes"])
        self._specs = {name: None if one is None else TensorSpec(one.shape, one.dtype) for name, one in tensors.items()}
        self._operator, self._attributes, self._chip = operator, dict(attributes), chip
        self._options, self._before = filled(PlanOptions, options), before or ()
        self._l2, self._launches = options["l2"], options["launches"]
        self._known: dict[tuple[str, str, bool], int | None] = {}
        self._plans: dict[str, Plan | None] = {}
        self._lengths: dict[str, int] = {}
        self._course: tuple[str, Iterator[tuple[str, int]]] = "", iter(())
        self._run: Callable[[], Recording | None] = lambda: None

    def reuse(self, recording: Recording) -> None:
        """Use cycles, numbers of instructions and programs in `recording`, of the unchanged call, in place of simulating and
        building them; the recording itself is kept as a weak reference.
        """
        self._run = ref(recording)
        for index, span in enumerate(recording.timeline.tasks):
            self._lengths[span.task.name] = sum(len(run.program) for run in recording.timeline.of(index))
            self._known[span.task.name, _key({}), True] = span.finish - span.launch

    @property
    def batch(self) -> int:
        """Return the batch size of the call; 0 if it has none."""
        sizes = (spec.shape[axis] for name, axis in self._operator.batch_axes.items() if (spec := self._specs[name]))
        return next(sizes, 0)

    def added(self, kernel: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
        """Return by how many cycles `kernel` gets longer with `change` (negative: shorter); `whole`: all its blocks if they are
        few enough, else block 0 alone, as the result says.

        `change` is {"batch": f} for f times the batch, or keywords of the call. None if either call is refused or has no such
        kernel, or, of block 0, if there are more blocks than cores, so that it does not show the difference.
        """
        whole = whole and self._is_short(kernel, change)
        before, after = (self._cycles(kernel, one, whole) for one in ({}, change))
        return None if before is None or after is None else Added(after - before, whole)

    def _is_short(self, kernel: str, change: Mapping[str, Any]) -> bool:
        """Return True if a whole trial has at most `_MOST` instructions, and the L2 at its start is known: what a step of
        another batch leaves is not. False if the changed call is refused.

        Counted are the instructions of the run that `reuse` was given (without one none), times the batch's factor.
        """
        plan = self._plan_of(change)
        if plan is None or (self._l2 == STEP and "batch" in change):
            return False
        alone = self._fits(plan) or _is_own(kernel, change)
        names = [kernel] if alone else [step.name for step in plan.steps[: _place_of(plan, kernel) + 1]]
        return sum(self._lengths.get(name, 0) for name in names) * change.get("batch", 1) <= _MOST

    def _cycles(self, kernel: str, change: Mapping[str, Any], whole: bool) -> int | None:
        """Return the cycles of the kernel's launch in the changed call, all blocks or block 0 alone, cached.

        None if the changed call is refused or has no such kernel, and, without `whole`, if it has more blocks than cores.
        """
        key = (kernel, _key(change), whole)
        if key not in self._known:
            try:
                self._known[key] = self._tried(kernel, change, whole)
            except SimError:
                self._known[key] = None
        return self._known[key]

    def _tried(self, kernel: str, change: Mapping[str, Any], whole: bool) -> int | None:
        plan = self._plan_of(change)
        if plan is None or _place_of(plan, kernel) == len(plan.steps):
            return None
        device, tasks = self._placed(plan)
        task = tasks[_place_of(plan, kernel)]
        if whole and not self._fits(plan):
            return self._in_course(device, tasks, kernel, change)
        for step, earlier in zip(plan.steps, tasks, strict=True):
            if earlier is task:
                break
            device.repeat([earlier])
            device.pass_over([(one, name not in step.inputs) for name, one in zip(step.tensors, earlier.tensors, strict=True)])
        if not whole and task.block_dim > (self._chip.cores.aiv if task.core_kind == "AIV" else self._chip.cores.aic):
            return None
        if not change:
            task = self._built(task)
        return _cycles_of(device, task if whole else replace(task, block_dim=1))

    def _in_course(self, device: Device, tasks: Sequence[Task], kernel: str, change: Mapping[str, Any]) -> int | None:
        """Return the cycles of `kernel` after all `tasks` before it ran, or None if none of them is it; the next kernel of the
        same change goes on there.
        """
        key = _key(change)
        if self._course[0] != key:
            again = _is_own(kernel, change)
            launched = (self._built(task) if again and task.name != kernel else task for task in tasks)
            self._course = key, ((task.name, _cycles_of(device, task)) for task in launched)
        for name, cycles in self._course[1]:
            self._known[name, key, True] = cycles
            if name == kernel:
                return cycles
        return None

    def _placed(self, plan: Plan) -> tuple[Device, list[Task]]:
        """Return (a device without values, with the L2 and the code in the state in which the run found them; the launches of a
        plan on it).
        """
        device = Device(self._chip, with_values=False)
        tasks, held = place(plan, device, {})
        device.replay(self._before if self._l2 == STEP else (), held)
        for name in held if self._l2 == "warm" else ():
            if plan.tensors[name].role != "output":
                device.warm(held[name])
        device.repeat(tasks if self._launches == "warm" else ())
        return device, tasks

    def _fits(self, plan: Plan) -> bool:
        """Return True if nothing leaves the L2 in a call of this plan, so that the order of transfers does not change it; False
        in a training step.
        """
        line, memory = self._chip.memory.l2_line_bytes, self._chip.memory
        sizes = [one.size for one in plan.tensors.values() if one.role != "workspace"]
        lines = sum(-(-size // line) + 1 for size in (*sizes, plan.workspace_bytes))
        return self._l2 != STEP and lines * line <= memory.l2_bytes

    def _built(self, task: Task) -> Task:
        """Return a task of the unchanged call with the programs of its run; as it is if that is not held any more."""
        run = self._run()
        for index, launched in enumerate(run.tasks if run is not None else ()):
            if run is not None and launched.name == task.name:
                return replace(task, build=run.programs_of(index).__getitem__)
        return task

    def _plan_of(self, change: Mapping[str, Any]) -> Plan | None:
        """Return the plan of the call with a change, cached; None if the changed call is refused."""
        key = _key(change)
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

    def _larger(self, name: str, spec: TensorSpec | None, times: int) -> TensorSpec | None:
        axis = self._operator.batch_axes.get(name)
        if spec is None or axis is None:
            return spec
        shape = list(spec.shape)
        shape[axis] *= times
        return TensorSpec(tuple(shape), spec.dtype)


def _key(change: Mapping[str, Any]) -> str:
    return json.dumps(change, sort_keys=True)


def _is_own(kernel: str, change: Mapping[str, Any]) -> bool:
    """Return True if a change sets nothing but fields or blocks of this kernel, so that all kernels before it stay as they are;
    also for {}.
    """
    return all(name in ("tiling", "block_dim") and value.keys() == {kernel} for name, value in change.items())


def _place_of(plan: Plan, kernel: str) -> int:
    """Return the place of a kernel among the steps of a plan; their number if there is none of this name."""
    return next((place for place, step in enumerate(plan.steps) if step.name == kernel), len(plan.steps))


def _cycles_of(device: Device, task: Task) -> int:
    """Run a task on a device and return its cycles from launch to end."""
    timeline = run_tasks(device, [task], {"mode": "timing", "timeline": False}).timeline
    assert timeline is not None
    (span,) = timeline.tasks
    return span.finish - span.launch
