"""Fields of grad_weight's tiling, with the vendor's spelling beside ours (ops-nn tiling data: stated)."""

from __future__ import annotations

from typing import Any, ClassVar

from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

# Templates of grad_weight: the vendor's kernel keys (ops-nn: stated). SPLIT_GRID is ours, for what the library hides.
SPLIT_GRID, SPLIT_MK, SPLIT_NK, SPLIT_MN, SPLIT_STREAM_K = 0, 1, 2, 3, 4
STREAM_NONE, STREAM_IMAGES, STREAM_ROWS = 0, 1, 2


@frozen
class GradWeightTiling(ConvTiling):
    """Tiling of grad_weight: M = Cout, N = Cin*k_h*k_w (*k_d unless `split_kd`), K = H_out*W_out pixels.

    A task is `single_core_m` x `single_core_n` elements of dW, `single_core_k` pixels (whole rows) of `single_core_batch`
    images. Templates 1 to 3 add the sum of each image to dW. Template 4 reduces all rows of all images;
    `core_stream_k` cores share a tail task, by images (`stream_k_type` 1) or rows (2). Template 0 (ours) keeps a tile in L0C
    over all images of a task and adds it once. `bl1_bound` is elements of one L1 buffer of B. With `split_wo` K is taken in
    strips of that many gradOutput columns, whose rows, those of one strip below those of the other, are what `single_core_k`
    and StreamK count; 0 for whole rows. With `split_kernel` 1 every tap is a kernel plane of its own.
    """

    single_core_n: int = 0
    single_core_k: int = 0
    single_core_batch: int = 1
    template: int = SPLIT_MK
    core_bind_order: int = 1
    stream_k_type: int = STREAM_NONE
    core_stream_k: int = 0
    bl1_bound: int = 0
    split_kd: bool = False
    split_wo: int = 0
    split_kernel: int = 0

    VENDOR: ClassVar[dict[str, str]] = ConvTiling.VENDOR | {
        "single_core_n": "singleCoreN", "single_core_k": "singleCoreK", "single_core_batch": "singleCoreBatch",
        "template": "templateId", "core_bind_order": "coreBindOrder", "stream_k_type": "streamKType",
        "core_stream_k": "coreStreamK", "bl1_bound": "bl1Bound", "split_kd": "splitKd", "split_wo": "splitWo",
        "split_kernel": "isSplitKernelHW", "block_dim": "usedCoreNum",
    }  # fmt: skip
    DERIVED: ClassVar[frozenset[str]] = frozenset(("core_bind_order", "bl1_bound", "split_kd", "template"))
    MAY_BE_ZERO: ClassVar[frozenset[str]] = frozenset(
        ("iterate_order", "stream_k_type", "core_stream_k", "split_wo", "split_kernel")
    )

    def to_vendor(self) -> dict[str, Any]:
        """Return every field under the vendor's name; splitWo and isSplitKernelHW only if they split something."""
        silent = {self.VENDOR[name] for name in ("split_wo", "split_kernel") if not getattr(self, name)}
        return {name: value for name, value in super().to_vendor().items() if name not in silent}

    @property
    def tiling_key(self) -> int:
        """Return the vendor's kernel key, which is the template."""
        return self.template


def n_slice(inp: TilingInput) -> int:
    """Return the columns of dW (N) of one block of `n0` input channels: taps times `n0`."""
    return inp.taps * inp.n0


def splits_kd(inp: TilingInput) -> bool:
    """Return True if each kernel plane has tasks of its own and is no part of N: with several real groups, dilated planes, or
    deterministic sums.
    """
    return inp.real_groups > 1 or inp.depth_dilated or inp.deterministic


def gemm(inp: TilingInput, split_kd: bool | None = None) -> tuple[int, int, int]:
    """Return (M, K, N) of the product of an image's plane and a real group: output channels rounded up to `unit`, pixels to C0,
    taps times input channels, these rounded up to `n0`. N has all kernel planes unless `split_kd` (None: `splits_kd`).
    """
    split_kd = splits_kd(inp) if split_kd is None else split_kd
    planes = 1 if split_kd else inp.problem.k_d
    return (inp.cout_padded, ceil_to(inp.problem.h_out * inp.problem.w_out, inp.c0), inp.taps * inp.n1 * inp.n0 * planes)
