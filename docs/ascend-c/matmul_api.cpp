// c = a b + bias by Matmul: each cube core computes a share of c, tile by tile. The tiling comes from the host.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void matmul_api(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, TCubeTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    uint32_t across = (tiling.N + tiling.singleCoreN - 1) / tiling.singleCoreN;
    uint32_t row = GetBlockIdx() / across * tiling.singleCoreM, column = GetBlockIdx() % across * tiling.singleCoreN;
    GlobalTensor<half> aGlobal, bGlobal;
    GlobalTensor<float> biasGlobal, cGlobal;
    aGlobal.SetGlobalBuffer((__gm__ half *)a, tiling.M * tiling.Ka);
    bGlobal.SetGlobalBuffer((__gm__ half *)b, tiling.Kb * tiling.N);
    biasGlobal.SetGlobalBuffer((__gm__ float *)bias, tiling.N);
    cGlobal.SetGlobalBuffer((__gm__ float *)c, tiling.M * tiling.N);

    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
           MatmulType<TPosition::GM, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &tiling);
    mm.SetTensorA(aGlobal[row * tiling.Ka]);
    mm.SetTensorB(bGlobal[column]);
    mm.SetBias(biasGlobal[column]);
    uint32_t rows = tiling.M - row, columns = tiling.N - column;
    mm.SetTail(rows < tiling.singleCoreM ? rows : tiling.singleCoreM, columns < tiling.singleCoreN ? columns : tiling.singleCoreN);
    mm.IterateAll(cGlobal[row * tiling.N + column]);
    mm.End();
}
