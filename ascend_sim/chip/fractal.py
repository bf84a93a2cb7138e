"""Sizes that storage is cut into, in bytes and elements. They are the same on every chip; other values are refused.

The layouts in memory (NC1HWC0, FRACTAL_Z, the fractals of L0A, L0B and L0C), the instructions that move them and the kernels
are written for these sizes (asc-devkit, Mmad and LoadData pages; platform files: ubblock_size, cube_m_size, cube_n_size).
"""

from __future__ import annotations

BLOCK_BYTES = 32
"""Bytes of a data block, which holds the C0 channels of a pixel; addresses of L1, UB and the small buffers are whole blocks."""
REPEAT_BLOCKS = 8
"""Blocks of a whole repeat of the vector unit (asc-devkit, Gatherb and ReduceDataBlock: stated)."""
FRACTAL = 16
"""Rows and columns of a cube fractal; output channels are stored in blocks of this size (ops-nn BLOCK_CUBE: stated)."""
FRACTAL_BYTES = FRACTAL * BLOCK_BYTES
"""Bytes of an operand's fractal in L0A or L0B: 16 rows (or columns) of one block each."""
ACCUMULATOR_BYTES = 4
"""Bytes of an element of L0C, which is fp32 or int32."""
ACCUMULATOR_ROW_BYTES = FRACTAL * ACCUMULATOR_BYTES
"""Bytes of one row of a result fractal in L0C."""
ACCUMULATOR_FRACTAL_BYTES = FRACTAL * ACCUMULATOR_ROW_BYTES
"""Bytes of a result fractal in L0C."""
BIAS_UNIT = 64
"""Bytes by which the bias table is filled; a bias begins at a multiple of them (asc-devkit, DataCopy L1 to BiasTable)."""
