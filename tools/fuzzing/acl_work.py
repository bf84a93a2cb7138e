"""The functions of the C interface as a random program calls them, and one operator call on its way through them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim import acl
from ascend_sim.acl.enums import CODE_NAMES
from fuzzing.calls import NAMES, wrong_output
from fuzzing.drawing import DrawnCall

Array = NDArray[Any]
CODES = {acl.ACL_SUCCESS, *CODE_NAMES}
DEFECTS = {acl.ACL_ERROR_INTERNAL_ERROR, acl.ACLNN_ERR_INNER}
OF_FREED_MEMORY = ("freed before it ran", "of a stream that failed", "behind work that could not run")
"""Messages of a synchronise about work that could not run, and work that waited for it."""
TYPES = {"float16": acl.ACL_FLOAT16, "float32": acl.ACL_FLOAT, "bfloat16": acl.ACL_BF16}
FORMATS = {3: acl.ACL_FORMAT_NCL, 4: acl.ACL_FORMAT_NCHW, 5: acl.ACL_FORMAT_NCDHW}
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


class WrongError(Exception):
    """Wrong behaviour of an acl function."""


def checked(name: str, result: Any, expected: str = "any") -> tuple[Any, ...]:
    """The out-parameters of a call that ended as `expected` ("ok", "refused" or "any"); WrongError otherwise."""
    code, *rest = result if isinstance(result, tuple) else (result,)
    said = acl.aclGetRecentErrMsg()
    if code not in CODES:
        raise WrongError(f"{name} ends in {code!r}, which is no code")
    if code in DEFECTS and not any(words in (said or "") for words in OF_FREED_MEMORY):
        raise WrongError(f"{name} ends in {code}: {said}")
    if (code == acl.ACL_SUCCESS) != (expected == "ok") and expected != "any":
        raise WrongError(f"{name} ends in {code}, {expected} was expected: {said}")
    return code, *rest


def make(name: str, *arguments: Any, expected: str = "any") -> Any:
    """Call a function by name; its out-parameters (None, one, or a tuple) where it succeeds, else None."""
    code, *rest = checked(name, getattr(acl, name)(*arguments), expected)
    if code != acl.ACL_SUCCESS:
        return None
    return rest[0] if len(rest) == 1 else tuple(rest) or True


@dataclass(eq=False)
class AclWork:
    """One operator call on its way: memory, tensors, phase one, phase two."""

    call: DrawnCall
    tensors: dict[str, Array]
    memory: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    executor: Any = None
    size: int = 0
    workspace: int | None = None
    stream: Any = None
    stage: str = "new"

    def prepare(self) -> None:
        """Memory, tensors and phase one; a call that is refused is over."""
        ranks = {name: array.ndim for name, array in self.tensors.items()}
        self.shapes = {name: array.shape for name, array in self.tensors.items()}
        gradient = self.tensors.get("grad_output", self.tensors.get("self"))
        assert gradient is not None
        channels = gradient.shape[2 if "self" in self.tensors else 1]
        self.shapes |= {"grad_input": self.shapes["input"], "grad_weight": self.shapes["weight"], "grad_bias": (channels,)}
        handles = {}
        for name, shape in self.shapes.items():
            values = self.tensors.get(name, np.full(shape, 77, gradient.dtype))
            self.memory[name] = self.upload(np.ascontiguousarray(values))
            label = FORMATS[len(shape)] if ranks.get("grad_output") and len(shape) > 1 else acl.ACL_FORMAT_ND
            handles[name] = acl.aclCreateTensor(
                shape, len(shape), TYPES[self.call.dtype], None, 0, label, shape, len(shape), self.memory[name]
            )
        given = {name: eval(text, NAMES) for name, text in self.call.attributes.items()}
        math_type, outputs = int(self.call.options["cube_math_type"]), [handles[name] for name in OUTPUTS]
        if "self" in self.tensors:
            inputs = [handles[name] for name in ("self", "input", "weight", "bias")]
            result = acl.aclnnConvTbcBackwardGetWorkspaceSize(*inputs, given["pad"], math_type, *outputs)
        else:
            lists = [_ints(given[name]) for name in ("stride", "padding", "dilation")]
            mask = acl.aclCreateBoolArray(given["output_mask"], 3)
            result = acl.aclnnConvolutionBackwardGetWorkspaceSize(
                *(handles[name] for name in ("grad_output", "input", "weight")), _ints((channels,)), *lists,
                given["transposed"],
                _ints(given["output_padding"]), given["groups"], mask, math_type, *outputs,
            )  # fmt: skip
        code, self.size, self.executor = checked("GetWorkspaceSize", result)
        self.stage = "ready" if code == acl.ACL_SUCCESS else "over"
        if self.stage == "ready" and self.size:
            self.workspace = make("aclrtMalloc", self.size, acl.ACL_MEM_MALLOC_HUGE_FIRST, expected="ok")

    def upload(self, array: Array) -> int:
        """The address of a copy in device memory."""
        address: int = make("aclrtMalloc", max(array.nbytes, 1), acl.ACL_MEM_MALLOC_HUGE_FIRST, expected="ok")
        host = array.view(np.uint8) if array.ndim else array
        make("aclrtMemcpy", address, array.nbytes, host, array.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE, expected="ok")
        return address

    @property
    def phase_two(self) -> str:
        return "aclnnConvTbcBackward" if "self" in self.tensors else "aclnnConvolutionBackward"

    def launch(self, stream: Any) -> None:
        """Phase two."""
        make(self.phase_two, self.workspace, self.size, self.executor, stream, expected="ok")
        self.stage, self.stream = "queued", stream

    def compare(self) -> None:
        """Look at the results, which a synchronise has brought."""
        self.stage = "over"
        mask = eval(self.call.attributes.get("output_mask", "(True,) * 3"))
        for name, wanted in zip(OUTPUTS, mask, strict=True):
            found = np.zeros(self.shapes[name], self.tensors["input"].dtype)
            make(
                "aclrtMemcpy",
                found.view(np.uint8),
                found.nbytes,
                self.memory[name],
                found.nbytes,
                acl.ACL_MEMCPY_DEVICE_TO_HOST,
                expected="ok",
            )
            wrong = wrong_output(self.call, self.tensors, name, found, self.call.dtype) if wanted else None
            if not wanted and not (found == 77).all():
                wrong = "written, though masked off"
            if wrong:
                raise WrongError(f"{name} of {self.call.python()}: {wrong}")

    def free(self) -> None:
        """Free all memory."""
        for address in (*self.memory.values(), *([self.workspace] if self.workspace else [])):
            make("aclrtFree", address)
        self.memory, self.workspace = {}, None


def _ints(values: tuple[int, ...]) -> Any:
    return acl.aclCreateIntArray(values, len(values))
