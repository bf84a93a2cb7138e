"""The vendor's enumerations and return codes, by the vendor's names and values.

Source: CANN 8.1.RC1, acl/acl_base.h, acl/acl_rt.h and op_errno.h. Members stand in this module (and in `ascend_sim.acl`)
under their own names too, as an enumeration of C puts them into the enclosing scope.
"""

from __future__ import annotations

from enum import IntEnum, global_enum

ACL_SUCCESS = ACL_ERROR_NONE = 0
ACL_ERROR_INVALID_PARAM = 100000
ACL_ERROR_UNINITIALIZE = 100001
ACL_ERROR_REPEAT_INITIALIZE = 100002
ACL_ERROR_INVALID_FILE = 100003
ACL_ERROR_REPEAT_FINALIZE = 100037
ACL_ERROR_BAD_ALLOC = 200000
ACL_ERROR_INVALID_DEVICE = 200002
ACL_ERROR_INVALID_RESOURCE_HANDLE = 200005
ACL_ERROR_FEATURE_UNSUPPORTED = 200006
ACL_ERROR_STORAGE_OVER_LIMIT = 300000
ACL_ERROR_INTERNAL_ERROR = 500000

ACLNN_SUCCESS = 0
ACLNN_ERR_PARAM_NULLPTR = 161001
ACLNN_ERR_PARAM_INVALID = 161002
ACLNN_ERR_RUNTIME_ERROR = 361001
ACLNN_ERR_INNER = 561000
ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001
ACLNN_ERR_INNER_TILING_ERROR = 561002
ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003
ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101
ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR = 561102
ACLNN_ERR_INNER_NULLPTR = 561103


@global_enum
class aclDataType(IntEnum):
    """Element types. CANN 8.1.RC1 stops at 33; the 8-bit formats have the numbers of ge::DataType, which later headers use."""

    ACL_DT_UNDEFINED = -1
    ACL_FLOAT = 0
    ACL_FLOAT16 = 1
    ACL_INT8 = 2
    ACL_INT32 = 3
    ACL_UINT8 = 4
    ACL_INT16 = 6
    ACL_UINT16 = 7
    ACL_UINT32 = 8
    ACL_INT64 = 9
    ACL_UINT64 = 10
    ACL_DOUBLE = 11
    ACL_BOOL = 12
    ACL_STRING = 13
    ACL_COMPLEX64 = 16
    ACL_COMPLEX128 = 17
    ACL_BF16 = 27
    ACL_INT4 = 29
    ACL_UINT1 = 30
    ACL_COMPLEX32 = 33
    ACL_HIFLOAT8 = 34
    ACL_FLOAT8_E5M2 = 35
    ACL_FLOAT8_E4M3FN = 36
    ACL_FLOAT8_E8M0 = 37
    ACL_FLOAT6_E3M2 = 38
    ACL_FLOAT6_E2M3 = 39
    ACL_FLOAT4_E2M1 = 40
    ACL_FLOAT4_E1M2 = 41


@global_enum
class aclFormat(IntEnum):
    """Storage formats of a tensor."""

    ACL_FORMAT_UNDEFINED = -1
    ACL_FORMAT_NCHW = 0
    ACL_FORMAT_NHWC = 1
    ACL_FORMAT_ND = 2
    ACL_FORMAT_NC1HWC0 = 3
    ACL_FORMAT_FRACTAL_Z = 4
    ACL_FORMAT_NC1HWC0_C04 = 12
    ACL_FORMAT_HWCN = 16
    ACL_FORMAT_NDHWC = 27
    ACL_FORMAT_FRACTAL_NZ = 29
    ACL_FORMAT_NCDHW = 30
    ACL_FORMAT_NDC1HWC0 = 32
    ACL_FRACTAL_Z_3D = 33
    ACL_FORMAT_NC = 35
    ACL_FORMAT_NCL = 47


@global_enum
class aclrtMemMallocPolicy(IntEnum):
    """Page kinds for aclrtMalloc; the simulated HBM has one kind, so every policy does the same."""

    ACL_MEM_MALLOC_HUGE_FIRST = 0
    ACL_MEM_MALLOC_HUGE_ONLY = 1
    ACL_MEM_MALLOC_NORMAL_ONLY = 2
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6


@global_enum
class aclrtMemcpyKind(IntEnum):
    """Sides of source and destination of a copy; DEFAULT takes them from the two pointers (an integer is a device address)."""

    ACL_MEMCPY_HOST_TO_HOST = 0
    ACL_MEMCPY_HOST_TO_DEVICE = 1
    ACL_MEMCPY_DEVICE_TO_HOST = 2
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3
    ACL_MEMCPY_DEFAULT = 4


@global_enum
class aclrtMemAttr(IntEnum):
    """Kinds of memory that a C program can ask aclrtGetMemInfo about; it refuses all but the HBM ones, as the chip has no
    other.
    """

    ACL_DDR_MEM = 0
    ACL_HBM_MEM = 1
    ACL_DDR_MEM_HUGE = 2
    ACL_DDR_MEM_NORMAL = 3
    ACL_HBM_MEM_HUGE = 4
    ACL_HBM_MEM_NORMAL = 5


@global_enum
class aclSysParamOpt(IntEnum):
    """System parameters that a process or a context can set; only ACL_OPT_DETERMINISTIC changes what a call does."""

    ACL_OPT_DETERMINISTIC = 0
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1


@global_enum
class aclrtEventRecordedStatus(IntEnum):
    """Status of an event's last record, from aclrtQueryEventStatus."""

    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1


@global_enum
class CubeMathType(IntEnum):
    """Values of cubeMathType; the operators take 0 to 3."""

    FP16FP32_KEEP_DTYPE = -1
    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


CODE_NAMES = {
    value: name
    for name, value in list(globals().items())
    if name.startswith(("ACL_ERROR_", "ACLNN_ERR_")) and isinstance(value, int)
}
"""Return code -> the vendor's name for it."""

__all__ = [name for name in globals() if name.startswith(("ACL", "acl", "CubeMathType"))]
__all__ += CubeMathType.__members__
