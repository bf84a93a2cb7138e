"""The return code of each misuse. The vendor's headers list codes but do not say which call returns which: all assumed."""

from __future__ import annotations

from ascend_sim.acl import enums as e
from ascend_sim.frozen import frozen


@frozen
class AssumedCode:
    """Return code for one misuse: `code` from the vendor's list, `when` in words.

    That the vendor's library returns the same code is assumed.
    """

    code: int
    when: str

    @property
    def name(self) -> str:
        """Return the vendor's name of the code."""
        return e.CODE_NAMES[self.code]


_ROWS = {
    "not initialised": (e.ACL_ERROR_UNINITIALIZE, "a call before aclInit or after aclFinalize"),
    "initialised twice": (e.ACL_ERROR_REPEAT_INITIALIZE, "a second aclInit without aclFinalize between"),
    "finalised twice": (e.ACL_ERROR_REPEAT_FINALIZE, "a second aclFinalize"),
    "config file": (e.ACL_ERROR_INVALID_FILE, "aclInit with a file that cannot be read or is not JSON"),
    "no device": (
        e.ACL_ERROR_INVALID_DEVICE,
        "a device number other than 0, a chip that cannot be loaded, a call that needs aclrtSetDevice before it, or a context "
        "in its thread",
    ),
    "argument": (e.ACL_ERROR_INVALID_PARAM, "a value outside its type or list; a copy whose pointers do not fit its kind"),
    "null pointer": (e.ACL_ERROR_INVALID_PARAM, "None where a pointer is needed"),
    "foreign pointer": (
        e.ACL_ERROR_INVALID_PARAM,
        "an address that aclrtMalloc never returned, or not the start of what aclrtFree frees",
    ),
    "freed pointer": (e.ACL_ERROR_INVALID_PARAM, "use after free, double free"),
    "beyond": (
        e.ACL_ERROR_STORAGE_OVER_LIMIT,
        "a copy or memset longer than destMax (maxCount), the allocation or the host buffer",
    ),
    "out of memory": (e.ACL_ERROR_BAD_ALLOC, "no free range of HBM is large enough"),
    "handle gone": (e.ACL_ERROR_INVALID_RESOURCE_HANDLE, "a stream, event or context that was destroyed"),
    "foreign handle": (e.ACL_ERROR_INVALID_RESOURCE_HANDLE, "a stream, event or context that no call created"),
    "event not recorded": (
        e.ACL_ERROR_INVALID_RESOURCE_HANDLE,
        "waiting for an event that was never recorded; the time between events of which one is not complete",
    ),
    "no time": (e.ACL_ERROR_FEATURE_UNSUPPORTED, "elapsed time in functional mode, which has none"),
    "work failed": (
        e.ACL_ERROR_INTERNAL_ERROR,
        "synchronising with a stream whose queued work could not run, for instance because its memory was freed",
    ),
    "simulator": (e.ACL_ERROR_INTERNAL_ERROR, "a defect of the simulator; see the message"),
    "aclnn null": (e.ACLNN_ERR_PARAM_NULLPTR, "phase two: no executor, no workspace, a tensor without memory; destroying None"),
    "aclnn argument": (
        e.ACLNN_ERR_PARAM_INVALID,
        "a tensor or array that is foreign or was destroyed, strides that leave the storage; phase two: an executor that "
        "is foreign, used before or of the other operator, a workspace that is too small, not aligned, freed or not on the "
        "device, a tensor whose memory is too small, freed or not on the device, a stream that is foreign or gone",
    ),
    "aclnn runtime": (e.ACLNN_ERR_RUNTIME_ERROR, "an operator call before aclInit or before aclrtSetDevice"),
    "aclnn no kernel": (
        e.ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
        "a call that passes its checks, for which the simulator has no kernel",
    ),
    "aclnn simulator": (e.ACLNN_ERR_INNER, "a defect of the simulator; see the message"),
}  # fmt: skip
ASSUMED_CODES = {key: AssumedCode(code, when) for key, (code, when) in _ROWS.items()}
"""Misuse (short name) -> its AssumedCode: the one table of codes. `docs/acl.md` shows it."""


class Refused(Exception):
    """Error that makes a C call return a status code: ASSUMED_CODES[reason].code, or `code` where the operator's checks chose
    it.
    """

    def __init__(self, reason: str, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = ASSUMED_CODES[reason].code if code is None else int(code)
