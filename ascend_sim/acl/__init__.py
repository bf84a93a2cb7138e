"""The vendor's C interface in Python, name by name; out-parameters come back after the status.

from ascend_sim import acl
ret = acl.aclInit(None)
ret = acl.aclrtSetDevice(0)
ret, stream = acl.aclrtCreateStream()
ret, address = acl.aclrtMalloc(1024, acl.ACL_MEM_MALLOC_HUGE_FIRST)

A null pointer is None, host memory any buffer (numpy array, bytearray), device memory an integer address. No call raises on
what it is given: it ends in a code, and `aclGetRecentErrMsg()` says why. Work queued on streams runs, in simulated time,
when something synchronises; `docs/acl.md` describes the rest. `ASSUMED_CODES` lists which misuse ends in which code.
"""

from ascend_sim.acl import contexts, copies, enums, operators, streams, tensors
from ascend_sim.acl.codes import ASSUMED_CODES
from ascend_sim.acl.contexts import *  # noqa: F403
from ascend_sim.acl.copies import *  # noqa: F403
from ascend_sim.acl.enums import *  # noqa: F403
from ascend_sim.acl.operators import *  # noqa: F403
from ascend_sim.acl.state import aclGetRecentErrMsg, use
from ascend_sim.acl.streams import *  # noqa: F403
from ascend_sim.acl.tensors import *  # noqa: F403

__all__ = ["ASSUMED_CODES", "aclGetRecentErrMsg", "use"]
for _module in (contexts, copies, enums, operators, streams, tensors):
    __all__ += _module.__all__
