"""grad_weight: transposed gradOutput times img2col of the input; K (pixels) is innermost.

    dW[M, N] = sum over images of gradOutput[K, M]^T x im2col(input)[K, N]
    M = C_out, N = (C_in blocks of C0, k_h, k_w, C0), K = H_out*W_out pixels

Dataflow: gradOutput (NDC1HWC0) GM -> L1 -> L0A by a transposing load_data_3d with a 1x1 kernel; input rows GM -> L1 -> L0B by
load_data_3d with the forward kernel, stride, padding and dilation, so no zeros are inserted. dW is fp32 in FRACTAL_Z.

Without determinism a task adds its part to dW atomically, from L0C or from UB; dW was cleared by a MemSet kernel.
Deterministic: a core reduces all images of its tile and stores it; only the tasks of the last round are shared by cores
(StreamK, where cores have flags between them), each of which writes its part to a slot of the workspace, and after an
all-core barrier the vector cores add the slots in order. On dav-3510 both are done by the kernel of `arch35`. The
deterministic kernel of dav-2201 clears dW itself and adds plane by plane: `arch22`.
"""

from __future__ import annotations

from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.libraries import kernel_of, surrogates_of, version
from ascend_sim.ops.kernels.grad_weight.arch22 import OpenCubeBuilder, OpenTaskWalks
from ascend_sim.ops.kernels.grad_weight.arch35 import slots
from ascend_sim.ops.kernels.grad_weight.arch35.cube import DirectCubeBuilder
from ascend_sim.ops.kernels.grad_weight.arch35.vector import DirectVectorBuilder
from ascend_sim.ops.kernels.grad_weight.cube import CubeBuilder
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.steps import Runs, TaskWalks
from ascend_sim.ops.kernels.grad_weight.stream_k import StreamKBuilder, slot_bytes
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, PLAIN_SPLIT
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.runtime import Task


def clears_itself(tiling: GradWeightTiling, inp: TilingInput) -> bool:
    """Return True if the kernel is that of `arch35` (template 4 on dav-3510), which clears dW itself before it adds to it."""
    return inp.family == PLAIN_SPLIT and tiling.template == SPLIT_STREAM_K


def has_open_rows(tiling: GradWeightTiling, inp: TilingInput, op_type: str) -> bool:
    """Return True if the kernel is that of `arch22`: the deterministic Conv3DBackpropFilterV2 of ops-nn for dav-2201."""
    return op_type == "Conv3DBackpropFilterV2" and inp.family == BLOCKED_SPLIT and tiling.template == SPLIT_STREAM_K


def workspace_bytes(tiling: GradWeightTiling, inp: TilingInput) -> int:
    """Return the bytes of workspace for slots, where cores share tasks (StreamK) or `arch35` merges groups; else 0."""
    direct = clears_itself(tiling, inp)
    if tiling.stream_k_type == STREAM_NONE and not (direct and slots.in_slots(walked_input(inp, tiling))):
        return 0
    return tiling.block_dim * (slots.block_bytes(tiling) if direct else slot_bytes(tiling, inp))


def grad_weight_task(
    call: CubeCall,
    tiling: GradWeightTiling,
    tensors: list[Allocation],
    size: int,
    name: str,
    op_type: str,
    block_dim: int | None = None,
) -> Task:
    """Return the kernel launch; `tensors` are gradOutput, input, dW (fp32, in the call's layout of weights) and, if it
    has slots, the workspace. dW is the first `size` bytes of its tensor, which may be a longer storage of the caller.

    `block_dim` deals the tasks to another number of blocks than the tiling's. SimError for another number with StreamK, whose
    parts need the tiling's, and for more blocks than cores where cores clear dW together.
    """
    if block_dim is not None and tiling.stream_k_type != STREAM_NONE and block_dim != tiling.block_dim:
        raise SimError(
            f"block_dim of {name}: {block_dim} given; this deterministic tiling cuts its last round into parts for "
            f"usedCoreNum = {tiling.block_dim} cores (StreamK), so that many are launched; set usedCoreNum in its tiling"
        )
    if block_dim is not None:
        tiling = tiling.but(block_dim=block_dim)
    direct, open_rows = clears_itself(tiling, call.inp), has_open_rows(tiling, call.inp, op_type)
    if (direct or open_rows) and tiling.block_dim > call.chip.cores.aic:
        raise SimError(
            f"block_dim of {name}: {tiling.block_dim} given; its {'vector' if direct else 'cube'} cores clear dW and meet at a "
            f"barrier, so at most {call.chip.cores.aic} blocks can run ({call.chip.name}, cores.aic)"
        )
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]
    helped = direct or tiling.stream_k_type != STREAM_NONE
    walks, runs = (OpenTaskWalks if open_rows else TaskWalks)(call.inp.problem, tiling), Runs()

    library = kernel_of(call.library, op_type) if direct else {}
    rounds = slots.rounds(call, tiling) if direct else slots.Rounds(0, 0)

    def build(block: int) -> list[Program]:
        cube = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        vectors = [
            KernelBuilder(table, block, "AIV", sizes, sub_block=sub_block, disarm=call.disarm)
            for sub_block in range(call.chip.cores.aiv_per_aic if helped else 0)
        ]
        if direct:
            own = DirectCubeBuilder(call, tiling, cube, walks, runs, library, rounds).program()
            return [own, *(DirectVectorBuilder(call, tiling, k, size, rounds).program() for k in vectors)]
        if open_rows:
            own = OpenCubeBuilder(call, tiling, cube, walks, runs, size).program()
        else:
            own = CubeBuilder(call, tiling, cube, walks, runs).program()
        return [own, *(StreamKBuilder(call, tiling, k).program() for k in vectors)]

    kind = "MIX" if helped else call.core_kind
    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    dtypes = {"grad_output": storage, "input": storage, "grad_weight": "float32"}
    info = call.info(tiling, dtypes)
    if direct:
        info |= {"library": version(call.library), "surrogates": surrogates_of(call.library, op_type)}
    return Task(name, op_type, kind, tiling.block_dim, tensors, build, all_cores=helped or open_rows, info=info)
