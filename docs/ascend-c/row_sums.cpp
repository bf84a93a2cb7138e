// sums[r] = the sum of |x[r, :]| of rows of one repeat (256 bytes): a template for two formats, masks and repeats.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t ROWS = 32;

template <typename T> __global__ __aicore__ void row_sums(GM_ADDR x, GM_ADDR sums)
{
    constexpr uint32_t COLUMNS = 256 / sizeof(T);
    GlobalTensor<T> xGlobal, sumsGlobal;
    xGlobal.SetGlobalBuffer((__gm__ T *)x + GetBlockIdx() * ROWS * COLUMNS, ROWS * COLUMNS);
    sumsGlobal.SetGlobalBuffer((__gm__ T *)sums + GetBlockIdx() * ROWS, ROWS);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> rowsQueue;
    TQue<QuePosition::VECOUT, 1> sumsQueue;
    pipe.InitBuffer(rowsQueue, 1, ROWS * 256);
    pipe.InitBuffer(sumsQueue, 1, ROWS * sizeof(T));

    LocalTensor<T> rows = rowsQueue.AllocTensor<T>();
    DataCopy(rows, xGlobal, ROWS * COLUMNS);
    rowsQueue.EnQue(rows);
    rows = rowsQueue.DeQue<T>();
    LocalTensor<T> result = sumsQueue.AllocTensor<T>();
    Abs(rows, rows, (uint64_t)COLUMNS, ROWS, UnaryRepeatParams(1, 1, 8, 8));
    PipeBarrier<PIPE_V>();
    WholeReduceSum(result, rows, COLUMNS, ROWS, 1, 1, 8);
    sumsQueue.EnQue(result);
    rowsQueue.FreeTensor(rows);
    result = sumsQueue.DeQue<T>();
    DataCopy(sumsGlobal, result, ROWS);
    sumsQueue.FreeTensor(result);
}
