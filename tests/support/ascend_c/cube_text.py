"""Text of kernels for cube cores: tensors at addresses, and operands on their way to L0."""

LOCAL = """
template <class T> LocalTensor<T> local(TPosition place, uint32_t at) { return LocalTensor<T>(place, at, 0x8000 / sizeof(T)); }
#define STEP(event, id) { SetFlag<HardEvent::event>(id); WaitFlag<HardEvent::event>(id); }
"""
"""Tensors at addresses of the kernel's own, and a flag at once waited for."""
RAW = """
    auto l1a = local<{T}>(TPosition::A1, 0), l1b = local<{T}>(TPosition::B1, 0x8000);
    auto l0a = local<{T}>(TPosition::A2, 0), l0b = local<{T}>(TPosition::B2, 0);
    GlobalTensor<{T}> ag, bg; ag.SetGlobalBuffer((__gm__ {T} *)a); bg.SetGlobalBuffer((__gm__ {T} *)b);
    DataCopy(l1a, ag, Nd2NzParams(1, 64, 96, 0, 96, 64, 1, 0)); DataCopy(l1b, bg, Nd2NzParams(1, 96, 48, 0, 48, 96, 1, 0));
    STEP(MTE2_MTE1, 0)
"""
"""The operands [64, 96] and [96, 48] in L1 as fractals."""
LOAD = """
    for (int i = 0; i < 4; i++) LoadData(l0a[i * 96 * 16], l1a[i * 256], LoadData2DParams(0, 6, 4, 0, 0, false, 0));
    for (int i = 0; i < 6; i++) LoadData(l0b[i * 48 * 16], l1b[i * 256], LoadData2DParams(0, 3, 6, 0, 0, true, 0));
    STEP(MTE1_M, 0)
"""
"""The operands of two bytes in L0A and L0B."""
