#include "kernel_operator.h"
using namespace AscendC;
// y = x^T by squares of 16x16 halves.
extern "C" __global__ __aicore__ void transpose_tiles(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns, uint32_t bug)
{
    constexpr uint32_t T = 16;
    GlobalTensor<half> xg, yg;
    xg.SetGlobalBuffer((__gm__ half *)x, rows * columns);
    yg.SetGlobalBuffer((__gm__ half *)y, rows * columns);
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> in;
    TQue<QuePosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, T * columns * sizeof(half));
    pipe.InitBuffer(out, 2, T * columns * sizeof(half));
    for (uint32_t row = GetBlockIdx() * T; row < rows; row += GetBlockNum() * T) {
        LocalTensor<half> a = in.AllocTensor<half>();
        DataCopy(a, xg[row * columns], T * columns);
        if (bug != 1) { in.EnQue(a); a = in.DeQue<half>(); }
        LocalTensor<half> c = out.AllocTensor<half>();
        uint64_t from[T], to[T];
        for (uint32_t i = 0; i < T; i++) {
            from[i] = (uint64_t)a[i * columns].GetPhyAddr();
            to[i] = (uint64_t)c[i * T].GetPhyAddr();
        }
        TransDataTo5HDParams params;
        params.repeatTimes = columns / T - (bug == 2);
        params.dstRepStride = T;
        params.srcRepStride = 1;
        TransDataTo5HD<half>(to, from, params);
        if (bug != 3) { out.EnQue(c); c = out.DeQue<half>(); }
        DataCopyParams strided(columns, 1, 0, rows / T - 1);
        if (bug == 4) strided.dstStride = 0;
        if (bug != 5) in.FreeTensor(a);
        DataCopy(yg[row], c, strided);
        out.FreeTensor(c);
    }
}
