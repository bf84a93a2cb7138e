#include "kernel_operator.h"
using namespace AscendC;
// y = x / keep where a bit of the mask is set, else 0.
extern "C" __global__ __aicore__ void dropout_mask(GM_ADDR x, GM_ADDR mask, GM_ADDR y, uint32_t share, float keep, uint32_t bug)
{
    constexpr uint32_t N = 1024;
    GlobalTensor<half> xg, yg;
    GlobalTensor<uint8_t> mg;
    uint32_t first = GetBlockIdx() * share;
    xg.SetGlobalBuffer((__gm__ half *)x + first, share);
    yg.SetGlobalBuffer((__gm__ half *)y + (bug == 1 ? 0 : first), share);
    mg.SetGlobalBuffer((__gm__ uint8_t *)mask + first / 8, share / 8);
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> in, bits;
    TQue<QuePosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, N * sizeof(half));
    pipe.InitBuffer(bits, 2, N / 8);
    pipe.InitBuffer(out, 2, N * sizeof(half));
    for (uint32_t at = 0; at < share; at += N) {
        LocalTensor<half> a = in.AllocTensor<half>();
        LocalTensor<uint8_t> m = bits.AllocTensor<uint8_t>();
        DataCopy(a, xg[at], N);
        DataCopy(m, mg[at / 8], bug == 2 ? N / 16 : N / 8);
        in.EnQue(a);
        if (bug != 4) a = in.DeQue<half>();
        bits.EnQue(m);
        if (bug != 3) m = bits.DeQue<uint8_t>();
        LocalTensor<half> c = out.AllocTensor<half>();
        Muls(a, a, (half)(1.0f / keep), N);
        Select(c, m, a, (half)0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, N);
        out.EnQue(c);
        in.FreeTensor(a);
        bits.FreeTensor(m);
        if (bug != 5) c = out.DeQue<half>();
        DataCopy(yg[at], c, N);
        out.FreeTensor(c);
    }
}
