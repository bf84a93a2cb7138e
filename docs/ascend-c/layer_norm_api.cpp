// y[r, :] = (x[r, :] - mean) / sqrt(variance + epsilon) gamma + beta by LayerNorm, which gives mean and variance of each row too.
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void layer_norm_api(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, LayerNormTiling tiling,
                                                     float epsilon)
{
    uint32_t rows = tiling.bLength * tiling.sLength, columns = tiling.hLength, first = GetBlockIdx() * rows * columns;
    GlobalTensor<float> xGlobal, gammaGlobal, betaGlobal, yGlobal;
    xGlobal.SetGlobalBuffer((__gm__ float *)x + first, rows * columns);
    gammaGlobal.SetGlobalBuffer((__gm__ float *)gamma, columns);
    betaGlobal.SetGlobalBuffer((__gm__ float *)beta, columns);
    yGlobal.SetGlobalBuffer((__gm__ float *)y + first, rows * columns);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in, scales;
    TQue<QuePosition::VECOUT, 1> out;
    TBuf<QuePosition::VECCALC> means, variances;
    pipe.InitBuffer(in, 1, rows * columns * sizeof(float));
    pipe.InitBuffer(scales, 1, 2 * columns * sizeof(float));
    pipe.InitBuffer(out, 1, rows * columns * sizeof(float));
    pipe.InitBuffer(means, rows * sizeof(float));
    pipe.InitBuffer(variances, rows * sizeof(float));

    LocalTensor<float> values = in.AllocTensor<float>(), both = scales.AllocTensor<float>();
    DataCopy(values, xGlobal, rows * columns);
    DataCopy(both, gammaGlobal, columns);
    DataCopy(both[columns], betaGlobal, columns);
    in.EnQue(values);
    scales.EnQue(both);
    values = in.DeQue<float>();
    both = scales.DeQue<float>();
    LocalTensor<float> normed = out.AllocTensor<float>(), mean = means.Get<float>(), variance = variances.Get<float>();
    LayerNorm(normed, mean, variance, values, both, both[columns], epsilon, tiling);
    in.FreeTensor(values);
    scales.FreeTensor(both);
    out.EnQue(normed);
    normed = out.DeQue<float>();
    DataCopy(yGlobal, normed, rows * columns);
    out.FreeTensor(normed);
}
