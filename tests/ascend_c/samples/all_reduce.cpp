#include "kernel_operator.h"
using namespace AscendC;
// Every block sums its share, writes it to a workspace, joins the others, and scales its share by the total.
extern "C" __global__ __aicore__ void all_reduce(GM_ADDR x, GM_ADDR y, GM_ADDR part, uint32_t share, uint32_t bug)
{
    GlobalTensor<float> xg, yg, pg;
    uint32_t first = GetBlockIdx() * share;
    xg.SetGlobalBuffer((__gm__ float *)x + first, share);
    yg.SetGlobalBuffer((__gm__ float *)y + first, share);
    pg.SetGlobalBuffer((__gm__ float *)part, 8 * GetBlockNum());
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in, parts;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECCALC> work;
    pipe.InitBuffer(in, 1, share * sizeof(float));
    pipe.InitBuffer(parts, 1, 8 * GetBlockNum() * sizeof(float));
    pipe.InitBuffer(out, 1, share * sizeof(float));
    pipe.InitBuffer(work, share * sizeof(float));
    LocalTensor<float> a = in.AllocTensor<float>(), w = work.Get<float>();
    DataCopy(a, xg, share);
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> s = out.AllocTensor<float>();
    if (bug != 1) Duplicate(s, 0.0f, 8);
    PipeBarrier<PIPE_V>();
    WholeReduceSum(s, a, share, 1, 1, 1, 8);
    out.EnQue(s);
    s = out.DeQue<float>();
    DataCopy(pg[bug == 2 ? 0 : 8 * GetBlockIdx()], s, 8);
    out.FreeTensor(s);
    if (bug != 3) SyncAll();
    LocalTensor<float> p = parts.AllocTensor<float>();
    DataCopy(p, pg, 8 * GetBlockNum());
    if (bug != 4) { parts.EnQue(p); p = parts.DeQue<float>(); }
    LocalTensor<float> c = out.AllocTensor<float>();
    WholeReduceSum(w, p, 8 * GetBlockNum(), 1, 1, 1, 8);
    SetFlag<HardEvent::V_S>(EVENT_ID3);
    WaitFlag<HardEvent::V_S>(EVENT_ID3);
    float total = w.GetValue(0);
    Muls(c, a, 1.0f / total, share);
    out.EnQue(c);
    c = out.DeQue<float>();
    DataCopy(yg, c, bug == 5 ? share + 8 : share);
    in.FreeTensor(a);
    parts.FreeTensor(p);
    out.FreeTensor(c);
}
