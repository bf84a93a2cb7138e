"""The command line: `ascend-sim run CASE`, `ascend-sim chips [NAME]`, and the other commands, a module each.

Exit codes: 0 fine; 1 a verdict failed (a result that is not correct, or a finding such as a hazard); 2 bad input or a
refused call, told in one line; 130 Ctrl-C and 143 SIGTERM, with what was finished kept.
"""

from ascend_sim.cli import run, kernel, check, report, explain, explain_status, format, chips, cases, networks  # noqa: F401, I001 - the order of the help text
from ascend_sim.cli import precision, run_network, compare_training, validate, tile, sweep, compare, c  # noqa: F401
from ascend_sim.cli import stopping
from ascend_sim.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of `ascend-sim`."""
    stopping.listen()
    app()
