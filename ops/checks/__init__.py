"""Machinery of the checks: accepted arguments by product, ordered rules, and predicates that rules of several operators
share.
"""

from ascend_sim.ops.checks.product import CONFORMANCES, Conformance, ProductSpec, load_product
from ascend_sim.ops.checks.rules import CheckResult, Failure

__all__ = ["CONFORMANCES", "CheckResult", "Conformance", "Failure", "ProductSpec", "load_product"]
