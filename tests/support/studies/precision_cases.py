"""Small cases for the bench, and its command run in this process."""

from typer.testing import CliRunner

from ascend_sim.cli import app

CASE = """
operator: convolution_backward
chip: ascend910b3
input: {shape: [2, 18, 6, 6], dtype: float32}
weight: {shape: [20, 18, 3, 3]}
padding: [1, 1]
deterministic: true
"""

TBC = """
operator: conv_tbc_backward
chip: ascend910b3
input: {shape: [6, 2, 8], dtype: float32}
weight: {shape: [3, 8, 8]}
pad: 1
"""


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))
