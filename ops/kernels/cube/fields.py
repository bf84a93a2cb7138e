"""Fields of a cube kernel's tiling, with the vendor's spelling beside ours.

Field meanings follow ops-nn (tiling data of conv3d_backprop_input_v2 and conv3d_backprop_filter_v2, arch22): stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_known
from ascend_sim.ops.problem.tiling_input import TilingInput

SOURCES = ("vendor procedure", "vendor table", "stand-in", "manual")


def _unknown(names: list[str], allowed: list[str], whose: str = "") -> str:
    """Return the message for unknown fields, with near spellings of the first one, `whose` tiling it is, and all fields."""
    spelled = {one.lower(): one for one in allowed}
    near = near_known(names[0].replace("_", "").lower(), spelled)
    hint = f"; did you mean {', '.join(spelled[one] for one in near)}?" if near else ""
    return f"unknown tiling field {', '.join(name or repr(name) for name in names)}{hint}; {whose}allowed: {', '.join(allowed)}"


@frozen
class BlockTiling:
    """Fields that the tilings of MatMul and of convolution backward share: the block of L0, L1 steps of K, numbers of buffers
    (1 single, 2 double), a task's M, the number of blocks, and the tiling's source.

    `VENDOR` maps our names of fields to the vendor's. A user cannot give the fields in `DERIVED`; those in `MAY_BE_ZERO` may be
    0.
    """

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
    """Fields that follow from the problem and the other fields, so that a user cannot set them."""
    MAY_BE_ZERO: ClassVar[frozenset[str]] = frozenset()
    LEAST_K: ClassVar[int] = FRACTAL
    """Least unit of base_k, for operands of any dtype."""
    WHOSE: ClassVar[str] = ""
    """Text before the allowed names in the message about an unknown field."""

    def to_vendor(self) -> dict[str, Any]:
        """Return the fields that `VENDOR` names under the vendor's names, and `source`."""
        return {vendor: getattr(self, ours) for ours, vendor in self.VENDOR.items()} | {"source": self.source}

    @classmethod
    def own_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, unchecked, under our names instead of the vendor's; "blockDim" is the number of blocks in any
        kernel.

        Raises TilingError for an unknown name.
        """
        known = {vendor: ours for ours, vendor in cls.VENDOR.items()} | {"blockDim": "block_dim", "source": "source"}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise TilingError(_unknown(unknown, [name for name in known if name != "source"]))
        return {known[name]: value for name, value in values.items()}

    @classmethod
    def given(cls, overrides: Mapping[str, Any]) -> dict[str, int]:
        """Return a user's fields (vendor's names) under our names.

        Raises TilingError for an unknown or derived field, a value that is not a whole number of at least 1 (0 for
        `MAY_BE_ZERO`), or a side of a base block that is not a multiple of 16 (base_k: of `LEAST_K`).
        """
        allowed = {vendor: ours for ours, vendor in cls.VENDOR.items() if ours not in cls.DERIVED}
        allowed["blockDim"] = "block_dim"
        unknown = [name for name in overrides if name not in allowed]
        if unknown:
            raise TilingError(_unknown(unknown, list(allowed), cls.WHOSE))
        for name, value in overrides.items():
            least = 0 if allowed[name] in cls.MAY_BE_ZERO else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise TilingError(f"{name} = {value!r}; allowed: a whole number, {least} or more")
            unit = cls.LEAST_K if name == "baseK" else FRACTAL
            if allowed[name] in ("base_m", "base_k", "base_n") and value % unit:
                raise TilingError(f"{name} = {value} is not a multiple of {unit}, the side of a cube fractal")
        return {allowed[name]: value for name, value in overrides.items()}

    def but(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, their values unchecked; TypeError for a name that is not a field."""
        if not changes.keys() <= self.__dict__.keys():
            raise TypeError(f"no such field: {', '.join(changes.keys() - self.__dict__.keys())}")
        # The searches make hundreds of copies for a call: `dataclasses.replace` takes several times as long.
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy


@frozen
class ConvTiling(BlockTiling):
    """Further fields that both kernels of convolution backward share: L1 steps of M and N, the order of the tiles."""

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
    """Field of the base block's side that counts pixels: no load transposes them, and the last block is filled up."""

    @staticmethod
    def k_unit(inp: TilingInput) -> int:
        """Return the unit of base_k: here `inp.unit`, as K counts channels; a tiling whose K counts pixels overrides it."""
        return inp.unit

    @classmethod
    def from_vendor(cls, values: Mapping[str, Any]) -> Self:
        """Return the tiling with the fields that `to_vendor` returns, unchecked; TilingError for unknown names or a missing
        side of the base block.
        """
        given = cls.own_names(values)
        missing = [cls.VENDOR[n] for n in ("base_m", "base_k", "base_n") if n not in given]
        if missing:
            raise TilingError(f"tiling lacks {', '.join(missing)}")
        return cls(**given)
