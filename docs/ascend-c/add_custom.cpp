// z = x + y: tiles of a vector over the vector cores; loads, sums and stores overlap (two buffers for each queue).
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t TILE = 4096;
constexpr int32_t BUFFERS = 2;

class AddCustom {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length)
    {
        share = length / GetBlockNum();
        uint32_t first = share * GetBlockIdx();
        xGlobal.SetGlobalBuffer((__gm__ half *)x + first, share);
        yGlobal.SetGlobalBuffer((__gm__ half *)y + first, share);
        zGlobal.SetGlobalBuffer((__gm__ half *)z + first, share);
        pipe.InitBuffer(xQueue, BUFFERS, TILE * sizeof(half));
        pipe.InitBuffer(yQueue, BUFFERS, TILE * sizeof(half));
        pipe.InitBuffer(zQueue, BUFFERS, TILE * sizeof(half));
    }

    __aicore__ inline void Process()
    {
        for (uint32_t start = 0; start < share; start += TILE) {
            uint32_t count = share - start < TILE ? share - start : TILE;
            CopyIn(start, count);
            Compute(count);
            CopyOut(start, count);
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t start, uint32_t count)
    {
        LocalTensor<half> x = xQueue.AllocTensor<half>();
        LocalTensor<half> y = yQueue.AllocTensor<half>();
        DataCopy(x, xGlobal[start], count);
        DataCopy(y, yGlobal[start], count);
        xQueue.EnQue(x);
        yQueue.EnQue(y);
    }

    __aicore__ inline void Compute(uint32_t count)
    {
        LocalTensor<half> x = xQueue.DeQue<half>();
        LocalTensor<half> y = yQueue.DeQue<half>();
        LocalTensor<half> z = zQueue.AllocTensor<half>();
        Add(z, x, y, count);
        zQueue.EnQue(z);
        xQueue.FreeTensor(x);
        yQueue.FreeTensor(y);
    }

    __aicore__ inline void CopyOut(uint32_t start, uint32_t count)
    {
        LocalTensor<half> z = zQueue.DeQue<half>();
        DataCopy(zGlobal[start], z, count);
        zQueue.FreeTensor(z);
    }

    TPipe pipe;
    TQue<QuePosition::VECIN, BUFFERS> xQueue, yQueue;
    TQue<QuePosition::VECOUT, BUFFERS> zQueue;
    GlobalTensor<half> xGlobal, yGlobal, zGlobal;
    uint32_t share;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length)
{
    AddCustom op;
    op.Init(x, y, z, length);
    op.Process();
}
