// y = x / (1 + exp(-1.702 x)) of a vector of any length: tiling data by value, a tail that is not a whole block, a buffer for
// what lies between.
#include "kernel_operator.h"

using namespace AscendC;

struct GeluTiling {
    uint32_t length;  // elements of the whole vector
    uint32_t share;   // elements of a block, but for the last
    uint32_t tile;    // elements of a tile
};

class GeluCustom {
public:
    __aicore__ inline GeluCustom(GM_ADDR x, GM_ADDR y, const GeluTiling &tiling) : tile(tiling.tile)
    {
        uint32_t first = tiling.share * GetBlockIdx();
        uint32_t left = first < tiling.length ? tiling.length - first : 0;
        count = left < tiling.share ? left : tiling.share;
        xGlobal.SetGlobalBuffer((__gm__ float *)x + first, count);
        yGlobal.SetGlobalBuffer((__gm__ float *)y + first, count);
        pipe.InitBuffer(xQueue, 2, tile * sizeof(float));
        pipe.InitBuffer(yQueue, 2, tile * sizeof(float));
        pipe.InitBuffer(between, tile * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        for (uint32_t start = 0; start < count; start += tile) {
            uint32_t size = count - start < tile ? count - start : tile;
            CopyIn(start, size);
            Compute(size);
            CopyOut(start, size);
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t start, uint32_t size)
    {
        LocalTensor<float> x = xQueue.AllocTensor<float>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(size * sizeof(float)), 0, 0, 0};
        DataCopyPad(x, xGlobal[start], copy, DataCopyPadExtParams<float>{false, 0, 0, 0});
        xQueue.EnQue(x);
    }

    __aicore__ inline void Compute(uint32_t size)
    {
        LocalTensor<float> x = xQueue.DeQue<float>(), y = yQueue.AllocTensor<float>(), e = between.Get<float>();
        Muls(e, x, -1.702f, size);
        PipeBarrier<PIPE_V>();
        Exp(e, e, size);
        PipeBarrier<PIPE_V>();
        Adds(e, e, 1.0f, size);
        PipeBarrier<PIPE_V>();
        Div(y, x, e, size);
        yQueue.EnQue(y);
        xQueue.FreeTensor(x);
    }

    __aicore__ inline void CopyOut(uint32_t start, uint32_t size)
    {
        LocalTensor<float> y = yQueue.DeQue<float>();
        DataCopyExtParams copy{1, static_cast<uint32_t>(size * sizeof(float)), 0, 0, 0};
        DataCopyPad(yGlobal[start], y, copy);
        yQueue.FreeTensor(y);
    }

    TPipe pipe;
    TQue<QuePosition::VECIN, 2> xQueue;
    TQue<QuePosition::VECOUT, 2> yQueue;
    TBuf<QuePosition::VECCALC> between;
    GlobalTensor<float> xGlobal, yGlobal;
    uint32_t count, tile;
};

extern "C" __global__ __aicore__ void gelu_custom(GM_ADDR x, GM_ADDR y, GeluTiling tiling)
{
    GeluCustom(x, y, tiling).Process();
}
