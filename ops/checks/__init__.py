"""The machinery of the checks: what a product accepts, rules in order, predicates that rules of several operators share."""

from ascend_sim.ops.checks.product import CONFORMANCES, Conformance, ProductSpec, load_product
from ascend_sim.ops.checks.rules import CheckResult, Failure

__all__ = ["CONFORMANCES", "CheckResult", "Conformance", "Failure", "ProductSpec", "load_product"]
