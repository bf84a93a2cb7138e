"""The packages, found in the tree: `ops` and `configs` stand beside `ascend_sim` and are installed inside it (package-dir)."""

from setuptools import find_packages, setup

BESIDE = find_packages(include=["ops", "ops.*", "configs"])

setup(packages=[*find_packages(include=["ascend_sim", "ascend_sim.*"]), *(f"ascend_sim.{name}" for name in BESIDE)])
