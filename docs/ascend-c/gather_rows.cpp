// y[i, :] = table[index[i], :]: indices are read by scalar code, rows are copied.
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void gather_rows(GM_ADDR table, GM_ADDR index, GM_ADDR y, uint32_t count, uint32_t columns)
{
    GlobalTensor<half> tableGlobal, yGlobal;
    GlobalTensor<int32_t> indexGlobal;
    tableGlobal.SetGlobalBuffer((__gm__ half *)table);
    yGlobal.SetGlobalBuffer((__gm__ half *)y, count * columns);
    indexGlobal.SetGlobalBuffer((__gm__ int32_t *)index, count);

    TPipe pipe;
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> rows;
    pipe.InitBuffer(rows, 2, columns * sizeof(half));
    for (uint32_t i = GetBlockIdx(); i < count; i += GetBlockNum()) {
        int32_t row = indexGlobal.GetValue(i);
        LocalTensor<half> values = rows.AllocTensor<half>();
        DataCopy(values, tableGlobal[row * columns], columns);
        rows.EnQue(values);
        values = rows.DeQue<half>();
        DataCopy(yGlobal[i * columns], values, columns);
        rows.FreeTensor(values);
    }
}
