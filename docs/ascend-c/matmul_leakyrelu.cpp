// c = leaky_relu(a b): the cube core of a block multiplies by Matmul and hands each tile to its two vector cores by a flag.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

constexpr uint16_t FULL = 5;  // flag between the cores of a block

extern "C" __global__ __aicore__ void matmul_leakyrelu(GM_ADDR a, GM_ADDR b, GM_ADDR workspace, GM_ADDR c, TCubeTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    uint32_t tiles = tiling.M / tiling.baseM, size = tiling.baseM * tiling.N;
    if ASCEND_IS_AIC {
        GlobalTensor<half> aGlobal, bGlobal;
        GlobalTensor<float> out;
        aGlobal.SetGlobalBuffer((__gm__ half *)a, tiling.M * tiling.Ka);
        bGlobal.SetGlobalBuffer((__gm__ half *)b, tiling.Kb * tiling.N);
        out.SetGlobalBuffer((__gm__ float *)workspace, tiling.M * tiling.N);
        TPipe pipe;
        Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
               MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
        REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &tiling);
        mm.SetTensorB(bGlobal);
        for (uint32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) {
            mm.SetTensorA(aGlobal[tile * tiling.baseM * tiling.Ka]);
            mm.IterateAll(out[tile * size]);
            CrossCoreSetFlag<2, PIPE_FIX>(FULL);
        }
        mm.End();
    }
    if ASCEND_IS_AIV {
        uint32_t block = GetBlockIdx() / GetSubBlockNum(), share = size / GetSubBlockNum(), first = share * GetSubBlockIdx();
        GlobalTensor<float> in, cGlobal;
        in.SetGlobalBuffer((__gm__ float *)workspace, tiling.M * tiling.N);
        cGlobal.SetGlobalBuffer((__gm__ float *)c, tiling.M * tiling.N);
        TPipe pipe;
        TQue<QuePosition::VECIN, 1> products;
        TQue<QuePosition::VECOUT, 1> results;
        pipe.InitBuffer(products, 2, share * sizeof(float));
        pipe.InitBuffer(results, 2, share * sizeof(float));
        for (uint32_t tile = block; tile < tiles; tile += GetBlockNum()) {
            CrossCoreWaitFlag(FULL);
            LocalTensor<float> x = products.AllocTensor<float>();
            DataCopy(x, in[tile * size + first], share);
            products.EnQue(x);
            x = products.DeQue<float>();
            LocalTensor<float> y = results.AllocTensor<float>();
            LeakyRelu(y, x, 0.125f, share);
            products.FreeTensor(x);
            results.EnQue(y);
            y = results.DeQue<float>();
            DataCopy(cGlobal[tile * size + first], y, share);
            results.FreeTensor(y);
        }
    }
}
