"""The instructions of a vector core; all operands lie in the Unified Buffer.

A repeat is 256 bytes of the wider operand (asc-devkit, Vector instruction performance page).
"""

from ascend_sim.isa.vector.arithmetic import (
    BINARY,
    UNARY,
    WITH_SCALAR,
    VectorBinary,
    VectorMulAdd,
    VectorScalar,
    VectorUnary,
    scalar_field,
)
from ascend_sim.isa.vector.base import Mask, VectorInstruction
from ascend_sim.isa.vector.conversion import VectorCast
from ascend_sim.isa.vector.gather_mask import GatherMask
from ascend_sim.isa.vector.mask_register import (
    CompareToRegister,
    LoadMaskRegister,
    SelectByRegister,
    SelectRegisterScalar,
    StoreMaskRegister,
)
from ascend_sim.isa.vector.movement import BroadcastColumn, Duplicate, Gather, GatherBlocks, VectorCopy
from ascend_sim.isa.vector.pieces import ReducePieces
from ascend_sim.isa.vector.rearrangement import Interleave, Scatter, Transpose, TransposeBlocks, TransposeHalves
from ascend_sim.isa.vector.reduction import ReduceBlocks, ReduceRows, ReduceWithIndex
from ascend_sim.isa.vector.selection import COMPARISONS, Compare, Select
from ascend_sim.isa.vector.two_formats import VectorBinaryCast, VectorMulAddWide
