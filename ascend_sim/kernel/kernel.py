"""The builder that a kernel function gets: all instructions, and loads and stores of `Tensor`s and pieces of them.

@kernel_function(core="AIV")
def move(k, x, y):                                                      # k is a Kernel
    tiles = k.ub_queue("x", x.shape[1:], x.dtype, "MTE2", "MTE3")       # two tensors in UB, and the flags between the pipes
    for row in k.range(k.block, len(x), k.blocks):                      # this block's share
        k.gm_to_ub(tiles, x[row])
        k.ub_to_gm(y[row], tiles)

Names of methods say where bytes go; every one is one instruction unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from operator import index
from typing import Any, overload

from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPE_INDEX, PIPES, Cost, Instruction
from ascend_sim.isa.sync import ONE_VECTOR, PipeBarrier
from ascend_sim.kernel.builder import Closed
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.inspection import calling_line
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue, Place
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.kernel.tensor_moves import TensorMoves
from ascend_sim.kernel.traced import TracedLoops
from ascend_sim.memory.regions import Region
from ascend_sim.memory.sizes import whole_number

_OPERANDS = ("dst", "src0", "src1")


class Kernel(TracedLoops, TensorMoves):
    """Builder of a kernel function: block `block` of `blocks`, on a core of `core_kind`.

    `sub_block` counts the vector cores of a block of a "MIX" kernel. Addresses are bytes inside a buffer, or a `Tensor`
    where GM is meant.
    """

    all_cores = False
    """True if all blocks run at once, so that a flag may wait for every core."""
    vector_cores = 0
    """Vector cores of a block that a cube core has beside it; 0 in a kernel of one kind of core."""

    def __init__(
        self,
        table: InstructionTable,
        block: int,
        core_kind: str,
        tensor_sizes: Sequence[int],
        *,
        blocks: int,
        sub_block: int = 0,
        disarm: Collection[str] = (),
    ) -> None:
        super().__init__(table, block, core_kind, tensor_sizes, sub_block=sub_block, disarm=disarm)
        self.blocks = blocks
        self._queues: list[BufferQueue[Any]] = []

    @property
    def is_cube(self) -> bool:
        """Return True if this core has a cube: an AIC, or an AI_CORE."""
        return "M" in self._parts.pipes

    @property
    def is_vector(self) -> bool:
        """Return True if this core has a vector unit: an AIV, or an AI_CORE."""
        return "V" in self._parts.pipes

    @overload
    def queue(
        self, name: str, buffer: str, size: int, producer: str, consumer: str, buffers: int = 2, *, opener: str = ""
    ) -> BufferQueue[int]: ...

    @overload
    def queue(
        self,
        name: str,
        buffer: Sequence[str],
        size: Sequence[int],
        producer: str,
        consumer: str,
        buffers: int = 2,
        *,
        opener: str = "",
    ) -> BufferQueue[tuple[int, ...]]: ...

    def queue(
        self,
        name: str,
        buffer: str | Sequence[str],
        size: int | Sequence[int],
        producer: str,
        consumer: str,
        buffers: int = 2,
        *,
        opener: str = "",
    ) -> BufferQueue[Any]:
        """Allocate `buffers` buffers of `size` bytes and return their queue: pipe `producer` fills, `consumer` empties them.

        With several names in `buffer` and as many sizes (else SimError), a place of the queue is a tuple of addresses: operands
        that go together. `opener` is as in `BufferQueue`. Raises SimError for less than one buffer, and as `allocate`.
        """
        names = _numbered(name, buffers)
        if isinstance(buffer, str) and not isinstance(size, Sequence):
            single = [self.allocate(buffer, size, one) for one in names]
            return self.queue_of(name, single, producer, consumer, opener=opener)
        if isinstance(buffer, str) or not isinstance(size, Sequence) or len(buffer) != len(size):
            raise SimError(f"queue {name!r}: buffer {buffer!r} and size {size!r}; give as many sizes as buffers")
        parts = list(zip(buffer, size, strict=True))
        several = [tuple(self.allocate(space, each, one) for space, each in parts) for one in names]
        return self.queue_of(name, several, producer, consumer, opener=opener)

    def ub_queue(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: str,
        producer: str,
        consumer: str,
        buffers: int = 2,
        *,
        opener: str = "",
    ) -> BufferQueue[LocalTensor]:
        """Allocate `buffers` tensors of `shape` in UB and return their queue; rows begin at whole blocks. Raises SimError for
        less than one buffer, and as `local_tensor`.
        """
        tensors = [self.local_tensor(shape, dtype, one) for one in _numbered(name, buffers)]
        return self.queue_of(name, tensors, producer, consumer, opener=opener)

    def queue_of(
        self, name: str, places: Sequence[Place], producer: str, consumer: str, *, opener: str = ""
    ) -> BufferQueue[Place]:
        """Return a queue of the given `places` (addresses, tensors or tuples of them); see `BufferQueue`.

        Its flags are "NAME[i] full" and "NAME[i] free". It is closed by itself at the end of the program. No places: SimError.
        """
        if not places:
            raise SimError(f"queue {name!r}: no buffers; it takes 1 or more")
        made = BufferQueue(self, name, producer, consumer, places, opener)
        self._queues.append(made)
        return made

    @contextmanager
    def ordered(self, pipe: str) -> Iterator[None]:
        """Context manager in which a barrier of `pipe` follows every instruction of that pipe that works on data, so that each
        may read the result of the one before.

        Raises SimError for a pipe that the core lacks.
        """
        self._check_pipe(pipe, "ordered")
        plain, number = self._emit, PIPE_INDEX[pipe]
        opened = self.notes.source.number(calling_line()) if self.notes is not None else -1

        def emit(key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None:
            plain(key, dst, src0, src1)
            index = self._index.get(key)  # None: an inspection noted that it was refused
            if index is not None and self.table.pipes[index] == number and self.table.instructions[index].has_values:
                if self.notes is not None:  # the barriers of a block are one decision, made where it begins
                    self.notes.fixed = opened
                plain((PipeBarrier, pipe))
                if self.notes is not None:
                    self.notes.fixed = -1

        outer, self._ordered = self._ordered, (*self._ordered, pipe)
        self._emit = emit  # type: ignore[method-assign]
        try:
            yield
        finally:
            self._ordered = outer
            if outer:
                self._emit = plain  # type: ignore[method-assign]
            else:
                del self._emit

    def written_over(self, items: Sequence[Any], write: Callable[[], Program]) -> Program:
        """Return the program that `write` makes with one loop of `each` over `items`, or a moved copy of an earlier one.

        It is a copy if an earlier block had the same items at another place and its guards (conditions on the place) hold here.
        Nothing but the items may differ between blocks.
        """
        pieces = self.split(items)
        return self.repeated(pieces, write) if pieces else write()

    def close_queues(self) -> None:
        """Remove, at the end of the program, the sets of queues' free flags that nothing waits for (`BufferQueue.close`)."""
        for queue in self._queues:
            queue.close()

    def finish(self) -> Program:
        """Return the checked Program without the queues' last sets that nothing waits for; later instructions are refused."""
        self.close_queues()
        program = super().finish()
        self._index = Closed(self._where)
        return program

    # -- synchronisation between cores ---------------------------------------------------------------------------------

    def cross_core_set(self, flag: int, mode: int, pipe: str) -> None:
        """Raise a cross-core flag from `pipe`: mode 0 all cores of this kind, 1 the AIVs of a block, 2 cube <-> vector.

        Mode 4 joins the AIC and one AIV, on chips that have it: the second AIV's flags are 16 to 26 on the AIC. Raises SimError
        for a flag or mode that the chip or a kernel of this kind lacks.
        """
        if self._fits_kernel(flag, mode):
            super().cross_core_set(flag, mode, pipe)

    def cross_core_wait(self, flag: int, mode: int, pipe: str) -> None:
        """Hold `pipe` until the flag is raised: in mode 0 by all cores of this kind, in mode 1 by the AIVs of the block, in
        mode 2 by its cube core for an AIV and by its AIVs for the cube core, in mode 4 by the AIC for one AIV and by that AIV
        for the AIC.

        Where the chip says so (sync.cross_wait_stops_issue), no pipe gets later instructions meanwhile. A wait that `disarm`
        names ("cross-core N") holds nothing. Raises SimError for a flag, mode or pipe that the chip, the core or a kernel of
        this kind lacks.
        """
        if self._fits_kernel(flag, mode):
            super().cross_core_wait(flag, mode, pipe)

    def _fits_kernel(self, flag: int, mode: int) -> bool:
        """Return True if a kernel of this kind has flags of this mode (asc-devkit, CrossCoreSetFlag page: kernel types); also
        for a mode that does not exist.

        Raises SimError otherwise; under inspection records it and returns False.
        """
        if mode == 0 and not self.all_cores:
            text = "mode 0 joins all cores, so all blocks must run at once; say kernel_function(..., all_cores=True)"
        elif mode in (1, 2, ONE_VECTOR) and not self.vector_cores:
            text = f'mode {mode} joins cores of a block; this kernel has {self.core_kind} alone: say core="MIX" or "MIX_1_1"'
        elif mode == ONE_VECTOR and self.vector_cores == 1:
            text = f'mode {mode} is for a cube core with two vector cores; this kernel has one: say core="MIX", or take mode 2'
        else:
            return True
        self._refuse(SimError(f"cross-core flag {flag}: {text}"), "synccheck")
        return False

    # -- instructions of one's own -------------------------------------------------------------------------------------

    def emit(
        self,
        instruction: Instruction,
        dst: int | Tensor | LocalTensor = 0,
        src0: int | Tensor | LocalTensor = 0,
        src1: int | Tensor | LocalTensor = 0,
    ) -> None:
        """Append an instruction object with up to three operands; this is how a kernel uses `Instruction`s of its own.

        Raises SimError unless its class is a frozen dataclass whose methods keep to what `Instruction` says, for a parameter
        that cannot be hashed, and for an operand that is no address.
        """
        if not isinstance(instruction, Instruction):
            raise SimError(f"emit: {instruction!r} is not an instruction; derive its class from ascend_sim.Instruction")
        kind = type(instruction)
        key = (kind, *(getattr(instruction, name) for name in _parameters(kind)))  # type: ignore[arg-type]
        try:
            known = key in self._index
        except TypeError as error:
            raise SimError(f"emit: {kind.__name__}: its parameters must be hashable: {error}") from None
        if not known:
            self._check_instruction(instruction)
        self._emit(key, *(_address(type(instruction).__name__, place) for place in (dst, src0, src1)))

    def _check_instruction(self, instruction: Instruction) -> None:
        """Raise SimError for an instruction whose name, pipe, cost or regions no engine can run; called once for each."""
        if type(instruction).pipe is Instruction.pipe:
            raise SimError(f"emit: {type(instruction).__name__} has no pipe(self, chip), which names the queue that takes it")
        name, pipe, cost = type(instruction).__name__, instruction.pipe(self.chip), instruction.cost(self.chip)
        if not instruction.name or not isinstance(instruction.name, str):
            raise SimError(f"emit: {name} has no name; give its class one: name = 'my_instruction'")
        if pipe not in PIPES:
            raise SimError(f"emit: {name}.pipe() is {pipe!r}; pipes are {', '.join(PIPES)}")
        cycles = [getattr(cost, field.name, None) for field in fields(Cost)]
        if not all(isinstance(count, int) and count >= 0 for count in cycles):
            raise SimError(f"emit: {name}.cost() is {cost!r}; it must be a Cost of whole cycles, none below 0")
        for region in (*instruction.reads(), *instruction.writes()):
            spaces = ("GM", *self._parts.buffers)
            if not isinstance(region, Region) or region.operand not in _OPERANDS or region.space not in spaces:
                raise SimError(
                    f"emit: {name} touches {region!r}; a Region of {', '.join(_OPERANDS)} in one of {', '.join(spaces)} "
                    f"is allowed on an {self.core_kind} of {self.chip.name} (chip file, cores.kinds)"
                )
        if type(instruction).cost is Instruction.cost:
            raise SimError(f"emit: {name} has no cost(self, chip), which returns the Cost of its cycles")


def _numbered(name: str, buffers: int) -> Iterator[str]:
    """Return an iterator over "NAME[0]", "NAME[1]" ... of a queue's buffers. Raises SimError for less than one buffer."""
    return (f"{name}[{i}]" for i in range(whole_number(buffers, f"queue {name!r}: the number of buffers", 1)))


@cache
def _parameters(kind: type[Instruction]) -> tuple[str, ...]:
    """Return an instruction class's field names in order. Raises SimError unless it is a frozen dataclass of its own."""
    settings = kind.__dict__.get("__dataclass_params__") if is_dataclass(kind) else None
    if settings is None or not settings.frozen:
        raise SimError(f"emit: {kind.__name__} must be a frozen dataclass: @dataclass(frozen=True) before its class")
    return tuple(field.name for field in fields(kind))


def _address(what: str, place: int | Tensor | LocalTensor) -> int:
    if isinstance(place, LocalTensor):
        return place.address
    try:
        return index(place)
    except TypeError:
        raise SimError(f"emit: {what}: {place!r} is not an address; a tensor or a whole number is allowed") from None
