"""Methods of a builder for the mask register of the vector unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.memory import MASK_REGISTER_BYTES
from ascend_sim.isa.vector import CompareToRegister, LoadMaskRegister, SelectByRegister, StoreMaskRegister
from ascend_sim.isa.vector.base import size_of
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.local_tensor import LocalTensor

Tensor = LocalTensor


class MaskRegisterMethods:
    """Methods of a builder for comparisons into the mask register, selections by it, and its load and store.

    The register has a bit for each element of one repeat (256 bytes). Tensors lie in the Unified Buffer without gaps.
    A check asks for no barrier between two uses of the register: of the vendor's examples one has it (SetCmpMask, then Select)
    and one has not (Compare, then GetCmpMask).
    """

    if TYPE_CHECKING:
        chip: ChipSpec

        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...
        @staticmethod
        def _run(what: str, tensor: Tensor) -> int: ...
        @staticmethod
        def _same_format(what: str, dst: Tensor, source: Tensor) -> None: ...

    def compare_to_register(self, mode: str, left: Tensor, right: Tensor) -> None:
        """Bit i of the mask register = left[i] `mode` right[i]; `mode` as for `compare`.

        Bits behind the last element become 0. Raises SimError for operands of different sizes or formats, and for more elements
        than a repeat.
        """
        self._same_format("compare_to_register", left, right)
        count = self._run("compare_to_register", left)
        if self._run("compare_to_register", right) != count:
            raise SimError(f"compare_to_register: left and right must have the same shape; they are {left} and {right}")
        self._emit((CompareToRegister, mode, left.dtype, count), 0, left.address, right.address)

    def select_by_register(self, dst: Tensor, on_true: Tensor, on_false: Tensor) -> None:
        """dst[i] = on_true[i] where bit i of the mask register is set, else on_false[i]; each repeat takes the same bits.

        Raises SimError for operands of another size or format than dst, and for more than one repeat but not whole repeats.
        """
        what = "select_by_register"
        count = self._run(what, dst)
        for name, one in (("on_true", on_true), ("on_false", on_false)):
            self._same_format(what, dst, one)
            if self._run(what, one) != count:
                raise SimError(f"{what}: {name} must have the shape of dst; they are {one} and {dst}")
        per, size = self.chip.vector.repeat_bytes // size_of(dst.dtype), self.chip.vector.repeat_bytes
        if count > per and count % per:
            raise SimError(f"{what}: {count} {dst.dtype} elements are not whole repeats of {per} (one mask for each repeat)")
        layout = (count,) if count <= per else (per, count // per, size, size, size)
        self._emit((SelectByRegister, dst.dtype, *layout), dst.address, on_true.address, on_false.address)

    def load_mask_register(self, src: Tensor) -> None:
        """Set the mask register to the 128 bits of `src` (16 uint8), the lowest bit of a byte first.

        Raises SimError for another format, fewer elements, or gaps; of more elements the first 16 count.
        """
        self._emit((LoadMaskRegister,), 0, self._bytes_of("load_mask_register", src))

    def store_mask_register(self, dst: Tensor) -> None:
        """Write the 128 bits of the mask register to `dst` (16 uint8), the lowest bit of a byte first.

        Raises SimError as `load_mask_register`; of more elements the first 16 are written.
        """
        self._emit((StoreMaskRegister,), self._bytes_of("store_mask_register", dst))

    def _bytes_of(self, what: str, tensor: Tensor) -> int:
        """Return the address of a tensor of at least 128 bits. Raises SimError for a smaller one, for gaps, and unless it is
        uint8.
        """
        if self._run(what, tensor) < MASK_REGISTER_BYTES or tensor.dtype != "uint8":
            raise SimError(f"{what}: the register has {MASK_REGISTER_BYTES} uint8 elements; the tensor is {tensor}")
        return tensor.address
