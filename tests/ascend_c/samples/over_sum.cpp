#include "kernel_operator.h"
using namespace AscendC;
// x over the sum of all blocks, which they add to a workspace atomically.
extern "C" __global__ __aicore__ void over_sum(GM_ADDR x, GM_ADDR y, GM_ADDR sum, uint32_t share, uint32_t bug)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> xg, yg, sg;
    xg.SetGlobalBuffer((__gm__ float *)x + GetBlockIdx() * share);
    yg.SetGlobalBuffer((__gm__ float *)y + GetBlockIdx() * share);
    sg.SetGlobalBuffer((__gm__ float *)sum);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECCALC> work;
    pipe.InitBuffer(in, 2, share * 4);
    pipe.InitBuffer(out, 2, share * 4);
    pipe.InitBuffer(work, share * 4);
    if (GetBlockIdx() == 0) {
        LocalTensor<float> zero = out.AllocTensor<float>();
        Duplicate(zero, 0.0f, 8);
        out.EnQue(zero);
        zero = out.DeQue<float>();
        if (bug != 5) DataCopy(sg, zero, 8);
        out.FreeTensor(zero);
    }
    if (bug != 1) SyncAll();
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopy(a, xg, share);
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> part = out.AllocTensor<float>();
    Duplicate(part, 0.0f, 8);
    PipeBarrier<PIPE_V>();
    ReduceSum(part, a, work.Get<float>(), (int32_t)share);
    out.EnQue(part);
    part = out.DeQue<float>();
    if (bug != 2) SetAtomicAdd<float>();
    DataCopy(sg, part, 8);
    SetAtomicNone();
    out.FreeTensor(part);
    if (bug != 3) SyncAll();
    LocalTensor<float> s = in.AllocTensor<float>();
    DataCopy(s, sg, 8);
    in.EnQue(s);
    s = in.DeQue<float>();
    SetFlag<HardEvent::MTE2_S>(0);
    if (bug != 4) WaitFlag<HardEvent::MTE2_S>(0);
    float total = s.GetValue(0);
    in.FreeTensor(s);
    LocalTensor<float> c = out.AllocTensor<float>();
    Muls(c, a, 1.0f / total, share);
    out.EnQue(c);
    c = out.DeQue<float>();
    DataCopy(yg, c, share);
    out.FreeTensor(c);
    in.FreeTensor(a);
}
