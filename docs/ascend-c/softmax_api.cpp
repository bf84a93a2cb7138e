// y[r, :] = softmax of x[r, :] by SoftMax: rows in tiles, with the largest element and the sum of each row beside them.
#include "kernel_operator.h"

using namespace AscendC;

struct RowTiling {
    uint32_t rows;  // of a tile
    uint32_t tiles;
    SoftMaxTiling softmax;
};

extern "C" __global__ __aicore__ void softmax_api(GM_ADDR x, GM_ADDR y, RowTiling tiling)
{
    uint32_t size = tiling.rows * tiling.softmax.srcK;
    GlobalTensor<half> xGlobal, yGlobal;
    xGlobal.SetGlobalBuffer((__gm__ half *)x, tiling.tiles * size);
    yGlobal.SetGlobalBuffer((__gm__ half *)y, tiling.tiles * size);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    TBuf<QuePosition::VECCALC> sums, extremes;
    pipe.InitBuffer(in, 2, size * sizeof(half));
    pipe.InitBuffer(out, 2, size * sizeof(half));
    pipe.InitBuffer(sums, tiling.rows * 32);
    pipe.InitBuffer(extremes, tiling.rows * 32);
    LocalTensor<float> sum = sums.Get<float>(), largest = extremes.Get<float>();

    for (uint32_t tile = GetBlockIdx(); tile < tiling.tiles; tile += GetBlockNum()) {
        LocalTensor<half> values = in.AllocTensor<half>();
        DataCopy(values, xGlobal[tile * size], size);
        in.EnQue(values);
        values = in.DeQue<half>();
        LocalTensor<half> shares = out.AllocTensor<half>();
        SoftMax<half>(shares, sum, largest, values, tiling.softmax);
        in.FreeTensor(values);
        out.EnQue(shares);
        shares = out.DeQue<half>();
        DataCopy(yGlobal[tile * size], shares, size);
        out.FreeTensor(shares);
    }
}
