"""Base of the entries of `launches`: the columns of a kind of rows, and their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.memory.gm import Allocation
from ascend_sim.runtime import Device, KernelMoves, Task

PIPES = {"mac": "cube"} | {name: name for name in ("mte1", "mte2", "mte3", "vec", "fixpipe", "scalar")}
"""Pipes by the profiler's names and by the report's."""

_CUBE_DTYPES = {"hf32": ("float32", 3), "fp32": ("float32", 0), "fp16": ("float16", 0), "bf16": ("bfloat16", 0)}
"""Dtypes of cube kernels in a row: the operands' dtype, and the cubeMathType that computes so."""

L2_STATES = ("cold", "warm")
"""States of the L2 before a kernel: nothing, or its inputs, as far as they fit."""
STEP = "step"
"""State of the L2 that the earlier kernels of a profile leave."""
REPEATED = "repeated"
"""State of the L2 that the same kernels leave, run on the same tensors; a column of a row says it."""

LAUNCH_STATES = ("cold", "warm")
"""States of a kernel's code: "warm" where the same kernel or call was launched shortly before."""


@frozen
class MeasuredKernel:
    """Key of a simulation: a measured kernel with its chip, dtype, sizes and state of L2 and code; rows of equal kernels share
    one run.

    `sizes` are (column, number) and `labels` (column, text) pairs of the row. `moved` and `before`, the tensors of the kernel
    and of those before it, are given where `l2` is STEP.
    """

    chip: str
    op_type: str
    dtype: str
    sizes: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...] = ()
    l2: str = "warm"
    launches: str = "cold"
    moved: KernelMoves = ()
    """The tensors of the kernel itself, where `l2` is STEP."""
    before: tuple[KernelMoves, ...] = ()
    """Tensors that the kernels before it move, as far back as the L2 remembers."""

    def __getitem__(self, column: str) -> int:
        return dict(self.sizes)[column]

    def get(self, column: str, default: int) -> int:
        """Return the size in a column, or `default` where the row has none."""
        return dict(self.sizes).get(column, default)

    def label(self, column: str) -> str:
        """Return the text in a column, "" where the row has none."""
        return dict(self.labels).get(column, "")


def cube_dtype(kernel: MeasuredKernel) -> tuple[str, int]:
    """Return (dtype of the operands, cubeMathType) of a cube kernel's row: hf32 is float32 with 3.

    Raises SimError for another dtype.
    """
    if kernel.dtype not in _CUBE_DTYPES:
        raise SimError(f"dtype {kernel.dtype!r}: allowed for {kernel.op_type}: {', '.join(_CUBE_DTYPES)}")
    return _CUBE_DTYPES[kernel.dtype]


@frozen
class MeasuredRow:
    """One measured launch: its kernel and times in us; `core_us` and `pipes` (by `PIPES`) are means over the cores, where
    counters exist.

    `unlike` is the reason why the row is not simulated, "" if it is; `series` keeps rows apart that must not be averaged with
    others. `cells` has the row's columns as text.
    """

    kernel: MeasuredKernel
    duration_us: float
    core_us: float | None
    pipes: Mapping[str, float]
    series: str
    unlike: str
    cells: Mapping[str, str] = field(repr=False)


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
