"""The table of assumed codes and its page, the page's program, and the vendor's numbers."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from ascend_sim import acl
from tests.support.places import DOCS

pytestmark = pytest.mark.fast

PAGE = (DOCS / "acl.md").read_text(encoding="utf-8")


def test_the_page_shows_the_table():
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    expected = [(key, str(row.code), row.name, row.when) for key, row in acl.ASSUMED_CODES.items()]
    assert rows == expected


def test_the_program_of_the_page_prints_what_the_page_says():
    program, output = re.search(r"```python\n(.+?)```\n\nIt prints\n\n```\n(.+?)```", PAGE, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "docs/acl.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("key", acl.ASSUMED_CODES)
def test_every_reason_is_used(key):
    package = Path(acl.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in package.glob("*.py") if file.name != "codes.py")
    assert f'"{key}"' in text


# Copied by hand from CANN 8.1.RC1 acl_base.h, acl_rt.h, op_errno.h; the three 8-bit types from ge::DataType.
VENDOR = """
ACL_SUCCESS 0 ACL_ERROR_NONE 0 ACL_ERROR_INVALID_PARAM 100000 ACL_ERROR_UNINITIALIZE 100001 ACL_ERROR_REPEAT_INITIALIZE 100002
ACL_ERROR_REPEAT_FINALIZE 100037 ACL_ERROR_BAD_ALLOC 200000 ACL_ERROR_INVALID_DEVICE 200002
ACL_ERROR_INVALID_RESOURCE_HANDLE 200005 ACL_ERROR_STORAGE_OVER_LIMIT 300000 ACL_ERROR_INTERNAL_ERROR 500000
ACL_ERROR_INVALID_FILE 100003 ACL_ERROR_FEATURE_UNSUPPORTED 200006
ACLNN_SUCCESS 0 ACLNN_ERR_PARAM_NULLPTR 161001 ACLNN_ERR_PARAM_INVALID 161002 ACLNN_ERR_RUNTIME_ERROR 361001
ACLNN_ERR_INNER 561000 ACLNN_ERR_INNER_CREATE_EXECUTOR 561101 ACLNN_ERR_INNER_NULLPTR 561103
ACL_DT_UNDEFINED -1 ACL_FLOAT 0 ACL_FLOAT16 1 ACL_INT8 2 ACL_INT32 3 ACL_UINT8 4 ACL_INT16 6 ACL_UINT16 7 ACL_UINT32 8
ACL_INT64 9 ACL_UINT64 10 ACL_DOUBLE 11 ACL_BOOL 12 ACL_STRING 13 ACL_COMPLEX64 16 ACL_COMPLEX128 17 ACL_BF16 27 ACL_INT4 29
ACL_UINT1 30 ACL_COMPLEX32 33 ACL_HIFLOAT8 34 ACL_FLOAT8_E5M2 35 ACL_FLOAT8_E4M3FN 36
ACL_FORMAT_UNDEFINED -1 ACL_FORMAT_NCHW 0 ACL_FORMAT_NHWC 1 ACL_FORMAT_ND 2 ACL_FORMAT_NC1HWC0 3 ACL_FORMAT_FRACTAL_Z 4
ACL_FORMAT_NC1HWC0_C04 12 ACL_FORMAT_HWCN 16 ACL_FORMAT_NDHWC 27 ACL_FORMAT_FRACTAL_NZ 29 ACL_FORMAT_NCDHW 30
ACL_FORMAT_NDC1HWC0 32 ACL_FRACTAL_Z_3D 33 ACL_FORMAT_NC 35 ACL_FORMAT_NCL 47
ACL_MEM_MALLOC_HUGE_FIRST 0 ACL_MEM_MALLOC_HUGE_ONLY 1 ACL_MEM_MALLOC_NORMAL_ONLY 2 ACL_MEM_MALLOC_HUGE_FIRST_P2P 3
ACL_MEM_MALLOC_HUGE_ONLY_P2P 4 ACL_MEM_MALLOC_NORMAL_ONLY_P2P 5 ACL_MEM_MALLOC_HUGE1G_ONLY 6
ACL_MEMCPY_HOST_TO_HOST 0 ACL_MEMCPY_HOST_TO_DEVICE 1 ACL_MEMCPY_DEVICE_TO_HOST 2 ACL_MEMCPY_DEVICE_TO_DEVICE 3
ACL_MEMCPY_DEFAULT 4 ACL_OPT_DETERMINISTIC 0 ACL_OPT_ENABLE_DEBUG_KERNEL 1 ACL_DDR_MEM 0 ACL_HBM_MEM 1
KEEP_DTYPE 0 ALLOW_FP32_DOWN_PRECISION 1 USE_FP16 2 USE_HF32 3
"""


@pytest.mark.parametrize(("name", "value"), re.findall(r"(\w+) (-?\d+)", VENDOR))
def test_the_vendors_numbers(name, value):
    assert getattr(acl, name) == int(value)


def test_members_stand_in_their_classes_too():
    assert acl.aclDataType.ACL_FLOAT is acl.ACL_FLOAT
    assert acl.aclFormat.ACL_FORMAT_NCDHW is acl.ACL_FORMAT_NCDHW
    assert acl.aclrtMemcpyKind(2) is acl.ACL_MEMCPY_DEVICE_TO_HOST
