"""Fields of a grad_input tiling, with the vendor's spelling beside ours (ops-nn tiling data: stated), and kernel variants.

The differences between the kernels of the chip families are a row of `VARIANTS` each, which tilings and programs ask.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, COUPLED, PLAIN_SPLIT
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput


@frozen
class Variant:
    """Properties of one chip family's grad_input kernel.

    `task_unit`: a task begins at a multiple of it, in pixels; 0 for whole rows. `slice_c0`: L1 holds output channels
    in blocks of C0, else in units of a base block (inferred from tests of dav-3510). `whole_slices`: baseK divides, or
    is a multiple of, K of such a block. `keeps_operands`: L1 keeps an operand from tile to tile, stepM and stepN of
    them, and a core may get its images in one task (singleCoreBatch); then the number of blocks that a call asks for
    decides the tiling too. `tile_tasks`: a task is whole tiles, takes no more of K than there is, and tasks are dealt
    in the order of arch35. `kernel_parts`: kernels can be split by stride, weights can stay from task to task.
    `cuts_kernels`: kernels can be taken row by row or tap by tap. `open_rows`: the vendor's kernel is open, and ours
    has the same buffers, flags, barriers and instructions.
    """

    task_unit: int = 0
    slice_c0: bool = False
    whole_slices: bool = False
    keeps_operands: bool = False
    tile_tasks: bool = False
    kernel_parts: bool = False
    cuts_kernels: bool = False
    open_rows: bool = False


VARIANTS = {
    COUPLED.name: Variant(task_unit=FRACTAL, keeps_operands=True),
    BLOCKED_SPLIT.name: Variant(whole_slices=True, cuts_kernels=True, open_rows=True),
    PLAIN_SPLIT.name: Variant(task_unit=1, slice_c0=True, tile_tasks=True, kernel_parts=True, cuts_kernels=True),
}


def variant_of(inp: TilingInput) -> Variant:
    """Return the properties of the grad_input kernel on the chip family that the problem is for."""
    return VARIANTS[inp.family.name]


@frozen
class GradInputTiling(ConvTiling):
    """Tiling of grad_input: M = H_in*W_in pixels, K = Cout*k_h*k_w, N = Cin.

    A task covers `single_core_m` pixels x `single_core_cin` channels of one (batch, depth, real group); `Variant` says where
    tasks may begin. `single_core_batch` is for coupled chips: a core gets that many images of one such part; 0 deals tasks one
    by one. `load_b2` is 2 for a 1x1 kernel, 1 where a base block holds every tap, else 0; `init_output` is 1 where dx must be
    cleared first; `weights_resident` is ours: the weights of a task stay in L1. With `split_wi` (ours) dx is cut into strips of
    that many columns, each with its own tasks, and M is the pixels of one; 0 for whole rows. `load_b1`, for split cores, is 2
    where the kernel is taken row by row, 3 tap by tap, else 0.

    Only the kernel that reads NCDHW (dav-3510) has the rest: tasks of `single_core_din` depths; with `full_load` the weights
    stay in L1 from task to task; `kernel_split` is 1 (both axes), 2 (rows) or 0, and then M is one part's pixels; `k_segment`
    output channels are summed in L0C at a time and added up in GM, 0 for all.
    """

    single_core_cin: int = 0
    single_core_cout: int = 0
    single_core_batch: int = 0
    load_b2: int = 0
    init_output: int = 0
    weights_resident: bool = False
    split_wi: int = 0
    load_b1: int = 0
    single_core_din: int = 1
    full_load: int = 0
    kernel_split: int = 0
    k_segment: int = 0

    VENDOR: ClassVar[dict[str, str]] = ConvTiling.VENDOR | {
        "single_core_cin": "singleCoreCin", "single_core_cout": "singleCoreCout", "single_core_batch": "singleCoreBatch",
        "load_b2": "loadB2Condition", "init_output": "initOutputFlag", "weights_resident": "weightsResident",
        "split_wi": "splitWi", "load_b1": "loadB1Condition", "single_core_din": "singleCoreDin", "full_load": "enableFullLoad",
        "kernel_split": "kernelSplitMode", "k_segment": "kSegment", "block_dim": "coreNum",
    }  # fmt: skip
    DERIVED: ClassVar[frozenset[str]] = frozenset(("single_core_cout", "load_b2", "init_output", "weights_resident"))
    MAY_BE_ZERO: ClassVar[frozenset[str]] = frozenset(
        ("iterate_order", "full_load", "kernel_split", "k_segment", "split_wi", "load_b1")
    )
    PIXELS: ClassVar[str] = "base_m"
    DIRECT_ONLY: ClassVar[dict[str, int]] = {"single_core_din": 1, "full_load": 0, "kernel_split": 0, "k_segment": 0}
    """Fields that only the kernel of dav-3510, which reads NCDHW, has, each with its value on other architectures."""

    def to_vendor(self) -> dict[str, Any]:
        """Return the fields under the vendor's names, and `source`; fields that only some chips have (`DIRECT_ONLY`,
        single_core_batch, split_wi, load_b1) are left out at the value that they have elsewhere.
        """
        values = self.DIRECT_ONLY | {"single_core_batch": 0, "split_wi": 0, "load_b1": 0}
        silent = {self.VENDOR[ours] for ours, value in values.items() if getattr(self, ours) == value}
        return {name: value for name, value in super().to_vendor().items() if name not in silent}

    @staticmethod
    def k_unit(inp: TilingInput) -> int:
        """Return the number of output channels of a block in L1: C0 where the family's kernel slices by C0, else `inp.unit`."""
        return inp.c0 if variant_of(inp).slice_c0 else inp.unit

    BASIC_BLOCK_KEY: ClassVar[int] = 1 << 9  # bit 9 of the key says: tasks of the basic-block kernel (ops-nn: stated)

    @property
    def tiling_key(self) -> int:
        """Return the vendor's kernel key: `load_b2` in bits 0-7, and bit 9 for the basic-block kernel, which is always set."""
        return self.load_b2 | self.BASIC_BLOCK_KEY


def k_slice(inp: TilingInput) -> int:
    """Return the K elements of one block of output channels with all taps of a kernel plane (a slice); L1 holds whole slices
    only.
    """
    return inp.taps * GradInputTiling.k_unit(inp)


def gemm(inp: TilingInput) -> tuple[int, int, int]:
    """Return (M, K, N) of the matrix product of one image, depth, kernel plane and real group: dx's pixels, rounded up to
    C0; taps times output channels, these rounded up to `unit`; input channels, rounded up to C0.
    """
    pixels = inp.problem.h_in * inp.problem.w_in
    return ceil_to(pixels, inp.c0), inp.cout_padded * inp.taps, inp.cin1 * inp.c0
