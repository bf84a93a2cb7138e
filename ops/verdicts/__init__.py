"""Verdicts on the outputs of a call: their sums in float64, the verdict on the caller's data, and the probe."""

from ascend_sim.ops.verdicts.judge import judge
from ascend_sim.ops.verdicts.probe import Probe
