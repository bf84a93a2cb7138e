// y[r, :] = softmax of x[r, :]: the largest and the sum of a row are values of scalar code (GetValue behind ReduceMax, ReduceSum).
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void softmax_rows(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns)
{
    GlobalTensor<float> xGlobal, yGlobal;
    xGlobal.SetGlobalBuffer((__gm__ float *)x, rows * columns);
    yGlobal.SetGlobalBuffer((__gm__ float *)y, rows * columns);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    TBuf<QuePosition::VECCALC> scratch;
    pipe.InitBuffer(in, 2, columns * sizeof(float));
    pipe.InitBuffer(out, 2, columns * sizeof(float));
    pipe.InitBuffer(scratch, columns * sizeof(float) + 64);
    LocalTensor<float> work = scratch.Get<float>(columns), result = scratch.GetWithOffset<float>(8, columns * sizeof(float));

    for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
        LocalTensor<float> values = in.AllocTensor<float>();
        DataCopy(values, xGlobal[row * columns], columns);
        in.EnQue(values);
        values = in.DeQue<float>();
        ReduceMax(result, values, work, columns);
        float largest = result.GetValue(0);
        LocalTensor<float> shares = out.AllocTensor<float>();
        Adds(shares, values, -largest, columns);
        in.FreeTensor(values);
        PipeBarrier<PIPE_V>();
        Exp(shares, shares, columns);
        PipeBarrier<PIPE_V>();
        ReduceSum(result, shares, work, columns);
        Muls(shares, shares, 1 / result.GetValue(0), columns);
        out.EnQue(shares);
        shares = out.DeQue<float>();
        DataCopy(yGlobal[row * columns], shares, columns);
        out.FreeTensor(shares);
    }
}
