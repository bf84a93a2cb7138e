#include "kernel_operator.h"
using namespace AscendC;
// SwiGLU of rows of half, [rows, 2 d] to [rows, d]: both halves of a row are widened in place from the upper half of a buffer.
template <typename T> class SwiGlu {
public:
    __aicore__ inline SwiGlu(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d, uint32_t tile, uint32_t bug)
        : rows(rows), d(d), tile(tile), bug(bug)
    {
        xg.SetGlobalBuffer((__gm__ T *)x);
        yg.SetGlobalBuffer((__gm__ T *)y);
        pipe.InitBuffer(gates, 2, tile * d * sizeof(float));
        pipe.InitBuffer(values, 2, tile * d * sizeof(float));
        pipe.InitBuffer(out, 2, tile * d * sizeof(T));
    }
    __aicore__ inline void Process()
    {
        for (uint32_t row = GetBlockIdx() * tile; row < rows; row += GetBlockNum() * tile)
            Tile(row, rows - row < tile && bug != 3 ? rows - row : tile);
    }

private:
    __aicore__ inline LocalTensor<float> Widened(TQue<TPosition::VECIN, 2> &queue, uint32_t first, uint32_t n)
    {
        uint32_t count = n * d, upper = bug == 1 ? count - 32 : count;
        LocalTensor<float> a = queue.AllocTensor<float>();
        LocalTensor<T> narrow = a.ReinterpretCast<T>()[upper];
        DataCopyPad(narrow, xg[first], {(uint16_t)n, (uint32_t)(d * sizeof(T)), (uint32_t)(d * sizeof(T)), 0, 0}, {false, 0, 0, 0});
        queue.EnQue(a);
        a = queue.DeQue<float>();
        Cast(a, a.ReinterpretCast<T>()[upper], RoundMode::CAST_NONE, count);
        return a;
    }
    __aicore__ inline void Tile(uint32_t row, uint32_t n)
    {
        const uint32_t count = n * d;
        LocalTensor<float> gate = Widened(gates, row * 2 * d, n), value = Widened(values, row * 2 * d + d, n);
        if (bug != 2) PipeBarrier<PIPE_V>();
        Mul(value, gate, value, count);
        auto each = [&](auto &&call) { call(); PipeBarrier<PIPE_V>(); };
        each([&] { Muls(gate, gate, -1.0f, count); });
        each([&] { Exp(gate, gate, count); });
        each([&] { Adds(gate, gate, 1.0f, count); });
        each([&] { Div(value, value, gate, count); });
        LocalTensor<T> result = out.AllocTensor<T>();
        Cast(result, value, RoundMode::CAST_RINT, count);
        gates.FreeTensor(gate);
        values.FreeTensor(value);
        out.EnQue(result);
        result = out.DeQue<T>();
        DataCopy(yg[row * d], result, count);
        out.FreeTensor(result);
    }
    TPipe pipe;
    TQue<TPosition::VECIN, 2> gates, values;
    TQue<TPosition::VECOUT, 2> out;
    GlobalTensor<T> xg, yg;
    uint32_t rows, d, tile, bug;
};
#define SWIGLU_ROWS(TYPE)                                                                                         \
    extern "C" __global__ __aicore__ void swiglu_##TYPE(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d,          \
                                                        uint32_t tile, uint32_t bug)                              \
    {                                                                                                             \
        SwiGlu<TYPE> op(x, y, rows, d, tile, bug);                                                                \
        op.Process();                                                                                             \
    }
SWIGLU_ROWS(half)
