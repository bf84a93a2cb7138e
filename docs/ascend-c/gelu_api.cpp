// y = Gelu(x): the function of the library, with temporary space of the kernel's own.
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void gelu_api(GM_ADDR x, GM_ADDR y, uint32_t share, uint32_t tile)
{
    GlobalTensor<half> xGlobal, yGlobal;
    xGlobal.SetGlobalBuffer((__gm__ half *)x + share * GetBlockIdx(), share);
    yGlobal.SetGlobalBuffer((__gm__ half *)y + share * GetBlockIdx(), share);

    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    TBuf<QuePosition::VECCALC> temporary;
    pipe.InitBuffer(in, 2, tile * sizeof(half));
    pipe.InitBuffer(out, 2, tile * sizeof(half));
    pipe.InitBuffer(temporary, 5 * tile * sizeof(float));

    for (uint32_t start = 0; start < share; start += tile) {
        LocalTensor<half> values = in.AllocTensor<half>();
        DataCopy(values, xGlobal[start], tile);
        in.EnQue(values);
        values = in.DeQue<half>();
        LocalTensor<half> results = out.AllocTensor<half>();
        Gelu(results, values, temporary.Get<uint8_t>(), tile);
        in.FreeTensor(values);
        out.EnQue(results);
        results = out.DeQue<half>();
        DataCopy(yGlobal[start], results, tile);
        out.FreeTensor(results);
    }
}
