"""The checks of both operators: arguments and a product in, a status with its reason out.

spec = load_product("convolution_backward", "910B")
result = check_conv_backward(call, spec, "documented")
result.status, result.failure, result.trace, result.warnings
"""

from ascend_sim.ops.checks.conv_backward import check_conv_backward
from ascend_sim.ops.checks.conv_tbc import check_conv_tbc
from ascend_sim.ops.checks.product import CONFORMANCES, Conformance, ProductSpec, load_product
from ascend_sim.ops.checks.rules import CheckResult, Failure

__all__ = [
    "CONFORMANCES",
    "CheckResult",
    "Conformance",
    "Failure",
    "ProductSpec",
    "check_conv_backward",
    "check_conv_tbc",
    "load_product",
]
