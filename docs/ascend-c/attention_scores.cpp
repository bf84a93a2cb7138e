// p = softmax(a b): a vector core exponentiates tiles of the product that its cube core computes ahead of it.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void attention_scores(GM_ADDR a, GM_ADDR b, GM_ADDR workspace, GM_ADDR p, TCubeTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    const uint32_t rows = tiling.baseM, columns = tiling.baseN, size = rows * columns, first = GetBlockIdx() * tiling.singleCoreM;
    GlobalTensor<half> aGlobal, bGlobal;
    GlobalTensor<float> pGlobal, room;
    aGlobal.SetGlobalBuffer((__gm__ half *)a + first * tiling.Ka);
    bGlobal.SetGlobalBuffer((__gm__ half *)b);
    pGlobal.SetGlobalBuffer((__gm__ float *)p + first * tiling.N);
    room.SetGlobalBuffer((__gm__ float *)workspace + first * tiling.N);

    TPipe pipe;
    TQue<QuePosition::VECIN, 2> scores;
    TQue<QuePosition::VECOUT, 2> results;
    TBuf<QuePosition::VECCALC> buffer;
    pipe.InitBuffer(scores, 2, size * sizeof(float));
    pipe.InitBuffer(results, 2, size * sizeof(float));
    pipe.InitBuffer(buffer, 256);
    LocalTensor<float> one = buffer.Get<float>();
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half, true>,
           MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &tiling);
    mm.SetTensorA(aGlobal);
    mm.SetTensorB(bGlobal, true);
    mm.SetWorkspace(room);
    mm.template Iterate<false>();
    for (uint32_t tile = 0; tile < tiling.singleCoreM / rows; tile++) {
        LocalTensor<float> x = scores.AllocTensor<float>(), y = results.AllocTensor<float>();
        DataCopy(x, mm.template GetTensorC<false>(), size);
        scores.EnQue(x);
        x = scores.DeQue<float>();
        for (uint32_t row = 0; row < rows; row++) {
            ReduceMax(one, x[row * columns], y[row * columns], columns);
            Adds(y[row * columns], x[row * columns], -one.GetValue(0), columns);
            PipeBarrier<PIPE_V>();
            Exp(y[row * columns], y[row * columns], columns);
            PipeBarrier<PIPE_V>();
            ReduceSum(one, y[row * columns], x[row * columns], columns);
            Muls(y[row * columns], y[row * columns], 1 / one.GetValue(0), columns);
            PipeBarrier<PIPE_V>();
        }
        scores.FreeTensor(x);
        results.EnQue(y);
        y = results.DeQue<float>();
        DataCopy(pGlobal[tile * size], y, size);
        results.FreeTensor(y);
    }
    mm.End();
}
