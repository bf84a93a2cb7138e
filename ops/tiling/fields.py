"""What a tiling procedure is given and what it decides, with the vendor's spelling beside ours.

Field meanings follow ops-nn (tiling data of conv3d_backprop_input_v2 and conv3d_backprop_filter_v2, arch22): stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from ascend_sim.errors import TilingError
from ascend_sim.ops.params import ConvProblem

FRACTAL = (
    16  # rows and columns of a cube fractal; output channels are stored in blocks of it (ops-nn BLOCK_CUBE: stated)
)
SOURCES = ("vendor procedure", "vendor table", "stand-in", "manual")


def ceil_div(value: int, unit: int) -> int:
    """`value / unit`, rounded up."""
    return -(-value // unit)


def ceil_to(value: int, unit: int) -> int:
    """`value` rounded up to a multiple of `unit`."""
    return -(-value // unit) * unit


def floor_to(value: int, unit: int) -> int:
    """`value` rounded down to a multiple of `unit`, but at least one unit."""
    return max(value // unit, 1) * unit


def divisors_down(number: int, start: int) -> list[int]:
    """The divisors of `number` that are not above `start`, largest first. Takes as many steps as `start` says."""
    return [d for d in range(min(number, start), 0, -1) if number % d == 0]


def floor_sum(count: int, number: int, divisor: int, offset: int = 0) -> int:
    """The sum of (i * number + offset) // divisor for i from 0 to `count` - 1, in as many steps as a common divisor takes."""
    total = 0
    while count > 0:
        total += count * (count - 1) // 2 * (number // divisor) + count * (offset // divisor)
        number, offset = number % divisor, offset % divisor
        last = number * count + offset
        count, offset, number, divisor = last // divisor, last % divisor, divisor, number
    return total


@dataclass(frozen=True)
class TilingInput:
    """A problem seen from one chip: what both procedures read.

    `buffers` holds the bytes of "L1", "L0A", "L0B", "L0C"; `itemsize` is 2 (fp16, bf16), 4 (fp32, hf32) or 1 (8-bit) bytes.
    `coupled` says that cube and vector unit share a core: another kernel, whose tilings have more freedom.
    Groups are merged so that channels of a real group fill whole blocks (ops-nn group merge: stated). `direct` is for kernels
    that read and write NCDHW; where a group may begin at any channel they need not be merged (`merged` False: ours).
    `channels_last` says that these read and write NDHWC, and weights DHWCN (TBC). `last_width` is the width of the last rows of
    a problem that is made of strips, where they are narrower (`grad_weight_strips`), else 0; `by_tap` says that the kernel
    planes of a problem are the taps of another one (`grad_weight_taps`).
    """

    problem: ConvProblem
    itemsize: int
    cores: int
    buffers: Mapping[str, int] = field(hash=False)
    l2_bytes: int
    deterministic: bool = False
    direct: bool = False
    merged: bool = True
    coupled: bool = False
    channels_last: bool = False
    last_width: int = 0
    by_tap: bool = False

    @cached_property
    def c0(self) -> int:
        """Channels of one 32-byte block: 16 (16-bit), 8 (32-bit) or 32 (8-bit)."""
        return 32 // self.itemsize

    @cached_property
    def unit(self) -> int:
        """What a base block counts its sides in: 16, but 32 with 8-bit operands, which are turned in squares of 32."""
        return max(FRACTAL, self.c0)

    @cached_property
    def group_extension(self) -> int:
        """How many groups make one real group."""
        groups = self.problem.groups
        if not self.merged:
            return 1
        cin, cout = self.problem.c_in // groups, self.problem.c_out // groups
        return min(math.lcm(math.lcm(cin, self.c0) // cin, math.lcm(cout, FRACTAL) // cout), groups)

    @cached_property
    def real_groups(self) -> int:
        """Number of merged groups; the last one may hold fewer groups than the others."""
        return ceil_div(self.problem.groups, self.group_extension)

    @cached_property
    def cin_g(self) -> int:
        """Input channels of one real group, without padding."""
        return self.group_extension * self.problem.c_in // self.problem.groups

    @cached_property
    def cout_g(self) -> int:
        """Output channels of one real group, without padding."""
        return self.group_extension * self.problem.c_out // self.problem.groups

    @cached_property
    def cin1(self) -> int:
        """C0 blocks of input channels of one real group."""
        return ceil_div(self.cin_g, self.c0)

    @cached_property
    def cout_padded(self) -> int:
        """Output channels of one real group in whole units (for 32-bit: pairs of C0 blocks)."""
        return ceil_to(self.cout_g, self.unit)

    @cached_property
    def taps(self) -> int:
        """Kernel positions in a plane, k_h * k_w."""
        return self.problem.k_h * self.problem.k_w

    @cached_property
    def depth_dilated(self) -> bool:
        """Whether kernel planes lie apart; that of a single plane says nothing (inferred from a unit test)."""
        return self.problem.dilation_d > 1 and self.problem.k_d > 1

    @cached_property
    def images(self) -> int:
        """Gradient planes that grad_weight sums over, N * D_out."""
        return self.problem.n * self.problem.d_out


@dataclass(frozen=True)
class BlockTiling:
    """What all cube kernels share: the L0 block, L1 steps of K, buffer counts (1 single, 2 ping-pong)."""

    base_m: int
    base_k: int
    base_n: int
    step_ka: int = 1
    step_kb: int = 1
    al0_buffers: int = 2
    bl0_buffers: int = 2
    cl0_buffers: int = 1
    al1_buffers: int = 2
    bl1_buffers: int = 2
    single_core_m: int = 0
    block_dim: int = 1
    source: str = "vendor procedure"

    VENDOR: ClassVar[dict[str, str]] = {
        "base_m": "baseM", "base_k": "baseK", "base_n": "baseN", "step_ka": "stepKa", "step_kb": "stepKb",
        "al1_buffers": "al1Pbuffer", "bl1_buffers": "bl1Pbuffer", "single_core_m": "singleCoreM",
    }  # fmt: skip
    """Our name of a field -> the vendor's."""
    DERIVED: ClassVar[frozenset[str]] = frozenset()
    """Fields that follow from the problem and the other fields, which nobody can set."""
    MAY_BE_ZERO: ClassVar[frozenset[str]] = frozenset()
    LEAST_K: ClassVar[int] = FRACTAL
    """What base_k is a multiple of, whatever the dtype."""
    WHOSE: ClassVar[str] = ""
    """What a message about an unknown field says first."""

    def to_vendor(self) -> dict[str, Any]:
        """Every field under the vendor's name, `source` under its own."""
        return {vendor: getattr(self, ours) for ours, vendor in self.VENDOR.items()} | {"source": self.source}

    @classmethod
    def own_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The vendor's names turned into ours; `blockDim` is accepted for the vendor's core count of any kernel.

        Raises TilingError for an unknown name.
        """
        known = {vendor: ours for ours, vendor in cls.VENDOR.items()} | {"blockDim": "block_dim", "source": "source"}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise TilingError(
                f"unknown tiling field {', '.join(unknown)}; allowed: {', '.join(n for n in known if n != 'source')}"
            )
        return {known[name]: value for name, value in values.items()}

    @classmethod
    def given(cls, overrides: Mapping[str, Any]) -> dict[str, int]:
        """A user's fields, in the vendor's spelling, under our names; TilingError for names and values that no tiling has."""
        allowed = {vendor: ours for ours, vendor in cls.VENDOR.items() if ours not in cls.DERIVED}
        allowed["blockDim"] = "block_dim"
        unknown = [name for name in overrides if name not in allowed]
        if unknown:
            raise TilingError(f"unknown tiling field {', '.join(unknown)}; {cls.WHOSE}allowed: {', '.join(allowed)}")
        for name, value in overrides.items():
            least = 0 if allowed[name] in cls.MAY_BE_ZERO else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise TilingError(f"{name} = {value!r}; allowed: a whole number, {least} or more")
            unit = cls.LEAST_K if name == "baseK" else FRACTAL
            if allowed[name] in ("base_m", "base_k", "base_n") and value % unit:
                raise TilingError(f"{name} = {value} is not a multiple of {unit}, the side of a cube fractal")
        return {allowed[name]: value for name, value in overrides.items()}

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed; TypeError for a name that is no field."""
        if not changes.keys() <= self.__dict__.keys():
            raise TypeError(f"no such field: {', '.join(changes.keys() - self.__dict__.keys())}")
        # The searches make hundreds of copies for a call: `dataclasses.replace` takes several times as long.
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy


@dataclass(frozen=True)
class ConvTiling(BlockTiling):
    """What both kernels of convolution backward share beyond that: L1 steps of M and N, the order of the tiles."""

    step_m: int = 1
    step_n: int = 1
    iterate_order: int = 0

    VENDOR: ClassVar[dict[str, str]] = {
        "base_m": "baseM", "base_k": "baseK", "base_n": "baseN", "step_m": "stepM", "step_n": "stepN",
        "step_ka": "stepKa", "step_kb": "stepKb", "al0_buffers": "al0Pbuffer", "bl0_buffers": "bl0Pbuffer",
        "cl0_buffers": "cl0Pbuffer", "al1_buffers": "al1Pbuffer", "bl1_buffers": "bl1Pbuffer",
        "single_core_m": "singleCoreM", "iterate_order": "iterateOrder",
    }  # fmt: skip
    LEAST_K: ClassVar[int] = 8  # K of one cube fractal in 32-bit
    PIXELS: ClassVar[str] = "base_k"
    """The side of a base block that counts pixels: no load turns them, and the last block is filled up."""

    @staticmethod
    def k_unit(inp: TilingInput) -> int:
        """What base_k is a multiple of for a problem, where K is not pixels."""
        return inp.unit

    @classmethod
    def from_vendor(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_vendor`; base block fields are required. Raises TilingError for an unknown name."""
        given = cls.own_names(values)
        missing = [cls.VENDOR[n] for n in ("base_m", "base_k", "base_n") if n not in given]
        if missing:
            raise TilingError(f"tiling lacks {', '.join(missing)}")
        return cls(**given)


@dataclass(frozen=True)
class GradInputTiling(ConvTiling):
    """Tiling of grad_input: M = H_in*W_in pixels, K = Cout*k_h*k_w, N = Cin.

    A task covers `single_core_m` pixels (whole rows) x `single_core_cin` channels of one (batch, depth, real group).
    `single_core_batch` is for coupled chips: a core gets that many images of one such part; 0 deals tasks one by one.
    `load_b2` is 2 for a 1x1 kernel, 1 where a base block holds every tap, else 0; `init_output` is 1 where dx must be
    cleared first; `weights_resident` is ours: the weights of a task stay in L1. With `split_wi` (ours) dx is cut into strips
    of so many columns, each with tasks of its own, and M is the pixels of one; 0 for whole rows.

    Only the kernel that reads NCDHW (dav-3510) has the rest: tasks of `single_core_din` depths; with `full_load` the weights
    stay in L1 from task to task; `kernel_split` is 1 (both axes), 2 (rows) or 0, and then M is one part's pixels; `load_b1` is
    2 where the kernel is taken row by row, 3 tap by tap, else 0; `k_segment` output channels are summed in L0C at a time and
    added up in GM, 0 for all.
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
    """What the kernels that read NCDHW alone have, and its value elsewhere."""

    def to_vendor(self) -> dict[str, Any]:
        """Every field under the vendor's name; those of one architecture's kernel only where they say something."""
        values = self.DIRECT_ONLY | {"single_core_batch": 0, "split_wi": 0, "load_b1": 0}
        silent = {self.VENDOR[ours] for ours, value in values.items() if getattr(self, ours) == value}
        return {name: value for name, value in super().to_vendor().items() if name not in silent}

    @staticmethod
    def k_unit(inp: TilingInput) -> int:
        """Output channels that L1 holds together: a unit, or a C0 in the kernel that reads NCDHW (inferred from its tests)."""
        return inp.c0 if inp.direct else inp.unit

    BASIC_BLOCK_KEY: ClassVar[int] = 1 << 9  # bit 9 of the key says: tasks of the basic-block kernel (ops-nn: stated)

    @property
    def tiling_key(self) -> int:
        """The vendor's kernel key: bits 0-7 `load_b2`, bit 9 the basic-block kernel."""
        return self.load_b2 | self.BASIC_BLOCK_KEY


# Templates of grad_weight: the vendor's kernel keys (ops-nn: stated). SPLIT_GRID is ours, for what the library hides.
SPLIT_GRID, SPLIT_MK, SPLIT_NK, SPLIT_MN, SPLIT_STREAM_K = 0, 1, 2, 3, 4
STREAM_NONE, STREAM_IMAGES, STREAM_ROWS = 0, 1, 2


@dataclass(frozen=True)
class GradWeightTiling(ConvTiling):
    """Tiling of grad_weight: M = Cout, N = Cin*k_h*k_w (*k_d unless `split_kd`), K = H_out*W_out pixels.

    A task is `single_core_m` x `single_core_n` elements of dW, `single_core_k` pixels (whole rows) of
    `single_core_batch` images. Templates 1 to 3 take one image per task and add its sum to dW. Template 4 reduces all
    images; `core_stream_k` cores share a tail task, by images (`stream_k_type` 1) or rows (2). Template 0 (ours) keeps
    a tile in L0C over all images of a task and adds it once. `bl1_bound` is elements of one L1 buffer of B. With `split_wo`
    K is taken in strips of that many gradOutput columns, whose rows, those of one strip below those of the other, are what
    `single_core_k` and StreamK count; 0 for whole rows. With `split_kernel` 1 every tap is a kernel plane of its own.
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
        """Every field under the vendor's name, what splits rows or the kernel only where it does."""
        silent = {self.VENDOR[name] for name in ("split_wo", "split_kernel") if not getattr(self, name)}
        return {name: value for name, value in super().to_vendor().items() if name not in silent}

    @property
    def tiling_key(self) -> int:
        """The vendor's kernel key, which is the template."""
        return self.template
