// c = max(a b, 0) + d: a kernel of cube and vector cores. The cube core of a block writes its products to a workspace in GM and
// tells its two vector cores by a flag; each of them works off half of the rows, and gives the workspace back.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t TILE = 64, FRACTAL = 16;
constexpr uint16_t FULL = 5, FREE = 6;  // flags between the cores of a block

class Cube {
public:
    __aicore__ inline Cube(GM_ADDR a, GM_ADDR b, GM_ADDR workspace, uint32_t rows, uint32_t depth) : k(depth)
    {
        aGlobal.SetGlobalBuffer((__gm__ half *)a, rows * k);
        bGlobal.SetGlobalBuffer((__gm__ half *)b, k * TILE);
        out.SetGlobalBuffer((__gm__ float *)workspace + GetBlockIdx() * TILE * TILE, TILE * TILE);
        pipe.InitBuffer(a1, 1, TILE * k * sizeof(half));
        pipe.InitBuffer(b1, 1, TILE * k * sizeof(half));
        pipe.InitBuffer(a2, 1, TILE * k * sizeof(half));
        pipe.InitBuffer(b2, 1, TILE * k * sizeof(half));
        pipe.InitBuffer(co1, 1, TILE * TILE * sizeof(float));
    }

    __aicore__ inline void Tile(uint32_t row, bool first)
    {
        LocalTensor<half> left = a1.AllocTensor<half>(), right = b1.AllocTensor<half>();
        DataCopy(left, aGlobal[row * k], Nd2NzParams(1, TILE, k, 0, k, TILE, 1, 0));
        DataCopy(right, bGlobal, Nd2NzParams(1, k, TILE, 0, TILE, k, 1, 0));
        a1.EnQue(left);
        b1.EnQue(right);
        left = a1.DeQue<half>();
        right = b1.DeQue<half>();
        LocalTensor<half> l0a = a2.AllocTensor<half>(), l0b = b2.AllocTensor<half>();
        const uint8_t pads[4] = {0, 0, 0, 0};
        LoadData(l0a, left, LoadData3DParamsV2<half>(pads, 1, TILE, k, k, TILE, 0, 0, 1, 1, 1, 1, 1, 1, false, false, 0));
        for (uint32_t i = 0; i < k / FRACTAL; i++) {
            LoadData2DParams load(0, TILE / FRACTAL, k / FRACTAL, 0, 0, true, 0);
            LoadData(l0b[i * TILE * FRACTAL], right[i * FRACTAL * FRACTAL], load);
        }
        a2.EnQue(l0a);
        b2.EnQue(l0b);
        a1.FreeTensor(left);
        b1.FreeTensor(right);
        l0a = a2.DeQue<half>();
        l0b = b2.DeQue<half>();
        LocalTensor<float> sum = co1.AllocTensor<float>();
        MmadParams product;
        product.m = product.n = TILE;
        product.k = k;
        Mmad(sum, l0a, l0b, product);
        a2.FreeTensor(l0a);
        b2.FreeTensor(l0b);
        co1.EnQue(sum);
        sum = co1.DeQue<float>();
        if (!first) {
            CrossCoreWaitFlag(FREE);
        }
        Fixpipe(out, sum, FixpipeParamsV220(TILE, TILE, TILE, TILE, true));
        CrossCoreSetFlag<2, PIPE_FIX>(FULL);
        co1.FreeTensor(sum);
    }

private:
    TPipe pipe;
    TQue<TPosition::A1, 1> a1;
    TQue<TPosition::B1, 1> b1;
    TQue<TPosition::A2, 1> a2;
    TQue<TPosition::B2, 1> b2;
    TQue<TPosition::CO1, 1> co1;
    GlobalTensor<half> aGlobal, bGlobal;
    GlobalTensor<float> out;
    uint32_t k;
};

class Vector {
public:
    __aicore__ inline Vector(GM_ADDR workspace, GM_ADDR d, GM_ADDR c)
    {
        uint32_t block = GetBlockIdx() / GetSubBlockNum();
        in.SetGlobalBuffer((__gm__ float *)workspace + block * TILE * TILE + GetSubBlockIdx() * SHARE, SHARE);
        dGlobal.SetGlobalBuffer((__gm__ float *)d + GetSubBlockIdx() * SHARE);
        cGlobal.SetGlobalBuffer((__gm__ float *)c + GetSubBlockIdx() * SHARE);
        pipe.InitBuffer(xQueue, 2, SHARE * sizeof(float));
        pipe.InitBuffer(dQueue, 2, SHARE * sizeof(float));
        pipe.InitBuffer(cQueue, 2, SHARE * sizeof(float));
    }

    __aicore__ inline void Tile(uint32_t row, bool last)
    {
        LocalTensor<float> d = dQueue.AllocTensor<float>();
        DataCopy(d, dGlobal[row * TILE], SHARE);
        dQueue.EnQue(d);
        CrossCoreWaitFlag(FULL);
        LocalTensor<float> x = xQueue.AllocTensor<float>();
        DataCopy(x, in, SHARE);
        if (!last) {
            CrossCoreSetFlag<2, PIPE_MTE2>(FREE);
        }
        xQueue.EnQue(x);
        x = xQueue.DeQue<float>();
        d = dQueue.DeQue<float>();
        LocalTensor<float> c = cQueue.AllocTensor<float>();
        Add(c, x, d, SHARE);
        cQueue.EnQue(c);
        xQueue.FreeTensor(x);
        dQueue.FreeTensor(d);
        c = cQueue.DeQue<float>();
        DataCopy(cGlobal[row * TILE], c, SHARE);
        cQueue.FreeTensor(c);
    }

private:
    static constexpr uint32_t SHARE = TILE * TILE / 2;
    TPipe pipe;
    TQue<TPosition::VECIN, 2> xQueue, dQueue;
    TQue<TPosition::VECOUT, 2> cQueue;
    GlobalTensor<float> in, dGlobal, cGlobal;
};

extern "C" __global__ __aicore__ void matmul_relu_mix(GM_ADDR a, GM_ADDR b, GM_ADDR d, GM_ADDR c, GM_ADDR workspace, uint32_t rows,
                                                      uint32_t depth)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    uint32_t share = rows / GetBlockNum();
    if ASCEND_IS_AIC {
        Cube cube(a, b, workspace, rows, depth);
        uint32_t begin = GetBlockIdx() * share;
        for (uint32_t row = begin; row < begin + share; row += TILE) {
            cube.Tile(row, row == begin);
        }
    }
    if ASCEND_IS_AIV {
        Vector vector(workspace, d, c);
        uint32_t begin = GetBlockIdx() / GetSubBlockNum() * share;
        for (uint32_t row = begin; row < begin + share; row += TILE) {
            vector.Tile(row, row + TILE == begin + share);
        }
    }
}
