#include "kernel_operator.h"
using namespace AscendC;
// y = relu(float(a8 b8) * scale + bias): int8 product on the cube core, the rest on its two vector cores.
constexpr uint32_t M = 32, N = 32, K = 64;
extern "C" __global__ __aicore__ void quant_mix(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace, float scale, uint32_t bug)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GlobalTensor<int32_t> wg;
    if ASCEND_IS_AIC {
        wg.SetGlobalBuffer((__gm__ int32_t *)workspace + GetBlockIdx() * M * N, M * N);
        GlobalTensor<int8_t> ag, bg;
        ag.SetGlobalBuffer((__gm__ int8_t *)a + GetBlockIdx() * M * K, M * K);
        bg.SetGlobalBuffer((__gm__ int8_t *)b, K * N);
        TPipe pipe;
        TQue<TPosition::A1, 1> a1; TQue<TPosition::B1, 1> b1; TQue<TPosition::A2, 1> a2; TQue<TPosition::B2, 1> b2; TQue<TPosition::CO1, 1> co;
        pipe.InitBuffer(a1, 1, M * K); pipe.InitBuffer(b1, 1, K * N); pipe.InitBuffer(a2, 1, M * K); pipe.InitBuffer(b2, 1, K * N);
        pipe.InitBuffer(co, 1, M * N * 4);
        LocalTensor<int8_t> l = a1.AllocTensor<int8_t>(), r = b1.AllocTensor<int8_t>();
        DataCopy(l, ag, Nd2NzParams(1, M, K, 0, K, M, 1, 0));
        DataCopy(r, bg, Nd2NzParams(1, K, N, 0, N, K, 1, 0));
        a1.EnQue(l); b1.EnQue(r); l = a1.DeQue<int8_t>(); r = b1.DeQue<int8_t>();
        LocalTensor<int8_t> l0a = a2.AllocTensor<int8_t>(), l0b = b2.AllocTensor<int8_t>();
        for (uint32_t i = 0; i < M / 16; i++) LoadData(l0a[i * K * 16], l[i * 512], LoadData2DParams(0, K / 32, M / 16, 0, 0, false, 0));
        LoadData2dTransposeParams t;
        for (uint32_t i = 0; i < K / 32; i++) {
            t.startIndex = 0; t.repeatTimes = N / 32; t.srcStride = 1; t.dstGap = 0; t.dstFracGap = 0;
            LoadDataWithTranspose(l0b[i * N * 32], r[i * 1024], t);
        }
        a2.EnQue(l0a); b2.EnQue(l0b); l0a = a2.DeQue<int8_t>(); l0b = b2.DeQue<int8_t>();
        LocalTensor<int32_t> sum = co.AllocTensor<int32_t>();
        MmadParams product; product.m = M; product.n = N; product.k = K;
        Mmad(sum, l0a, l0b, product);
        co.EnQue(sum); sum = co.DeQue<int32_t>();
        Fixpipe(wg, sum, FixpipeParamsV220(N, M, M, N, false));
        if (bug == 1) CrossCoreSetFlag<2, PIPE_MTE2>(4); else CrossCoreSetFlag<2, PIPE_FIX>(4);
        co.FreeTensor(sum); a1.FreeTensor(l); b1.FreeTensor(r); a2.FreeTensor(l0a); b2.FreeTensor(l0b);
    }
    if ASCEND_IS_AIV {
        constexpr uint32_t H = M / 2;
        uint32_t block = GetBlockIdx() / GetSubBlockNum(), half_of = bug == 2 ? 0 : GetSubBlockIdx();
        wg.SetGlobalBuffer((__gm__ int32_t *)workspace + block * M * N + half_of * H * N, H * N);
        GlobalTensor<float> bg, yg;
        bg.SetGlobalBuffer((__gm__ float *)bias, N);
        yg.SetGlobalBuffer((__gm__ float *)y + block * M * N + half_of * H * N, H * N);
        TPipe pipe;
        TQue<TPosition::VECIN, 1> in, more; TQue<TPosition::VECOUT, 1> out;
        pipe.InitBuffer(in, 1, H * N * 4); pipe.InitBuffer(more, 1, N * 4); pipe.InitBuffer(out, 1, H * N * 4);
        LocalTensor<float> add = more.AllocTensor<float>();
        DataCopy(add, bg, N);
        more.EnQue(add); add = more.DeQue<float>();
        if (bug != 3) CrossCoreWaitFlag(4);
        LocalTensor<int32_t> x = in.AllocTensor<int32_t>();
        DataCopy(x, wg, bug == 4 ? H * N / 2 : H * N);
        in.EnQue(x); x = in.DeQue<int32_t>();
        LocalTensor<float> c = out.AllocTensor<float>();
        Cast(c, x, RoundMode::CAST_NONE, H * N);
        PipeBarrier<PIPE_V>();
        Muls(c, c, scale, H * N);
        PipeBarrier<PIPE_V>();
        Add(c, c, add, N, H, {1, 1, 1, 4, 4, 0});
        if (bug != 5) PipeBarrier<PIPE_V>();
        Relu(c, c, H * N);
        out.EnQue(c); c = out.DeQue<float>();
        DataCopy(yg, c, H * N);
        if (bug == 3) CrossCoreWaitFlag(4);
        in.FreeTensor(x); more.FreeTensor(add); out.FreeTensor(c);
    }
}
