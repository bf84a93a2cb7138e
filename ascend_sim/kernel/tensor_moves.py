"""The methods of a `Kernel` that move tensors and matrices: between GM and UB, to L1, L0A and L0B, and out of L0C."""

from __future__ import annotations

from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.cube import refuse_both
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.tensor import Tensor, rows_in_gm


class _Sides(NamedTuple):
    """Both sides of a copy between GM and UB: rows, bytes of a row, row distance in GM and in UB (bytes), UB address."""

    rows: int
    size: int
    stride: int
    step: int
    address: int


class TensorMoves(KernelBuilder):
    """Builder with loads and stores of `Tensor`s, which it turns to transfers, loads and drains."""

    # -- GM <-> UB -----------------------------------------------------------------------------------------------------

    def gm_to_ub(self, dst: int | LocalTensor | BufferQueue[LocalTensor], src: Tensor, operand: str = "") -> None:
        """Copy part of a GM tensor to UB row by row: to a tensor of its shape and dtype (else SimError), or to an address,
        where each row begins a new block. `operand` labels the counted bytes; "": the tensor's name.

        For a queue, here and in the other moves, the instruction stands inside its `write` or `read`.

        Fields of copy_gm_to_ubuf, copy_gm_to_ubuf_align, copy_gm_to_ubuf_align_v2 (GM->UB; more: docs/instructions.md):
        - `shape[0]`: n_burst 0 to 4,095
        - `shape[1]` and `dtype`: len_burst 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); 0 to 2,097,151 bytes
          (dav-2201, dav-3510)
        - `shape[1]`, `dtype` and `dst.row_stride`: dst_gap 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); local_gap
          0 to 4,294,967,295 32-byte blocks (dav-2201)
        - `dst.row_stride`: local_stride 0 to 67,108,832 in steps of 32 (dav-3510)
        - `shape[1]`, `dtype` and `src.strides[0]`: src_gap 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); gm_gap 0
          to 4,294,967,295 bytes (dav-2201)
        - `src.strides[0]`: gm_stride 0 to 1,099,511,627,775 (dav-3510)
        """
        if isinstance(dst, BufferQueue):
            with dst.write() as place:
                return self.gm_to_ub(place, src, operand)
        rows, size, stride, step, at = self._sides("gm_to_ub", src, dst)
        self.data_copy("GM", "UB", at, src.address, size, rows, stride, step, operand=operand or src.name)

    def ub_to_gm(
        self,
        dst: Tensor,
        src: int | LocalTensor | BufferQueue[LocalTensor],
        *,
        atomic_add: bool = False,
        keep: str = "",
        operand: str = "",
    ) -> None:
        """Copy rows to part of a GM tensor from a UB tensor of its shape and dtype, or from an address, where each begins
        a block of 32 bytes.

        `atomic_add` adds them to what GM holds; `keep` "max" or "min" leaves the larger or the smaller of both (SetAtomicMax,
        SetAtomicMin). Raises SimError for both at once, and for another shape or dtype.

        Fields of copy_ubuf_to_gm, copy_ubuf_to_gm_align, copy_ubuf_to_gm_align_v2 (UB->GM; more: docs/instructions.md):
        - `shape[0]`: n_burst 0 to 4,095
        - `shape[1]` and `dtype`: len_burst 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); 0 to 2,097,151 bytes
          (dav-2201, dav-3510)
        - `shape[1]`, `dtype` and `dst.strides[0]`: dst_gap 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); gm_gap 0
          to 4,294,967,295 bytes (dav-2201)
        - `dst.strides[0]`: gm_stride 0 to 1,099,511,627,775 (dav-3510)
        - `shape[1]`, `dtype` and `src.row_stride`: src_gap 0 to 65,535 32-byte blocks (dav-1001, dav-2002, dav-2201); local_gap
          0 to 4,294,967,295 32-byte blocks (dav-2201)
        - `src.row_stride`: local_stride 0 to 67,108,832 in steps of 32 (dav-3510)
        """
        if isinstance(src, BufferQueue):
            with src.read() as place:
                return self.ub_to_gm(dst, place, atomic_add=atomic_add, keep=keep, operand=operand)
        rows, size, stride, step, at = self._sides("ub_to_gm", dst, src)
        if keep:
            refuse_both("ub_to_gm", atomic_add, keep)
        added = dst.dtype if atomic_add or keep else ""
        self.data_copy("UB", "GM", dst.address, at, size, rows, step, stride, added, operand or dst.name, keep=keep)

    def _sides(self, what: str, tensor: Tensor, local: int | LocalTensor) -> _Sides:
        """Return both sides of a copy between GM and UB, gapless rows as one.

        Raises SimError for unlike dtypes or shapes; both shapes count as rows (`Tensor.rows`).
        """
        rows, columns, stride = rows_in_gm(what, tensor)
        size = columns * tensor.itemsize
        if not isinstance(local, LocalTensor):
            step, at = self.row_bytes(size), local
        else:
            if (local.dtype, local.rows, local.columns) != (tensor.dtype, rows, columns):
                raise SimError(f"{what}: {tensor} and {local}: both sides must have one shape and dtype")
            step, at = local.row_stride, local.address
        if tensor.contiguous and (rows == 1 or step == size):
            rows, size = 1, rows * size
        return _Sides(rows, size, stride, step, at)

    def row_bytes(self, size: int) -> int:
        """Return the bytes that a row of `size` bytes takes in UB: rounded up to whole blocks (chip file, alignment.block)."""
        return ceil_div(size, self.chip.alignment.block) * self.chip.alignment.block

    # -- matrices: GM -> L1 -> L0A, L0B; L0C -> GM ---------------------------------------------------------------------

    def gm_to_l1(self, dst: int, src: Tensor, *, held: int = 0, operand: str = "") -> None:
        """Load a row-major matrix [rows, columns] from GM as NZ fractals in L1: [ceil(columns / C0)][held][C0].

        C0 is 32 bytes of elements; columns behind the last are zero. `held`, the rows of the matrix in L1, is that of the
        piece unless given; rows that the piece lacks are left as they are.

        Fields of copy_gm_to_cbuf_multi_nd2nz (GM->L1 on dav-2201, dav-3510; more: docs/instructions.md):
        - `src.shape[0]`: n_value 0 to 16,384
        - `src.shape[1]`: d_value 0 to 65,535 (dav-2201); 0 to 2,097,151 (dav-3510)
        - `src.dtype`: items of 1, 2, 4 bytes
        - `src.dtype` and `src.strides[0]`: src_d_value 1 to 65,535 elements (dav-2201)
        - `src.strides[0]`: loop1_src_stride 1 to 1,099,511,627,775 (dav-3510)
        - `held`: dst_nz_c0_stride 1 to 16,384
        """
        rows, columns, stride = rows_in_gm("gm_to_l1", src)
        self.data_copy_nd2nz(dst, src.address, rows, columns, src.itemsize, stride, held or rows, operand or src.name)

    def l1_to_l0a(
        self,
        dst: int,
        src: int,
        rows: int,
        columns: int,
        dtype: str,
        *,
        held: int,
        row: int = 0,
        column: int = 0,
        transpose: bool = False,
    ) -> None:
        """Load part of an NZ matrix in L1 as the left operand [M, K]; with `transpose` the matrix is stored [K, M].

        The matrix at `src` has `held` rows; the piece has `rows` and `columns` from `row` and `column` (a multiple of C0).
        Columns are rounded up to C0. Raises SimError for rows beyond `held`, another first column, and more bytes than L0A has.

        Fields of img2col_cbuf_to_ca, img2col_cbuf_to_cb, img2colv2_cbuf_to_ca, img2colv2_cbuf_to_cb (L1->L0A; more:
          docs/instructions.md):
        - `rows`, `column`: m_extension, k_start 0 to 65,535 (dav-2002, dav-2201, dav-3510)
        - `columns`: k_extension 0 to 65,535 elements (dav-2002, dav-2201, dav-3510)
        - `dtype`: items of 1, 2 bytes (dav-1001, dav-2002); items of 1, 2, 4 bytes (dav-2201, dav-3510)
        - `held`: fmatrix.l1_w 0 to 32,767
        - `row`: m_start 0 to 32,767 (dav-2002, dav-2201, dav-3510)
        - `columns` and `column`: channel_size 0 to 65,535 channels (dav-2002, dav-2201, dav-3510)
        """
        piece = self._piece("l1_to_l0a", dtype, held, Span(row, rows), Span(column, columns))
        self._load_matrix("L0A", dst, src, piece, transpose)

    def l1_to_l0b(
        self,
        dst: int,
        src: int,
        rows: int,
        columns: int,
        dtype: str,
        *,
        held: int,
        row: int = 0,
        column: int = 0,
        transpose: bool = False,
    ) -> None:
        """Load part of an NZ matrix in L1 as the right operand [K, N]; with `transpose` the matrix is stored [N, K].

        Transposed it already has the order of L0B and is copied by fractals: rows in multiples of 16, columns from a
        multiple of C0, in one instruction if all rows are loaded, else in one for each C0 columns. Without
        `transpose`, 1-byte items on chips with `turns_bytes_in_squares` take rows, columns and `held` in multiples of 32 (else
        SimError). `held`, `row` and `column` are as in `l1_to_l0a`.

        Fields of img2col_cbuf_to_ca, img2col_cbuf_to_cb, img2colv2_cbuf_to_ca, img2colv2_cbuf_to_cb, load_cbuf_to_ca,
          load_cbuf_to_cb (L1->L0B; more: docs/instructions.md):
        - `rows`, `column`: m_extension, k_start 0 to 65,535 (dav-2002, dav-2201, dav-3510)
        - `columns`: k_extension 0 to 65,535 elements (dav-2002, dav-2201, dav-3510)
        - `dtype`: items of 1, 2 bytes (dav-1001, dav-2002); items of 1, 2, 4 bytes (dav-2201, dav-3510)
        - `held`: fmatrix.l1_w 0 to 32,767
        - `columns`, `dtype` and `held`: repeat 0 to 255 fractals (dav-1001, dav-2002, dav-2201); k_step 0 to 255 32 bytes
          (dav-3510)
        - `row`: m_start 0 to 32,767 (dav-2002, dav-2201, dav-3510)
        - `columns` and `column`: channel_size 0 to 65,535 channels (dav-2002, dav-2201, dav-3510)
        """
        piece = self._piece("l1_to_l0b", dtype, held, Span(row, rows), Span(column, columns))
        if transpose:
            self._load_fractals(dst, src, piece)
        else:
            self._load_matrix("L0B", dst, src, piece, False)

    def l0c_to_gm(
        self,
        dst: Tensor,
        src: int | BufferQueue[int],
        *,
        atomic_add: bool = False,
        keep: str = "",
        pre: Quantisation | None = None,
        scales: int = 0,
    ) -> None:
        """Store a tile of L0C, its rows rounded up to 16, to part of a GM tensor [m, n] in its dtype, or add it there.

        `pre` and `scales` are as in `fixpipe_nd`, `keep` as in `ub_to_gm`.

        Fields of copy_matrix_cc_to_gm (L0C->GM on dav-2201, dav-3510; more: docs/instructions.md):
        - `dst.shape[0]`: m_size 0 to 8,192 (dav-2201); 0 to 65,535 (dav-3510); src_stride 0 to 65,535 rows of 16
        - `dst.shape[1]`: n_size 0 to 4,095
        - `dst.dtype`: float32, float16, bfloat16, int8, uint8, int32 (dav-2201); float32, float16, bfloat16, float8_e4m3fn,
          hifloat8, int8, uint8, int32 (dav-3510)
        - `dst.dtype` and `dst.strides[0]`: dst_stride 1 to 4,294,967,295 elements
        """
        if isinstance(src, BufferQueue):
            with src.read() as place:
                return self.l0c_to_gm(dst, place, atomic_add=atomic_add, keep=keep, pre=pre, scales=scales)
        rows, columns, stride = rows_in_gm("l0c_to_gm", dst)
        height = ceil_div(rows, FRACTAL) * FRACTAL
        self.fixpipe_nd(dst.address, src, rows, columns, height, dst.dtype, stride, atomic_add, pre, scales, keep)
