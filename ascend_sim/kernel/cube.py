"""The methods of a builder that fill L0A, L0B and the bias table, multiply, and bring results out of L0C."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.bias import LoadBias
from ascend_sim.isa.cube import Fixpipe, FixpipeExtreme, FixpipeNd, FixpipeNdExtreme, FixpipeUnitFlag, Mmad
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.field_types import is_whole
from ascend_sim.kernel.operands import ColumnRuns, MapWindow, Span, TilePiece, matrix_window
from ascend_sim.kernel.tensor import dtype_name, item_bytes


class MatrixPiece(NamedTuple):
    """Part of an NZ matrix of `dtype` in L1, in rows and columns; the matrix has `held` rows."""

    dtype: str
    held: int
    rows: Span
    columns: Span


class CubeMethods:
    """Builder's methods for instructions of the cube and its buffers; addresses are bytes in a buffer, or operands in GM."""

    if TYPE_CHECKING:
        chip: ChipSpec

        @property
        def turns_bytes_in_squares(self) -> bool: ...
        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...

    def load_data_2d(
        self,
        destination: str,
        dst: int,
        src: int,
        itemsize: int,
        repeat: int,
        src_stride: int = 1,
        transpose: bool = False,
        dst_stride: int = 1,
        fractal_stride: int = 1,
    ) -> None:
        """Load fractals from L1 to L0A or L0B; see `LoadData2D`.

        `repeat` fractals of 512 bytes, `src_stride` fractals apart in L1 and `dst_stride` apart in `destination`; with
        `transpose` `repeat` squares, each turned: one fractal of 2-byte items, or two of others, which then lie
        `fractal_stride` apart.

        Fields of load_cbuf_to_ca, load_cbuf_to_cb, load_cbuf_to_ca_transpose, load_cbuf_to_cb_transpose (L1->L0B; more:
          docs/instructions.md):
        - `itemsize`: items of 1, 2 bytes (dav-1001, dav-2002); items of 1, 2, 4 bytes (dav-2201, dav-3510)
        - `repeat`: repeat 0 to 255 (dav-1001, dav-2002, dav-2201); k_step 0 to 255 (dav-3510)
        - `src_stride`: src_stride 0 to 65,535
        - `itemsize` and `src_stride`: src_stride 0 to 65,535 squares (dav-2201)
        - `transpose`: transpose 0 or 1
        - `itemsize` and `transpose`: m_step 0 to 255 16 rows (dav-3510)
        - `dst_stride`: dst_gap 1 to 65,536 (dav-2002, dav-2201); dst_stride 0 to 65,535 (dav-3510)
        - `fractal_stride`: dst_frac_gap 1 to 65,536 (dav-2201)
        """
        strides = src_stride, transpose, dst_stride, fractal_stride
        self._emit((LoadData2D, destination, itemsize, repeat, *strides), dst, src)

    def _load_squares(self, dst: int, src: int, held: int, rows: Span, columns: Span) -> None:
        """Load part of an NZ matrix of 1-byte items as the right operand [K, N], in transposed squares of 32 x 32.

        Raises SimError for rows, columns and `held` that are not whole squares.
        """
        side = BLOCK_BYTES
        if any(count % side for count in (held, *rows, *columns)):
            raise SimError(
                f"to L0B: rows {rows.start} to {rows.start + rows.length} of {held}, {columns.length} columns from "
                f"{columns.start}: 1-byte items are transposed in squares of {side} (asc-devkit, LoadDataWithTranspose)"
            )
        across, square = columns.length // side, 2 * FRACTAL_BYTES
        first = src + (columns.start // side * held + rows.start) * side
        for row in range(rows.length // side):
            place = dst + row * across * square
            self.load_data_2d("L0B", place, first + row * square, 1, across, held // FRACTAL, True, 2)

    def _piece(self, what: str, dtype: str, held: int, rows: Span, columns: Span) -> MatrixPiece:
        """Return part of a matrix in L1; `what` is the calling method's name, whose last three letters name the target buffer.

        Raises SimError for rows, columns or `held` that are not whole numbers or too small, and for more bytes than the buffer
        has.
        """
        least = {"row": (rows.start, 0), "rows": (rows.length, 1), "column": (columns.start, 0), "columns": (columns.length, 1)}
        for name, (value, low) in (*least.items(), ("held", (held, 1))):
            if not is_whole(value) or value < low:  # no conversion to int: it would bind the body of a loop to one place
                raise SimError(f"{what}: {name} is {value!r}; allowed is a whole number from {low}")
        buffer = what[-3:].upper()
        size, room = rows.length * columns.length * item_bytes(dtype_name(dtype)), self.chip.buffers[buffer]  # type: ignore[index]
        if size > room:
            text = f"{rows.length} rows of {columns.length} {dtype} are {size} bytes; {buffer} has {room}"
            raise SimError(f"{what}: {text} (chip {self.chip.name}, buffers.{buffer})")
        return MatrixPiece(dtype, held, rows, columns)

    def _load_matrix(self, destination: str, dst: int, src: int, piece: MatrixPiece, transpose: bool) -> None:
        """Load part of an NZ matrix in L1 to L0A or L0B by img2col, as a map one pixel high under a 1 x 1 kernel.

        The columns are rounded up to whole C0. Bytes for L0B are loaded in squares of 32 x 32 where the chip's img2col cannot
        transpose them. Raises SimError for rows beyond `held`, a first column inside a C0, and parts of squares; the matrix's
        last column is not known.
        """
        dtype, held, (row, rows), (column, columns) = piece
        c0 = self.chip.alignment.block // (itemsize := item_bytes(dtype))
        if row + rows > held or column % c0:
            raise SimError(
                f"to {destination}: rows {row} to {row + rows} of {held}, columns from {column}; a piece lies inside the "
                f"matrix and begins at a multiple of {c0} columns (32 bytes of {dtype})"
            )
        span = Span(column, ceil_div(columns, c0) * c0)
        if destination == "L0B" and itemsize == 1 and self.turns_bytes_in_squares:
            return self._load_squares(dst, src, held, piece.rows, span)
        self.load_data_3d(destination, dst, src, itemsize, matrix_window(held), piece.rows, span, transpose)

    def _load_fractals(self, dst: int, src: int, piece: MatrixPiece) -> None:
        """Load part of a matrix stored [N, K] as the right operand: a copy of its fractals, which have the order of L0B.

        One load if the piece has all rows, otherwise one for each C0 columns, which are rounded up to C0. Raises SimError for
        rows that are not whole fractals or beyond `held`, and for a first column inside a C0.
        """
        dtype, held, (row, rows), (column, columns) = piece
        c0 = self.chip.alignment.block // (itemsize := item_bytes(dtype))
        if any(count % FRACTAL for count in (row, rows, held)) or column % c0 or row + rows > held:
            raise SimError(
                f"l1_to_l0b: rows {row} to {row + rows} of {held}, columns from {column}: with transpose it copies whole "
                f"fractals, {FRACTAL} rows of {c0} {dtype} (gm_to_l1 pads with held=)"
            )
        fractals, of_column, blocks = rows // FRACTAL, held // FRACTAL, ceil_div(columns, c0)
        first = src + (column // c0 * of_column + row // FRACTAL) * FRACTAL_BYTES
        if fractals == of_column:
            return self.load_data_2d("L0B", dst, first, itemsize, blocks * fractals)
        for block in range(blocks):
            place, source = dst + block * fractals * FRACTAL_BYTES, first + block * of_column * FRACTAL_BYTES
            self.load_data_2d("L0B", place, source, itemsize, fractals)
        return None

    def load_data_3d(
        self,
        destination: str,
        dst: int,
        src: int,
        itemsize: int,
        window: MapWindow,
        rows: Span,
        columns: Span | ColumnRuns,
        transpose: bool = False,
    ) -> None:
        """Load img2col of a map in L1: `rows` (output pixels) and `columns` (of K) of its matrix; see `LoadData3D`.

        The map and the kernel over it are those of `window`. To L0A it is the left operand, with `transpose` its transpose; to
        L0B its rows are K. Padding reads as zero.

        Fields of img2col_cbuf_to_ca, img2col_cbuf_to_cb, img2colv2_cbuf_to_ca, img2colv2_cbuf_to_cb (L1->L0B; more:
          docs/instructions.md):
        - `itemsize`: items of 1, 2 bytes (dav-1001, dav-2002); items of 1, 2, 4 bytes (dav-2201, dav-3510)
        - `window.height`, `window.width`: fmatrix.l1_h, fmatrix.l1_w 0 to 32,767
        - `window.k_h`, `window.k_w`: filter_h, filter_w 1 to 255 (dav-1001); 1 to 511 (dav-2002, dav-2201, dav-3510)
        - `window.stride_h`, `window.stride_w`: stride_h, stride_w 1 to 63
        - `window.dilation_h`, `window.dilation_w`: dilation_h, dilation_w 1 to 255
        - `window.pad_top`, `window.pad_left`: fmatrix.pad_top, fmatrix.pad_left 0 to 255
        - `window.height`, `window.k_h`, `window.stride_h`, `window.dilation_h`, `window.pad_top` and `window.out_height`:
          fmatrix.pad_bottom 0 to 255 pixels
        - `window.width`, `window.k_w`, `window.stride_w`, `window.dilation_w`, `window.pad_left` and `window.out_width`:
          fmatrix.pad_right 0 to 255 pixels
        - `rows.start`: m_start 0 to 32,767 (dav-2002, dav-2201, dav-3510)
        - `rows.length`, `columns.start`, `columns.length`: m_extension, k_start, k_extension 0 to 65,535 (dav-2002, dav-2201,
          dav-3510)
        - `itemsize`, `window.k_h`, `window.k_w`, `columns.start` and `columns.length`: channel_size 0 to 65,535 channels
          (dav-2002, dav-2201, dav-3510)
        - `columns.repeat`: repeat_time 1 to 255 (dav-3510)
        - `itemsize`, `columns.start`, `columns.length`, `columns.repeat` and `columns.stride`: channel_size 0 to 65,535
          channels (dav-3510)
        - `columns.stride`: repeat_stride 0 to 65,535 (dav-3510)
        - `columns.line`: rpt_dst_stride 1 to 65,535 (dav-3510)
        """
        span, runs = columns[:2], columns[2:]
        self._emit((LoadData3D, destination, itemsize, *window, *rows, *span, transpose, *runs), dst, src)

    def mmad(
        self,
        dst: int,
        left: int,
        right: int,
        m: int,
        k: int,
        n: int,
        dtype: str,
        accumulate: bool,
        hf32_bits: int = 0,
        gemv: bool | None = None,
        bias: int = -1,
    ) -> None:
        """Multiply two matrices into L0C; see `Mmad`.

        Unless `gemv` is given, a product with m = 1 is in GEMV mode; only the 950 can leave that mode. With `bias`, an address
        in BT, the sum begins with the numbers that `load_bias` brought there.

        Fields of mad (L0A*L0B->L0C; more: docs/instructions.md):
        - `m`, `k`, `n`: m, k, n 0 to 4,095
        - `dtype`: float16, int8 (dav-1001, dav-2002); float16, bfloat16, float32, hf32, int8 (dav-2201); float16, bfloat16,
          float32, hf32, int8, float8_e4m3fn, float8_e5m2, hifloat8 (dav-3510)
        - `accumulate`: c_matrix_init_val 0 or 1 (dav-1001, dav-2002)
        - `gemv`: disable_gemv 0 or 1 (dav-3510)
        - `accumulate` and `bias`: c_matrix_init_val 0 or 1 (dav-2201, dav-3510)
        - `bias`: c_matrix_source 0 or 1 (dav-2201, dav-3510)
        """
        gemv = m == 1 if gemv is None else gemv
        self._emit((Mmad, m, k, n, dtype, accumulate, hf32_bits, gemv, bias), dst, left, right)

    def load_bias(self, dst: int, src: int, count: int, dtype: str) -> None:
        """Load numbers from L1 to the bias table; see `LoadBias`.

        `dst` and `src` are addresses. Float16 is widened to float32 on the way; float32 and int32 stay. Raises SimError for
        another dtype and on a chip without a bias table.

        Fields of copy_cbuf_to_bt (L1->BT on dav-2201, dav-3510; more: docs/instructions.md):
        - `dtype`: conv_control 0 or 1; float16, float32, int32
        - `count` and `dtype`: len_burst 1 to 65,535 64-byte units (dav-2201); 1 to 32,767 64-byte units (dav-3510)
        """
        self._emit((LoadBias, count, dtype), dst, src)

    def fixpipe(
        self,
        dst: int,
        src: int,
        m: int,
        n: int,
        m_padded: int,
        dtype: str,
        c0: int,
        dst_stride: int,
        atomic_add: bool = False,
        unit_flag: bool = False,
        pre: Quantisation | None = None,
        scales: int = 0,
        keep: str = "",
    ) -> None:
        """Store a tile of L0C to GM; see `Fixpipe`, and `FixpipeUnitFlag`.

        `m` x `n` of a tile of `m_padded` rows go to [n / c0][m][c0] as `dtype`, blocks `dst_stride` bytes apart; `atomic_add`
        adds to what GM holds, `keep` "max" or "min" leaves the larger or the smaller number there; SimError for both, and for
        `keep` with `unit_flag`. `scales` is the address of the columns' scales in the Fixpipe buffer, for a `pre` with
        `by_column`.

        Fields of copy_matrix_cc_to_gm (L0C->GM on dav-2201, dav-3510; more: docs/instructions.md):
        - `m`, `m_padded`: m_size, src_stride 0 to 65,535
        - `dtype`: float32, float16, bfloat16, int8, uint8, int32 (dav-2201); float32, float16, bfloat16, float8_e4m3fn,
          hifloat8, int8, uint8, int32 (dav-3510)
        - `n` and `c0`: n_size 0 to 4,095 columns
        - `dtype` and `c0`: channel_split 0 or 1
        - `dst_stride`: dst_stride 32 to 137,438,953,440 in steps of 32 (dav-2201); 1 to 4,294,967,295 (dav-3510)
        """
        shape = m, n, m_padded, dtype, c0, dst_stride
        if keep:
            refuse_both("fixpipe", atomic_add, keep)
            if unit_flag:
                raise SimError(f"fixpipe: unit_flag and keep={keep!r} together are not simulated")
            return self._drain((FixpipeExtreme, *shape, True, pre), dst, src, scales, keep)
        self._drain((FixpipeUnitFlag if unit_flag else Fixpipe, *shape, atomic_add, pre), dst, src, scales)

    def fixpipe_nd(
        self,
        dst: int,
        src: int,
        m: int,
        n: int,
        m_padded: int,
        dtype: str,
        dst_stride: int,
        atomic_add: bool = False,
        pre: Quantisation | None = None,
        scales: int = 0,
        keep: str = "",
    ) -> None:
        """Store a tile of L0C to rows in GM; see `FixpipeNd`.

        `m` x `n` of a tile of `m_padded` rows go to rows `dst_stride` bytes apart as `dtype`; `atomic_add` adds to what GM
        holds. `pre`, `scales` and `keep` are as in `fixpipe`.

        Fields of copy_matrix_cc_to_gm (L0C->GM on dav-2201, dav-3510; more: docs/instructions.md):
        - `m`: m_size 0 to 8,192 (dav-2201); 0 to 65,535 (dav-3510)
        - `n`: n_size 0 to 4,095
        - `m_padded`: src_stride 0 to 65,535
        - `dtype`: float32, float16, bfloat16, int8, uint8, int32 (dav-2201); float32, float16, bfloat16, float8_e4m3fn,
          hifloat8, int8, uint8, int32 (dav-3510)
        - `dtype` and `dst_stride`: dst_stride 1 to 4,294,967,295 elements
        """
        shape = m, n, m_padded, dtype, dst_stride
        if keep:
            refuse_both("fixpipe_nd", atomic_add, keep)
            return self._drain((FixpipeNdExtreme, *shape, True, pre), dst, src, scales, keep)
        self._drain((FixpipeNd, *shape, atomic_add, pre), dst, src, scales)

    def _drain(self, key: Key, dst: int, src: int, scales: int, *more: str) -> None:
        """Append a drain of L0C whose last field in `key` is its arithmetic, then the fields `more`; `scales` is the third
        operand.

        Raises SimError unless that field is a Quantisation or None, and for scales that it does not take.
        """
        pre = key[-1]
        if not isinstance(pre, Quantisation | None):
            raise SimError(f"{key[0].name}: pre is {pre!r}; a Quantisation or None is allowed")
        if scales and not (pre is not None and pre.by_column):
            raise SimError(f"{key[0].name}: scales={scales} without pre=Quantisation(by_column=True), which alone takes them")
        self._emit((*key, *more), dst, src, scales)

    def fixpipe_dn(
        self, dst: int, src: int, piece: TilePiece, dtype: str, row_stride: int, column_stride: int, atomic_add: bool = False
    ) -> None:
        """Store part of a tile of L0C to single elements in GM; see `FixpipeDn`.

        Element (i, j) of `piece` goes to `dst` + i * `row_stride` + j * `column_stride` (bytes) as `dtype`; `atomic_add` adds
        to what GM holds. Strides are whole elements; on dav-2201 columns adjoin (`column_stride` is one element), on dav-3510
        they may lie apart. int8 and uint8 need a scale, which this method cannot take, and are refused.

        Fields of copy_matrix_cc_to_gm (L0C->GM on dav-2201, dav-3510; more: docs/instructions.md):
        - `piece.m`: m_size 0 to 8,192; 0 to 32,767 (dav-3510); dn_num 1 to 65,535 (dav-3510)
        - `piece.n`: n_size 0 to 4,095
        - `piece.m_padded`: src_stride 0 to 65,535
        - `dtype`: float32, float16, bfloat16, int8, uint8, int32 (dav-2201); float32, float16, bfloat16, float8_e4m3fn,
          hifloat8, int8, uint8, int32 (dav-3510)
        - `dtype` and `row_stride`: dst_stride 1 to 4,294,967,295 elements; dst_dn_stride 0 to 4,294,967,295 elements (dav-3510)
        - `dtype` and `column_stride`: dst_stride 1 to 4,294,967,295 elements (dav-3510)
        """
        m, n, m_padded, first, row = piece
        self._emit((FixpipeDn, m, n, m_padded, first, dtype, row_stride, column_stride, atomic_add, row), dst, src)

    def l0c_to_ub(self, dst: int, src: int, rows: int, columns: int, m_padded: int, dtype: str) -> None:
        """Move a tile of L0C to UB; see `L0cToUb`.

        `rows` rows, rounded up to 16 unless it is one, of `columns` blocks of 16 columns, of a tile of `m_padded` rows, as
        `dtype`.

        Fields of copy_matrix_cc_to_ubuf (L0C->UB on dav-1001, dav-2002; more: docs/instructions.md):
        - `rows`: len_burst 0 to 65,535 1024-byte fractals
        - `columns`: n_burst 0 to 4,095
        - `rows` and `m_padded`: src_gap 0 to 65,535 1024-byte fractals
        """
        self._emit((L0cToUb, rows, columns, m_padded, dtype), dst, src)


def refuse_both(what: str, atomic_add: bool, keep: str) -> None:
    """Raise SimError if `atomic_add` is set, since a copy to GM cannot also keep an extreme (`keep`); `what` begins the
    message.
    """
    if atomic_add:
        raise SimError(f"{what}: atomic_add and keep={keep!r} given; a copy takes one of them")
