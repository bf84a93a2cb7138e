#include "kernel_operator.h"
using namespace AscendC;
// Softmax over rows of any length, in place in UB and in GM.
extern "C" __global__ __aicore__ void softmax_tails(GM_ADDR x, uint32_t rows, uint32_t n, uint32_t bug)
{
    GlobalTensor<float> xg;
    xg.SetGlobalBuffer((__gm__ float *)x, rows * n);
    uint32_t room = (n + 7) / 8 * 8;
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> row;
    TBuf<TPosition::VECCALC> work, one;
    pipe.InitBuffer(row, 1, room * sizeof(float));
    pipe.InitBuffer(work, room * sizeof(float));
    pipe.InitBuffer(one, 64);
    LocalTensor<float> w = work.Get<float>(), r = one.Get<float>();
    for (uint32_t i = GetBlockIdx(); i < rows; i += (bug == 1 ? 1 : GetBlockNum())) {
        LocalTensor<float> a = row.AllocTensor<float>();
        DataCopyExtParams size(1, n * sizeof(float), 0, 0, 0);
        if (bug == 2) DataCopy(a, xg[i * n], room);
        else DataCopyPad(a, xg[i * n], size, DataCopyPadExtParams<float>(false, 0, 0, 0));
        row.EnQue<TPosition::GM, TPosition::VECIN, float>(a);
        a = row.DeQue<TPosition::GM, TPosition::VECIN, float>();
        ReduceMax(r, a, w, n);
        SetFlag<HardEvent::V_S>(EVENT_ID1);
        WaitFlag<HardEvent::V_S>(EVENT_ID1);
        float largest = r.GetValue(0);
        Adds(a, a, -largest, n);
        PipeBarrier<PIPE_V>();
        Exp(a, a, n);
        if (bug != 3) PipeBarrier<PIPE_V>();
        ReduceSum(r, a, w, n);
        SetFlag<HardEvent::V_S>(EVENT_ID1);
        WaitFlag<HardEvent::V_S>(EVENT_ID1);
        Muls(a, a, 1.0f / r.GetValue(0), n);
        if (bug != 4) {
            row.EnQue<TPosition::VECOUT, TPosition::GM, float>(a);
            a = row.DeQue<TPosition::VECOUT, TPosition::GM, float>();
        }
        if (bug == 5) DataCopy(xg[i * n], a, room);
        else DataCopyPad(xg[i * n], a, size);
        row.FreeTensor(a);
    }
}
