#include "kernel_operator.h"
using namespace AscendC;
constexpr uint32_t BUFFERS = 2;
struct Tails { uint32_t formerCount, formerLength, tailLength, tile; };
// y = x * x + x in two buffers with flags by hand; the last block and the last tile are shorter.
extern "C" __global__ __aicore__ void square_tails(GM_ADDR x, GM_ADDR y, Tails t, uint32_t bug)
{
    uint32_t me = GetBlockIdx();
    bool former = me < t.formerCount;
    uint32_t length = former || bug == 2 ? t.formerLength : t.tailLength;
    uint32_t start = former ? me * t.formerLength : t.formerCount * t.formerLength + (me - t.formerCount) * t.tailLength;
    GlobalTensor<half> xg, yg;
    xg.SetGlobalBuffer((__gm__ half *)x + start, length);
    yg.SetGlobalBuffer((__gm__ half *)y + start, length);
    TPipe pipe;
    TBuf<TPosition::VECCALC> inBuf, outBuf;
    pipe.InitBuffer(inBuf, BUFFERS * t.tile * sizeof(half));
    pipe.InitBuffer(outBuf, BUFFERS * t.tile * sizeof(half));
    LocalTensor<half> in = inBuf.Get<half>(), out = outBuf.Get<half>();
    for (int i = 0; i < BUFFERS; i++) {
        SetFlag<HardEvent::V_MTE2>(i);
        SetFlag<HardEvent::MTE3_V>(i);
    }
    uint32_t tiles = (length + t.tile - 1) / t.tile;
    for (uint32_t i = 0; i < tiles; i++) {
        uint32_t count = i + 1 < tiles ? t.tile : length - i * t.tile, b = i % BUFFERS;
        LocalTensor<half> a = in[bug == 3 ? 0 : b * t.tile], c = out[b * t.tile];
        DataCopyExtParams copy{1, (uint32_t)(count * sizeof(half)), 0, 0, 0};
        if (bug != 1) WaitFlag<HardEvent::V_MTE2>(b);
        DataCopyPad(a, xg[i * t.tile], copy, {false, 0, 0, (half)0});
        SetFlag<HardEvent::MTE2_V>(b);
        WaitFlag<HardEvent::MTE2_V>(b);
        WaitFlag<HardEvent::MTE3_V>(b);
        Mul(c, a, a, count);
        PipeBarrier<PIPE_V>();
        Add(c, c, a, count);
        SetFlag<HardEvent::V_MTE2>(b);
        SetFlag<HardEvent::V_MTE3>(b);
        WaitFlag<HardEvent::V_MTE3>(b);
        DataCopyPad(yg[i * t.tile], c, copy);
        SetFlag<HardEvent::MTE3_V>(b);
    }
    for (int i = 0; i < BUFFERS; i++) {
        WaitFlag<HardEvent::V_MTE2>(i);
        WaitFlag<HardEvent::MTE3_V>(i);
    }
}
