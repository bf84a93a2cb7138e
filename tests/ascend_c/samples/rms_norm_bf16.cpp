#include "kernel_operator.h"
using namespace AscendC;
// Root mean square norm of rows of bfloat16, computed in float.
class Norm {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, uint32_t rows, uint32_t n, uint32_t bug)
    {
        this->rows = rows, this->n = n, this->bug = bug;
        xg.SetGlobalBuffer((__gm__ bfloat16_t *)x);
        gg.SetGlobalBuffer((__gm__ bfloat16_t *)gamma);
        yg.SetGlobalBuffer((__gm__ bfloat16_t *)y);
        pipe.InitBuffer(in, 2, n * sizeof(bfloat16_t));
        pipe.InitBuffer(out, 2, n * sizeof(bfloat16_t));
        pipe.InitBuffer(scale, 1, n * sizeof(bfloat16_t));
        pipe.InitBuffer(wide, n * sizeof(float));
        pipe.InitBuffer(gwide, n * sizeof(float));
        pipe.InitBuffer(square, n * sizeof(float));
        pipe.InitBuffer(work, n * sizeof(float));
    }
    __aicore__ inline void Process()
    {
        LocalTensor<bfloat16_t> g = scale.AllocTensor<bfloat16_t>();
        DataCopy(g, gg, n);
        scale.EnQue(g);
        g = scale.DeQue<bfloat16_t>();
        LocalTensor<float> gf = gwide.Get<float>();
        Cast(gf, g, RoundMode::CAST_NONE, n);
        scale.FreeTensor(g);
        uint32_t share = (rows + GetBlockNum() - 1) / GetBlockNum();
        uint32_t first = GetBlockIdx() * share, last = first + share < rows ? first + share : rows;
        if (bug == 1) last = first + share;
        for (uint32_t row = first; row < last; row++) One(row, gf);
    }

private:
    __aicore__ inline void One(uint32_t row, LocalTensor<float> &gf)
    {
        LocalTensor<bfloat16_t> a = in.AllocTensor<bfloat16_t>();
        DataCopy(a, xg[row * n], n);
        in.EnQue(a);
        a = in.DeQue<bfloat16_t>();
        LocalTensor<float> x = wide.Get<float>(), s = square.Get<float>(), w = work.Get<float>();
        Cast(x, a, RoundMode::CAST_NONE, n);
        in.FreeTensor(a);
        if (bug != 2) PipeBarrier<PIPE_V>();
        Mul(s, x, x, n);
        PipeBarrier<PIPE_V>();
        ReduceSum(s, s, w, n);
        event_t id = (event_t)GetTPipePtr()->FetchEventID(HardEvent::V_S);
        SetFlag<HardEvent::V_S>(id);
        WaitFlag<HardEvent::V_S>(id);
        float mean = s.GetValue(0) / n + 1e-5f;
        float factor = 1.0f / sqrt(mean);
        Muls(x, x, factor, n);
        if (bug != 3) PipeBarrier<PIPE_V>();
        Mul(x, x, gf, bug == 4 ? 2 * n : n);
        PipeBarrier<PIPE_V>();
        LocalTensor<bfloat16_t> c = out.AllocTensor<bfloat16_t>();
        Cast(c, x, RoundMode::CAST_RINT, n);
        if (bug != 5) { out.EnQue(c); c = out.DeQue<bfloat16_t>(); }
        DataCopy(yg[row * n], c, n);
        out.FreeTensor(c);
    }
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> in;
    TQue<QuePosition::VECIN, 1> scale;
    TQue<QuePosition::VECOUT, 2> out;
    TBuf<QuePosition::VECCALC> wide, gwide, square, work;
    GlobalTensor<bfloat16_t> xg, gg, yg;
    uint32_t rows, n, bug;
};
extern "C" __global__ __aicore__ void rms_norm_bf16(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, uint32_t rows, uint32_t n, uint32_t bug)
{
    Norm norm;
    norm.Init(x, gamma, y, rows, n, bug);
    norm.Process();
}
