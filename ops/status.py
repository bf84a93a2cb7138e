"""Status codes of the operators' first phase, by the vendor's names (CANN 8.1.RC1 header op_errno.h)."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Status of a GetWorkspaceSize call; the documents name SUCCESS, 161001, 161002 and 561103."""

    SUCCESS = 0
    PARAM_NULLPTR = 161001
    PARAM_INVALID = 161002
    RUNTIME_ERROR = 361001
    INNER = 561000
    INNER_INFERSHAPE = 561001
    INNER_TILING = 561002
    INNER_FIND_KERNEL = 561003
    INNER_CREATE_EXECUTOR = 561101
    INNER_NOT_TRANS_EXECUTOR = 561102
    INNER_NULLPTR = 561103


MEANINGS = {
    Status.SUCCESS: "the call is accepted",
    Status.PARAM_NULLPTR: "a pointer that the call needs is null",
    Status.PARAM_INVALID: "an argument is not allowed, or contradicts another one",
    Status.INNER_NULLPTR: "the checks of the arguments pass, but the library has no kernel or tiling for the call",
}
"""Status -> its meaning in words, for those that the documents name."""
