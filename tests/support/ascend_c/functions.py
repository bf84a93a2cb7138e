"""One kernel for many calls: a number chooses the call, so that one compilation serves all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VIEW = """
template <class T> GlobalTensor<T> view(GM_ADDR x) { GlobalTensor<T> g; g.SetGlobalBuffer((__gm__ T *)x); return g; }
template <class T> DataCopyExtParams bytes(uint32_t n) { return DataCopyExtParams(1, n * sizeof(T), 0, 0, 0); }
"""
"""A tensor of GM, and a copy of a number of elements."""


def kernel_of_calls(dtype: str, inputs: Sequence[str], outputs: Sequence[str], calls: Mapping[str, str]) -> str:
    """Return a kernel `calls_DTYPE`: tensors of `inputs` in queues, one of the calls by its number, and the `outputs`.

    A call sees the tensors, `m`, `k`, `o` and `tmp`, a buffer of `room` bytes. The parameter `nx`
    counts the elements of x; a tensor of 0 elements is neither read nor written.
    """
    tensors = [*inputs, *outputs]
    parameters = [f"GM_ADDR {one}g" for one in tensors] + [f"uint32_t n{one}" for one in tensors]
    numbers = ", ".join(f"uint32_t {one}" for one in ("which", "m", "k", "o", "room"))
    lines = [
        f'extern "C" __global__ __aicore__ void calls_{dtype}({", ".join(parameters)}, {numbers}) {{',
        "TPipe pipe; TBuf<QuePosition::VECCALC> tmpq; pipe.InitBuffer(tmpq, room); auto tmp = tmpq.Get<uint8_t>();",
    ]
    for one in tensors:
        place = "VECIN" if one in inputs else "VECOUT"
        lines.append(
            f"TQue<QuePosition::{place}, 1> {one}q; pipe.InitBuffer({one}q, 1, (n{one} ? n{one} : 1) * sizeof({dtype}));"
        )
        lines.append(f"auto {one} = {one}q.AllocTensor<{dtype}>();")
        if one in inputs:
            lines.append(
                f"if (n{one}) DataCopyPad({one}, view<{dtype}>({one}g), bytes<{dtype}>(n{one}), "
                f"DataCopyPadExtParams<{dtype}>());"
                f"{one}q.EnQue({one}); {one} = {one}q.DeQue<{dtype}>();"
            )
    lines.append("switch (which) {")
    lines += [f"case {number}: {{ {call}; break; }}" for number, call in enumerate(calls.values())]
    lines.append("}")
    for one in outputs:
        lines.append(f"{one}q.EnQue({one}); {one} = {one}q.DeQue<{dtype}>();")
        lines.append(
            f"if (n{one}) DataCopyPad(view<{dtype}>({one}g), {one}, bytes<{dtype}>(n{one})); {one}q.FreeTensor({one});"
        )
    lines += [f"{one}q.FreeTensor({one});" for one in inputs]
    return "\n".join([*lines, "}", ""])
