"""Common part of the vector kernels: one launch, the split of work over blocks, Unified Buffer tiles.

How many blocks each kernel takes. The evidence is an AlexNet training step on a 910B2 with 48 vector cores
(Ascend/msinsight test data, profiler rows); every rule reproduces all block counts that it names:

| kernel | rule | published counts | mark |
|---|---|---|---|
| TransData, features | one block per image; with at most half as many images as cores an image is shared | 32 images: 32 | inferred; sharing assumed |
| TransData, filters | tiles of 256-byte runs, as far as a quarter of UB holds them, cut along output channels and dealt out whole | 192x64x5x5: 39, 256x256x3x3, 256x384x3x3, 384x192x3x3: 43, 64x3x11x11: 8 (fp32) | stated (CANN, transdata_dsl_general.cc), the axis inferred |
| TransData, 16-bit filters, fp32 dW of 16-channel blocks | units of the axis that keeps most cores busy, see `trans_data_units` | none | stated (CANN 8.1.RC1, tbe) |
| ReduceSum, HW > 1 | ceil(C / cores) channels each | C 64: 32, 192: 48, 256: 43, 384: 48 | inferred |
| ReduceSum, HW = 1 | the same in units of 32 bytes of channels | C 1000: 42, 4096: 47 (fp32, batch 32) | inferred |
| MemSet | every core, one L2 line at least | 0.25 to 3.5 MB: 48 | inferred |
| Cast | one block per UB tile (between fp32 and fp16 16384 elements), at most every core | 32 and 160 elements: 1 | assumed |
| ViewCopy | one block per UB tile, at most every core | none | assumed |
"""  # noqa: E501 - a table row is one line

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial, wraps
from threading import local
from typing import Any, ClassVar, ParamSpec, TypeVar

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.abilities import reach
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.function import KernelFunction, Maker, kernel_error
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.runtime import Task

SOURCE, TARGET = 0, 1
"""GM slots of the two tensors of a kernel."""


_KEPT = 32
"""Most loops and works of a kernel that are cached, each with a few hundred rows."""

Arguments = ParamSpec("Arguments")


@frozen
class TaskWords:
    """Names of a launch: its operator and name, and `disarm`, flags whose waits hold nothing."""

    op_type: str
    name: str
    disarm: Collection[str] = ()


@frozen
class Loop:
    """Kernel whose blocks are one stamped loop each: `pieces_of(block)` yields (piece, place), `body(k, pieces)`
    appends the instructions over them.

    All launches of it, on whatever tensors, share `tables`, and so the stamps (`KernelBuilder.repeated`). `info` and
    `template` are those of its launches.
    """

    blocks: int
    pieces_of: Callable[[int], Iterable[tuple[Any, Any]]]
    body: Callable[[KernelBuilder, Sequence[tuple[Any, Any]]], None]
    info: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    tables: dict[str, InstructionTable] = field(default_factory=dict)

    def write(self, k: KernelBuilder, pieces: Sequence[tuple[Any, Any]]) -> Program:
        """Return the program of a block that runs the loop over `pieces`; `k` is finished by it."""
        self.body(k, pieces)
        return k.finish()


@frozen(eq=False)
class KernelWork:
    """A kernel function, its tensors in the order of their slots, and its pieces: `pieces_of(block)` returns those of
    one block.

    The function is called as `kernel(k, *tensors, pieces, **fields)`. It takes its work from the pieces in one loop
    over `k.each(pieces)` and does not ask for its block. `info` is that of its launch (`Task.info`). All launches of it share
    `tables`, and so the stamps.
    """

    kernel: KernelFunction
    tensors: Sequence[Tensor]
    blocks: int
    pieces_of: Callable[[int], Sequence[Any]]
    fields: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    template: ClassVar[str] = ""
    tables: dict[str, InstructionTable] = field(default_factory=dict)

    def write(self, k: Kernel, pieces: Sequence[Any]) -> Program:
        """Return the program of a block that calls the function with `pieces`; `k` is finished by it."""
        return self.written(k, pieces).finish()

    def written(self, k: Kernel, pieces: Sequence[Any]) -> Kernel:
        """Call the function with the builder `k` and `pieces`, and return `k`, which is not finished."""
        self.kernel(k, *self.tensors, pieces, **self.fields)
        return k


def contiguous(*tensors: tuple[Sequence[int], str]) -> list[Tensor]:
    """Return contiguous tensors of (shape, dtype), in the order of their slots; unnamed: names are operands in a report."""
    return [Tensor.at(slot, "", shape, dtype) for slot, (shape, dtype) in enumerate(tensors)]


Known = TypeVar("Known", Loop, KernelWork)


def known_loop(make: Callable[Arguments, Known]) -> Callable[Arguments, Known]:
    """Decorate `make`, a function that returns a Loop or KernelWork, with a cache of the last 32 results by arguments.

    So launches of equal shapes share stamps. The result must follow from the arguments alone. Each thread has a cache
    of its own, because builders write to the results.
    """
    kept = local()

    @wraps(make)
    def found(*args: Arguments.args, **named: Arguments.kwargs) -> Known:
        if not hasattr(kept, "loops"):
            kept.loops = lru_cache(_KEPT)(make)
        loop: Known = kept.loops(*args, **named)
        return loop

    return found


def work_task(chip: ChipSpec, launch: TaskWords, work: KernelWork | Loop, tensors: Sequence[Allocation]) -> Task:
    """Return a launch of `work` on the chip's vector cores; `tensors` are those of its slots. Its programs are built later.

    Raises SimError if its kernel function does not run on them; a Loop is not checked.
    """
    kinds = {chip.cores.vector_kind(block) for block in range(work.blocks)}
    if isinstance(work, KernelWork) and (others := kinds - {*work.kernel.cores}):
        raise SimError(
            f"kernel {work.kernel.name} runs on {' or '.join(work.kernel.cores)}; its pieces go to {', '.join(others)} cores"
        )
    sizes = [reach(tensor, chip) for tensor in tensors]

    def build(block: int) -> list[Program]:
        on, pieces = chip.cores.vector_kind(block), list(work.pieces_of(block))
        if on not in work.tables:
            work.tables[on] = InstructionTable(chip, on)
        if isinstance(work, KernelWork):

            def begun(make: Maker = Kernel) -> Kernel:
                return make(work.tables[on], block, on, sizes, blocks=work.blocks, disarm=launch.disarm)

            k = begun()
            try:
                return [k.written_over(pieces, partial(work.write, k, pieces))]
            except Exception as error:
                raise kernel_error(error, work.kernel, k, lambda make: work.written(begun(make), pieces)) from error
        plain = KernelBuilder(work.tables[on], block, on, sizes, disarm=launch.disarm)
        return [plain.repeated(pieces, partial(work.write, plain, pieces))]

    kind = "MIX_VECTOR_CORE" if len(kinds) > 1 else kinds.pop()
    info = dict(work.info)
    return Task(launch.name, launch.op_type, kind, work.blocks, tensors, build, info=info, template=work.template)


def vector_cores(chip: ChipSpec) -> int:
    """Return the number of cores that run vector kernels: the vector cores, or on a coupled chip the AI Cores and
    vector-only cores together.

    The platform files of 310P count both together for such kernels (mix_vector_core_cnt). Both kinds get equal shares,
    AI Cores first (assumed).
    """
    return chip.cores.vector_units


def call_info(dtypes: Sequence[str], formats: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the `Task.info` of a kernel with one input and one output: "dtypes", "formats" and "shapes", each {"input": one,
    "output": other}; every argument has the input's, then the output's.
    """
    sides = ("input", "output")
    return {
        "dtypes": dict(zip(sides, dtypes, strict=True)),
        "formats": dict(zip(sides, formats, strict=True)),
        "shapes": dict(zip(sides, (list(shape) for shape in shapes), strict=True)),
    }


def require_positive(name: str, **sizes: int) -> None:
    """Raise SimError for a size below 1, since an empty tensor needs no kernel."""
    for what, size in sizes.items():
        if size < 1:
            raise SimError(f"{name}: {what} is {size}; allowed is 1 or more")


def padded(nbytes: int) -> int:
    """Return the bytes that a row of `nbytes` takes in UB: whole 32-byte blocks."""
    return ceil_to(nbytes, BLOCK_BYTES)


def share(total: int, parts: int, index: int) -> tuple[int, int]:
    """Return (start, count) of part `index` of `total` units, cut into `parts` as even as possible, the larger ones first."""
    base, extra = divmod(total, parts)
    return index * base + min(index, extra), base + (index < extra)


def buffer_queue(k: KernelBuilder, name: str, producer: str, consumer: str, nbytes: int, buffers: int = 2) -> BufferQueue:
    """Return a queue of `buffers` newly allocated buffers of `nbytes` in UB, from pipe `producer` to pipe `consumer`."""
    return BufferQueue(k, name, producer, consumer, [k.allocate("UB", nbytes, f"{name}[{i}]") for i in range(buffers)])
