"""Public headers besides kernel_operator.h: found by name, the user's own first, and one line for those without a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.function import cpp_kernel
from ascend_sim.ascend_c.headers import PUBLIC
from ascend_sim.chip import load_chip
from tests.support.ascend_c.kernels import IN, OUT, floats, made, needs_compiler, vector_kernel

pytestmark = needs_compiler

PUBLISHED = [
    "lib/activation/softmax.h",
    "lib/activation/sigmoid.h",
    "lib/normalization/layernorm.h",
    "lib/normalization/rmsnorm.h",
    "lib/math/tanh.h",
    "lib/math/power.h",
    "lib/reduce/sum.h",
    "lib/matmul/matmul_intf.h",
    "lib/matrix/matmul/tiling.h",
    "lib/matmul_intf.h",
    "lib/kernel_api.h",
    "adv_api/reduce/sum.h",
    "adv_api/pad/broadcast.h",
    "adv_api/activation/softmax.h",
    "adv_api/matmul/matmul_intf.h",
    "basic_api/kernel_basic_intf.h",
    "basic_api/kernel_operator_vec_gather_intf.h",
    "kernel_operator_intf.h",
    "kernel_tiling/kernel_tiling.h",
]
"""Headers that public kernels include, as they write them."""


def test_headers_of_public_kernels_are_among_them() -> None:
    assert not set(PUBLISHED) - set(PUBLIC) and len(set(PUBLIC)) == len(PUBLIC)


def test_each_stands_for_the_api(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    body = vector_kernel(f"{IN} Tanh(d, a, b.ReinterpretCast<uint8_t>(), 64); {OUT}", tensors="x z")
    path.write_text("".join(f'#include "{name}"\n' for name in PUBLIC) + f"using namespace AscendC;\n{body}")
    x = floats(64)
    found = asim.launch(cpp_kernel(path), 1, x, asim.empty(64, "float32")).outputs["z"]
    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-5)


@pytest.mark.parametrize("name", ["lib/sort/topk.h", "adv_api/math/digamma.h", "kernel_operator_dump_tensor_intf.h"])
def test_one_without_a_call_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    guarded = f'#if __has_include("{name}")\n#error found\n#endif\n'
    made(tmp_path, guarded + vector_kernel("", tensors="x"))
    with pytest.raises(CompileError) as caught:
        made(tmp_path, f'#include "{name}"\n' + vector_kernel("", tensors="x"))
    first, *rest = str(caught.value).splitlines()
    assert first.endswith(f"error: {name} is not simulated (no call of this header is); docs/ascend-c.md lists what is")
    assert "kernel.cpp:" in first and rest == [f'    #include "{name}"']


def test_the_users_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "lib" / "math").mkdir(parents=True)
    (tmp_path / "lib" / "math" / "tanh.h").write_text("#error mine\n")
    with pytest.raises(CompileError, match=r"lib/math/tanh\.h:1: error: mine"):
        made(tmp_path, '#include "lib/math/tanh.h"\n' + vector_kernel("", tensors="x"))


WITHOUT_NAMESPACE = """#include "kernel_operator.h"
#include "lib/matmul_intf.h"
constexpr MatmulConfig EXCEEDING = GetNormalConfig(true), SHALLOW = GetMDLConfig(true);
constexpr MatmulFuncParams PARAMS{.iterateOrder = IterateOrder::ORDER_M, .scheduleType = ScheduleType::INNER_PRODUCT};
constexpr MatmulConfig MADE = GetMMConfig<MatmulConfigMode::CONFIG_NORM>(PARAMS);
template <const MatmulConfig &config = CFG_NORM> struct Product {};
Product<CFG_MDL> product;
struct Copier {
    __aicore__ inline void Run(AscendC::GlobalTensor<float> x, AscendC::GlobalTensor<float> z) {
        if (g_coreType == AscendC::AIC || GetSysWorkSpacePtr() == nullptr) return;
        AscendC::TBuf<> buffer;
        GetTPipePtr()->InitBuffer(buffer, 256);
        auto local = buffer.Get<float>();
        int32_t event = static_cast<int32_t>(GetTPipePtr()->FetchEventID(AscendC::HardEvent::MTE2_MTE3));
        AscendC::DataCopy(local, x, 64);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(event);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(event);
        AscendC::DataCopy(z, local, 64);
    }
};
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR z, GM_ADDR workspace) {
    AscendC::SetSysWorkspace(workspace);
    AscendC::TPipe pipe;
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float *)x);
    to.SetGlobalBuffer((__gm__ float *)z);
    Copier().Run(from, to);
}
"""


def test_a_kernel_may_do_without_using_namespace(tmp_path: Path) -> None:
    """Public kernels write these names alone even where AscendC:: stands before all others."""
    path = tmp_path / "kernel.cpp"
    path.write_text(WITHOUT_NAMESPACE)
    x = floats(64)
    tensors = x, asim.empty(64, "float32"), asim.empty(8, "uint8", workspace=True)
    np.testing.assert_array_equal(asim.launch(cpp_kernel(path), 1, *tensors).outputs["z"], x)


@pytest.mark.parametrize("chip", ("ascend910b3", "ascend910_9391"))
def test_sizes_of_buffers_are_those_of_the_chip(tmp_path: Path, chip: str) -> None:
    names = {"TOTAL_UB_SIZE": "UB", "TOTAL_L0A_SIZE": "L0A", "TOTAL_L0B_SIZE": "L0B", "TOTAL_L0C_SIZE": "L0C"}
    sizes = [f"static_assert(AscendC::{name} == {load_chip(chip).buffers[buffer]});" for name, buffer in names.items()]
    kernel = made(tmp_path, vector_kernel(f"{' '.join(sizes)} DataCopy(xg, d, ONE_BLK_B1_NUM);", tensors="x"))
    assert asim.launch(kernel, 1, floats(256), chip=chip, mode="timing").report.findings == ()
