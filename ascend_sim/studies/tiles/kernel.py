"""One cube kernel of a call under different tilings: the tilings, their bounds, and what each comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import watched
from ascend_sim.errors import CycleLimitError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.program import Program
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_weight.capacity import grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.tilings import TILINGS, settable, tilings_that_fit
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan, PlanStep
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.report.counts import Counts
from ascend_sim.report.report import timed_kernel
from ascend_sim.studies.tiles.bounds import Bounds, Tiling

Fields = Mapping[str, int]
"""A tiling as a user sets it: fields by the vendor's names. No fields: the simulator's own choice."""


@dataclass(eq=False)
class TilingLaunch:
    """A kernel on a device that nothing has run on. Blocks `built` for a bound need not be written again."""

    device: Device
    task: Task
    built: dict[int, Sequence[Program]] = field(default_factory=dict)

    def build(self, block: int) -> Sequence[Program]:
        """The programs of a block, with what the programs of others have in common with those that are built."""
        return self.built.get(block) or self.task.build(block)


@frozen
class CubeKernel:
    """The kernel "grad_input" or "grad_weight" of `call` on `chip`, launched alone.

    `l2` "warm": it finds its operands in the L2, as far as they fit, as after the kernels that a call launches before it;
    "cold": nothing. Pickles, for worker processes.
    """

    chip: ChipSpec
    call: ConvolutionCall
    name: str
    l2: str = "warm"

    def __repr__(self) -> str:
        return f"<CubeKernel {self.name} of {self.call.operator} on {self.chip.name}, l2 {self.l2}>"

    @classmethod
    def of(cls, call: AcceptedCall, chip: ChipSpec, name: str, l2: str = "warm") -> CubeKernel:
        """Raises SimError where the call has no such kernel, or for an unknown `l2`."""
        if l2 not in ("cold", "warm"):
            raise SimError(f"l2 {l2!r}: allowed are cold and warm")
        if name not in TILINGS:
            raise SimError(f"no cube kernel {name!r}; allowed are {' and '.join(TILINGS)}")
        OPERATORS[call.operator].cube_call(call, chip, name)
        assert isinstance(call, ConvolutionCall)  # no other has cube calls
        return cls(chip, call, name, l2)

    @property
    def _cube_call(self) -> CubeCall:
        """Return the work of the kernel."""
        return OPERATORS[self.call.operator].cube_call(self.call, self.chip, self.name)

    @property
    def inp(self) -> TilingInput:
        """Return the input of a tiling's choice."""
        return self._cube_call.inp

    def grid(self, fixed: Mapping[str, Any] | None = None) -> Iterator[Tiling]:
        """Every tiling of the grid that fits, `fixed` fields given; raises TilingError for what no tiling can have."""
        return tilings_that_fit(self.name, self.inp, fixed, self.chip)

    def tilings(self, fixed: Mapping[str, Any] | None = None) -> Iterator[tuple[Fields, Tiling]]:
        """The grid, each tiling with the fields that a user would set."""
        inp = self.inp
        return ((settable(tiling, inp), tiling) for tiling in self.grid(fixed))

    def bounds(self) -> Bounds:
        """Bounds from the tiling's numbers."""
        return Bounds(self._cube_call, self._step({})[1].op_type, cold=self.l2 == "cold")

    def _step(self, fields: Fields) -> tuple[Plan, PlanStep]:
        """The launch of the kernel in the plan of its call."""
        call = replace(self.call, tiling={self.name: dict(fields)})
        plan = OPERATORS[call.operator].plan(call, self.chip)
        return plan, next(step for step in plan.steps if step.name == self.name)

    def launch(self, fields: Fields) -> tuple[Device, Task]:
        """A fresh device and the kernel on it; TilingError for fields that do not fit.

        Without fields it is the kernel that takes fields, with its own choice: not the older kernel of the 910B's grad_weight,
        whose tiling nobody can set.
        """
        plan, step = self._step(fields)
        device = Device(self.chip, with_values=False)
        tensors = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
        if self.l2 == "warm":
            for name in step.inputs:
                device.warm(tensors[name])
        return device, step.make(self.chip, tensors)

    def sharper_bound(self, bounds: Bounds, fields: Fields, block: int, launch: TilingLaunch | None = None) -> int:
        """Cycles that `block` (the one with the most work) takes alone, every transfer at the speed of its port.

        `launch` is that of the tiling, where somebody has it, and then holds the block.

        Its program knows what waits for what. Others delay it, and no delay spares a cycle where all heads are alike: here the
        cube has the shorter one also after it stood still. Mixed blocks may wait for each other: of one alone nothing is known
        but when it begins.
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

    def simulate(self, fields: Fields, most: int | None = None, launch: TilingLaunch | None = None) -> dict[str, Any]:
        """One launch in `timing` mode, as plain data; where it takes more than `most` cycles "slower_than" that and "fields".

        "cycles" from launch to end, "us" the same, "busy" the share of the cores' time by pipe, "bytes" by path, "stall"
        {"cause", "share"} of the busiest pipe "bottleneck", "l1" bytes of L1 that the tiling takes, "findings" of the hazard
        check, "tiling" every field and "source" where it is from, of the simulator's own choice "ladder", its rungs. `launch`
        is that of the tiling, where somebody has it.
        """
        launch = launch or TilingLaunch(*self.launch(fields))
        task = replace(launch.task, build=launch.build)
        counts = Counts(task)

        def on_program(index: int, task: Task, program: Program) -> None:
            counts.add(program)

        try:
            timeline = Engine(launch.device, max_cycles=most).run([task], keep=False, on_program=on_program)
        except CycleLimitError:
            return {"fields": dict(fields), "slower_than": most}
        row = timed_kernel(self.chip, timeline, task, counts)
        span = timeline.tasks[0]
        core_us = row["core_us"] or 1.0
        return {
            "fields": dict(fields),
            "cycles": span.finish - span.launch,
            "us": row["task_us"],
            "busy": {pipe: round(us / core_us, 4) for pipe, us in row["pipes_us"].items()},
            "bytes": row["counts"]["bytes"],
            "bottleneck": row["bottleneck_pipe"],
            "stall": row["main_stall"],
            "l1": sum(self._l1(row["tiling"])),
            "tiling": row["tiling"],
            "source": row["tiling_source"],
            **({} if fields else {"ladder": row["ladder"]}),
            "findings": [one.text for one in watched(timeline).findings],
        }

    def _l1(self, fields: Mapping[str, Any]) -> tuple[int, int]:
        inp = self.inp
        tiling = TILINGS[self.name].from_vendor(fields)
        if self.name == "grad_input":
            assert isinstance(tiling, GradInputTiling)
            return grad_input_l1(tiling, tiling_input(tiling, inp))
        assert isinstance(tiling, GradWeightTiling)
        return grad_weight_l1(tiling, walked_input(inp, tiling), clipped=True)


@cache
def _with_short_heads(chip: ChipSpec) -> ChipSpec:
    """The chip whose cube has its shorter head throughout."""
    head = min(chip.cube.head_first, chip.cube.head_stream)
    return chip.model_copy(update={"cube": chip.cube.model_copy(update={"head_first": head, "head_stream": head})})
