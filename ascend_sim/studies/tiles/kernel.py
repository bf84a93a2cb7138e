"""One cube kernel of a call under different tilings: the tilings, their bounds and their simulation."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import watched
from ascend_sim.errors import CycleLimitError, SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.kernel.program import Program
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.execute import tasks_without_values
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_weight.capacity import grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.tilings import TILINGS, settable, tilings_that_fit
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan, PlanStep
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.options.description import check_choices
from ascend_sim.report.counts import Counts
from ascend_sim.report.report import timed_kernel
from ascend_sim.studies.tiles.bounds import Bounds, Tiling
from ascend_sim.studies.tiles.options import IN_CALL, L2_OF_KERNEL, SearchOptions

Fields = Mapping[str, int]
"""A tiling as a user sets it: fields by the vendor's names. No fields: the simulator's own choice."""


@mutable(eq=False)
class TilingLaunch:
    """A kernel with one tiling, ready to run on a fresh device; blocks `built` for a bound are kept for the run."""

    device: Device
    task: Task
    built: dict[int, Sequence[Program]] = field(default_factory=dict)

    def build(self, block: int) -> Sequence[Program]:
        """Return the programs of a block, from `built` or made now; these are not kept."""
        return self.built.get(block) or self.task.build(block)


@frozen
class CubeKernel:
    """Kernel "grad_input" or "grad_weight" of `call` on `chip`, to be tried with many tilings; it can be pickled for worker
    processes.

    `l2` is the state of the L2 at its launch. "call": as the kernels before it in the call leave a cold L2. "warm": with its
    operands, as far as they fit. "cold": empty. `launches` "warm": the same launches ran just before.
    """

    chip: ChipSpec
    call: ConvolutionCall
    name: str
    l2: str = "warm"
    launches: str = "cold"

    def __repr__(self) -> str:
        return f"<CubeKernel {self.name} of {self.call.operator} on {self.chip.name}, l2 {self.l2}>"

    @classmethod
    def of(cls, call: AcceptedCall, chip: ChipSpec, name: str, l2: str = "warm", launches: str = "cold") -> CubeKernel:
        """Return the kernel `name` of a call.

        Raises SimError for an unknown name, `l2` or `launches`, and if the call has no such kernel or it takes no fields.
        """
        if l2 not in L2_OF_KERNEL:
            raise SimError(f"l2 {l2!r}: allowed are {', '.join(L2_OF_KERNEL[:-1])} and {L2_OF_KERNEL[-1]}")
        check_choices(SearchOptions, {"launches": launches})
        if name not in TILINGS:
            raise SimError(f"no cube kernel {name!r}; allowed are {' and '.join(TILINGS)}")
        OPERATORS[call.operator].cube_call(call, chip, name)
        assert isinstance(call, ConvolutionCall)  # no other has cube calls
        return cls(chip, call, name, l2, launches)

    @property
    def _cube_call(self) -> CubeCall:
        """Return the `CubeCall` of this kernel: the part of the call that it computes."""
        return OPERATORS[self.call.operator].cube_call(self.call, self.chip, self.name)

    @property
    def inp(self) -> TilingInput:
        """Return the kernel's `TilingInput`: problem, chip family and dtype, from which its tiling is chosen."""
        return self._cube_call.inp

    def grid(self, fixed: Mapping[str, Any] | None = None) -> Iterator[Tiling]:
        """Yield every tiling of the grid that fits and has the `fixed` fields. Raises TilingError for impossible fields, at the
        first tiling that is asked for.
        """
        return tilings_that_fit(self.name, self.inp, fixed, self.chip)

    def tilings(self, fixed: Mapping[str, Any] | None = None) -> Iterator[tuple[Fields, Tiling]]:
        """Yield (fields as a user would set them, tiling) for every tiling that `grid` yields."""
        inp = self.inp
        return ((settable(tiling, inp), tiling) for tiling in self.grid(fixed))

    def bounds(self) -> Bounds:
        """Return the lower bounds of the kernel's tilings, computed from their numbers."""
        return Bounds(self._cube_call, self._step({})[1].op_type, cold=self.l2 == "cold")

    def _step(self, fields: Fields | None) -> tuple[Plan, PlanStep]:
        """Return (plan of the call with these fields, this kernel's step in it); None leaves the call's own tiling."""
        call = self.call
        if fields is not None:
            call = replace(call, tiling={**call.tiling, self.name: dict(fields)})
        plan = OPERATORS[call.operator].plan(call, self.chip)
        return plan, next(step for step in plan.steps if step.name == self.name)

    def before(self) -> list[dict[str, Any]]:
        """Return the rows of the call's plan for the kernels that it launches before this one, as plain data."""
        rows = self._step(None)[0].rows()
        return rows[: next(place for place, row in enumerate(rows) if row["name"] == self.name)]

    def launch(self, fields: Fields | None) -> tuple[Device, Task]:
        """Return (device in the kernel's L2 state, the kernel's task on it). Raises TilingError for fields that do not fit.

        `fields` None launches the kernel as the call does. {} launches the kernel that takes fields with those that it chooses
        itself: on 910B not the older grad_weight kernel, which takes no tiling. With `l2` "call" the devices of several
        launches have one L2Cache in common: set `device.l2 = device.l2.copy()` before a run.
        """
        plan, step = self._step(fields)
        if self.l2 == IN_CALL:
            device, tasks = tasks_without_values(plan, self.chip)
            place = plan.steps.index(step)
            device.l2 = self._left_by(plan, tasks[:place])
            device.repeat((*tasks, *tasks[:place]) if self.launches == "warm" else ())
            return device, tasks[place]
        device = Device(self.chip, with_values=False)
        tensors = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
        if self.l2 == "warm":
            for name in step.inputs:
                device.warm(tensors[name])
        task = step.make(self.chip, tensors)
        device.repeat([task] if self.launches == "warm" else ())
        return device, task

    def _left_by(self, plan: Plan, tasks: Sequence[Task]) -> L2Cache:
        """Return the L2 after `tasks`, the first kernels of a call; the four last states are kept and shared, so run a
        kernel on a copy.
        """
        places = [[task.op_type, task.name, *((one.base, one.size) for one in task.tensors)] for task in tasks]
        call = self.call
        said = [self.chip.name, call.operator, call.rank, call.compute_dtype, call.deterministic, call.library]
        others = {name: sorted(fields.items()) for name, fields in call.tiling.items() if name != self.name}
        told = [*said, others, sorted(call.block_dim.items()), plan.rows()[: len(tasks)], places]
        key = (self.chip, call.problem, json.dumps(told, default=str))
        if key not in _LEFT:
            device = Device(self.chip, with_values=False)
            Engine(device).run(tasks, keep=False)
            _LEFT[key] = device.l2
            if len(_LEFT) > _MOST_LEFT:
                _LEFT.popitem(last=False)
        return _LEFT[key]

    def sharper_bound(self, bounds: Bounds, fields: Fields, block: int, launch: TilingLaunch | None = None) -> int:
        """Return a lower bound of a tiling's cycles: those of `block`, the one with the most work, run alone with its flags and
        waits, every transfer at the speed of its port.

        Every product has the shorter head, so that no delay by other blocks could save a cycle. Blocks of a MIX kernel may wait
        for each other: for it the bound is only the block's first cycle. `launch` is the tiling's launch if it exists already;
        it then keeps the built block.
        """
        launch = launch or TilingLaunch(*self.launch(fields))
        task = launch.task
        if task.core_kind == "MIX":
            return bounds.start(block)
        launch.built[block] = task.build(block)
        chip = _with_short_heads(self.chip)
        programs = [replace(one, table=one.table.on(chip)) for one in launch.built[block]]
        device = Device(chip, with_values=False)
        tensors = [device.allocate(tensor.size, tensor.name) for tensor in task.tensors]
        alone = replace(task, block_dim=1, tensors=tensors, build=lambda _: programs)
        timeline = Engine(device, shared_gm=False).run([alone])
        return bounds.start(block) + timeline.finish - min(run.begin for run in timeline.programs)

    def simulate(self, fields: Fields | None, most: int | None = None, launch: TilingLaunch | None = None) -> dict[str, Any]:
        """Run one launch in `timing` mode and return its figures as a dict; `fields` as for `launch`.

        A run of more than `most` cycles is stopped: the dict has only "slower_than" (`most`) and "fields". Else it has "fields"
        as given ({} for None), "cycles" from launch to end, "us" the same, "busy" the share of the cores' time by pipe, "bytes"
        by path, "stall" {"cause", "share"} of the busiest pipe "bottleneck" (None: it never stalls), "l1" bytes of L1 that the
        tiling takes, "findings" of the hazard check, "tiling" every field and its "source", "op_type" and "blocks"; without
        fields "ladder", its rungs.
        `launch` is the tiling's launch if it exists already.
        """
        launch = launch or TilingLaunch(*self.launch(fields))
        task = replace(launch.task, build=launch.build)
        if self.l2 == IN_CALL:
            launch.device.l2 = launch.device.l2.copy()
        counts = Counts(task)

        def on_program(index: int, task: Task, program: Program) -> None:
            counts.add(program)

        try:
            timeline = Engine(launch.device, max_cycles=most).run([task], keep=False, on_program=on_program)
        except CycleLimitError:
            return {"fields": dict(fields or {}), "slower_than": most}
        row = timed_kernel(self.chip, timeline, task, counts)
        span, found = timeline.tasks[0], watched(timeline)
        settable_fields = row["tiling"].keys() >= _BASE
        tiling = TILINGS[self.name].from_vendor(row["tiling"]) if settable_fields else None
        core_us = row["core_us"] or 1.0
        return {
            "fields": dict(fields or {}),
            "op_type": row["op_type"],
            "blocks": row["block_dim"],
            "cycles": span.finish - span.launch,
            "us": row["task_us"],
            "busy": {pipe: round(us / core_us, 4) for pipe, us in row["pipes_us"].items()},
            "bytes": row["counts"]["bytes"],
            "bottleneck": row["bottleneck_pipe"],
            "stall": row["main_stall"],
            "l1": found.of_task[0].buffers["L1"].peak if tiling is None else self._l1(tiling),
            "tiling": row["tiling"],
            "source": row["tiling_source"],
            **({} if fields else {"ladder": row["ladder"]}),
            "findings": [one.text for one in found.findings],
        }

    def _l1(self, tiling: Tiling) -> int:
        if isinstance(tiling, GradInputTiling):
            return sum(grad_input_l1(tiling, tiling_input(tiling, self.inp)))
        return sum(grad_weight_l1(tiling, walked_input(self.inp, tiling), clipped=True))


_LEFT: OrderedDict[tuple[ChipSpec, ConvProblem, str], L2Cache] = OrderedDict()
"""States of the L2 by the kernels that left it so, in this process."""
_MOST_LEFT = 4
_BASE = {"baseM", "baseK", "baseN"}
"""Fields of every tiling that a user can set; the older kernels' have others."""


@cache
def _with_short_heads(chip: ChipSpec) -> ChipSpec:
    """Return a copy of the chip in which every product of the cube has the shorter of its two heads; kept for the process."""
    head = min(chip.cube.head_first, chip.cube.head_stream)
    return chip.model_copy(update={"cube": chip.cube.model_copy(update={"head_first": head, "head_stream": head})})
