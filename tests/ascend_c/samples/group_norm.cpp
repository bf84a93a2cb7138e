#include "kernel_operator.h"
using namespace AscendC;
// Norm of groups of channels, x [groups, channels * pixels].
extern "C" __global__ __aicore__ void group_norm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, uint32_t groups, uint32_t channels, uint32_t pixels, uint32_t bug)
{
    uint32_t n = channels * pixels;
    GlobalTensor<float> xg, yg, gg, bg;
    xg.SetGlobalBuffer((__gm__ float *)x);
    yg.SetGlobalBuffer((__gm__ float *)y);
    gg.SetGlobalBuffer((__gm__ float *)gamma);
    bg.SetGlobalBuffer((__gm__ float *)beta);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<> work, stat;
    pipe.InitBuffer(in, 2, n * 4);
    pipe.InitBuffer(out, 2, n * 4);
    pipe.InitBuffer(work, n * 4);
    pipe.InitBuffer(stat, 64);
    for (uint32_t g = GetBlockIdx(); g < groups; g += bug == 3 ? 1 : GetBlockNum()) {
        LocalTensor<float> a = in.AllocTensor<float>(), w = work.Get<float>(), s = stat.Get<float>();
        DataCopy(a, xg[g * n], n);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> c = out.AllocTensor<float>();
        ReduceSum(s, a, w, (int32_t)n);
        event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
        SetFlag<HardEvent::V_S>(id);
        WaitFlag<HardEvent::V_S>(id);
        float mean = s.GetValue(0) / n;
        Adds(a, a, -mean, n);
        PipeBarrier<PIPE_V>();
        Mul(c, a, a, n);
        PipeBarrier<PIPE_V>();
        ReduceSum(s[8], c, w, (int32_t)n);
        SetFlag<HardEvent::V_S>(id);
        if (bug != 1) WaitFlag<HardEvent::V_S>(id);
        float over = 1.0f / sqrt(s.GetValue(8) / n + 1e-5f);
        for (uint32_t k = 0; k < channels; k++) {
            float scale = gg.GetValue(g * channels + k) * over;
            Muls(c[k * pixels], a[k * pixels], scale, pixels);
            if (bug != 2) PipeBarrier<PIPE_V>();
            Adds(c[k * pixels], c[k * pixels], bg.GetValue(g * channels + k), pixels);
        }
        out.EnQue(c);
        if (bug != 4) c = out.DeQue<float>();
        DataCopy(yg[g * n], c, n);
        out.FreeTensor(c);
        in.FreeTensor(a);
    }
}
