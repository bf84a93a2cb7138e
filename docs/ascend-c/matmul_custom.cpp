// c = a b + bias: a cube kernel. Queues of two buffers in L1, L0A and L0B, so that the copy of the next piece of K goes on while
// the cube multiplies this one; the sums begin with the bias table.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t TILE_M = 64, TILE_N = 64, TILE_K = 64, FRACTAL = 16;

class MatmulCustom {
public:
    __aicore__ inline MatmulCustom(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t rows, uint32_t columns, uint32_t depth)
        : m(rows), n(columns), k(depth)
    {
        aGlobal.SetGlobalBuffer((__gm__ half *)a, m * k);
        bGlobal.SetGlobalBuffer((__gm__ half *)b, k * n);
        biasGlobal.SetGlobalBuffer((__gm__ float *)bias, n);
        cGlobal.SetGlobalBuffer((__gm__ float *)c, m * n);
        pipe.InitBuffer(a1, 2, TILE_M * TILE_K * sizeof(half));
        pipe.InitBuffer(b1, 2, TILE_K * TILE_N * sizeof(half));
        pipe.InitBuffer(a2, 2, TILE_M * TILE_K * sizeof(half));
        pipe.InitBuffer(b2, 2, TILE_K * TILE_N * sizeof(half));
        pipe.InitBuffer(c1, 1, TILE_N * sizeof(float));
        pipe.InitBuffer(c2, 1, TILE_N * sizeof(float));
        pipe.InitBuffer(co1, 1, TILE_M * TILE_N * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        uint32_t across = n / TILE_N, tiles = m / TILE_M * across;
        for (uint32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) {
            Tile(tile / across * TILE_M, tile % across * TILE_N);
        }
    }

private:
    __aicore__ inline void Tile(uint32_t row, uint32_t column)
    {
        LoadBias(column);
        LocalTensor<float> biasTable = c2.DeQue<float>();
        LocalTensor<float> sum = co1.AllocTensor<float>();
        for (uint32_t step = 0; step < k; step += TILE_K) {
            CopyIn(row, column, step);
            Split();
            LocalTensor<half> left = a2.DeQue<half>(), right = b2.DeQue<half>();
            MmadParams product;
            product.m = TILE_M;
            product.n = TILE_N;
            product.k = TILE_K;
            product.cmatrixInitVal = false;
            if (step == 0) {
                Mmad(sum, left, right, biasTable, product);
            } else {
                Mmad(sum, left, right, product);
            }
            a2.FreeTensor(left);
            b2.FreeTensor(right);
        }
        c2.FreeTensor(biasTable);
        co1.EnQue(sum);
        sum = co1.DeQue<float>();
        FixpipeParamsV220 out(TILE_N, TILE_M, TILE_M, n, false);
        Fixpipe(cGlobal[row * n + column], sum, out);
        co1.FreeTensor(sum);
    }

    __aicore__ inline void LoadBias(uint32_t column)
    {
        LocalTensor<float> inL1 = c1.AllocTensor<float>();
        DataCopy(inL1, biasGlobal[column], TILE_N);
        c1.EnQue(inL1);
        inL1 = c1.DeQue<float>();
        LocalTensor<float> table = c2.AllocTensor<float>();
        DataCopy(table, inL1, DataCopyParams(1, TILE_N * sizeof(float) / 64, 0, 0));
        c2.EnQue(table);
        c1.FreeTensor(inL1);
    }

    __aicore__ inline void CopyIn(uint32_t row, uint32_t column, uint32_t step)
    {
        LocalTensor<half> left = a1.AllocTensor<half>(), right = b1.AllocTensor<half>();
        DataCopy(left, aGlobal[row * k + step], Nd2NzParams(1, TILE_M, TILE_K, 0, k, TILE_M, 1, 0));
        DataCopy(right, bGlobal[step * n + column], Nd2NzParams(1, TILE_K, TILE_N, 0, n, TILE_K, 1, 0));
        a1.EnQue(left);
        b1.EnQue(right);
    }

    __aicore__ inline void Split()
    {
        LocalTensor<half> left = a1.DeQue<half>(), right = b1.DeQue<half>();
        LocalTensor<half> leftOut = a2.AllocTensor<half>(), rightOut = b2.AllocTensor<half>();
        constexpr uint32_t SQUARE = FRACTAL * FRACTAL;
        for (uint32_t i = 0; i < TILE_M / FRACTAL; i++) {
            LoadData2DParams load(0, TILE_K / FRACTAL, TILE_M / FRACTAL, 0, 0, false, 0);
            LoadData(leftOut[i * TILE_K * FRACTAL], left[i * SQUARE], load);
        }
        for (uint32_t i = 0; i < TILE_K / FRACTAL; i++) {
            LoadData2DParams load(0, TILE_N / FRACTAL, TILE_K / FRACTAL, 0, 0, true, 0);
            LoadData(rightOut[i * TILE_N * FRACTAL], right[i * SQUARE], load);
        }
        a2.EnQue(leftOut);
        b2.EnQue(rightOut);
        a1.FreeTensor(left);
        b1.FreeTensor(right);
    }

    TPipe pipe;
    TQue<TPosition::A1, 2> a1;
    TQue<TPosition::B1, 2> b1;
    TQue<TPosition::A2, 2> a2;
    TQue<TPosition::B2, 2> b2;
    TQue<TPosition::C1, 1> c1;
    TQue<TPosition::C2, 1> c2;
    TQue<TPosition::CO1, 1> co1;
    GlobalTensor<half> aGlobal, bGlobal;
    GlobalTensor<float> biasGlobal, cGlobal;
    uint32_t m, n, k;
};

extern "C" __global__ __aicore__ void matmul_custom(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    MatmulCustom(a, b, bias, c, m, n, k).Process();
}
