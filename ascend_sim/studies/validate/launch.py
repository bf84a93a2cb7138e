"""Base of the entries of `launches`: the columns of a kind of rows, and their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ascend_sim.chip import ChipSpec
from ascend_sim.memory.gm import Allocation
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.kernel import MeasuredKernel

Launched = tuple[list[Task], list[Allocation]]
"""Tasks in their order, and those of their tensors that are inputs."""


class MeasuredLaunch:
    """Base of the task builders in `launches`: one checks the measured rows of an operator and builds the tasks that
    simulate them.

    `columns` must be given in a row, as they give its size; `optional` ones may be left out.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    helps: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Columns that a prediction gets only on request: decisions of the measured library, not arguments of its call."""

    launches: ClassVar[str] = "cold"
    """The state of the code before a row that says none; see LAUNCH_STATES."""

    def unlike(self, labels: Mapping[str, str], sizes: Mapping[str, int]) -> str:
        """Return the reason why a row with these columns, texts and numbers, is not simulated; "" if it is, as here."""
        return ""

    def check(self, kernel: MeasuredKernel) -> None:
        """Raise ValueError if the row lacks one of `columns`; subclasses also check that columns do not contradict each
        other.
        """
        self._require(kernel, self.columns)

    def is_long(self, kernel: MeasuredKernel) -> bool:
        """Return True if simulating the row takes minutes; here False."""
        return False

    def as_timed(self, kernel: MeasuredKernel) -> MeasuredKernel:
        """Return the kernel to simulate in place of this one: kernels of equal time share one; here the kernel itself."""
        return kernel

    def tasks(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        """Return the row's tasks and their input tensors, allocated on `device`.

        Raises SimError for a launch that the simulator refuses.
        """
        task, inputs = self.task(kernel, chip, device)
        return [task], inputs

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
        """Return (task, its input tensors) of an operator that launches one kernel. Subclasses implement this or `tasks`."""
        raise NotImplementedError

    @staticmethod
    def _require(kernel: MeasuredKernel, columns: tuple[str, ...]) -> None:
        given = dict(kernel.sizes)
        missing = [name for name in columns if name not in given]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing; {kernel.op_type} needs {', '.join(columns)}")
