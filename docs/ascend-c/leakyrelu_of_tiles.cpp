// c = leaky_relu(a b + bias): each vector core asks its cube core for tiles of the product, and works on them in the Unified Buffer.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

class LeakyReluOfTiles {
public:
    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const TCubeTiling &cubeTiling, TPipe *pipe)
    {
        tiling = cubeTiling;
        uint32_t down = (tiling.M + tiling.singleCoreM - 1) / tiling.singleCoreM;
        uint32_t row = GetBlockIdx() % down * tiling.singleCoreM, column = GetBlockIdx() / down * tiling.singleCoreN;
        aGlobal.SetGlobalBuffer((__gm__ half *)a + row * tiling.Ka, tiling.singleCoreM * tiling.Ka);
        bGlobal.SetGlobalBuffer((__gm__ half *)b + column, tiling.Kb * tiling.N);
        biasGlobal.SetGlobalBuffer((__gm__ float *)bias + column, tiling.singleCoreN);
        cGlobal.SetGlobalBuffer((__gm__ float *)c + row * tiling.N + column, tiling.singleCoreM * tiling.N);
        pipe->InitBuffer(tiles, 2, tiling.baseM * tiling.baseN * sizeof(float));
    }
    __aicore__ inline void Process()
    {
        mm.SetTensorA(aGlobal);
        mm.SetTensorB(bGlobal);
        mm.SetBias(biasGlobal);
        for (uint32_t number = 0; mm.template Iterate<true>(); number++) {
            LocalTensor<float> tile = tiles.AllocTensor<float>();
            mm.template GetTensorC<true>(tile, false, true);
            LeakyRelu(tile, tile, 0.001f, tiling.baseM * tiling.baseN);
            tiles.EnQue(tile);
            CopyOut(number);
        }
        mm.End();
    }

    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
           MatmulType<TPosition::VECIN, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
    TCubeTiling tiling;

private:
    __aicore__ inline void CopyOut(uint32_t number)
    {
        LocalTensor<float> tile = tiles.DeQue<float>();
        uint32_t down = tiling.singleCoreM / tiling.baseM, row = number % down, column = number / down;
        DataCopyParams rows(tiling.baseM, tiling.baseN * sizeof(float) / DEFAULT_C0_SIZE, 0,
                            (tiling.N - tiling.baseN) * sizeof(float) / DEFAULT_C0_SIZE);
        DataCopy(cGlobal[row * tiling.baseM * tiling.N + column * tiling.baseN], tile, rows);
        tiles.FreeTensor(tile);
    }

    GlobalTensor<half> aGlobal, bGlobal;
    GlobalTensor<float> biasGlobal, cGlobal;
    TQue<TPosition::VECOUT, 2> tiles;
};

extern "C" __global__ __aicore__ void leakyrelu_of_tiles(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR tilingGm)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TCubeTiling tiling = *(__gm__ TCubeTiling *)tilingGm;
    TPipe pipe;
    LeakyReluOfTiles kernel;
    kernel.Init(a, b, bias, c, tiling, &pipe);
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.mm, &kernel.tiling);
    kernel.Process();
}
