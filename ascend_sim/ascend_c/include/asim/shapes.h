// Shapes that a kernel notes at a tensor, and copies that change the order of elements by them.
#pragma once
#include "asim/copy.h"

namespace AscendC {

inline int64_t GetShapeSize(const ShapeInfo &shape) {
    uint64_t size = 1;
    for (int axis = 0; axis < shape.shapeDim; axis++) size *= shape.shape[axis];
    return size;
}

struct Nz2NdParamsFull {
    Nz2NdParamsFull() = default;
    Nz2NdParamsFull(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t src_matrix, uint16_t src_column, uint16_t dst_row,
                    uint16_t dst_matrix)
        : ndNum(matrices), nValue(rows), dValue(columns), srcNdMatrixStride(src_matrix), srcNStride(src_column), dstDStride(dst_row),
          dstNdMatrixStride(dst_matrix) {}
    uint16_t ndNum = 1, nValue = 0, dValue = 0, srcNdMatrixStride = 1, srcNStride = 0, dstDStride = 0, dstNdMatrixStride = 1;
};
// One copy for each 16 columns: their rows lie one behind the other in the Unified Buffer.
template <class T> inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const Nz2NdParamsFull &p, ASIM_SITE) {
    constexpr int32_t COLUMNS = 16, SQUARE = COLUMNS * COLUMNS;
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "DataCopy of NZ to ND: elements of 2 or 4 bytes");
    if (p.dValue % COLUMNS || p.dstDStride < COLUMNS)
        asim::refuse(site, "DataCopy of NZ to ND: dValue %d and dstDStride %d; dValue is a multiple of %d, dstDStride at least %d", p.dValue,
                     p.dstDStride, COLUMNS, COLUMNS);
    for (int32_t matrix = 0; matrix < p.ndNum; matrix++)
        for (int32_t column = 0; column < p.dValue; column += COLUMNS)
            DataCopyPad(dst[matrix * p.dstNdMatrixStride + column],
                        src[matrix * p.srcNdMatrixStride * SQUARE + column * p.srcNStride],
                        DataCopyExtParams(p.nValue, COLUMNS * sizeof(T), 0, (p.dstDStride - COLUMNS) * sizeof(T), 0), site);
}

}  // namespace AscendC
