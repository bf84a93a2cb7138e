#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;
using namespace matmul;
// c[i] = a[i] b[i]^T + bias: vector cores ask their cube cores for the products of a batch.
extern "C" __global__ __aicore__ void batched(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t batch, TCubeTiling t, uint32_t bug)
{
    using A = MatmulType<TPosition::GM, CubeFormat::ND, half>;
    using B = MatmulType<TPosition::GM, CubeFormat::ND, half, true>;
    using C = MatmulType<TPosition::GM, CubeFormat::ND, float>;
    TPipe pipe;
    Matmul<A, B, C, C> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    uint32_t cores = GetBlockNum() * GetTaskRation();
    for (uint32_t i = GetBlockIdx(); i < batch + (bug == 1); i += bug == 2 ? 1 : cores) {
        GlobalTensor<half> ag, bg;
        GlobalTensor<float> cg, sg;
        ag.SetGlobalBuffer((__gm__ half *)a + i * t.M * t.Ka, t.M * t.Ka);
        bg.SetGlobalBuffer((__gm__ half *)b + i * t.N * t.Kb, t.N * t.Kb);
        cg.SetGlobalBuffer((__gm__ float *)c + i * t.M * t.N, t.M * t.N);
        sg.SetGlobalBuffer((__gm__ float *)bias + (bug == 4 ? 16 : 0), t.N);
        mm.SetTensorA(ag);
        mm.SetTensorB(bug == 3 ? bg[t.N * t.Kb / 2] : bg, true);
        mm.SetBias(sg);
        mm.IterateAll(cg);
    }
    mm.End();
}
