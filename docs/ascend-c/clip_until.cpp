// y = x / 2^turns with as few turns as bring the largest |x| to 1: how often the loop runs depends on the data.
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void clip_until(GM_ADDR x, GM_ADDR y, uint32_t length)
{
    GlobalTensor<float> xGlobal, yGlobal;
    xGlobal.SetGlobalBuffer((__gm__ float *)x, length);
    yGlobal.SetGlobalBuffer((__gm__ float *)y, length);
    TPipe pipe;
    TBuf<QuePosition::VECCALC> buffer;
    uint32_t bytes = length * sizeof(float);
    pipe.InitBuffer(buffer, 3 * bytes + 32);
    LocalTensor<float> values = buffer.Get<float>(length), sizes = buffer.GetWithOffset<float>(length, bytes);
    LocalTensor<float> work = buffer.GetWithOffset<float>(length, 2 * bytes);
    LocalTensor<float> largest = buffer.GetWithOffset<float>(8, 3 * bytes);

    DataCopy(values, xGlobal, length);
    TEventID loaded = GetTPipePtr()->FetchEventID(HardEvent::MTE2_V);
    SetFlag<HardEvent::MTE2_V>(loaded);
    WaitFlag<HardEvent::MTE2_V>(loaded);
    for (;;) {
        Abs(sizes, values, length);
        PipeBarrier<PIPE_V>();
        ReduceMax(largest, sizes, work, length);
        if (largest.GetValue(0) <= 1) break;
        Muls(values, values, 0.5f, length);
        PipeBarrier<PIPE_V>();
    }
    // ReduceMax is over, and with it all before it: the copy needs no flag.
    DataCopy(yGlobal, values, length);
}
