// y[r, :] = (x[r, :] - mean) / sqrt(variance + epsilon): two reductions of a row, and scalar arithmetic between them.
#include "kernel_operator.h"

using namespace AscendC;

class LayerNormRows {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns)
    {
        rows_ = rows, columns_ = columns;
        xGlobal_.SetGlobalBuffer((__gm__ float *)x, rows * columns);
        yGlobal_.SetGlobalBuffer((__gm__ float *)y, rows * columns);
        pipe_.InitBuffer(in_, 2, columns * sizeof(float));
        pipe_.InitBuffer(out_, 2, columns * sizeof(float));
        pipe_.InitBuffer(squares_, columns * sizeof(float));
        pipe_.InitBuffer(result_, 32);
    }
    __aicore__ inline void Process(float epsilon)
    {
        for (uint32_t row = GetBlockIdx(); row < rows_; row += GetBlockNum()) {
            LocalTensor<float> values = in_.AllocTensor<float>();
            DataCopy(values, xGlobal_[row * columns_], columns_);
            in_.EnQue(values);
            Compute(epsilon);
            LocalTensor<float> normed = out_.DeQue<float>();
            DataCopy(yGlobal_[row * columns_], normed, columns_);
            out_.FreeTensor(normed);
        }
    }

private:
    __aicore__ inline void Compute(float epsilon)
    {
        LocalTensor<float> values = in_.DeQue<float>(), normed = out_.AllocTensor<float>();
        LocalTensor<float> squares = squares_.Get<float>(), result = result_.Get<float>();
        ReduceSum(result, values, squares, columns_);
        Adds(normed, values, -result.GetValue(0) / columns_, columns_);
        in_.FreeTensor(values);
        PipeBarrier<PIPE_V>();
        Mul(squares, normed, normed, columns_);
        PipeBarrier<PIPE_V>();
        ReduceSum(result, squares, squares, columns_);
        Muls(normed, normed, 1 / sqrtf(result.GetValue(0) / columns_ + epsilon), columns_);
        out_.EnQue(normed);
    }
    TPipe pipe_;
    TQue<QuePosition::VECIN, 2> in_;
    TQue<QuePosition::VECOUT, 2> out_;
    TBuf<QuePosition::VECCALC> squares_, result_;
    GlobalTensor<float> xGlobal_, yGlobal_;
    uint32_t rows_, columns_;
};

extern "C" __global__ __aicore__ void layer_norm_rows(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns, float epsilon)
{
    LayerNormRows kernel;
    kernel.Init(x, y, rows, columns);
    kernel.Process(epsilon);
}
