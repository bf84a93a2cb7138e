// total[0] = the sum of x: every block leaves its part in GM, and block 0 adds them behind SyncAll.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t LINE = 64 / sizeof(float);  // blocks write a line of the data cache each

extern "C" __global__ __aicore__ void reduce_all(GM_ADDR x, GM_ADDR parts, GM_ADDR total, uint32_t length)
{
    uint32_t share = length / GetBlockNum();
    GlobalTensor<float> xGlobal, partsGlobal, totalGlobal;
    xGlobal.SetGlobalBuffer((__gm__ float *)x + GetBlockIdx() * share, share);
    partsGlobal.SetGlobalBuffer((__gm__ float *)parts, GetBlockNum() * LINE);
    totalGlobal.SetGlobalBuffer((__gm__ float *)total, 1);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TBuf<QuePosition::VECCALC> scratch;
    pipe.InitBuffer(in, 1, share * sizeof(float));
    pipe.InitBuffer(scratch, 64);
    LocalTensor<float> result = scratch.Get<float>();

    LocalTensor<float> values = in.AllocTensor<float>();
    DataCopy(values, xGlobal, share);
    in.EnQue(values);
    values = in.DeQue<float>();
    ReduceSum(result, values, result, share);
    in.FreeTensor(values);
    partsGlobal.SetValue(GetBlockIdx() * LINE, result.GetValue(0));
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(partsGlobal[GetBlockIdx() * LINE]);
    SyncAll();
    if (GetBlockIdx()) return;
    float sum = 0;
    for (int64_t block = 0; block < GetBlockNum(); block++) sum += partsGlobal.GetValue(block * LINE);
    totalGlobal.SetValue(0, sum);
}
