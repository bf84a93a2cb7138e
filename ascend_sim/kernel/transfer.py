"""The methods of a builder for copies, conversions on the way to L1, and fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.errors import SimError
from ascend_sim.isa.direct import DataCopyDn2Nz
from ascend_sim.isa.transfer import DataCopy, DataCopyExtreme, DataCopyNd2Nz, DataCopyPastL2, DataCopyPlanes, Fill
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.operands import ChannelMatrices, CopyLoop


class TransferMethods:
    """Methods of a builder for transfers; addresses are bytes in a buffer, or operands in GM."""

    if TYPE_CHECKING:

        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...

    def data_copy(
        self,
        source: str,
        destination: str,
        dst: int,
        src: int,
        row_bytes: int,
        rows: int = 1,
        src_stride: int = 0,
        dst_stride: int = 0,
        atomic_add: str = "",
        operand: str = "",
        l2_bypass: bool = False,
        keep: str = "",
    ) -> None:
        """Copy rows of bytes from one space to another; see `DataCopy`, and `DataCopyPastL2` for a read with `l2_bypass`.

        Strides are bytes from the beginning of one row to the next; `atomic_add` names the dtype in which rows are added to
        those in GM, "" for a plain copy; with `keep` "max" or "min" the larger or the smaller number stays there instead,
        compared in the format `atomic_add`; SimError without that format or with `l2_bypass`. `operand` is a label for the
        counts of bytes.

        Fields of copy_gm_to_ubuf, copy_gm_to_ubuf_align, copy_gm_to_ubuf_align_v2 (GM->UB; more: docs/instructions.md):
        - `row_bytes`: len_burst 0 to 2,097,120 in steps of 32 (dav-1001, dav-2002, dav-2201); 0 to 2,097,151 (dav-2201,
          dav-3510)
        - `rows`: n_burst 0 to 4,095
        - `src_stride - row_bytes`: src_gap 0 to 2,097,120 in steps of 32 (dav-1001, dav-2002, dav-2201); gm_gap 0 to
          4,294,967,295 (dav-2201)
        - `src_stride`: gm_stride 0 to 1,099,511,627,775 (dav-3510)
        - `dst_stride - row_bytes`: dst_gap 0 to 2,097,120 in steps of 32 (dav-1001, dav-2002, dav-2201)
        - `row_bytes` and `dst_stride`: local_gap 0 to 4,294,967,295 32-byte blocks (dav-2201)
        - `dst_stride`: local_stride 0 to 67,108,832 in steps of 32 (dav-3510); 0 to 2,097,151 (dav-3510)
        """
        shape = source, destination, row_bytes, rows, src_stride, dst_stride, atomic_add, operand
        if keep:
            if not atomic_add or l2_bypass:
                raise SimError(f"data_copy: keep={keep!r} needs atomic_add=FORMAT and excludes l2_bypass")
            return self._emit((DataCopyExtreme, *shape, keep), dst, src)
        self._emit((DataCopyPastL2 if l2_bypass else DataCopy, *shape), dst, src)

    def data_copy_planes(
        self, source: str, destination: str, dst: int, src: int, row_bytes: int, rows: CopyLoop, planes: CopyLoop
    ) -> None:
        """Copy planes of rows of bytes from one space to another; see `DataCopyPlanes`.

        `rows` and `planes` have the numbers of turns and the strides in bytes on both sides.

        Fields of copy_gm_to_ubuf_align_v2 (GM->UB on dav-3510; more: docs/instructions.md):
        - `row_bytes`: len_burst 0 to 2,097,151
        - `rows.times`: n_burst 0 to 4,095
        - `rows.src_stride`, `planes.src_stride`: gm_stride, loop1_gm 0 to 1,099,511,627,775
        - `rows.dst_stride`: local_stride 0 to 67,108,832 in steps of 32; 0 to 2,097,151
        - `planes.times`: loop1_size 1 to 2,097,151
        - `planes.dst_stride`: loop1_local 0 to 67,108,832 in steps of 32
        """
        key = (DataCopyPlanes, source, destination, row_bytes, *rows, "", "", *planes)
        self._emit(key, dst, src)

    def data_copy_nd2nz(
        self, dst: int, src: int, rows: int, cols: int, itemsize: int, src_stride: int, rows_padded: int, operand: str = ""
    ) -> None:
        """Convert a row-major matrix in GM to NZ fractals in L1; see `DataCopyNd2Nz`.

        The rows lie `src_stride` bytes apart in GM and go to [ceil(cols / C0)][rows_padded][C0].

        Fields of copy_gm_to_cbuf_multi_nd2nz (GM->L1 on dav-2201, dav-3510; more: docs/instructions.md):
        - `rows`: n_value 0 to 16,384
        - `cols`: d_value 0 to 65,535 (dav-2201); 0 to 2,097,151 (dav-3510)
        - `itemsize`: items of 1, 2, 4 bytes
        - `itemsize` and `src_stride`: src_d_value 1 to 65,535 elements (dav-2201)
        - `src_stride`: loop1_src_stride 1 to 1,099,511,627,775 (dav-3510)
        - `rows_padded`: dst_nz_c0_stride 1 to 16,384
        """
        self._emit((DataCopyNd2Nz, rows, cols, itemsize, src_stride, rows_padded, operand), dst, src)

    def data_copy_dn2nz(
        self, dst: int, src: int, matrices: ChannelMatrices, operand: str = "", most_bytes_per_cycle: float = 0
    ) -> None:
        """Convert channels that lie apart in GM to blocks of channels in L1; see `DataCopyDn2Nz`.

        A last block is filled up with zeros; `most_bytes_per_cycle` is a rate that the copy does not exceed, 0 for that of the
        path.

        Fields of copy_gm_to_cbuf_multi_dn2nz (GM->L1 on dav-3510; more: docs/instructions.md):
        - `matrices.channels`: d_value 0 to 2,097,151
        - `matrices.pixels`: n_value 0 to 16,384
        - `matrices.itemsize`: items of 1, 2, 4 bytes
        - `matrices.channel_stride`: loop1_src_stride 1 to 1,099,511,627,775
        - `matrices.pixel_stride`, `matrices.block_stride`: dst_nz_n_stride, dst_nz_c0_stride 32 to 524,288 in steps of 32
        - `matrices.matrices`: nd_num 0 to 4,095
        - `matrices.src_step`: loop4_src_stride 0 to 1,099,511,627,775
        - `matrices.dst_step`: dst_nz_matrix_stride 0 to 2,097,120 in steps of 32
        """
        self._emit((DataCopyDn2Nz, *matrices, operand, most_bytes_per_cycle), dst, src)

    def fill(self, destination: str, dst: int, size: int) -> None:
        """Set `size` bytes of a buffer to zero: whole units of the chip's instruction (`fill_unit`), in UB any even number.

        Fields of create_cbuf_matrix (->L1; more: docs/instructions.md):
        - `size`: repeat 0 to 16,776,704 in steps of 512 (dav-1001, dav-2002); block_num 0 to 1,048,544 in steps of 32
          (dav-2201, dav-3510)
        """
        self._emit((Fill, destination, size), dst)
